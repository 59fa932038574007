"""How people agree in a round: with each other, on attention checks, and across the two sides."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Q

from annotation.models import Annotator, Protocol, Round, Selection, Slot, Vote
from annotation.queue.drafts import FIVE, label_of
from annotation.queue.settling import counted_slots, leaving_out_unblinded
from judging.methods.agreement.annotators import (
    PooledOddsRatio,
    SideBias,
    pooled_side_bias,
    side_bias,
    side_table,
)
from judging.methods.agreement.votes import (
    category_counts,
    equally_often,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
    rater_against_majority,
)
from judging.methods.intervals.estimates import Undefined
from judging.projects.models import Project

SIGN = {"win": 1, "tie": 0, "lose": -1}
_SIGNS = (1, 0, -1)


def strength_of(value: str, left_response: int | None, *, five: bool) -> int | None:
    """Return how much better response 1 is on a criterion: 2, 1, 0, -1 or -2.

    Where "better" is the most that can be said, it counts as "much better" does on a five-point
    scale. Imported votes may say win, tie or lose instead of a side.

    Returns: None if the vote doesn't say which response was on that side, or says something else.
    """
    size = 1 if five and not value.endswith("_much") else 2
    if value in SIGN:
        return size * SIGN[value]
    if left_response is None or value not in FIVE:
        return None
    return size * SIGN[label_of(value, left_response)]


# A lean to one side is pointed out if its p-value, adjusted by Holm, is below this.
SUSPECT = 0.05


@dataclass(frozen=True)
class Figure:
    """A number as pages show it, with its n; or the reason why there is none."""

    value: float | None = None
    n: int | None = None
    reason: str = ""


class CriterionAnswers(NamedTuple):
    """A vote's answers on criteria, each as `strength_of` gives it.

    derived: a rule derived the label from them.
    """

    vote: int
    annotator: int
    label: str
    strengths: dict[str, int]
    derived: bool = False


def criterion_answers(
    project: Project, votes: Collection[int] | None = None
) -> Iterator[CriterionAnswers]:
    """Yield the votes of a project that answer a criterion. Two queries.

    Answers whose side isn't known are left out.

    Args:
        votes: Keys of the votes to read; None for all.
    """
    scales = dict(Protocol.objects.filter(project=project).values_list("pk", "scale"))
    columns = ("pk", "annotator", "label", "left_response", "protocol", "answer")
    rated = Vote.objects.filter(example__project=project, answer__criteria__isnull=False)
    if votes is not None:
        rated = rated.filter(pk__in=votes)
    rows = rated.order_by("pk").values_list(*columns)
    for pk, annotator, label, left, protocol, answer in rows.iterator(chunk_size=500):
        five = scales[protocol] == Project.Scale.FIVE
        by_criterion = {
            name: strength_of(value, left, five=five) for name, value in answer["criteria"].items()
        }
        known = {name: value for name, value in by_criterion.items() if value is not None}
        if known:
            yield CriterionAnswers(pk, annotator, label, known, "rule" in answer)


def criteria_asked(project: Project) -> list[str]:
    """Return the criteria of the project's protocols, in the order in which people met them."""
    asked = Protocol.objects.filter(project=project).order_by("number")
    return list(dict.fromkeys(name for protocol in asked for name in protocol.criteria))


@dataclass(frozen=True)
class AnnotatorRecord:
    """How one person voted in the round.

    left: share of decided votes for the left response.
    p_holm: p-value of that share under no preference, adjusted for the number of people.
    """

    annotator: Annotator
    n_votes: int
    with_others: Figure
    left: Figure
    p_holm: float | None
    checks_right: int
    checks_seen: int

    @property
    def leans(self) -> bool:
        return self.p_holm is not None and self.p_holm < SUSPECT


_FIGURES = (
    "n_items", "percent", "fleiss", "fleiss_votes", "fleiss_on", "alpha", "ac1", "pooled_side",
    "records",
)  # fmt: skip


class RoundAgreement:
    """The votes that count in a round, read once, with those of earlier rounds among them.

    Attention checks are counted separately and enter no other figure.
    """

    def __init__(self, round_: Round) -> None:
        leave_out = bool(leaving_out_unblinded([round_.project_id]))
        votes = counted_slots(Slot.objects.filter(round=round_), leave_out)
        columns = ("vote__annotator", "vote__label")
        self._checks: list[tuple[Any, ...]] = []
        # Most rounds have none, and need not look at the item of each vote.
        if Selection.objects.filter(round=round_, kind=Selection.Kind.CHECK).exists():
            is_check = Q(item__selection__kind=Selection.Kind.CHECK)
            checks = votes.filter(is_check).values_list(*columns, "item__example__gold_label")
            self._checks, votes = list(checks), votes.exclude(is_check)
        rows = list(votes.values_list(*columns, "vote__left_response", "item"))
        by, labels, left, items = zip(*rows, strict=True) if rows else ((),) * 4
        keys = {*by, *(check[0] for check in self._checks)}
        self._people = list(Annotator.objects.filter(pk__in=keys).order_by("number"))
        place = {person.pk: place for place, person in enumerate(self._people)}
        self._by = np.array([place[key] for key in by], dtype=np.int64)
        self._votes = np.array([SIGN[label] for label in labels], dtype=np.int8)
        # 0 means an imported vote, whose sides nobody knows.
        self._left = np.array([side or 0 for side in left], dtype=np.int8)
        distinct, item = np.unique(np.array(items, dtype=np.int64), return_inverse=True)
        self._voted = np.zeros((len(distinct), len(place)), dtype=np.int8)
        self._present = np.zeros(self._voted.shape, dtype=bool)
        self._voted[item, self._by], self._present[item, self._by] = self._votes, True

    def without_votes(self) -> "RoundAgreement":
        """Compute every figure and let go of the votes, so that the figures can be kept."""
        votes = (
            "_checks", "_by", "_votes", "_left", "_voted", "_present", "_counts", "_alike",
            "_sides",
        )  # fmt: skip
        # Read once, each property keeps its value, and afterwards needs no vote any more.
        for name in _FIGURES:
            getattr(self, name)
        for name in votes:
            self.__dict__.pop(name, None)
        return self

    @cached_property
    def n_items(self) -> int:
        """Items with at least two votes, not counting attention checks."""
        return int((self._present.sum(axis=1) >= 2).sum())

    @cached_property
    def percent(self) -> Figure:
        return _figure(percent_agreement(self._counts), self.n_items)

    @cached_property
    def fleiss(self) -> Figure:
        """Fleiss' kappa over the items with the most common number of votes."""
        return _figure(fleiss_kappa(self._counts[self._alike[1]]), self.fleiss_on)

    @cached_property
    def fleiss_votes(self) -> int:
        return self._alike[0]

    @cached_property
    def fleiss_on(self) -> int:
        return int(self._alike[1].sum())

    @cached_property
    def alpha(self) -> Figure:
        return _figure(krippendorff_alpha(self._counts), self.n_items)

    @cached_property
    def ac1(self) -> Figure:
        return _figure(gwet_ac1(self._counts), self.n_items)

    @cached_property
    def pooled_side(self) -> PooledOddsRatio | Undefined:
        return pooled_side_bias(list(self._sides.values()))

    @cached_property
    def records(self) -> tuple[AnnotatorRecord, ...]:
        leaning = side_bias(self._sides)
        return tuple(
            self._record(place, annotator, leaning[str(annotator.pk)])
            for place, annotator in enumerate(self._people)
        )

    @cached_property
    def _counts(self) -> np.ndarray:
        return category_counts(self._voted, self._present, _SIGNS)

    @cached_property
    def _alike(self) -> tuple[int, np.ndarray]:
        return equally_often(self._counts)

    @cached_property
    def _sides(self) -> dict[str, np.ndarray]:
        tables = {}
        for place, annotator in enumerate(self._people):
            # A lean to a side can only be told from votes whose sides are known.
            mine = (self._by == place) & (self._left > 0)
            tables[str(annotator.pk)] = side_table(self._votes[mine], self._left[mine] == 1)
        return tables

    def _record(
        self, place: int, annotator: Annotator, leaning: SideBias | Undefined
    ) -> AnnotatorRecord:
        checks = [(label, gold) for by, label, gold in self._checks if by == annotator.pk]
        known = [label == gold for label, gold in checks if gold]
        # Without the person's own vote: with three people, it would be a third of each majority.
        agreeing = rater_against_majority(self._voted, self._present, place, own_vote=False)
        return AnnotatorRecord(
            annotator,
            n_votes=int((self._by == place).sum()) + len(checks),
            with_others=_figure(agreeing),
            left=_figure(leaning if isinstance(leaning, Undefined) else leaning.left_rate),
            p_holm=leaning.p_holm if isinstance(leaning, SideBias) else None,
            checks_right=sum(known),
            checks_seen=len(known),
        )


def _figure(value: float | Undefined, n: int | None = None) -> Figure:
    return Figure(reason=value.reason) if isinstance(value, Undefined) else Figure(value, n)
