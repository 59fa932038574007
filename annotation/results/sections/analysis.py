"""What the sections of the report are made of; the module `report` says how to add one."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from annotation.results.data.figures import Data, Plot
from annotation.results.data.runs import Costs, OtherRun, other_runs, project_costs, totals_of
from annotation.results.data.samples import SampleArrays, samples_array
from annotation.results.data.sheet import Sheet, sheet_of
from annotation.results.sections.methods import Fewer, fewer_samples, prompt_share_of
from annotation.results.sections.position import Position, position
from annotation.results.sections.review import (
    LabelAgreement,
    Review,
    ReviewGain,
    agreement_after,
    label_agreement,
    review_of,
)
from annotation.results.sections.trust import (
    Audit,
    Replacement,
    Unblinded,
    audit_of,
    audited_accuracy,
    replacement_of,
    unblinded,
)
from annotation.results.sections.win_rates import Preference, length
from judging.methods.agreement.accuracy import Ties
from judging.methods.intervals.estimates import Figure, Undefined, wilson
from judging.methods.review.auroc import no_better_than_chance
from judging.methods.review.curve import CurveBand
from judging.projects.models import Project
from judging.runs.engine.progress import slot_counts, status_counts
from judging.runs.models import Run

_NAMES = {"win": 1, "tie": 0, "lose": -1}


class Analysis:
    """What is read from the database are the cached properties up to `statuses`, and `own`."""

    def __init__(self, project: Project, run: Run) -> None:
        self.project, self.run = project, run
        self.kept: dict[str, Data | Undefined] = {}

    def own(self, name: str, read: Callable[["Analysis"], Data | Undefined]) -> Data | Undefined:
        """What the section of this name alone needs; read once, and never where it was packed."""
        if name not in self.kept:
            self.kept[name] = read(self)
        return self.kept[name]

    @cached_property
    def sheet(self) -> Sheet:
        return sheet_of(self.project, self.run)

    @cached_property
    def samples(self) -> SampleArrays | Undefined:
        return samples_array(self.run, self.sheet.ids)

    @cached_property
    def others(self) -> tuple[OtherRun, ...]:
        return other_runs(self.sheet, self.run)

    @cached_property
    def audit(self) -> Audit | Undefined:
        return audit_of(self.sheet, self.run)

    @cached_property
    def unblinded(self) -> Unblinded:
        return unblinded(self.sheet)

    @cached_property
    def replacement(self) -> Replacement:
        return replacement_of(self.project)

    @cached_property
    def prompt_share(self) -> Decimal:
        return prompt_share_of(self.run)

    @cached_property
    def costs(self) -> Costs:
        return project_costs(self.project, self.run, totals_of(self.sheet.asked.values()))

    @cached_property
    def statuses(self) -> dict[str, int]:
        """How many slots ended how: valid, unparsed …"""
        counted = None if isinstance(self.samples, Undefined) else self.samples.statuses
        return status_counts(slot_counts(self.run)) if counted is None else counted

    @cached_property
    def fewer(self) -> tuple[Fewer, ...]:
        return tuple(fewer_samples(self.sheet, self.run, self.samples))

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(abs(self.run.seed))

    @cached_property
    def coverage(self) -> Figure:
        """Share of all examples that have a label by the judge."""
        n = len(self.sheet)
        return wilson(int(self.sheet.judged.sum()), n) if n else Undefined("no examples")

    @cached_property
    def shares(self) -> dict[str, int]:
        """How many examples the judge labelled win, tie and lose."""
        given = self.sheet.judge[self.sheet.judged]
        return {name: int((given == sign).sum()) for name, sign in _NAMES.items()}

    @cached_property
    def final_shares(self) -> dict[str, int]:
        given = self.sheet.final[self.sheet.has_final]
        return {name: int((given == sign).sum()) for name, sign in _NAMES.items()}

    def before(self, ties: Ties = Ties.HALF) -> LabelAgreement:
        """The judge alone."""
        return label_agreement(
            self.sheet.comparison(self.sheet.judge, self.sheet.judged), self.rng, ties
        )

    def after(self, ties: Ties = Ties.HALF) -> LabelAgreement:
        """The final labels; those that people reviewed are right by construction."""
        return agreement_after(self.sheet, self.rng, ties)

    @cached_property
    def reviewed(self) -> int:
        """m: examples whose label people gave because a round of this run selected them."""
        return int(self.sheet.reviewed.sum())

    @property
    def audited(self) -> int:
        """Examples whose label people gave because an audit drew them."""
        return int(self.sheet.audited_alone.sum())

    @cached_property
    def review(self) -> Review | Undefined:
        return review_of(self.sheet)

    @cached_property
    def band(self) -> CurveBand | Undefined:
        """Of the curve by rank, once for all tables that show it."""
        return self.review if isinstance(self.review, Undefined) else self.review.band(self.rng)

    def lines(self) -> ReviewGain | Undefined:
        """The lines (a) to (c) at the review that took place."""
        review, selected = self.review, int(self.sheet.selected.sum())
        known = self.sheet.known
        if isinstance(review, Undefined) or isinstance(known, Undefined):
            return review if isinstance(review, Undefined) else known
        if self.reviewed < selected:
            return Undefined(self.sheet.unsettled)
        return review.chosen(self.sheet.selected[known.rows]).lines(self.reviewed)

    @cached_property
    def unchecked(self) -> Figure:
        """How often the judge is right where nobody was asked by rank: line (a), else the audit."""
        lines, known = self.lines(), self.sheet.known
        if not isinstance(lines, Undefined):
            return lines.unreviewed
        if not isinstance(known, Undefined) and not self.sheet.selected.any():
            return self.before().accuracy_over_all
        return (
            self.audit
            if isinstance(self.audit, Undefined)
            else audited_accuracy(self.sheet, self.audit)
        )

    @cached_property
    def finds_errors(self) -> Figure:
        """AUROC of BPDE for the judge's errors."""
        review = self.review
        return review if isinstance(review, Undefined) else review.auroc_of(review.level)

    @property
    def no_better_than_chance(self) -> bool:
        return no_better_than_chance(self.finds_errors)

    @cached_property
    def length(self) -> Preference:
        return length(self.sheet)

    @cached_property
    def position(self) -> Position:
        return position(self.sheet, self.samples, self.run)


@dataclass(frozen=True)
class Section:
    """A part of a chapter, on the results pages and in the HTML file.

    title: of its heading; empty for the part that a chapter begins with, whose answer is above it.
    read: what it needs besides the analysis' own data, had by `analysis.own(name, read)`; an
    Undefined says why it has none. Packed into the ZIP, and found there again by `verify`.
    plots: each makes a drawing from the whole report; one without rows is left out.
    anchor: its place on the page, where that differs from the name.
    has: whether the report has anything to show in it.
    """

    name: str
    template: str
    title: str = ""
    read: Callable[["Analysis"], Data | Undefined] | None = None
    plots: tuple[Callable[[Any], Plot], ...] = ()
    anchor: str = ""
    has: Callable[[Any], bool] = bool

    @property
    def place(self) -> str:
        return self.anchor or self.name
