"""Tables of people: what each annotator did and is paid, and what they say on each criterion.

It holds pseudonyms. A panel's worker id is in it only as a keyed hash, which is the same for the
same person in one project. What people said about themselves is left out unless it is asked for.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from django.db.models import QuerySet
from django.utils.crypto import salted_hmac

from annotation.models import (
    Annotator,
    CrowdLink,
    CrowdSubmission,
    PracticeResult,
    Repeat,
    Round,
    Vote,
)
from annotation.people.background import questions_of
from annotation.results.merge.final_labels import frame_for, human_labels, repeated_answers
from annotation.votes.agreement import criteria_asked, criterion_answers
from judging.dataset.models import Frame, Label, frame_of
from judging.methods.agreement.annotators import SideBias, side_bias, side_table
from judging.methods.agreement.votes import VoteCounts, enters_results, majority_of
from judging.methods.intervals.estimates import Estimate, Undefined, wilson
from judging.methods.review.cost import HumanRate, human_usd, human_usd_of_active_time
from judging.projects.models import Project
from judging.runs.models import Run

PEOPLE_COLUMNS = (
    "annotator", "group", "rounds", "votes", "imported_votes", "active_seconds", "hours", "usd",
    "checks", "checks_passed", "self_agreement", "self_agreement_n", "agreement", "agreement_n",
    "left_rate", "left_n", "left_p", "crowd_id", "crowd_state", "votes_aside",
    "training_n", "training_right", "qualification_tries", "qualification_n",
    "qualification_right", "qualified", "practice_seconds", "practice_usd",
    "self_agreement_low", "self_agreement_high", "repeats", "repeat_seconds", "repeat_usd",
)  # fmt: skip
BACKGROUND = "background:"
_SIGNS = {Label.WIN: 1, Label.TIE: 0, Label.LOSE: -1}
_READ = (
    "annotator", "item__round", "example", "protocol", "protocol__question_asked", "label",
    "left_response", "active_seconds", "source", "unblinded", "example__is_check",
    "example__gold_label", "item__round__cost_basis", "item__round__wage_usd",
    "item__round__minutes_per_vote", "aside_at", "is_practice",
)  # fmt: skip


@dataclass
class _Person:
    """What one annotator's votes add up to. signs: of labels that others may have given too."""

    votes: int = 0
    imported: int = 0
    seconds: float | None = None
    usd: Decimal = Decimal(0)
    aside: int = 0
    rounds: set[int] = field(default_factory=set)
    checks: int = 0
    passed: int = 0
    signs: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    shown: list[tuple[int, bool]] = field(default_factory=list)
    practice_seconds: float | None = None
    practice_usd: Decimal = Decimal(0)
    asked: dict[tuple[int, str], list[str]] = field(default_factory=lambda: defaultdict(list))


def people_columns(project: Project, *, background: bool) -> tuple[str, ...]:
    """Return the fixed columns, and one for each question of a crowd link if that is asked for."""
    if not background:
        return PEOPLE_COLUMNS
    asked: dict[str, None] = {}
    links = CrowdLink.objects.filter(round__project=project).order_by("round__number")
    for stored in links.values_list("questions", flat=True):
        asked |= dict.fromkeys(f"{BACKGROUND}{question.text}" for question in questions_of(stored))
    theirs = CrowdSubmission.objects.filter(link__round__project=project, annotator__isnull=False)
    # A question may have been changed after some people answered it.
    for answers in theirs.order_by("pk").values_list("answers", flat=True):
        asked |= dict.fromkeys(f"{BACKGROUND}{text}" for text in answers)
    return (*PEOPLE_COLUMNS, *asked)


def people_rows(
    project: Project, votes: QuerySet[Vote], *, names: bool, background: bool
) -> Iterator[dict[str, Any]]:
    """Yield each annotator with votes or a submission, in the order in which they joined.

    Args:
        votes: Those of the project's votes that the figures are about.
    """
    people, counts = _added_up(project, votes)
    bias = side_bias({str(key): _table(person.shown) for key, person in people.items()})
    came = CrowdSubmission.objects.filter(link__round__project=project, annotator__isnull=False)
    submissions = {started.annotator_id: started for started in came}
    results: dict[int, list[PracticeResult]] = defaultdict(list)
    practised = PracticeResult.objects.filter(round__project=project).select_related("round")
    for result in practised.order_by("round__number", "number"):
        results[result.annotator_id].append(result)
    again: dict[int, list[bool]] = defaultdict(list)
    for repeated in repeated_answers(project):
        again[repeated.annotator_id].append(repeated.label == repeated.first_label)
    asked_again: dict[int, list[Repeat]] = defaultdict(list)
    answered = Repeat.objects.filter(round__project=project, submitted_at__isnull=False)
    for repeated in answered.select_related("round").order_by("pk"):
        asked_again[repeated.annotator_id].append(repeated)
    annotators = Annotator.objects.filter(project=project, pk__in={*people, *submissions})
    for annotator in annotators.order_by("number"):
        person, submission = people.get(annotator.pk, _Person()), submissions.get(annotator.pk)
        row = {
            "annotator": annotator.name if names else annotator.pseudonym,
            "group": _group(annotator),
            "rounds": len(person.rounds),
            "votes": person.votes,
            "imported_votes": person.imported,
            "active_seconds": person.seconds,
            "hours": None if person.seconds is None else person.seconds / 3600,
            "usd": person.usd,
            "checks": person.checks,
            "checks_passed": person.passed,
            **_agreement(person, counts),
            **_self_agreement(person, again[annotator.pk]),
            **_side(bias.get(str(annotator.pk))),
            "votes_aside": person.aside,
            **_practice(results[annotator.pk]),
            "practice_seconds": person.practice_seconds,
            "practice_usd": person.practice_usd,
            **_repeats(asked_again[annotator.pk]),
        }
        if submission is not None:
            row |= {"crowd_id": _hashed(submission, project), "crowd_state": submission.state}
        if submission is not None and background:
            row |= {f"{BACKGROUND}{text}": answer for text, answer in submission.answers.items()}
        yield row


def _group(annotator: Annotator) -> str:
    if annotator.is_crowd:
        return "crowd"
    return "imported" if annotator.user_id is None else "member"


def _hashed(submission: CrowdSubmission, project: Project) -> str | None:
    if not submission.worker_id:
        return None
    named = f"{project.pk} {submission.worker_id}"
    return salted_hmac("fairjudge.crowd_id", named, algorithm="sha256").hexdigest()[:16]


def _added_up(project: Project, votes: QuerySet[Vote]) -> tuple[dict[int, _Person], np.ndarray]:
    """Return each annotator's sums, and how often each label was given to each item."""
    people: dict[int, _Person] = defaultdict(_Person)
    places: dict[tuple[int, int], int] = {}
    for values in votes.order_by("pk").values_list(*_READ).iterator(chunk_size=2000):
        vote = dict(zip(_READ, values, strict=True))
        person = people[vote["annotator"]]
        _pay(person, vote)
        # Practice is paid, and says nothing about examples.
        if vote["is_practice"]:
            continue
        person.aside += vote["aside_at"] is not None
        if not enters_results(
            vote["label"], unblinded=vote["unblinded"], leave_out=project.leave_out_unblinded
        ):
            continue
        if vote["example__is_check"]:
            _check(person, vote)
            continue
        if vote["aside_at"] is not None:
            continue
        sign = _SIGNS[vote["label"]]
        # Votes under another protocol answer another question, and are an item of their own.
        place = places.setdefault((vote["example"], vote["protocol"]), len(places))
        person.signs.append(sign)
        person.items.append(place)
        person.asked[vote["example"], vote["protocol__question_asked"]].append(vote["label"])
        if vote["left_response"] is not None:
            person.shown.append((sign, vote["left_response"] == 1))
    counts = np.zeros((len(places), 3), dtype=np.int64)
    for person in people.values():
        rows, signs = (np.array(column, dtype=np.intp) for column in (person.items, person.signs))
        # Nobody votes twice on an example under a protocol, so no cell is named twice.
        counts[rows, 1 - signs] += 1
    return dict(people), counts


def _pay(person: _Person, vote: Mapping[str, Any]) -> None:
    """Add what a vote costs, by the cost basis of its round. Imported votes were paid elsewhere.

    Time of training and of qualifications is paid too, and summed apart.
    """
    if vote["source"] == Vote.Source.IMPORT:
        person.imported += 1
        return
    seconds, wage = vote["active_seconds"], vote["item__round__wage_usd"]
    if vote["item__round__cost_basis"] == Project.CostBasis.MEASURED and seconds is not None:
        usd = human_usd_of_active_time(Decimal(repr(seconds)), wage)
    else:
        usd = human_usd(1, HumanRate(vote["item__round__minutes_per_vote"], wage))
    if vote["is_practice"]:
        person.practice_usd += usd
        if seconds is not None:
            person.practice_seconds = (person.practice_seconds or 0.0) + seconds
        return
    person.votes += 1
    person.rounds.add(vote["item__round"])
    person.usd += usd
    if seconds is not None:
        person.seconds = (person.seconds or 0.0) + seconds


def _practice(results: Sequence[PracticeResult]) -> dict[str, Any]:
    """What came of a person's training and tries. qualified: by the last try; None without one."""
    kinds = {kind: [row for row in results if row.round.kind == kind] for kind in Round.PRACTICE}
    trained, tried = (kinds[kind] for kind in Round.PRACTICE)
    return {
        "training_n": sum(outcome.n for outcome in trained),
        "training_right": sum(outcome.right for outcome in trained),
        "qualification_tries": len(tried),
        "qualification_n": sum(outcome.n for outcome in tried),
        "qualification_right": sum(outcome.right for outcome in tried),
        "qualified": tried[-1].passed if tried else None,
    }


def _check(person: _Person, vote: Mapping[str, Any]) -> None:
    if vote["example__gold_label"]:
        person.checks += 1
        person.passed += vote["label"] == vote["example__gold_label"]


def _agreement(person: _Person, counts: np.ndarray) -> dict[str, Any]:
    """How often the person gave the majority's label of the others, where these have one."""
    if not person.items:
        return {"agreement": None, "agreement_n": 0}
    signs = np.array(person.signs, dtype=np.intp)
    others = counts[person.items]
    # Without the person's own vote, which would agree with itself. The rows are copies.
    others[np.arange(len(signs)), 1 - signs] -= 1
    label, has = VoteCounts(others).majority()
    n = int(has.sum())
    return {"agreement": float((label == signs)[has].mean()) if n else None, "agreement_n": n}


def _self_agreement(person: _Person, repeated: Sequence[bool]) -> dict[str, Any]:
    """How often the person gave the same label again, asked the same question on an example.

    Args:
        repeated: for each pair that came again in a round, whether they did.
    """
    again = [
        before == after for labels in person.asked.values() for before, after in pairwise(labels)
    ]
    again += repeated
    rate = wilson(sum(again), len(again))
    limits = {"self_agreement": None, "self_agreement_low": None, "self_agreement_high": None}
    if isinstance(rate, Estimate):
        limits = dict(zip(limits, (rate.value, rate.low, rate.high), strict=True))
    return limits | {"self_agreement_n": len(again)}


def _repeats(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """How many pairs the person answered again, and what that took and costs."""
    timed = [repeat.active_seconds for repeat in repeats if repeat.active_seconds is not None]
    usd = sum((_usd(repeat.round, repeat.active_seconds) for repeat in repeats), Decimal(0))
    seconds = sum(timed) if timed else None
    return {"repeats": len(repeats), "repeat_seconds": seconds, "repeat_usd": usd}


def _usd(round_: Round, seconds: float | None) -> Decimal:
    if round_.cost_basis == Project.CostBasis.MEASURED and seconds is not None:
        return human_usd_of_active_time(Decimal(repr(seconds)), round_.wage_usd)
    return human_usd(1, HumanRate(round_.minutes_per_vote, round_.wage_usd))


def _table(shown: Sequence[tuple[int, bool]]) -> np.ndarray:
    signs, left = zip(*shown, strict=True) if shown else ((), ())
    return side_table(np.array(signs, dtype=np.int8), np.array(left, dtype=bool))


def _side(bias: SideBias | Undefined | None) -> dict[str, Any]:
    if not isinstance(bias, SideBias):
        return {"left_rate": None, "left_n": 0, "left_p": None}
    return {"left_rate": bias.left_rate, "left_n": bias.n, "left_p": bias.p}


CRITERION_COLUMNS = ("external_id", "criterion", "votes", "win", "tie", "lose", "mean", "label")


def criterion_rows(
    project: Project, run: Run | None, frame: Frame | None = None
) -> Iterator[dict[str, Any]]:
    """Yield what people say on each criterion of each example, by example in import order.

    They are the votes that labels rest on. mean: of response 1, from 0 to 1. label: of more than
    half of the votes; None without a majority.
    """
    chosen = frame_for(run, frame.pk if frame else None)
    everywhere, _ = human_labels(project, run, chosen)
    counting = {vote.pk: pk for pk, say in everywhere.items() for vote in say.votes}
    strengths: dict[int, dict[str, list[int]]] = {}
    for answer in criterion_answers(project):
        if answer.vote in counting:
            example = strengths.setdefault(counting[answer.vote], {})
            for name, strength in answer.strengths.items():
                example.setdefault(name, []).append(int(np.sign(strength)))
    answered = (name for example in strengths.values() for name in example)
    names = dict.fromkeys((*criteria_asked(project), *answered))
    examples = frame_of(project, chosen).values_list("pk", "external_id")
    for pk, external_id in examples.iterator(chunk_size=500):
        for name in names if pk in strengths else ():
            signs = strengths[pk].get(name, [])
            if signs:
                counts = {label: signs.count(sign) for label, sign in _SIGNS.items()}
                yield {
                    "external_id": external_id,
                    "criterion": name,
                    "votes": len(signs),
                    **{str(label): n for label, n in counts.items()},
                    "mean": float(1 + np.mean(signs)) / 2,
                    "label": majority_of(counts),
                }
