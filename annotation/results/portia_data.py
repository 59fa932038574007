"""What the PORTIA section reads: the labels of each stage and order, of this run and others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import Length

from annotation.results.analysis import Analysis
from annotation.results.figures import Json, usd
from annotation.results.sections import Data
from annotation.selecting import frame
from judging.llm.parts import stage_parts
from judging.methods.arrays import Booleans, Codes, Signs
from judging.methods.estimates import Undefined
from judging.methods.portia.stage_labels import STAGES
from judging.models.calls import Parse, Sample
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict
from judging.runs.judge_report import difference, signs
from judging.runs.portia.calls import last_stages, stage_calls
from judging.runs.portia.settings import PortiaSettings

MOST_BESIDE = 8
NOT_PORTIA = Undefined("this run is not by PORTIA")
NO_STAGE = Undefined("no example has finished a stage yet")


@dataclass(frozen=True)
class StageArrays:
    """labels, there: (N, stages, orders); asked: (N, stages); last: (N,); done: (N,) settled."""

    labels: Signs
    there: Booleans
    asked: Booleans
    last: Codes
    done: Booleans

    def packed(self, name: str) -> dict[str, np.ndarray]:
        return {f"{name}.{key}": value for key, value in vars(self).items()}


def read_portia(of: Analysis) -> Data | Undefined:
    """Null with its reason for a run by another method."""
    if not of.run.stages:
        return NOT_PORTIA
    ids = of.sheet.ids
    own = stage_arrays(of.run, ids)
    if not own.done.any():
        return NO_STAGE
    arrays = own.packed("own") | {"lengths": lengths(of.project, ids)}
    beside = []
    for place, run in enumerate(runs_beside(of.run)):
        found = stage_arrays(run, ids) if run.stages else whole(run, ids)
        arrays |= found.packed(f"beside.{place}")
        beside.append(named(run))
    calls = [
        {"stage": one.stage, "examples": one.examples, "calls": one.calls, "usd": usd(one.usd)}
        for one in stage_calls(of.run)
    ]
    return Data(arrays, {"run": named(of.run), "calls": calls, "beside": beside})


def named(run: Run) -> Json:
    """How a run that is compared splits and aligns, and whose judge it is."""
    split = PortiaSettings.of(run)
    return {
        "run": run.name,
        "model": run.model,
        "form": run.form,
        "k": run.k,
        "stages": list(run.stages),
        "parts": split.parts if split else None,
        "tokens": split.tokens if split else None,
    }


def runs_beside(run: Run) -> Sequence[Run]:
    """The newest ranked runs in both orders: this judge's for comparison, others as reference."""
    ranked = run.project.runs.filter(ranked_at__isnull=False).exclude(pk=run.pk)
    both = [one for one in ranked.order_by("-number")[:50] if len(one.orders) == 2]
    return [one for one in both if not one.parameters.get("permutations")][:MOST_BESIDE]


def stage_arrays(run: Run, ids: Codes) -> StageArrays:
    """By the samples, and by what the verdicts say of each example's end."""
    n = len(ids)
    labels = np.zeros((n, len(STAGES), 2), np.int8)
    there, asked = np.zeros(labels.shape, bool), np.zeros(labels.shape[:2], bool)
    ranks = np.array([run.stages.index(one) if one in run.stages else -1 for one in STAGES])
    for index in np.flatnonzero(ranks >= 0):
        found = order_signs(run, ids, stage_parts(STAGES[index]))
        labels[:, index], there[:, index], asked[:, index] = found
    ended = last_stages(run)
    last = np.array([STAGES.index(ended.get(pk, STAGES[0])) for pk in ids.tolist()], dtype=np.intp)
    # A stage that was asked again may settle what a later one had been asked about.
    asked &= ranks <= ranks[last][:, None]
    done = Verdict.objects.filter(run=run).exclude(stage="").values_list("example", flat=True)
    return StageArrays(labels, there, asked, last, np.isin(ids, list(done)))


def whole(run: Run, ids: Codes) -> StageArrays:
    """A run by another method, as one that was asked the unsplit prompt alone."""
    labels = np.zeros((len(ids), len(STAGES), 2), np.int8)
    there, asked = np.zeros(labels.shape, bool), np.zeros(labels.shape[:2], bool)
    labels[:, 0], there[:, 0], asked[:, 0] = order_signs(run, ids, run.orders)
    return StageArrays(labels, there, asked, np.zeros(len(ids), np.intp), asked[:, 0].copy())


def order_signs(run: Run, ids: Codes, parts: Sequence[str]) -> tuple[Signs, Booleans, Booleans]:
    """(N, 2) the sign of the mean in each part, and whether it has one; (N,) any sample at all."""
    rows = (
        last_parses(run)
        .filter(sample__call__part__in=parts)
        .order_by()
        .values_list("sample__call__example", "sample__call__part", "status")
        .annotate(total=Sum(difference(run)), n=Count("pk"))
    )
    place = {pk: row for row, pk in enumerate(ids.tolist())}
    sums, counts = np.zeros((len(ids), 2)), np.zeros((len(ids), 2))
    asked = np.zeros(len(ids), bool)
    for example, part, status, total, n in rows.iterator(chunk_size=5000):
        if example not in place:
            continue
        asked[place[example]] = True
        if status == Parse.Status.VALID:
            cell = place[example], parts.index(part)
            sums[cell] += total
            counts[cell] += n
    return signs(run, sums, counts), counts > 0, asked


def last_parses(run: Run) -> QuerySet[Parse]:
    """Of the last attempt at each slot: today's parser may read what was once asked again."""
    parses = Parse.objects.filter(current=True, sample__call__run=run)
    again = Sample.objects.filter(call__run=run, attempt__gt=0)
    if not again.exists():
        return parses
    later = again.filter(
        call__example=OuterRef("sample__call__example"),
        call__part=OuterRef("sample__call__part"),
        slot=OuterRef("sample__slot"),
        attempt__gt=OuterRef("sample__attempt"),
    )
    return parses.filter(~Exists(later))


def lengths(project: Project, ids: Codes) -> np.ndarray:
    """(N, 2) characters of responses 1 and 2."""
    columns = "pk", Length("response_1"), Length("response_2")
    found = {pk: (one, two) for pk, one, two in frame(project).values_list(*columns)}
    return np.array([found[pk] for pk in ids.tolist()], dtype=np.int64).reshape(-1, 2)
