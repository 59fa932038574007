"""In-context examples of a pointwise run: what an earlier run was most biased about.

Ohi et al., section 2.2: the items of the training part with the largest RS are shown with people's
score in place of the judge's. The items are split 4:1 by the earlier run's seed, with outputs for
one input together. The paper's *before* shows as many items of the training part at random. Two
runs are compared on the part that nothing was shown of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from judging.core.errors import UserError
from judging.dataset.models import PointItem
from judging.llm.prompts.templates import PointShot, Scale
from judging.methods.likelihood.bias import most_biased, random_examples, train_rows, with_total
from judging.methods.likelihood.permutation_test import before_after
from judging.projects.models import Project
from judging.runs.forms.likelihood import (
    DrawnChange,
    NotCompared,
    PointwiseReport,
    PointwiseScores,
    ScatterPoint,
    ShotsComparison,
    pointwise_report,
    pointwise_scores,
    scatter,
)
from judging.runs.models import Form, Run, find_run


def draw_point_shots(
    project: Project, name: str, criteria: list[str], scale: Scale, *, at_random: bool = False
) -> dict[str, Any]:
    """Return what the new run keeps. Raises UserError if the earlier run lacks what is needed."""
    earlier = find_run(project, name)
    if earlier.form != Form.POINTWISE:
        raise UserError(f"Run {earlier.name} scored no single responses. Nothing was started.")
    points = pointwise_scores(earlier)
    # The examples to show are chosen by their likelihood bias (Ohi et al.), which needs
    # likelihoods.
    if np.isnan(points.likelihood).all():
        raise UserError(
            f"The likelihoods of run {earlier.name} are not known. Nothing was started. Ask for "
            f"them first: manage.py likelihood {project.slug} --run {earlier.number}"
        )
    train = training_part(earlier, points)
    pks = list(
        PointItem.objects.filter(project=project)
        .visible()
        .order_by("number", "pk")
        .values_list("pk", flat=True)
    )
    drawn = {}
    for criterion in criteria:
        if criterion not in points.judge:
            raise UserError(
                f"Run {earlier.name} was not asked about {criterion}. Nothing was started."
            )
        human = points.human[criterion]
        if at_random:
            # A stream of its own: the run's seed alone has drawn the training part.
            rng = np.random.default_rng([abs(earlier.seed), 1])
            places = random_examples(train & ~np.isnan(human), rng)
        else:
            places = most_biased(points.likelihood, points.judge[criterion], human, train=train)
        if not len(places):
            raise UserError(
                f"No item has a likelihood and both scores of {criterion} in run {earlier.name}. "
                "Nothing was started."
            )
        drawn[criterion] = [[pks[place], as_score(human[place], scale)] for place in places]
    kept = {"from": earlier.pk, "run": earlier.name, "at_random": at_random}
    return kept | {"drawn": drawn}


def training_part(run: Run, points: PointwiseScores) -> NDArray[np.bool_]:
    return train_rows(len(points), np.random.default_rng(abs(run.seed)), group=points.group)


def as_score(mean: float, scale: Scale) -> str:
    """Return the score as a judge would write it: the nearest whole one, halves up."""
    whole = Decimal(int(np.floor(mean + 0.5)))
    return str(min(max(whole, scale.low), scale.high).to_integral_value())


@dataclass(frozen=True, slots=True)
class PointShots:
    """By criterion, the items to show and people's scores of them."""

    drawn: Mapping[str, tuple[tuple[PointItem, str], ...]]

    @classmethod
    def of(cls, run: Run) -> Self:
        kept = run.parameters.get("point_shots", {}).get("drawn", {})
        pks = {pk for rows in kept.values() for pk, _ in rows}
        items = PointItem.objects.in_bulk(pks)
        if len(items) < len(pks):
            raise UserError(
                f"In-context examples of run {run.name} are no longer in the project. Answers "
                "given with and without them are never mixed: start a new run."
            )
        return cls(
            {name: tuple((items[pk], score) for pk, score in rows) for name, rows in kept.items()}
        )

    def before(self, item: PointItem, criterion: str) -> tuple[PointShot, ...]:
        """Return what is shown before this item: never itself."""
        return tuple(
            PointShot(shot.input, shot.output, score)
            for shot, score in self.drawn.get(criterion, ())
            if shot.pk != item.pk
        )


def comparison(run: Run, points: PointwiseScores) -> ShotsComparison | NotCompared | None:
    """Return the bias before and after, on the test part; None if the run was shown nothing."""
    kept = run.parameters.get("point_shots")
    if not kept:
        return None
    earlier = run.project.runs.filter(pk=kept["from"]).first()
    if earlier is None:
        return NotCompared(f"run {kept['run']}, whose items were shown, is no longer there")
    # The split is drawn over all items, so another number of them draws another one.
    if len(pointwise_scores(earlier)) != len(points):
        return NotCompared("items were imported since then, so the split is a different one")
    # Items that were shown to the judge would make the change look larger than it is.
    test = ~training_part(earlier, points)
    # Random examples help too. Compared with them, only the choice by bias is left to explain the
    # rest.
    compared = None if kept["at_random"] else shown_at_random(run, earlier)
    before = pointwise_scores(compared or earlier)
    changes = before_after(
        points.likelihood[test],
        {name: values[test] for name, values in before.judge.items()},
        {name: values[test] for name, values in points.judge.items()},
        {name: values[test] for name, values in points.human.items()},
        np.random.default_rng(abs(run.seed)),
    )
    drawn = moved(before, points, test)
    criteria = {
        name: DrawnChange(change.bias, change.performance, drawn[name])
        for name, change in changes.items()
    }
    return ShotsComparison((compared or earlier).name, int(test.sum()), criteria)


def moved(
    before: PointwiseScores, after: PointwiseScores, test: NDArray[np.bool_]
) -> dict[str, list[ScatterPoint]]:
    """Return LS and US of the test part by criterion, before and after (Figure 3)."""
    named = [name for name in before.judge if name in after.judge and name in after.human]
    first, second = (
        with_total({name: (scores.judge[name], after.human[name]) for name in named})
        for scores in (before, after)
    )
    moves = {}
    for name, (earlier, people) in first.items():
        later = second[name][0]
        both = test & np.isfinite(np.asarray(earlier) + np.asarray(later))
        # Both plots show the same items, or their difference would be one of selection.
        gold = np.where(both, np.asarray(people, np.float64), np.nan)
        moves[name] = [
            replace(point, when=when)
            for when, scores in (("before", earlier), ("after", later))
            for point in scatter(after, scores, gold)
        ]
    return moves


def shown_at_random(run: Run, earlier: Run) -> Run | None:
    """Return the newest run of the same judge that was shown random items of the same split."""
    same = run.project.runs.filter(form=Form.POINTWISE, model=run.model, state=Run.State.DONE)
    for other in same.exclude(pk=run.pk).order_by("-number"):
        kept = other.parameters.get("point_shots", {})
        if kept.get("from") == earlier.pk and kept.get("at_random"):
            return other
    return None


def whole_report(run: Run) -> PointwiseReport:
    """Return the run's own report, and what its in-context examples changed."""
    return replace(pointwise_report(run), comparison=comparison(run, pointwise_scores(run)))
