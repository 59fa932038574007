"""Calibrations of a choice run, compared with the mean over its permutations."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from annotation.results.data.figures import (
    Data,
    Plot,
    Sentence,
    colour,
    named_lines,
    plot,
    tooltip,
    value_of,
    x_axis,
    y_axis,
)
from annotation.results.data.sheet import Sheet
from annotation.results.sections.analysis import Analysis
from judging.methods.arrays import Floats, Signs
from judging.methods.calibration.comparison import compare_calibrations
from judging.methods.calibration.methods import TITLES, method_named
from judging.methods.calibration.probabilities import (
    CalibrationMethod,
    ChoiceProbabilities,
    choice_probabilities,
)
from judging.methods.calibration.table import CalibrationComparison, CalibrationRow, Quality
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.runs.engine.content_free import answers, by_kind, settings_of
from judging.runs.forms.choice import token_table
from judging.runs.models import Form, Run

MOST_BESIDE = 8
NO_PROBABILITIES = Undefined("only runs of the form choice have probabilities")
NONE_YET = Undefined("no example has a probability yet")


def read_calibration(of: Analysis) -> Data | Undefined:
    if of.run.form != Form.CHOICE or not of.run.parameters.get("permutations"):
        return NO_PROBABILITIES
    table, masses = token_table(of.run, of.sheet.ids)
    if np.isnan(table).all():
        return NONE_YET
    arrays = {"p_t1": table, "mass": masses}
    beside = []
    for place, run in enumerate(runs_beside(of.run)):
        arrays[f"beside.{place}"], _ = token_table(run, of.sheet.ids)
        beside.append(asdict(settings_shown(run)))
    nothing, random = by_kind(answers(of.run))
    plain = {
        "own": asdict(settings_shown(of.run)),
        "settings": settings_of(of.run),
        "band": float(of.run.band),
        "nothing": nothing,
        "random": random,
        "beside": beside,
    }
    return Data(arrays, plain)


def runs_beside(run: Run) -> Sequence[Run]:
    """Return the newest choice runs of the same judge, which differ in what is compared here."""
    same = run.project.runs.filter(form=Form.CHOICE, model=run.model, ranked_at__isnull=False)
    newest = list(same.exclude(pk=run.pk).order_by("-number")[:50])
    return [other for other in newest if other.parameters.get("permutations")][:MOST_BESIDE]


@dataclass(frozen=True)
class ChoiceSettings:
    """What a choice run was asked under; a recorded one does not say. shots: examples shown."""

    run: str
    permutations: Sequence[str]
    ids: Sequence[str]
    template: str
    shots: int


def settings_shown(run: Run) -> ChoiceSettings:
    """Return what the report says of a choice run."""
    return ChoiceSettings(
        run=run.name,
        permutations=list(run.parts),
        ids=list(run.parameters.get("output", {}).get("ids", [])),
        template=run.template_name,
        shots=run.parameters.get("shots", {}).get("shown", 0),
    )


@dataclass(frozen=True)
class CalibratedMethod:
    """One method. calibration: the settings of its fit, without the points of its curve, or why
    it can't be fitted. The figures are those of `CalibrationRow`."""

    method: str
    calibration: Mapping[str, Any] | Undefined
    kappa: Figure
    icc_2k: Figure
    icc_3k: Figure
    gain: Figure
    beats_mean: bool
    mean: Quality
    average: Quality
    by_permutation: Mapping[str, Quality]
    title: str


@dataclass(frozen=True)
class ComparedMethods:
    """As in `CalibrationComparison`."""

    rows: Sequence[CalibratedMethod]
    n: int
    labelled: int
    permutations: Sequence[str]
    balanced_set: Sequence[str] | None
    split: str
    recommended: str
    because: str
    recommended_title: str


@dataclass(frozen=True)
class CalibrationCurve:
    """g: what the method makes of P(t1), at 51 points from 0 to 1."""

    method: str
    title: str
    g: Sequence[float]


@dataclass(frozen=True)
class CalibratedShare:
    """CalibraEval fitted on a share of the examples, in percent, and judged on the rest."""

    share: int
    kappa: Figure
    accuracy: Figure


@dataclass(frozen=True)
class ChoiceFigures:
    kappa: Figure
    rstd: Figure
    accuracy: Figure
    accuracy_of_mean: Figure


@dataclass(frozen=True)
class ChoiceRun(ChoiceSettings):
    """One of this judge's choice runs, before and after CalibraEval."""

    before: ChoiceFigures
    after: ChoiceFigures


@dataclass(frozen=True)
class CalibrationFigures:
    """labels: how many examples have a label that is no tie. mass: the mean probability of both ID
    tokens together. content_free: answers about contents that say nothing, by kind."""

    asked: ChoiceSettings
    labels: int | Undefined
    mass: Figure
    content_free: dict[str, int]
    comparison: ComparedMethods
    curves: Sequence[CalibrationCurve]
    by_share: Sequence[CalibratedShare]
    runs: Sequence[ChoiceRun]


def calibration_curves(figures: CalibrationFigures | Undefined) -> Plot:
    drawn = () if isinstance(figures, Undefined) else figures.curves
    rows = [
        {"p": round(place / (len(curve.g) - 1), 2), "method": curve.title, "value": g}
        for curve in drawn
        for place, g in enumerate(curve.g)
    ]
    layers = named_lines(
        rows, x_axis("p", "P(first ID token), as the judge gave it"), y_axis("value", "calibrated"),
        "method", [curve.title for curve in drawn], tooltip=tooltip("method", "p", "value"),
    )  # fmt: skip
    caption = "How each calibration maps a probability. Fitted on the estimation set."
    return plot("calibration-curve", "Calibration functions", caption, rows, {"layer": layers})


def calibration_accuracy(figures: CalibrationFigures | Undefined) -> Plot:
    """Plot each method's accuracy under one permutation and of the mean, with intervals."""
    read = {"one permutation": "average", "mean": "mean"}
    rows = [
        {"method": row.title, "verdict": words} | value_of(getattr(row, key).accuracy)
        for row in (() if isinstance(figures, Undefined) else figures.comparison.rows)
        for words, key in read.items()
        if not isinstance(getattr(row, key).accuracy, Undefined)
    ]
    y = {"field": "method", "type": "nominal", "sort": None, "title": None}
    offset = {"field": "verdict", "type": "nominal"}
    x = {"field": "value", "type": "quantitative", "title": "accuracy", "scale": {"zero": False}}
    hue = colour("verdict", list(read))
    shared = {"y": y, "yOffset": offset, "color": hue}
    ends = {"x": x | {"field": "low"}, "x2": {"field": "high"}}
    point = {"x": x, "tooltip": tooltip("method", "verdict", "value", "low", "high")}
    drawing = {
        "layer": [
            {"mark": "rule", "encoding": shared | ends},
            {"mark": {"type": "circle", "size": 60}, "encoding": shared | point},
        ]
    }
    caption = "Measured on examples that the fit has not seen. The mean covers a balanced set."
    return plot("calibration", "Accuracy before and after calibration", caption, rows, drawing)


SHARES = (10, 25, 50, 75)
# From here on fits at several sizes take longer than a page may.
MANY = 5_000
DRAWN = np.linspace(0, 1, 51)
WEIGHTED = Undefined(
    "people saw only the contested examples and an audit; to compare calibrations, label every "
    "example or import votes for all"
)
NO_MASS = Undefined("the recording doesn't contain the total probability of both tokens")
TOO_MANY = Undefined(f"left out above {MANY} examples, because each fit takes too long")


def calibration(of: Analysis) -> CalibrationFigures | Undefined:
    """Compare the calibrations. Examples without a probability are left out if one is needed."""
    data = of.own("calibration", read_calibration)
    if isinstance(data, Undefined):
        return data
    p, labels = own_probabilities(data), gold(of.sheet)
    comparison = compared(of, data, p, labels)
    return CalibrationFigures(
        asked=ChoiceSettings(**data.plain["own"]),
        labels=labels if isinstance(labels, Undefined) else comparison.labelled,
        mass=mean_mass(data.arrays["mass"]),
        content_free={name: len(data.plain[name]) for name in ("nothing", "random")},
        comparison=in_words(comparison),
        curves=curves(comparison),
        by_share=by_share(of, data, p, labels),
        runs=across_runs(of, data, labels),
    )


def mean_mass(masses: Floats) -> Figure:
    """Return the mean probability of both tokens. A recorded run may hold probabilities alone."""
    # An example may have been asked under some of the permutations only, so each mass counts by
    # itself.
    there = ~np.isnan(masses)
    if not there.any():
        return NO_MASS
    return Estimate(float(masses[there].mean()), int(there.any(axis=1).sum()))


def own_probabilities(data: Data) -> ChoiceProbabilities:
    return choice_probabilities(data.arrays["p_t1"], data.plain["own"]["permutations"])


def gold(sheet: Sheet) -> Signs | Undefined:
    """(N,) 1 or -1 where people say which is better; 0 for a tie or no label."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    # Calibrations are compared without weights, and an audited example represents several.
    if not known.plain:
        return WEIGHTED
    labels = np.zeros(len(sheet), np.int8)
    labels[known.rows] = sheet.human[known.rows]
    return labels


def methods_of(data: Data) -> list[CalibrationMethod]:
    # CC learns from answers about no contents, DC from answers about random words.
    contents = {"nothing": data.plain["nothing"], "random": data.plain["random"]}
    return [method_named(name, **contents) for name in data.plain["settings"]["methods"]]


def compared(
    of: Analysis,
    data: Data,
    p: ChoiceProbabilities,
    labels: Signs | Undefined,
    methods: list[CalibrationMethod] | None = None,
    share: float | None = None,
) -> CalibrationComparison:
    return compare_calibrations(
        p, methods or methods_of(data), of.rng,
        gold=None if isinstance(labels, Undefined) else labels,
        share=float(data.plain["settings"]["estimation_share"]) if share is None else share,
        question=of.sheet.question, band=data.plain["band"],
    )  # fmt: skip


def in_words(comparison: CalibrationComparison) -> ComparedMethods:
    return ComparedMethods(
        rows=[_titled(row) for row in comparison.rows], n=comparison.n,
        labelled=comparison.labelled, permutations=comparison.permutations,
        balanced_set=comparison.over or None, split=comparison.split,
        recommended=comparison.recommended, because=comparison.because,
        recommended_title=_title(comparison.recommended),
    )  # fmt: skip


def _title(method: str) -> str:
    return TITLES.get(method, method)


def _titled(row: CalibrationRow) -> CalibratedMethod:
    kept = {field.name: getattr(row, field.name) for field in fields(row)}
    if not isinstance(row.calibration, Undefined):
        fit = row.calibration.as_json().items()
        # z and g have a point for each different probability. The report has the curve at 51 points
        # instead.
        kept["calibration"] = {key: value for key, value in fit if key not in ("z", "g")}
    return CalibratedMethod(**kept, title=_title(row.method))


def curves(comparison: CalibrationComparison) -> list[CalibrationCurve]:
    """Return g(P(t1)) for each calibration that is a function of it."""
    drawn = []
    for row in comparison.rows:
        fitted = row.calibration
        points = None if isinstance(fitted, Undefined) else fitted.curve(DRAWN)
        if points is not None:
            drawn.append(CalibrationCurve(row.method, _title(row.method), points.tolist()))
    return drawn


def by_share(
    of: Analysis, data: Data, p: ChoiceProbabilities, labels: Signs | Undefined
) -> list[CalibratedShare]:
    """Fit CalibraEval on less, and judge it on the rest (Figure 6)."""
    names = data.plain["settings"]["methods"]
    method = method_named("calibraeval")
    # What can't be fitted on all examples can't be fitted on a part of them.
    if "calibraeval" not in names or isinstance(method.fit(p), Undefined):
        return []
    if len(p) > MANY:
        return [CalibratedShare(share, TOO_MANY, TOO_MANY) for share in SHARES]
    rows = []
    for share in SHARES:
        row = compared(of, data, p, labels, [method], share).row("calibraeval")
        rows.append(CalibratedShare(share, row.kappa, row.mean.accuracy))
    return rows


def across_runs(of: Analysis, data: Data, labels: Signs | Undefined) -> list[ChoiceRun]:
    """Return the same judge under other IDs, prompts, shots or permutations, before and after."""
    asked = [ChoiceSettings(**run) for run in (data.plain["own"], *data.plain["beside"])]
    tables = [data.arrays["p_t1"]]
    tables += [data.arrays[f"beside.{place}"] for place in range(len(asked) - 1)]
    if len(asked) < 2 or len(of.sheet) > MANY:
        return []
    rows = []
    for settings, table in zip(asked, tables, strict=True):
        if np.isnan(table).all():
            continue
        p = choice_probabilities(table, settings.permutations)
        methods = [method_named("uncalibrated"), method_named("calibraeval")]
        comparison = compared(of, data, p, labels, methods)
        # Both come from one comparison, so that they are measured on the same examples.
        before, after = (comparison.row(method.name) for method in methods)
        rows.append(ChoiceRun(**vars(settings), before=_figures(before), after=_figures(after)))
    return rows


def _figures(row: CalibrationRow) -> ChoiceFigures:
    return ChoiceFigures(row.kappa, row.average.rstd, row.average.accuracy, row.mean.accuracy)


def answer(figures: CalibrationFigures | Undefined) -> Sentence:
    """Say which calibration is recommended, and why."""
    if isinstance(figures, Undefined):
        return Sentence(f"Calibrations can't be compared: {figures.reason}.", "calibration")
    compared = figures.comparison
    return Sentence(f"Recommended: {compared.recommended_title}. {compared.because}", "calibration")
