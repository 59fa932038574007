"""A run and its people as arrays, one entry an example: what the analysis computes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from django.db.models import F
from django.db.models.functions import MD5, Length
from numpy.typing import NDArray

from annotation.models import Selection
from annotation.results.ballots import Ballots, ballots_of
from annotation.results.merging import merge
from annotation.results.people import PeopleSay, people_both_ways
from annotation.selecting import frame
from judging.methods.comparison import Booleans, Codes, Comparison, Design, Floats, Signs
from judging.methods.estimates import Undefined
from judging.methods.hitlc import INCONSISTENT_BONUS
from judging.models import Label, Project, Run, Verdict

SIGN = {"win": 1, "tie": 0, "lose": -1, None: 0}
# Larger than any rank: what was not ranked comes last.
_LAST = 2**62
_BY_RANK = (Selection.Kind.TOP, Selection.Kind.ALL)
_COLUMNS = ("pk", "category", "gold_label", "model_1", "model_2")


@dataclass(frozen=True)
class Known:
    """The examples whose right label is known. rows: their places in the sheet; the rest as in
    `Comparison`."""

    rows: Codes
    weight: Floats
    stratum: Codes

    @property
    def plain(self) -> bool:
        """Whether all stand for themselves alone."""
        return not len(self.rows) or bool(np.ptp(self.weight) == 0)


@dataclass(frozen=True)
class Sheet:
    """judge, human, final: 1 win, 0 tie, -1 lose, meaningless where judged, labelled, has_final
    are False. ranking: indices, the first to be reviewed first. level: what they are ranked by.
    length: characters of response 1 less those of response 2.

    basis: `votes` where people voted on every example, `gold` where every example came with its
    known label, else `round`: only what the rounds of this run asked about is known.
    selected, audited: which examples the rounds of this run asked people about, and why.
    answer, answered: what people said there, which is not always what is known.
    people: whose votes the labels rest on; asked: what those asked for this run say, by id.
    """

    ids: Codes
    category: NDArray[np.str_]
    question: Codes
    models: tuple[str, ...]
    model_1: Codes
    model_2: Codes
    length: NDArray[np.int64]
    judge: Signs
    judged: Booleans
    level: Floats
    bpde: Floats
    gap: Floats
    ranking: Codes
    human: Signs
    labelled: Booleans
    final: Signs
    has_final: Booleans
    selected: Booleans
    audited: Booleans
    answer: Signs
    answered: Booleans
    basis: str
    people: tuple[PeopleSay | None, ...]
    asked: dict[int, PeopleSay]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def everyone(self) -> bool:
        return self.basis != "round"

    @cached_property
    def ballots(self) -> Ballots:
        return ballots_of([say.votes if say else () for say in self.people])

    @cached_property
    def known(self) -> Known | Undefined:
        """Which labels are known and what each weighs, by why people saw the example."""
        if self.everyone:
            rows = np.flatnonzero(self.labelled)
            if not len(rows):
                return Undefined("people have settled no example yet")
            return Known(rows, np.ones(len(rows)), np.zeros(len(rows), np.intp))
        asked = self.selected | self.audited
        waiting = int((asked & ~self.labelled).sum())
        if not asked.any():
            return Undefined("no human labels: open a round, or import votes")
        if waiting:
            return Undefined(f"{waiting} of {int(asked.sum())} items still wait for a label")
        weights = Design(self.selected, self.audited).weights()
        if isinstance(weights, Undefined):
            return weights
        rows = np.flatnonzero(weights)
        return Known(rows, weights[rows], (~self.selected[rows]).astype(np.intp))

    def comparison(self, labels: Signs, there: Booleans) -> Comparison | Undefined:
        """These labels against the people's."""
        known = self.known
        if isinstance(known, Undefined):
            return known
        rows = known.rows
        given = (labels[rows], there[rows], self.human[rows])
        return Comparison(*given, known.weight, known.stratum, self.question[rows])


def sheet_of(project: Project, run: Run) -> Sheet:
    """Read everything once; a constant number of queries, and no text."""
    length = Length("response_1") - Length("response_2")
    rows = list(
        frame(project)
        .annotate(question_md5=MD5(F("question")), length=length)
        .values_list(*_COLUMNS, "question_md5", "length")
    )
    ids = [row[0] for row in rows]
    verdicts = _verdicts(run)
    nothing = (Verdict.State.PENDING, None, None, None, None, None)
    found = [verdicts.get(pk, nothing) for pk in ids]
    everywhere, asked = people_both_ways(project, run)
    basis, labels, says = _known(ids, [row[2] for row in rows], everywhere, asked)
    finals = [
        merge(one[1] and Label(one[1]), asked[pk])[0] if pk in asked else one[1]
        for pk, one in zip(ids, found, strict=True)
    ]
    kinds = [asked[pk].selection if pk in asked else "" for pk in ids]
    selected, audited = _why(kinds)
    judge, judged = signs([one[1] for one in found])
    human, labelled = signs(labels)
    final, has_final = signs(finals)
    answer, answered = signs([asked[pk].label if pk in asked else None for pk in ids])
    models, (model_1, model_2) = _codes([row[3] for row in rows], [row[4] for row in rows])
    bpde, score = (_floats([one[place] for one in found]) for place in (2, 5))
    return Sheet(
        ids=np.array(ids, dtype=np.intp),
        category=np.array([row[1] for row in rows], dtype=np.str_),
        question=_questions([row[5] for row in rows]),
        models=models,
        model_1=model_1,
        model_2=model_2,
        length=np.array([row[6] for row in rows], dtype=np.int64),
        judge=judge,
        judged=judged,
        level=_levels(
            np.where(np.isnan(score), bpde, score),
            np.array([one[0] for one in found], dtype=np.str_),
        ),
        bpde=bpde,
        gap=_floats([one[3] for one in found]),
        ranking=_ranking([one[4] for one in found]),
        human=human,
        labelled=labelled,
        final=final,
        has_final=has_final,
        selected=selected,
        audited=audited,
        answer=answer,
        answered=answered,
        basis=basis,
        people=says,
        asked=asked,
    )


def _why(kinds: Sequence[str]) -> tuple[Booleans, Booleans]:
    """Who was selected, and who was drawn at random from the others.

    A learning sample belongs to the selection that it led to (SCIENCE: learned routing). Where
    its round was closed before it led to one, it is a random sample of all examples.
    """
    by_rank = np.array([kind in _BY_RANK for kind in kinds], dtype=bool)
    learn = np.array([kind == Selection.Kind.LEARN for kind in kinds], dtype=bool)
    audit = np.array([kind == Selection.Kind.AUDIT for kind in kinds], dtype=bool)
    if by_rank.any():
        return by_rank | learn, audit
    return by_rank, audit | learn


def signs(labels: Sequence[str | None]) -> tuple[Signs, Booleans]:
    """1, 0, -1 for win, tie, lose, and where there is a label."""
    there = np.array([label is not None for label in labels], dtype=bool)
    return np.array([SIGN[label] for label in labels], dtype=np.int8), there


def _verdicts(run: Run) -> dict[int, Sequence]:
    """By example: state, label, BPDE, gap, rank, and what it goes by where that is not BPDE."""
    columns = ("example", "state", "label", "bpde", "gap", "rank", "routing_score")
    rows = Verdict.objects.filter(run=run).values_list(*columns)
    return {row[0]: row[1:] for row in rows.iterator(chunk_size=5000)}


def _known(
    ids: list[int],
    gold: list[str | None],
    everywhere: dict[int, PeopleSay],
    asked: dict[int, PeopleSay],
) -> tuple[str, list[str | None], tuple[PeopleSay | None, ...]]:
    """What the labels are compared with: everyone's votes, else known labels, else the rounds'."""
    if ids and all(pk in everywhere and everywhere[pk].votes for pk in ids):
        says = tuple(everywhere[pk] for pk in ids)
        return "votes", [say.label for say in says], says
    if ids and all(gold):
        return "gold", gold, tuple(everywhere.get(pk) for pk in ids)
    says = tuple(asked.get(pk) for pk in ids)
    return "round", [say.label if say else None for say in says], says


def _levels(score: Floats, states: NDArray[np.str_]) -> Floats:
    """As `hitlc.routing_level`: unjudged, inconsistent, then the score; pending last."""
    level = np.where(np.isnan(score), -np.inf, score)
    level = np.where(states == Verdict.State.INCONSISTENT, level + INCONSISTENT_BONUS, level)
    return np.where(states == Verdict.State.UNJUDGED, np.inf, level)


def _ranking(ranks: list[int | None]) -> Codes:
    places = np.array([rank if rank is not None else _LAST for rank in ranks], dtype=np.int64)
    order = np.argsort(places, kind="stable")
    return order[places[order] < _LAST]


def _floats(values: list[float | None]) -> Floats:
    # NumPy reads None as NaN.
    return np.array(values, dtype=np.float64)


def _questions(digests: list[str]) -> Codes:
    """Equal codes for equal questions; an example without a question is one of its own."""
    empty = "d41d8cd98f00b204e9800998ecf8427e"
    names = [f"{n}" if digest == empty else digest for n, digest in enumerate(digests)]
    return _codes(names)[1][0]


def _codes(*columns: list[str]) -> tuple[tuple[str, ...], list[Codes]]:
    names: dict[str, int] = {}
    coded = [
        np.array([names.setdefault(name, len(names)) for name in column], dtype=np.intp)
        for column in columns
    ]
    return tuple(names), coded
