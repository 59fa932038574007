"""A run and its people as arrays, one entry an example: what the analysis computes on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annotation.models import Selection
from annotation.results.merging import merge
from annotation.results.people import PeopleSay, people_alone, people_for_run
from annotation.selecting import frame, ranked_examples
from judging.methods.comparison import Booleans, Codes, Comparison, Design, Floats, Signs
from judging.methods.comparison import comparison as compare
from judging.methods.estimates import Undefined
from judging.models import Label, Project, Run, Verdict
from judging.runs.samples import samples_of

SIGN = {Label.WIN: 1, Label.TIE: 0, Label.LOSE: -1}
# Scores have at most ten decimal places in the database, so these integers are exact.
_SCALE = 10**10
_SELECTED = (Selection.Kind.TOP, Selection.Kind.LEARN, Selection.Kind.ALL)


@dataclass(frozen=True)
class Sheet:
    """judge, human, final: 1 win, 0 tie, -1 lose, meaningless where judged, labelled, has_final
    are False. ranking: indices, the first to be reviewed first. level: what they are ranked by.

    everyone: people voted on every example, so that nothing has to be weighed.
    selected, audited: which examples the rounds of this run asked people about, and why.
    """

    external_ids: tuple[str, ...]
    category: NDArray[np.str_]
    question: Codes
    states: tuple[str, ...]
    judge: Signs
    judged: Booleans
    bpde: Floats
    ranking: Codes
    human: Signs
    labelled: Booleans
    final: Signs
    has_final: Booleans
    selected: Booleans
    audited: Booleans
    everyone: bool
    people: tuple[PeopleSay | None, ...]

    def __len__(self) -> int:
        return len(self.external_ids)

    def comparison(self, labels: Signs, there: Booleans) -> Comparison | Undefined:
        """These labels against the people's, each example weighed by why people saw it."""
        if self.everyone:
            rows = np.flatnonzero(self.labelled)
            design = Design(np.ones(len(rows), bool), np.zeros(len(rows), bool))
            if not len(rows):
                return Undefined("people have settled no example yet")
            given = (labels[rows], there[rows], self.human[rows])
            return compare(*given, design, self.question[rows])
        asked = self.selected | self.audited
        open_items = int((asked & ~self.labelled).sum())
        if not asked.any():
            return Undefined("no human labels: open a round, or import votes")
        if open_items:
            return Undefined(f"{open_items} of {int(asked.sum())} items still wait for a label")
        design = Design(self.selected, self.audited)
        return compare(labels, there, self.human, design, self.question)


def sheet_of(project: Project, run: Run) -> Sheet:
    """Read everything once; a constant number of queries."""
    rows = list(frame(project).values_list("pk", "external_id", "category", "question"))
    ids = [row[0] for row in rows]
    place = {pk: index for index, pk in enumerate(ids)}
    verdicts = {
        pk: (state, label, bpde)
        for pk, state, label, bpde in Verdict.objects.filter(run=run).values_list(
            "example", "state", "label", "bpde"
        )
    }
    nothing = (Verdict.State.PENDING, None, None)
    found = [verdicts.get(pk, nothing) for pk in ids]
    everywhere, asked = people_alone(project), people_for_run(run)
    everyone = bool(ids) and all(pk in everywhere and everywhere[pk].votes for pk in ids)
    says = [everywhere.get(pk) if everyone else asked.get(pk) for pk in ids]
    finals = [
        merge(Label(label) if label else None, asked.get(pk))[0]
        for pk, (_, label, _) in zip(ids, found, strict=True)
    ]
    kinds = [asked[pk].selection if pk in asked else "" for pk in ids]
    codes: dict[str, int] = {}
    judge, judged = _signs([label for _, label, _ in found])
    human, labelled = _signs([say.label if say else None for say in says])
    final, has_final = _signs(finals)
    ranked = ranked_examples(run, paper_mode=False)
    return Sheet(
        external_ids=tuple(row[1] for row in rows),
        category=np.array([row[2] for row in rows], dtype=np.str_),
        question=np.array([codes.setdefault(row[3], len(codes)) for row in rows], dtype=np.intp),
        states=tuple(state for state, _, _ in found),
        judge=judge,
        judged=judged,
        bpde=np.array([np.nan if bpde is None else bpde for _, _, bpde in found]),
        ranking=np.array([place[one.example_id] for one in ranked], dtype=np.intp),
        human=human,
        labelled=labelled,
        final=final,
        has_final=has_final,
        selected=np.array([kind in _SELECTED for kind in kinds], dtype=bool),
        audited=np.array([kind == Selection.Kind.AUDIT for kind in kinds], dtype=bool),
        everyone=everyone,
        people=tuple(says),
    )


@dataclass(frozen=True)
class Outcomes:
    """difference: (N, 2, k) score 1 - score 2 as integers on one scale; valid: which are there."""

    difference: NDArray[np.int64]
    valid: Booleans


def outcomes_of(run: Run) -> Outcomes | Undefined:
    """The samples of both orders, in import order."""
    if len(run.orders) < 2:
        return Undefined("this run asked in one order only")
    examples = [
        [
            [None if pair is None else int((pair[0] - pair[1]) * _SCALE) for pair in pairs]
            for pairs in (example.pairs(order, run.form) for order in run.orders)
        ]
        for example in samples_of(run)
    ]
    k = max((len(pairs) for example in examples for pairs in example), default=0)
    if not k:
        return Undefined("no sample was recorded yet")
    difference = np.zeros((len(examples), 2, k), dtype=np.int64)
    valid = np.zeros((len(examples), 2, k), dtype=bool)
    for row, example in enumerate(examples):
        for order, pairs in enumerate(example):
            for slot, value in enumerate(pairs):
                if value is not None:
                    difference[row, order, slot], valid[row, order, slot] = value, True
    return Outcomes(difference, valid)


def _signs(labels: Sequence[str | None]) -> tuple[Signs, Booleans]:
    there = np.array([label is not None for label in labels], dtype=bool)
    signs = [SIGN[Label(label)] if label else 0 for label in labels]
    return np.array(signs, dtype=np.int8), there
