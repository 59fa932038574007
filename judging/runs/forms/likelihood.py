"""Recorded likelihoods of a project's texts, and the report of a run over single responses.

LS = log P(output | task description, input) in nats (Ohi et al., section 2). The key of a text is
the hash of task, input and output, so the same text in several places is one text. Of a
conversation, the output is the text form of the response's own turns, and the input that of the
shared ones.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from django.db.models import Avg, Count, FloatField
from django.db.models.functions import Cast
from numpy.typing import ArrayLike, NDArray

from judging.dataset.models import Example, HumanScore, PointItem
from judging.methods.arrays import Floats
from judging.methods.intervals.estimates import Undefined, optional, to_json
from judging.methods.likelihood.bias import (
    LikelihoodBias,
    likelihood_biases,
    unfairness,
    with_total,
)
from judging.methods.likelihood.permutation_test import BeforeAfter
from judging.projects.models import Project
from judging.runs.forms.pointwise import part_of
from judging.runs.models import Form, Parse, Run, TextLikelihood

# A pair has no task description: the question is the whole input.
NO_TASK = ""
MOST_POINTS, MOST_OTHERS = 1_000, 8
# A share of the scale's width: half of the paper's step of a tenth.
NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Text:
    """One output, and what it is an output for."""

    task: str
    input: str
    output: str

    @property
    def sha256(self) -> str:
        # A sign that no text has, so that moving words from one field to the next changes the hash.
        whole = "\x1f".join((self.task, self.input, self.output))
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def context(self) -> str:
        """Return what precedes the output in the prompt."""
        return "".join(f"{part.strip()}\n\n" for part in (self.task, self.input) if part.strip())


@dataclass(frozen=True, slots=True)
class PairDifferences:
    """(N,) likelihood of response 1 less response 2, NaN if one is unknown; and by which model."""

    sums: Floats
    per_token: Floats
    model: str


def texts_of_pair(question: str, response_1: str, response_2: str) -> tuple[Text, Text]:
    return Text(NO_TASK, question, response_1), Text(NO_TASK, question, response_2)


def task_of(run: Run) -> str:
    """Return the task description of the run's template."""
    return str(run.parameters.get("output", {}).get("task", ""))


def sources_of(project: Project) -> list[tuple[str, str]]:
    """Return endpoint addresses and models, those with the most texts first."""
    rows = project.likelihoods.order_by().values_list("base_url", "model")
    # The source with the most texts first: differences need one model for both responses.
    counted = rows.annotate(n=Count("pk")).order_by("-n", "base_url", "model")
    return [(base_url, model) for base_url, model, _ in counted]


def recorded_likelihoods(project: Project, source: tuple[str, str]) -> dict[str, tuple[float, int]]:
    """Return LS and the number of tokens by the text's hash."""
    rows = TextLikelihood.objects.filter(
        project=project, base_url=source[0], model=source[1], log_likelihood__isnull=False
    )
    columns = rows.values_list("sha256", "log_likelihood", "tokens")
    return {key: (value, tokens) for key, value, tokens in columns.iterator(chunk_size=5000)}


def pair_differences(project: Project, ids: NDArray[np.intp]) -> PairDifferences:
    """Return the differences by the first source that has any. ids: the examples, as rows."""
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
    """Return the sums and the means per token. place: the row of each example."""
    sums, per_token = np.full(len(place), np.nan), np.full(len(place), np.nan)
    rows = Example.objects.filter(project=project).values_list(
        "pk", "question", "response_1", "response_2"
    )
    for pk, *texts in rows.iterator(chunk_size=500):
        values = [known.get(text.sha256) for text in texts_of_pair(*texts)]
        # Likelihoods of two models can't be compared, so both responses come from one source.
        if pk in place and all(values):
            (value_1, n_1), (value_2, n_2) = values
            sums[place[pk]] = value_1 - value_2
            if n_1 and n_2:
                per_token[place[pk]] = value_1 / n_1 - value_2 / n_2
    return sums, per_token


NO_LIKELIHOOD = Undefined(
    "no likelihoods yet; compute them with manage.py likelihood PROJECT --run RUN"
)


@dataclass(frozen=True)
class ScoredRun:
    """What a run over single responses was asked. scale: its lowest and its highest score."""

    number: int
    name: str
    model: str
    template: str
    criteria: Sequence[str]
    scale: Sequence[str]


@dataclass(frozen=True)
class CriterionScores:
    """Responses that the judge and people scored, and their mean scores."""

    judged: int
    scored_by_people: int
    judge_mean: float | None
    human_mean: float | None


@dataclass(frozen=True, kw_only=True)
class ScatterPoint:
    """LS and US of a response. when: before or after examples were shown, if that is compared."""

    when: str | None = optional()
    external_id: str
    likelihood: float
    unfairness: float


@dataclass(frozen=True)
class DrawnBias(LikelihoodBias):
    """The bias on a criterion, and what Figure 2 draws of it."""

    points: Sequence[ScatterPoint]


@dataclass(frozen=True)
class ScaleAgreement:
    """n: responses that both runs scored. alike: those with scores that differ by at most NEAR of
    their scales' width. apart: the mean difference, as a share of the width."""

    n: int
    alike: int
    apart: float | None


@dataclass(frozen=True)
class OtherScale:
    """A run of the same judge on another scale."""

    run: str
    scale: Sequence[str]
    criteria: Mapping[str, ScaleAgreement]


@dataclass(frozen=True)
class DrawnChange(BeforeAfter):
    """What the shown examples changed on a criterion, and what Figure 3 draws of it."""

    points: Sequence[ScatterPoint]

    def as_json(self) -> dict[str, object]:
        return BeforeAfter.as_json(self) | {"points": to_json(self.points)}


@dataclass(frozen=True)
class ShotsComparison:
    """before: the run without the examples. test_items: what nothing was shown of."""

    before: str
    test_items: int
    criteria: Mapping[str, DrawnChange]


@dataclass(frozen=True)
class NotCompared:
    """Why a run can't be compared with one without its in-context examples."""

    reason: str


@dataclass(frozen=True)
class PointwiseReport:
    """All figures of a run over single responses, in the order of the keys in docs/report.md.

    criteria, likelihood: with `total` if there are several. comparison: None if the run was shown
    no examples.
    """

    run: ScoredRun
    items: int
    score_mass: float | None
    likelihood_model: str | None
    criteria: Mapping[str, CriterionScores]
    other_scales: Sequence[OtherScale]
    likelihood: Mapping[str, DrawnBias] | Undefined
    comparison: ShotsComparison | NotCompared | None = None


@dataclass(frozen=True, slots=True)
class PointwiseScores:
    """One entry per item, in import order; NaN if a value is missing.

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
        # Codes, since an array of texts needs as much memory for each as for the longest.
        group=np.array([codes.setdefault(row[2], len(codes)) for row in items], dtype=np.intp),
        source=source,
    )


def judges_scores(run: Run, criteria: list[str], place: dict[int, int]) -> dict[str, Floats]:
    """Return by criterion each item's mean rating over its k slots, NaN where there is none."""
    names = {part_of(name): name for name in criteria}
    rows = (
        Parse.objects.that_count(run)
        .filter(rating__isnull=False, sample__call__part__in=names)
        .order_by()
        .values_list("sample__call__part", "sample__call__point_item")
        .annotate(mean=Avg(Cast("rating", FloatField())))
    )
    scores = {name: np.full(len(place), np.nan) for name in criteria}
    for part, item, mean in rows.iterator(chunk_size=5000):
        if item in place:
            scores[names[part]][place[item]] = mean
    return scores


def human_scores(run: Run, criteria: list[str], place: dict[int, int]) -> dict[str, Floats]:
    rows = (
        HumanScore.objects.filter(point_item__project=run.project_id, criterion__in=criteria)
        .order_by()
        .values_list("criterion", "point_item")
        .annotate(mean=Avg("value"))
    )
    scores = {name: np.full(len(place), np.nan) for name in criteria}
    for name, item, mean in rows:
        if item in place:
            scores[name][place[item]] = float(mean)
    return scores


def likelihoods_of(run: Run, texts: list[tuple[str, str]]) -> tuple[Floats, Floats, str]:
    """Return LS and its tokens by the model that the run asked, else by any."""
    chosen = run.parameters.get("likelihood")
    first = [(chosen["base_url"], chosen["model"])] if chosen else []
    task = task_of(run)
    keys = [Text(task, source, output).sha256 for source, output in texts]
    for source in [*first, *sources_of(run.project)]:
        known = recorded_likelihoods(run.project, source)
        # One source for all items, since scores of several models would not be comparable.
        if any(key in known for key in keys):
            pairs = [known.get(key, (np.nan, np.nan)) for key in keys]
            table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
            return table[:, 0], table[:, 1], source[1]
    none = np.full(len(keys), np.nan)
    return none, none.copy(), ""


def pointwise_report(run: Run, *, without_bias: Undefined | None = None) -> PointwiseReport:
    """Return the figures by criterion, and `total` if there are several.

    without_bias: why the bias by likelihood is left out, which takes long for many items.
    """
    points = pointwise_scores(run)
    by_criterion = {name: (points.judge[name], points.human[name]) for name in points.judge}
    return PointwiseReport(
        run=ScoredRun(
            number=run.number,
            name=run.name,
            model=run.model,
            template=run.template_name,
            criteria=list(points.judge),
            scale=run.parameters["output"]["scale"][:2],
        ),
        items=len(points),
        score_mass=mean_mass(run),
        likelihood_model=points.source or None,
        criteria={
            name: CriterionScores(
                judged=int((~np.isnan(np.asarray(judge))).sum()),
                scored_by_people=int((~np.isnan(np.asarray(human))).sum()),
                judge_mean=mean_of(judge),
                human_mean=mean_of(human),
            )
            for name, (judge, human) in with_total(by_criterion).items()
        },
        other_scales=other_scales(run, points),
        likelihood=bias_of(run, points, by_criterion) if without_bias is None else without_bias,
    )


def mean_mass(run: Run) -> float | None:
    """Return the mean probability of all score tokens together.

    If it is small, the judge was about to write something else, and most replies are unparsed.
    """
    rows = Parse.objects.that_count(run).filter(mass__isnull=False)
    return rows.aggregate(mean=Avg("mass"))["mean"]


def mean_of(values: Any) -> float | None:
    there = np.asarray(values)[~np.isnan(np.asarray(values))]
    return float(there.mean()) if len(there) else None


def bias_of(
    run: Run, points: PointwiseScores, by_criterion: dict[str, tuple[Floats, Floats]]
) -> dict[str, DrawnBias] | Undefined:
    if np.isnan(points.likelihood).all():
        return NO_LIKELIHOOD
    biases = likelihood_biases(
        points.likelihood,
        by_criterion,
        # The run's seed, so that the page and an export give the same interval.
        np.random.default_rng(abs(run.seed)),
        length=points.length,
        tokens=points.tokens,
        question=points.group,
    )
    scores = with_total(by_criterion)
    return {
        name: DrawnBias(
            **{key.name: getattr(bias, key.name) for key in fields(bias)},
            points=scatter(points, *scores[name]),
        )
        for name, bias in biases.items()
    }


def scatter(points: PointwiseScores, model: ArrayLike, human: ArrayLike) -> list[ScatterPoint]:
    """Return LS and US of each item (Figure 2), of at most MOST_POINTS items spread evenly."""
    judge, people = np.asarray(model, np.float64), np.asarray(human, np.float64)
    rows = np.flatnonzero(np.isfinite(points.likelihood + judge + people))
    over = unfairness(judge[rows], people[rows])
    # Evenly over the import order, which favours no score.
    shown = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_POINTS)).astype(int))
    return [
        ScatterPoint(
            external_id=points.external_ids[rows[place]],
            likelihood=float(points.likelihood[rows[place]]),
            unfairness=float(over[place]),
        )
        for place in (shown.tolist() if len(rows) else ())
    ]


def other_scales(run: Run, points: PointwiseScores) -> list[OtherScale]:
    """Compare the scores with those of this judge's runs on another scale (PORTIA, appendix D).

    A score that means something is the same share of any scale."""
    rows = []
    same = run.project.runs.filter(form=Form.POINTWISE, model=run.model, state=Run.State.DONE)
    for other in same.exclude(pk=run.pk).order_by("-number")[:MOST_OTHERS]:
        if scale_of(other) == scale_of(run):
            continue
        theirs, criteria = pointwise_scores(other).judge, {}
        shared = [name for name in points.judge if name in theirs]
        for name in shared:
            own, their = (
                (values - low) / (high - low)
                for values, (low, high) in (
                    (points.judge[name], scale_of(run)),
                    (theirs[name], scale_of(other)),
                )
            )
            apart = np.abs(own - their)[np.isfinite(own + their)]
            alike = int((apart <= NEAR + 1e-9).sum())
            criteria[name] = ScaleAgreement(len(apart), alike, mean_of(apart))
        if criteria:
            rows.append(OtherScale(other.name, other.parameters["output"]["scale"][:2], criteria))
    return rows


def scale_of(run: Run) -> tuple[float, float]:
    low, high = run.parameters["output"]["scale"][:2]
    return float(low), float(high)
