"""What people say besides which response is better: how much better, how sure they are, for which
reasons, and which words they mark; and how far they agree on each of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from annotation.models import Protocol, Vote
from annotation.queue.drafts import CONFIDENCE
from annotation.results.data.figures import Data, optional
from annotation.results.data.sheet import Sheet, text_lengths
from annotation.results.merge.final_labels import CHUNK
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import (
    DETAILS,
    MISSING,
    NOT_ASKED,
    asked_for_more,
    asks_more,
    votes_on,
)
from annotation.votes.agreement import strength_of
from judging.methods.agreement.spans import span_overlap
from judging.methods.agreement.votes import (
    agreement_interval,
    beyond_chance,
    category_counts,
    krippendorff_alpha,
    ordinal_alpha,
)
from judging.methods.arrays import Booleans, Codes
from judging.methods.intervals.bootstrap import plus_two_mean
from judging.methods.intervals.estimates import Figure, Undefined, holm_of_tested
from judging.projects.models import Project

NO_STRENGTH = Undefined("no vote that counts was given on a scale of five points")
NO_CONFIDENCE = Undefined("no vote that counts says how sure its person is")
NO_SPANS = Undefined("nobody whose votes count was asked to mark text")
NO_JUDGE = "no example with a known label and a label of the judge has a vote that says how sure"
# From much worse to much better, of response 1; and from the least sure.
_STRENGTHS = {"much_worse": -2, "worse": -1, "tie": 0, "better": 1, "much_better": 2}
_LEVELS = {name: place for place, name in enumerate(CONFIDENCE)}


@dataclass(frozen=True, kw_only=True)
class OnScale:
    """Answers on an ordered scale. n: examples with one. counts: answers by what they say.

    krippendorff_alpha: with the ordinal metric."""

    n: int
    votes: int
    counts: Mapping[str, int]
    krippendorff_alpha: Figure

    @property
    def answers(self) -> list[tuple[str, int]]:
        """Return how often each answer was given, in the words that people chose from."""
        return [
            (CONFIDENCE.get(name, name).lower().replace("_", " "), n)
            for name, n in self.counts.items()
        ]


@dataclass(frozen=True, kw_only=True)
class ConfidenceFigures(OnScale):
    """mean_judge_right, mean_judge_wrong: mean confidence, 0 for unsure to 1 for sure, on examples
    where the judge gives the known label, and where it doesn't."""

    mean_judge_right: Figure
    mean_judge_wrong: Figure


@dataclass(frozen=True, kw_only=True)
class ReasonFigures:
    """votes: people could give the reason in; chosen: in how many of them they did.

    p_agreement_holm: that people agree beyond chance, adjusted over the reasons."""

    reason: str
    votes: int
    chosen: int
    krippendorff_alpha: Figure
    p_agreement_holm: float | None = optional()


@dataclass(frozen=True, kw_only=True)
class SpanFigures:
    """votes: people could mark text in; marked: in how many of them they did.

    f1: of the characters that two people marked. by_chance: what it would be if they had marked as
    many at random. pairs: of votes that it is over. unmarked: pairs in which neither marked any."""

    votes: int
    marked: int
    f1: Figure
    by_chance: float | None
    pairs: int
    unmarked: int


@dataclass(frozen=True, kw_only=True)
class VoteDetails:
    """agreement_on: which examples the agreement is over."""

    agreement_on: str
    strength: OnScale | Undefined
    confidence: ConfidenceFigures | Undefined
    reasons: Sequence[ReasonFigures]
    spans: SpanFigures | Undefined


def read_details(of: Analysis) -> Data | Undefined:
    return details_in(of.project, of.sheet)


def details_in(project: Project, sheet: Sheet) -> Data | Undefined:
    """Read what the votes say that the labels rest on. Four queries at most.

    Returns: by vote the place of its example, who cast it, strength, confidence, and for each
        reason 1 or 0; `MISSING` where that wasn't asked. Spans as `span_overlap` takes them.
    """
    asked = {row.pk: row for row in Protocol.objects.filter(project=project).order_by("number")}
    if not asked_for_more(project, list(asked.values())):
        return NOT_ASKED
    place = {
        vote.pk: row for row, say in enumerate(sheet.people) for vote in (say.votes if say else ())
    }
    rows = Vote.objects.filter(example__project=project).order_by("pk")
    columns = ("pk", "annotator", "left_response", "protocol", "answer")
    votes = [
        (place[pk], person, left, asked[protocol], answer)
        for pk, person, left, protocol, answer in rows.values_list(*columns).iterator(CHUNK)
        if pk in place and (asks_more(asked[protocol]) or _says(answer))
    ]
    if not votes:
        return NOT_ASKED
    offered = [name for *_, protocol, _ in votes for name in protocol.reason_tags]
    chosen = [name for *_, answer in votes for name in answer.get("reasons", ())]
    # In the order of the votes. Imported votes may give reasons that no protocol offers.
    names = list(dict.fromkeys((*offered, *chosen)))
    spans = [
        (vote, span["response"], span["start"], span["end"])
        for vote, (*_, answer) in enumerate(votes)
        for span in answer.get("spans", ())
    ]
    arrays = {
        "example": np.array([row for row, *_ in votes], dtype=np.intp),
        "person": np.unique([person for _, person, *_ in votes], return_inverse=True)[1],
        "strength": np.array([_strength(*vote[2:]) for vote in votes], dtype=np.int8),
        "confidence": np.array(
            [_LEVELS.get(answer.get("confidence"), MISSING) for *_, answer in votes], dtype=np.int8
        ),
        "reasons": np.array(
            [_reasons(protocol, answer, names) for *_, protocol, answer in votes], dtype=np.int8
        ),
        "marks": np.array(
            [protocol.ask_spans or "spans" in answer for *_, protocol, answer in votes], dtype=bool
        ),
        "spans": np.array(spans, dtype=np.int64).reshape(-1, 4),
        # Only spans need the lengths, and most projects have none.
        "lengths": text_lengths(project, sheet.ids if spans else sheet.ids[:0])[:, :2],
    }
    return Data(arrays, {"names": names})


def _says(answer: Mapping[str, object]) -> bool:
    return not answer.keys().isdisjoint(("confidence", "reasons", "spans"))


def _strength(left: int | None, protocol: Protocol, answer: Mapping[str, str]) -> int:
    """Return how much better response 1 is. A choice that a rule derived has no strength."""
    if protocol.scale != Project.Scale.FIVE or protocol.criteria_rule or "rule" in answer:
        return MISSING
    overall = answer.get("overall", "")
    # Two bad responses are as good as each other.
    strength = 0 if overall == "both_bad" else strength_of(overall, left, five=True)
    return MISSING if strength is None else strength


def _reasons(
    protocol: Protocol, answer: Mapping[str, Sequence[str]], names: Sequence[str]
) -> list[int]:
    reasons = answer.get("reasons", ())
    offered = {*protocol.reason_tags, *reasons}
    return [int(name in reasons) if name in offered else MISSING for name in names]


def vote_details(of: Analysis) -> VoteDetails | Undefined:
    """Call it if `people.says_more`."""
    data = of.own(DETAILS, read_details)
    return data if isinstance(data, Undefined) else details_of(of.sheet, data, of.rng)


def details_of(sheet: Sheet, read: Data, rng: np.random.Generator) -> VoteDetails:
    arrays = read.arrays
    voted = np.isin(np.arange(len(sheet)), arrays["example"])
    audited = sheet.audited & ~sheet.selected
    # Selected and audited examples together are no random sample, so agreement is then over the
    # audit.
    alone = not sheet.everyone and bool((voted & audited).any() and (voted & sheet.selected).any())
    met = audited if alone else np.ones(len(sheet), bool)
    strength = _on_scale(sheet, arrays, "strength", _STRENGTHS, met, rng)
    confidence = _on_scale(sheet, arrays, "confidence", _LEVELS, met, rng)
    return VoteDetails(
        agreement_on="the audited examples, which were chosen at random"
        if alone
        else "all examples with such votes",
        strength=NO_STRENGTH if strength is None else strength,
        confidence=NO_CONFIDENCE if confidence is None else _by_judge(sheet, arrays, confidence),
        reasons=_on_reasons(sheet, read, met, rng),
        spans=_on_spans(sheet, arrays, met),
    )


def _table(
    sheet: Sheet, arrays: Mapping[str, Codes], answers: Codes, met: Booleans
) -> tuple[Codes, Booleans, Booleans]:
    """Return (n, people) answers, where there is one, and which of them is known."""
    there = answers != MISSING
    rows, person = arrays["example"][there], arrays["person"][there]
    votes, present = votes_on(answers[there], rows, person, len(sheet))
    return votes[met], present[met], there


def _on_scale(
    sheet: Sheet,
    arrays: Mapping[str, Codes],
    name: str,
    levels: Mapping[str, int],
    met: Booleans,
    rng: np.random.Generator,
) -> OnScale | None:
    answers = arrays[name]
    votes, present, there = _table(sheet, arrays, answers, met)
    if not there.any():
        return None
    counts = category_counts(votes, present, list(levels.values()))
    twice = counts.sum(axis=1) >= 2
    inside = sheet.question[met][twice]
    return OnScale(
        n=len(np.unique(arrays["example"][there])),
        votes=int(there.sum()),
        counts={word: int((answers == value).sum()) for word, value in levels.items()},
        krippendorff_alpha=agreement_interval(ordinal_alpha, counts[twice], inside, rng),
    )


def _by_judge(sheet: Sheet, arrays: Mapping[str, Codes], on_scale: OnScale) -> ConfidenceFigures:
    there = arrays["confidence"] != MISSING
    rows, n = arrays["example"][there], len(sheet)
    n_votes = np.bincount(rows, minlength=n)
    most = len(_LEVELS) - 1
    # By example, so that one with many votes counts as much as one with a single vote.
    mean = np.bincount(rows, arrays["confidence"][there] / most, n) / np.maximum(n_votes, 1)
    known = sheet.judged & sheet.labelled & (n_votes > 0)
    right = known & (sheet.judge == sheet.human)

    def over(which: Booleans) -> Figure:
        return plus_two_mean(mean[which], (0.0, 1.0), sheet.question[which], reason=NO_JUDGE)

    return ConfidenceFigures(
        n=on_scale.n, votes=on_scale.votes, counts=on_scale.counts,
        krippendorff_alpha=on_scale.krippendorff_alpha, mean_judge_right=over(right),
        mean_judge_wrong=over(known & ~right),
    )  # fmt: skip


def _on_reasons(
    sheet: Sheet, read: Data, met: Booleans, rng: np.random.Generator
) -> list[ReasonFigures]:
    figures, tests = [], []
    for column, name in enumerate(read.plain["names"]):
        answers = read.arrays["reasons"][:, column]
        votes, present, there = _table(sheet, read.arrays, answers, met)
        counts = category_counts(votes, present, (1, 0))
        twice = counts.sum(axis=1) >= 2
        inside = sheet.question[met]
        tests.append(beyond_chance(votes, present, inside, rng))
        figures.append(
            {
                "reason": name,
                "votes": int(there.sum()),
                "chosen": int((answers == 1).sum()),
                "krippendorff_alpha": agreement_interval(
                    krippendorff_alpha, counts[twice], inside[twice], rng
                ),
            }
        )
    adjusted = holm_of_tested(tests)
    return [
        ReasonFigures(**figure, p_agreement_holm=p)
        for figure, p in zip(figures, adjusted, strict=True)
    ]


def _on_spans(sheet: Sheet, arrays: Mapping[str, Codes], met: Booleans) -> SpanFigures | Undefined:
    asked = arrays["marks"]
    if not asked.any():
        return NO_SPANS
    # Spans name their vote among all votes. Here they need its place among those that were asked.
    number = np.cumsum(asked) - 1
    spans = arrays["spans"].copy()
    spans[:, 0] = number[spans[:, 0]]
    overlap = span_overlap(
        arrays["example"][asked], spans, arrays["lengths"], sheet.question, kept=met
    )
    return SpanFigures(
        votes=int(asked.sum()), marked=len(np.unique(spans[:, 0])), f1=overlap.f1,
        by_chance=overlap.by_chance, pairs=overlap.pairs, unmarked=overlap.unmarked,
    )  # fmt: skip
