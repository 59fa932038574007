"""How people agree in a round: with each other, on attention checks, and across the two sides."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from annotation.models import Annotator, Protocol, Round, Selection, Slot, Vote
from annotation.queue.drafts import FIVE, label_of
from annotation.queue.settling import counted_slots, leaving_out_unblinded
from judging.methods.agreement.annotators import (
    PooledSideBias,
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
    given = Vote.objects.filter(example__project=project, answer__criteria__isnull=False)
    if votes is not None:
        given = given.filter(pk__in=votes)
    rows = given.order_by("pk").values_list(*columns)
    for pk, annotator, label, left, protocol, answer in rows.iterator(chunk_size=500):
        five = scales[protocol] == Project.Scale.FIVE
        found = {
            name: strength_of(value, left, five=five) for name, value in answer["criteria"].items()
        }
        known = {name: value for name, value in found.items() if value is not None}
        if known:
            yield CriterionAnswers(pk, annotator, label, known, "rule" in answer)


def criteria_asked(project: Project) -> list[str]:
    """Return the criteria of the project's protocols, in the order in which people met them."""
    asked = Protocol.objects.filter(project=project).order_by("number")
    return list(dict.fromkeys(name for one in asked for name in one.criteria))


@dataclass(frozen=True)
class AnnotatorAgreement:
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
        self._rows = list(
            votes.order_by("item", "index").values_list(
                "item",
                "item__selection__kind",
                "item__example__gold_label",
                "vote__annotator",
                "vote__label",
                "vote__left_response",
            )
        )
        self._rows_of = defaultdict(list)
        for row in self._rows:
            self._rows_of[row[3]].append(row)
        people = Annotator.objects.filter(pk__in=self._rows_of.keys())
        self._people = list(people.order_by("number"))
        self._voted, self._present = self._arrays()

    def without_votes(self) -> "RoundAgreement":
        """Compute every figure and let go of the votes, so that the figures can be kept."""
        votes = ("_rows", "_rows_of", "_voted", "_present", "_counts", "_alike", "_sides")
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
    def pooled_side(self) -> PooledSideBias | Undefined:
        return pooled_side_bias(list(self._sides.values()))

    @cached_property
    def records(self) -> tuple[AnnotatorAgreement, ...]:
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
        for annotator in self._people:
            mine = [
                (SIGN[label], left == 1)
                for _, kind, _, _, label, left in self._rows_of[annotator.pk]
                if left is not None and kind != Selection.Kind.CHECK
            ]
            votes, lefts = zip(*mine, strict=True) if mine else ((), ())
            tables[str(annotator.pk)] = side_table(votes, lefts)
        return tables

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (items, people) votes of 1, 0, -1, and a mask of where there is a vote."""
        rows = [row for row in self._rows if row[1] != Selection.Kind.CHECK]
        place = {item: n for n, item in enumerate(dict.fromkeys(row[0] for row in rows))}
        column = {annotator.pk: n for n, annotator in enumerate(self._people)}
        voted = np.zeros((len(place), len(column)), dtype=np.int8)
        present = np.zeros(voted.shape, dtype=bool)
        for item, _, _, by, label, _ in rows:
            voted[place[item], column[by]] = SIGN[label]
            present[place[item], column[by]] = True
        return voted, present

    def _record(
        self, place: int, annotator: Annotator, leaning: SideBias | Undefined
    ) -> AnnotatorAgreement:
        checks = [
            label == gold
            for _, kind, gold, _, label, _ in self._rows_of[annotator.pk]
            if kind == Selection.Kind.CHECK and gold
        ]
        agreeing = rater_against_majority(self._voted, self._present, place, own_vote=False)
        return AnnotatorAgreement(
            annotator,
            n_votes=len(self._rows_of[annotator.pk]),
            with_others=_figure(agreeing),
            left=_figure(leaning if isinstance(leaning, Undefined) else leaning.left_rate),
            p_holm=leaning.p_holm if isinstance(leaning, SideBias) else None,
            checks_right=sum(checks),
            checks_seen=len(checks),
        )


def _figure(value: float | Undefined, n: int | None = None) -> Figure:
    return Figure(reason=value.reason) if isinstance(value, Undefined) else Figure(value, n)
