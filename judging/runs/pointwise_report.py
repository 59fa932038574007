"""What a run over single responses says of its judge: scores, people, and likelihood bias."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Avg
from numpy.typing import NDArray

from judging.methods.arrays import Floats
from judging.methods.estimates import Undefined
from judging.methods.likelihood.bias import likelihood_biases, with_total
from judging.models.calls import Parse
from judging.models.points import HumanScore, PointItem
from judging.models.runs import Run
from judging.runs.likelihood import Text, recorded_likelihoods, sources_of, task_of
from judging.runs.pointwise import part_of

Json = dict[str, Any]
NO_LIKELIHOOD = "no likelihoods yet: manage.py likelihood PROJECT --run RUN"


@dataclass(frozen=True, slots=True)
class Points:
    """One entry an item, in import order; NaN where a value is missing.

    judge, human: by criterion, the mean over samples and over raters. group: items of one input.
    """

    external_ids: tuple[str, ...]
    judge: dict[str, Floats]
    human: dict[str, Floats]
    likelihood: Floats
    tokens: Floats
    length: Floats
    group: NDArray[np.intp]
    source: str

    def __len__(self) -> int:
        return len(self.external_ids)


def points_of(run: Run) -> Points:
    items = list(
        PointItem.objects.filter(project=run.project_id)
        .visible()
        .order_by("number", "pk")
        .values_list("pk", "external_id", "input", "output")
    )
    place = {pk: row for row, (pk, *_) in enumerate(items)}
    criteria = [name for name, _ in run.parameters.get("items", ())]
    likelihood, tokens, source = likelihoods_of(run, [(row[2], row[3]) for row in items])
    codes: dict[str, int] = {}
    return Points(
        external_ids=tuple(row[1] for row in items),
        judge=judges_scores(run, criteria, place),
        human=human_scores(run, criteria, place),
        likelihood=likelihood,
        tokens=tokens,
        length=np.array([len(row[3]) for row in items], dtype=np.float64),
        # Not as an array of texts, which takes for each as much as for the longest.
        group=np.array([codes.setdefault(row[2], len(codes)) for row in items], dtype=np.intp),
        source=source,
    )


def judges_scores(run: Run, criteria: list[str], place: dict[int, int]) -> dict[str, Floats]:
    """The last attempt of each slot counts, and the k slots are averaged."""
    names = {part_of(name): name for name in criteria}
    rows = Parse.objects.filter(
        current=True, sample__call__run=run, rating__isnull=False, sample__call__part__in=names
    ).order_by("sample__attempt")
    slots: defaultdict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    columns = "sample__call__part", "sample__call__point_item", "sample__slot", "rating"
    for part, item, slot, rating in rows.values_list(*columns).iterator(chunk_size=5000):
        if item in place:
            slots[names[part], place[item]][slot] = float(rating)
    found = {name: np.full(len(place), np.nan) for name in criteria}
    for (name, row), ratings in slots.items():
        found[name][row] = np.mean(list(ratings.values()))
    return found


def human_scores(run: Run, criteria: list[str], place: dict[int, int]) -> dict[str, Floats]:
    rows = (
        HumanScore.objects.filter(point_item__project=run.project_id, criterion__in=criteria)
        .order_by()
        .values_list("criterion", "point_item")
        .annotate(mean=Avg("value"))
    )
    found = {name: np.full(len(place), np.nan) for name in criteria}
    for name, item, mean in rows:
        if item in place:
            found[name][place[item]] = float(mean)
    return found


def likelihoods_of(run: Run, texts: list[tuple[str, str]]) -> tuple[Floats, Floats, str]:
    """LS and its tokens by the model that the run's likelihood was asked of, else any."""
    chosen = run.parameters.get("likelihood")
    first = [(chosen["base_url"], chosen["model"])] if chosen else []
    task = task_of(run)
    keys = [Text(task, given, output).sha256 for given, output in texts]
    for source in [*first, *sources_of(run.project)]:
        known = recorded_likelihoods(run.project, source)
        if any(key in known for key in keys):
            pairs = [known.get(key, (np.nan, np.nan)) for key in keys]
            table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
            return table[:, 0], table[:, 1], source[1]
    none = np.full(len(keys), np.nan)
    return none, none.copy(), ""


def pointwise_report(run: Run, *, with_bias: bool = True) -> Json:
    """By criterion, and `total` where there are several; each figure with interval or reason.

    The bias by likelihood takes long for many items.
    """
    points = points_of(run)
    by_criterion = {name: (points.judge[name], points.human[name]) for name in points.judge}
    return {
        "run": {
            "number": run.number,
            "name": run.name,
            "model": run.model,
            "template": run.template_name,
            "criteria": list(points.judge),
            "scale": run.parameters["output"]["scale"][:2],
        },
        "items": len(points),
        "score_mass": mean_mass(run),
        "likelihood_model": points.source or None,
        "criteria": {
            name: {
                "judged": int((~np.isnan(np.asarray(judge))).sum()),
                "scored_by_people": int((~np.isnan(np.asarray(human))).sum()),
                "judge_mean": mean_of(judge),
                "human_mean": mean_of(human),
            }
            for name, (judge, human) in with_total(by_criterion).items()
        },
        "likelihood": bias_of(run, points, by_criterion) if with_bias else {},
    }


def mean_mass(run: Run) -> float | None:
    """What the score tokens together had of the probability; with little of it, the judge was
    about to write something else, and its expected score is one over what it did not say."""
    rows = Parse.objects.filter(current=True, sample__call__run=run, rating__isnull=False)
    return rows.aggregate(mean=Avg("mass"))["mean"]


def mean_of(values: Any) -> float | None:
    there = np.asarray(values)[~np.isnan(np.asarray(values))]
    return float(there.mean()) if len(there) else None


def bias_of(run: Run, points: Points, by_criterion: dict[str, tuple[Floats, Floats]]) -> Json:
    if np.isnan(points.likelihood).all():
        return Undefined(NO_LIKELIHOOD).as_json()
    found = likelihood_biases(
        points.likelihood,
        by_criterion,
        np.random.default_rng(abs(run.seed)),
        length=points.length,
        tokens=points.tokens,
        question=points.group,
    )
    return {name: bias.as_json() for name, bias in found.items()}
