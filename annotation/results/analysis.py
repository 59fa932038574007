"""What can be said of a run, each part computed on first use and kept.

Every statistic is a function of `judging.methods`; the modules beside this one bring it the data.
Randomness is seeded by the run, so that the same data give the same intervals.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import cached_property

import numpy as np

from annotation.results.after_review import agreement_after
from annotation.results.costs import Costs, project_costs, totals_of
from annotation.results.fewer import Fewer, fewer_samples
from annotation.results.figures import Json
from annotation.results.length import length
from annotation.results.methods_table import prompt_share_of
from annotation.results.other_runs import OtherRun, other_runs
from annotation.results.position import position
from annotation.results.review import HonestLines, Review, review_of
from annotation.results.rightness import Agreement, agreement
from annotation.results.samples_array import Samples, samples_array
from annotation.results.sections import Data
from annotation.results.sheet import Sheet, sheet_of
from annotation.results.trust import Audit, audit_of, audited_accuracy
from annotation.results.unblinded import unblinded
from judging.methods.accuracy import Ties
from judging.methods.auroc import no_better_than_chance
from judging.methods.bands import CurveBand
from judging.methods.estimates import Figure, Undefined
from judging.methods.proportions import wilson
from judging.models.projects import Project
from judging.models.runs import Run
from judging.runs.progress import slot_counts, status_counts

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
    def samples(self) -> Samples | Undefined:
        return samples_array(self.run, self.sheet.ids)

    @cached_property
    def others(self) -> tuple[OtherRun, ...]:
        return other_runs(self.sheet, self.run)

    @cached_property
    def audit(self) -> Audit | Undefined:
        return audit_of(self.sheet, self.run)

    @cached_property
    def unblinded(self) -> Json:
        return unblinded(self.sheet)

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
        return tuple(fewer_samples(self.sheet, self.run, self.samples, self.rng))

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

    def before(self, ties: Ties = Ties.HALF) -> Agreement:
        """The judge alone."""
        return agreement(self.sheet.comparison(self.sheet.judge, self.sheet.judged), self.rng, ties)

    def after(self, ties: Ties = Ties.HALF) -> Agreement:
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

    def lines(self) -> HonestLines | Undefined:
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
            return self.before().over_all
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
    def length(self) -> Json:
        return length(self.sheet, self.rng)

    @cached_property
    def position(self) -> Json:
        return position(self.sheet, self.samples, self.rng, self.run)
