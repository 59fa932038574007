"""How likely a language model finds the texts of a project, as it was recorded.

LS = log P(output | task description, input) in nats (Ohi et al., section 2). A text that stands in
several places is one text; its key is the hash of task, input and output.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Avg, Count
from numpy.typing import NDArray

from judging.dataset.models import Example, HumanScore, PointItem
from judging.methods.arrays import Floats
from judging.methods.intervals.estimates import Undefined
from judging.methods.likelihood.bias import likelihood_biases, with_total
from judging.projects.models import Project
from judging.runs.forms.pointwise import part_of
from judging.runs.models import Parse, Run, TextLikelihood

# Of a pair nothing is known but the question: it is the whole input.
NO_TASK = ""


@dataclass(frozen=True, slots=True)
class Text:
    """One output, and what it is an output for."""

    task: str
    input: str
    output: str

    @property
    def sha256(self) -> str:
        whole = "\x1f".join((self.task, self.input, self.output))
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def context(self) -> str:
        """What stands before the output."""
        return "".join(f"{part.strip()}\n\n" for part in (self.task, self.input) if part.strip())


@dataclass(frozen=True, slots=True)
class PairDifferences:
    """(N,) of response 1 less response 2, NaN where one is not known; by which model."""

    sums: Floats
    per_token: Floats
    model: str


def texts_of_pair(question: str, response_1: str, response_2: str) -> tuple[Text, Text]:
    return Text(NO_TASK, question, response_1), Text(NO_TASK, question, response_2)


def task_of(run: Run) -> str:
    """What an output of the run's template is for."""
    return str(run.parameters.get("output", {}).get("task", ""))


def sources_of(project: Project) -> list[tuple[str, str]]:
    """The endpoints' addresses and the models, those asked about the most texts first."""
    rows = project.likelihoods.order_by().values_list("base_url", "model")
    found = rows.annotate(n=Count("pk")).order_by("-n", "base_url", "model")
    return [(base_url, model) for base_url, model, _ in found]


def recorded_likelihoods(project: Project, source: tuple[str, str]) -> dict[str, tuple[float, int]]:
    """By the text's hash: LS and the number of tokens."""
    rows = TextLikelihood.objects.filter(
        project=project, base_url=source[0], model=source[1], log_likelihood__isnull=False
    )
    found = rows.values_list("sha256", "log_likelihood", "tokens")
    return {key: (value, tokens) for key, value, tokens in found.iterator(chunk_size=5000)}


def pair_differences(project: Project, ids: NDArray[np.intp]) -> PairDifferences:
    """By the first source that knows a pair. ids: the examples in the order of the rows."""
    place = {int(pk): row for row, pk in enumerate(ids.tolist())}
    for source in sources_of(project):
        known = recorded_likelihoods(project, source)
        sums, per_token = differences_in(project, place, known)
        if not np.isnan(sums).all():
            return PairDifferences(sums, per_token, source[1])
    none = np.full(len(ids), np.nan)
    return PairDifferences(none, none.copy(), "")


def differences_in(
    project: Project, place: Mapping[int, int], known: Mapping[str, tuple[float, int]]
) -> tuple[Floats, Floats]:
    """place: the row of each example."""
    sums, per_token = np.full(len(place), np.nan), np.full(len(place), np.nan)
    rows = Example.objects.filter(project=project).values_list(
        "pk", "question", "response_1", "response_2"
    )
    for pk, *texts in rows.iterator(chunk_size=500):
        values = [known.get(text.sha256) for text in texts_of_pair(*texts)]
        if pk in place and all(values):
            (one, n_one), (two, n_two) = values
            sums[place[pk]] = one - two
            if n_one and n_two:
                per_token[place[pk]] = one / n_one - two / n_two
    return sums, per_token


Json = dict[str, Any]
NO_LIKELIHOOD = "no likelihoods yet: manage.py likelihood PROJECT --run RUN"


@dataclass(frozen=True, slots=True)
class PointwiseScores:
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


def pointwise_scores(run: Run) -> PointwiseScores:
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
    return PointwiseScores(
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
    points = pointwise_scores(run)
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
    about to write something else, and most of its replies are unparsed."""
    rows = Parse.objects.filter(current=True, sample__call__run=run, mass__isnull=False)
    return rows.aggregate(mean=Avg("mass"))["mean"]


def mean_of(values: Any) -> float | None:
    there = np.asarray(values)[~np.isnan(np.asarray(values))]
    return float(there.mean()) if len(there) else None


def bias_of(
    run: Run, points: PointwiseScores, by_criterion: dict[str, tuple[Floats, Floats]]
) -> Json:
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
