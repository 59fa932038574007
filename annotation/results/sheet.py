"""A run and its people as arrays, one entry an example: what the analysis computes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from annotation.models import Selection
from annotation.results.ballots import Ballots, ballots_of
from annotation.results.columns import places_of
from annotation.results.merging import merge
from annotation.results.people import PeopleSay, people_both_ways
from annotation.results.sheet_rows import (
    ExampleRows,
    VerdictRows,
    example_rows,
    signs,
    verdict_rows,
)
from annotation.results.unsettled import why_unsettled
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.comparison import Comparison, Design
from judging.methods.estimates import Undefined
from judging.models.examples import Label
from judging.models.projects import Project
from judging.models.runs import Run

_LABELS = {1: Label.WIN, 0: Label.TIE, -1: Label.LOSE}
_BY_RANK = (Selection.Kind.TOP.value, Selection.Kind.ALL.value)


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
class Sheet(VerdictRows):
    """judge, human, final: 1 win, 0 tie, -1 lose, meaningless where judged, labelled, has_final
    are False. ranking: indices, the first to be reviewed first. level: what they are ranked by.
    length: characters of response 1 less those of response 2.

    basis: `votes` where people voted on every example, `gold` where every example came with its
    known label, else `round`: only what the rounds of this run asked about is known.
    selected, audited: which examples the rounds of this run asked people about, and why.
    answer, answered: what people said there, which is not always what is known.
    unsettled: why labels of people are lacking; empty where none is.
    people: whose votes the labels rest on; asked: what those asked for this run say, by id.
    """

    ids: Codes
    category: NDArray[np.str_]
    question: Codes
    models: tuple[str, ...]
    model_1: Codes
    model_2: Codes
    length: NDArray[np.int64]
    human: Signs
    labelled: Booleans
    final: Signs
    has_final: Booleans
    selected: Booleans
    audited: Booleans
    answer: Signs
    answered: Booleans
    basis: str
    unsettled: str
    people: tuple[PeopleSay | None, ...]
    asked: dict[int, PeopleSay]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def everyone(self) -> bool:
        return self.basis != "round"

    @property
    def reviewed(self) -> Booleans:
        """Whose label people gave because a round of this run selected them."""
        return self.selected & self.answered

    @property
    def audited_alone(self) -> Booleans:
        """Whose label people gave only because an audit drew them."""
        return self.audited & ~self.selected & self.answered

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
        if not asked.any() or (asked & ~self.labelled).any():
            return Undefined(self.unsettled)
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
    examples = example_rows(project)
    ids = examples.ids
    verdicts = verdict_rows(run, ids)
    everywhere, asked = people_both_ways(project, run)
    basis, human, labelled, people = _known(examples, everywhere, asked)
    says = _Says(ids, asked)
    answer, answered = says.labels()
    final, has_final = _finals(verdicts, says)
    selected, audited = _why(says.kinds())
    return Sheet(
        ids=ids,
        category=examples.category,
        question=examples.question,
        models=examples.models,
        model_1=examples.model_1,
        model_2=examples.model_2,
        length=examples.length,
        **vars(verdicts),
        human=human,
        labelled=labelled,
        final=final,
        has_final=has_final,
        selected=selected,
        audited=audited,
        answer=answer,
        answered=answered,
        basis=basis,
        unsettled=why_unsettled(asked, _elsewhere(examples, everywhere), len(ids)),
        people=people,
        asked=asked,
    )


class _Says:
    """What those asked say, and where in the sheet: a fraction of the examples."""

    def __init__(self, ids: Codes, asked: dict[int, PeopleSay]) -> None:
        self.n = len(ids)
        places = places_of(ids, list(asked))
        found = zip(places.tolist(), asked.values(), strict=True)
        self.by_place = {place: say for place, say in found if place >= 0}
        self.places = np.array(list(self.by_place), dtype=np.intp)

    def labels(self) -> tuple[Signs, Booleans]:
        return self.spread([say.label for say in self.by_place.values()])

    def kinds(self) -> NDArray[np.str_]:
        kinds = np.full(self.n, "", dtype="<U8")
        kinds[self.places] = [say.selection for say in self.by_place.values()]
        return kinds

    def spread(self, labels: Sequence[str | None]) -> tuple[Signs, Booleans]:
        given, there = np.zeros(self.n, np.int8), np.zeros(self.n, bool)
        given[self.places], there[self.places] = signs(labels)
        return given, there


def _finals(verdicts: VerdictRows, says: _Says) -> tuple[Signs, Booleans]:
    """People's labels where they were asked, the judge's elsewhere."""
    final, has_final = verdicts.judge.copy(), verdicts.judged.copy()
    judge = [
        _LABELS[sign] if there else None
        for sign, there in zip(final[says.places], has_final[says.places], strict=True)
    ]
    merged = [merge(*one)[0] for one in zip(judge, says.by_place.values(), strict=True)]
    final[says.places], has_final[says.places] = signs(merged)
    return final, has_final


def _why(kinds: NDArray[np.str_]) -> tuple[Booleans, Booleans]:
    """Who was selected, and who was drawn at random from the others.

    A learning sample belongs to the selection that it led to (SCIENCE: learned routing). Where
    its round was closed before it led to one, it is a random sample of all examples.
    """
    by_rank = np.isin(kinds, _BY_RANK)
    learn, audit = kinds == Selection.Kind.LEARN, kinds == Selection.Kind.AUDIT
    if by_rank.any():
        return by_rank | learn, audit
    return by_rank, audit | learn


def _elsewhere(examples: ExampleRows, everywhere: dict[int, PeopleSay]) -> int:
    """Examples with a label that no round of this run asked for: votes, or one they came with."""
    voted = {pk for pk, say in everywhere.items() if say.votes}
    return len(voted | set(examples.ids[examples.golden].tolist()))


def _known(
    examples: ExampleRows, everywhere: dict[int, PeopleSay], asked: dict[int, PeopleSay]
) -> tuple[str, Signs, Booleans, tuple[PeopleSay | None, ...]]:
    """What the labels are compared with: everyone's votes, else known labels, else the rounds'."""
    ids = examples.ids.tolist()
    if ids and all(pk in everywhere and everywhere[pk].votes for pk in ids):
        people = tuple(everywhere[pk] for pk in ids)
        return "votes", *signs([say.label for say in people]), people
    if ids and examples.golden.all():
        gold = examples.gold, examples.golden
        return "gold", *gold, tuple(everywhere.get(pk) for pk in ids)
    says = tuple(asked.get(pk) for pk in ids)
    return "round", *signs([say.label if say else None for say in says]), says
