"""In-context examples of a pointwise run: what an earlier run was most biased about.

Ohi et al., section 2.2: the instances with the largest RS of the training part are shown with the
people's score in place of the judge's. The items are split 4:1 by the earlier run's seed, outputs
for one input together. The paper's *before* is shown as many items of the training part at random;
two runs are compared on the part that nothing was shown of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from judging.errors import UserError
from judging.llm.prompts import PointShot
from judging.llm.templating import Scale
from judging.methods.likelihood.before_after import before_after
from judging.methods.likelihood.examples import most_biased, random_examples, train_rows
from judging.models.points import PointItem
from judging.models.projects import Project
from judging.models.runs import Form, Run
from judging.runs.finding import find_run
from judging.runs.pointwise_report import Points, points_of, pointwise_report

Json = dict[str, Any]


def draw_point_shots(
    project: Project, name: str, criteria: list[str], scale: Scale, *, at_random: bool = False
) -> Json:
    """What the new run keeps. Raises UserError where the earlier run can't teach it."""
    earlier = find_run(project, name)
    if earlier.form != Form.POINTWISE:
        raise UserError(f"Run {earlier.name} scored no single responses. Nothing was started.")
    points = points_of(earlier)
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


def training_part(run: Run, points: Points) -> NDArray[np.bool_]:
    return train_rows(len(points), np.random.default_rng(abs(run.seed)), group=points.group)


def as_score(mean: float, scale: Scale) -> str:
    """As a judge would write it: the nearest whole score, halves up."""
    whole = Decimal(int(np.floor(mean + 0.5)))
    return str(min(max(whole, scale.low), scale.high).to_integral_value())


@dataclass(frozen=True, slots=True)
class PointShots:
    """By criterion, the items shown before and the scores that people gave them."""

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
        """What is shown before this item: never itself."""
        return tuple(
            PointShot(shot.input, shot.output, score)
            for shot, score in self.drawn.get(criterion, ())
            if shot.pk != item.pk
        )


def comparison(run: Run, points: Points) -> Json | None:
    """Before and after, on the test part; None for a run that was shown nothing."""
    kept = run.parameters.get("point_shots")
    if not kept:
        return None
    earlier = run.project.runs.filter(pk=kept["from"]).first()
    if earlier is None:
        return {"reason": f"run {kept['run']}, whose items were shown, is no longer there"}
    if len(points_of(earlier)) != len(points):
        return {"reason": "items were imported since, so that the split is another one"}
    test = ~training_part(earlier, points)
    compared = None if kept["at_random"] else shown_at_random(run, earlier)
    before = points_of(compared or earlier)
    found = before_after(
        points.likelihood[test],
        {name: values[test] for name, values in before.judge.items()},
        {name: values[test] for name, values in points.judge.items()},
        {name: values[test] for name, values in points.human.items()},
        np.random.default_rng(abs(run.seed)),
    )
    criteria = {name: one.as_json() for name, one in found.items()}
    return {
        "before": (compared or earlier).name,
        "test_items": int(test.sum()),
        "criteria": criteria,
    }


def shown_at_random(run: Run, earlier: Run) -> Run | None:
    """The newest run of the same judge that was shown items of the same split at random."""
    same = run.project.runs.filter(form=Form.POINTWISE, model=run.model, state=Run.State.DONE)
    for one in same.exclude(pk=run.pk).order_by("-number"):
        kept = one.parameters.get("point_shots", {})
        if kept.get("from") == earlier.pk and kept.get("at_random"):
            return one
    return None


def whole_report(run: Run) -> Json:
    """The run's own report, and what the items shown before it changed."""
    return pointwise_report(run) | {"comparison": comparison(run, points_of(run))}
