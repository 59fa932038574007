"""A gate: do a run's figures keep the bounds that a release needs, and what would decide it?

The verdict is by interval, never by point. A look at new data is stored, and spends its part of
one error over all looks at the same requirements (`judging.methods.intervals.looks`), so that
somebody may look after every batch of votes. A look at the same data again is no new look.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import scipy
from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import Count

from annotation.models import GateLook, Item, Round, Slot, Vote
from annotation.results.delivery.requirements import CERTIFICATE, OF_THE_JUDGE, Requirement
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.trust import CertificateFigures, certificate
from annotation.rounds.opening import (
    EPSILON,
    MAX_VOTES,
    RoundSettings,
    current_protocol,
    open_round,
    rate_of,
)
from annotation.rounds.selecting import draw, ranked_examples
from judging.core.errors import Misuse, UserError
from judging.core.formatting import number_of, usd
from judging.dataset.models import Example, frame_of
from judging.dataset.records import IDENTITY_FIELDS
from judging.methods.intervals.estimates import Estimate, Figure
from judging.methods.intervals.looks import Ruling, Spending, decide, examples_needed
from judging.methods.review.certificate import audit_needed
from judging.methods.review.cost import HumanRate, human_usd
from judging.projects.access import tell
from judging.projects.models import Project
from judging.runs.models import Run

# A first audit, while nothing says how many examples decide.
FIRST_AUDIT = 60
VOTES = 3
_CHUNK = 2000


@dataclass(frozen=True)
class Decided:
    """What the data says of one requirement. reason: why it has no interval, or is not decided."""

    requirement: str
    meaning: str
    verdict: Ruling
    figure: Figure
    bound: Decimal
    at_least: bool
    reason: str = ""


@dataclass(frozen=True)
class Needed:
    """What it takes to decide, as far as the present values tell.

    votes, examples, usd: of people. round: the number of an open round that already asks for them.
    settings: of the round to open, if none does. examples of None: only more examples decide.
    more_examples: how many, in all that are to be imported.
    """

    votes: int
    examples: tuple[str, ...] | None
    usd: Decimal
    round: int | None = None
    settings: RoundSettings | None = None
    more_examples: int | None = None

    @property
    def sentence(self) -> str:
        if self.examples is None:
            if self.more_examples is None:
                return "Votes can't decide this. See the reasons above."
            return (
                "Every example already has a label, so more votes can't decide this. If the values "
                f"stay the same, about {number_of(self.more_examples, 'more example')} would. "
                "Import them as a new set."
            )
        where = f" Round {self.round} already asks for them." if self.round else ""
        return (
            f"It takes {number_of(self.votes, 'more vote')} on these "
            f"{number_of(len(self.examples), 'example')}, {usd(self.usd)}.{where}"
        )


@dataclass(frozen=True)
class Decision:
    """look: its number. confidence: of its intervals. other: the run that is compared, if any."""

    project: str
    run: int
    name: str
    verdict: Ruling
    look: int
    confidence: float
    alpha: float
    examples: int
    answers: Sequence[Decided]
    needed: Needed | None
    other: int | None = None

    def document(self) -> dict[str, Any]:
        """What `--json` prints; docs/gate.md has the keys."""
        needed = self.needed
        return {
            "project": self.project,
            "run": self.run,
            "name": self.name,
            "other": self.other,
            "verdict": str(self.verdict),
            "look": self.look,
            "confidence": self.confidence,
            "alpha": self.alpha,
            "examples": self.examples,
            "requirements": [
                {
                    "requirement": answer.requirement,
                    "meaning": answer.meaning,
                    "verdict": str(answer.verdict),
                    "bound": str(answer.bound),
                    "at_least": answer.at_least,
                    "figure": answer.figure.as_json(),
                    "reason": answer.reason,
                }
                for answer in self.answers
            ],
            "needed": needed
            and {
                "sentence": needed.sentence,
                "votes": needed.votes,
                "examples": needed.examples,
                "usd": str(needed.usd),
                "round": needed.round,
                "opens_round": needed.settings is not None,
                "more_examples": needed.more_examples,
            },
        }


def decide_gate(
    project: Project,
    run: Run,
    requirements: Sequence[Requirement],
    *,
    votes: int = VOTES,
    restart: bool = False,
) -> Decision:
    """Look at the requirements, and record the look if the data is new.

    Raises UserError if the examples changed since the first look, unless it restarts.
    """
    if not requirements:
        raise UserError("Nothing is required. Add --require, such as --require 'accuracy>=0.85'.")
    if not 1 <= votes <= MAX_VOTES:
        raise Misuse(f"Ask for 1 to {MAX_VOTES} votes per example. Nothing was decided.")
    # A requirement that is named twice is one, and belongs to the same series of looks.
    wanted = list(dict.fromkeys(requirements))
    of = Analysis(project, run)

    def answers(confidence: float) -> list[Decided]:
        return [_answer(requirement, of, confidence) for requirement in wanted]

    # Sorted, so that the order of the requirements begins no new series of looks.
    look = take_look(run, None, sorted(map(str, wanted)), answers, restart=restart)
    needed = None
    if look.verdict is Ruling.INCONCLUSIVE:
        needed = _needed(of, wanted, look.answers, look.number, votes)
    return decision_of(run, look, len(of.sheet), needed=needed)


def _answer(wanted: Requirement, of: Analysis, confidence: float) -> Decided:
    figure, bound = wanted.figure(of, confidence), float(wanted.bound)
    verdict = decide(figure, bound, at_least=wanted.at_least)
    reason = "" if isinstance(figure, Estimate) else figure.reason
    if isinstance(figure, Estimate) and figure.low is None:
        reason = figure.note or "there is no interval"
    if wanted.name == CERTIFICATE:
        verdict, reason = _certified(certificate(of.sheet, of.audit, of.unchecked), verdict, bound)
    return Decided(
        str(wanted), wanted.meaning, verdict, figure, wanted.bound, wanted.at_least, reason
    )


def _certified(plan: CertificateFigures, by_interval: Ruling, bound: float) -> tuple[Ruling, str]:
    """A certificate passes by its own plan, which was stored before the audit, and nothing else."""
    # As floats, 10 % may be a little more than the bound that was written as 0.1.
    if plan.issued and plan.epsilon is not None and plan.epsilon <= bound + 1e-12:
        return Ruling.PASS, ""
    if by_interval is Ruling.FAIL:
        return Ruling.FAIL, ""
    if plan.issued:
        return (
            Ruling.INCONCLUSIVE,
            f"the certificate was planned for at most {plan.epsilon:.0%} wrong labels",
        )
    return Ruling.INCONCLUSIVE, plan.reason or "no certificate was issued"


def overall(answers: Sequence[Decided]) -> Ruling:
    """All must pass. One that fails is enough to fail."""
    verdicts = {answer.verdict for answer in answers}
    if Ruling.FAIL in verdicts:
        return Ruling.FAIL
    return Ruling.INCONCLUSIVE if Ruling.INCONCLUSIVE in verdicts else Ruling.PASS


@dataclass(frozen=True)
class Look:
    number: int
    confidence: float
    verdict: Ruling
    answers: list[Decided]


def decision_of(
    run: Run, look: Look, examples: int, *, needed: Needed | None = None, other: Run | None = None
) -> Decision:
    return Decision(
        project=run.project.slug, run=run.number, name=run.name, verdict=look.verdict,
        look=look.number, confidence=look.confidence, alpha=Spending().alpha, examples=examples,
        answers=look.answers, needed=needed, other=other.number if other else None,
    )  # fmt: skip


def take_look(
    run: Run,
    other: Run | None,
    required: Sequence[str],
    answers: Callable[[float], list[Decided]],
    *,
    restart: bool,
) -> Look:
    """Return the answers at the confidence of this look. A look at new data is recorded.

    Without any interval there is nothing to look at yet, and no error is spent.
    """
    spending = Spending()
    key = _digest([*required, other and other.pk])
    frozen = frozen_set(run.project, run.frame_id)
    kept = GateLook.objects.filter(run=run, requirements_sha256=key)
    newest = kept.order_by("-pk").first()
    if newest is not None and newest.examples_sha256 != frozen and not restart:
        raise UserError(
            f"The examples of {run.project.slug} have changed since "
            f"{newest.decided_at:%Y-%m-%d}, when these requirements were last checked. A verdict "
            "holds for a frozen set only. Nothing was decided. To start again with the current "
            "examples, add --restart, or `restart` by program."
        )
    # The answers at the first confidence tell data apart: those of later looks differ by the look,
    # too.
    first = answers(spending.confidence(1))
    data = _digest([[row.requirement, row.figure.as_json(), row.reason] for row in first])
    # After a restart, only looks at the present examples share the error.
    kept = kept.filter(examples_sha256=frozen)
    while True:
        last = kept.order_by("-number").first()
        if last is not None and last.data_sha256 == data:
            decided = first if last.number == 1 else answers(last.confidence)
            return Look(last.number, last.confidence, overall(decided), decided)
        number = last.number + 1 if last else 1
        confidence = spending.confidence(number)
        decided = first if number == 1 else answers(confidence)
        look = Look(number, confidence, overall(decided), decided)
        if not any(isinstance(answer.figure, Estimate) for answer in decided):
            return look
        try:
            with transaction.atomic():
                GateLook.objects.create(
                    project=run.project,
                    run=run,
                    other=other,
                    requirements=list(required),
                    requirements_sha256=key,
                    number=number,
                    examples_sha256=frozen,
                    data_sha256=data,
                    confidence=confidence,
                    verdict=str(look.verdict),
                    result=[
                        [row.requirement, str(row.verdict), row.figure.as_json()] for row in decided
                    ],
                )
                told = {
                    "run": run.number,
                    "other": other and other.number,
                    "verdict": str(look.verdict),
                    "look": number,
                    "requirements": {answer.requirement: str(answer.verdict) for answer in decided},
                }
                tell(run.project, "gate.decided", lambda: told)  # noqa: B023 called at once
        except IntegrityError:
            # Another process took this look meanwhile.
            continue
        return look


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def frozen_set(project: Project, frame: int | None = None) -> str:
    """Return a hash of everything that the examples of the project, or of a frame, say.

    An example without a reference answer, or without messages, is hashed as before these existed,
    so that looks of earlier releases are found.
    """
    total = hashlib.sha256()
    rows = (
        frame_of(project, frame)
        .order_by("external_id")
        .values_list("external_id", *IDENTITY_FIELDS)
    )
    for row in rows.iterator(chunk_size=_CHUNK):
        while row and not row[-1] and len(row) > len(IDENTITY_FIELDS) - 1:
            row = row[:-1]
        total.update(json.dumps(row).encode())
    return total.hexdigest()


def _needed(
    of: Analysis, wanted: Sequence[Requirement], answers: Sequence[Decided], look: int, votes: int
) -> Needed:
    """What decides the requirements that are not decided yet."""
    waiting = _waiting(of.run)
    if waiting is not None:
        return waiting
    pairs = zip(wanted, answers, strict=True)
    undecided = [pair for pair in pairs if pair[1].verdict is Ruling.INCONCLUSIVE]
    by_votes = [pair for pair in undecided if pair[0].name not in OF_THE_JUDGE]
    sheet = of.sheet
    unsettled = ((sheet.selected | sheet.audited) & ~sheet.answered).any()
    # A requirement that votes can't decide leaves the gate undecided, whatever others would do.
    if len(by_votes) < len(undecided) or unsettled:
        return Needed(0, None, Decimal(0))
    spending = Spending()
    # The next look has a wider interval: its normal quantile over that of this look.
    wider = float(
        scipy.stats.norm.isf(spending.tail(look + 1)) / scipy.stats.norm.isf(spending.tail(look))
    )
    audited = int((sheet.audited & ~sheet.selected).sum())
    rest = len(sheet) - int((sheet.selected | sheet.audited).sum())
    # A certificate needs an audit that was planned for it, also where every label is known.
    if sheet.everyone:
        by_votes = [pair for pair in by_votes if pair[0].name == CERTIFICATE]
    if not rest or not by_votes:
        return Needed(0, None, Decimal(0), more_examples=_more_examples(undecided, wider))
    more = max(_more_audited(asked, answer, audited, wider) for asked, answer in by_votes)
    bounds = [float(asked.bound) for asked, _ in by_votes if asked.name == CERTIFICATE]
    epsilon = min([bound for bound in bounds if 0 < bound < 1], default=EPSILON)
    return _round_of(of, min(more, rest), epsilon, look, votes)


def _more_examples(undecided: Sequence[tuple[Requirement, Decided]], wider: float) -> int | None:
    lacking = [
        needed - answer.figure.n
        for requirement, answer in undecided
        if isinstance(answer.figure, Estimate)
        and (needed := _in_all(requirement, answer.figure, wider)) is not None
    ]
    return max(lacking, default=None)


def _in_all(wanted: Requirement, figure: Estimate, wider: float) -> int | None:
    return examples_needed(figure, float(wanted.bound), at_least=wanted.at_least, wider=wider)


def _more_audited(wanted: Requirement, answer: Decided, audited: int, wider: float) -> int:
    """How many more of the examples that were not selected have to be labelled."""
    if wanted.name == CERTIFICATE:
        bound = float(wanted.bound)
        # One error more than none, so that a single mistake of the judge doesn't end it.
        return audit_needed(bound, 1) if 0 < bound < 1 else FIRST_AUDIT
    if not isinstance(answer.figure, Estimate) or answer.figure.low is None or not audited:
        return FIRST_AUDIT
    needed = _in_all(wanted, replace(answer.figure, n=audited), wider)
    # At the bound itself nothing short of all labels decides.
    return 10**9 if needed is None else needed - audited


def _waiting(run: Run) -> Needed | None:
    """The votes that open rounds of this run already ask for; None if there are none."""
    rounds = Round.objects.filter(run=run).exclude(state=Round.State.CLOSED)
    empty = Slot.objects.asked().filter(round__in=rounds, vote__isnull=True)
    empty = empty.exclude(item__state=Item.State.COMPLETE)
    wanted = list(
        empty.order_by("item__example__external_id").values_list(
            "item__example__external_id", "round"
        )
    )
    if not wanted:
        return None
    by_round = {round_.pk: round_ for round_ in rounds}
    cost = sum(
        (by_round[pk].minutes_per_vote * by_round[pk].wage_usd / 60 for _, pk in wanted), Decimal(0)
    )
    number = min(by_round[pk].number for _, pk in wanted)
    return Needed(len(wanted), tuple(dict.fromkeys(name for name, _ in wanted)), cost, number)


def _round_of(of: Analysis, more: int, epsilon: float, look: int, votes: int) -> Needed:
    """The round that brings labels of this many more examples, drawn at random and by a fixed seed.

    Examples that have a label already may be drawn again: their votes count, and cost nothing.
    """
    sheet, project = of.sheet, of.project
    ids = list(frame_of(project, of.run.frame_id).values_list("pk", flat=True))
    order = ranked_examples(of.run, of.run.frame_id)
    seen = set(sheet.ids[sheet.selected | sheet.audited].tolist())
    # From the data, so that every look at it names the same examples. 60 bits fit into the column.
    seed = int(_digest([of.run.pk, look, sorted(seen)])[:15], 16)
    # The draw is from all examples, and grows until enough of them have no label yet.
    size = more
    while True:
        drawn = [item.example_id for item in draw(order, ids, 0, size, seed).audit]
        new = sum(example not in seen for example in drawn)
        if new >= more or size >= len(ids):
            break
        size = min(len(ids), size + more - new)
    cast = _votes_on(project, drawn)
    lacking = {example: votes - min(cast.get(example, 0), votes) for example in drawn}
    asked = [example for example in drawn if lacking[example]]
    names = dict(_chunked_names(project, asked))
    settings = RoundSettings(
        beta=Decimal(0), votes=votes, audit=size, seed=seed, epsilon=epsilon, partial=True
    )
    rate: HumanRate = rate_of(project, settings)
    total = sum(lacking.values())
    return Needed(
        total, tuple(sorted(names[key] for key in asked)), human_usd(total, rate), settings=settings
    )


def _votes_on(project: Project, keys: Sequence[int]) -> Mapping[int, int]:
    """How many votes of the present protocol each of these examples has."""
    # Chosen here, because a database bounds how many keys a query may name.
    wanted = set(keys)
    rows = (
        Vote.objects.filter(protocol=current_protocol(project), example__project=project)
        .order_by()
        .values_list("example")
        .annotate(n=Count("pk"))
    )
    return {example: n for example, n in rows if example in wanted}


def _chunked_names(project: Project, keys: Sequence[int]) -> list[tuple[int, str]]:
    wanted = set(keys)
    rows = Example.objects.filter(project=project).values_list("pk", "external_id")
    return [row for row in rows.iterator(chunk_size=_CHUNK) if row[0] in wanted]


def open_needed(
    project: Project,
    run: Run,
    needed: Needed,
    user: AbstractUser | None = None,
    *,
    background: bool = False,
    made: Callable[[Round], None] = lambda round_: None,
) -> Round:
    """Open exactly the round that the decision names. Raises UserError if it names none.

    Args: background, made: as `open_round` takes them."""
    if needed.settings is None:
        raise UserError(f"No round was opened. {needed.sentence}")
    return open_round(project, user, run, needed.settings, background=background, made=made)


def votes_missing(run: Run) -> int:
    """Return how many votes open rounds of this run still ask for."""
    waiting = _waiting(run)
    return waiting.votes if waiting else 0
