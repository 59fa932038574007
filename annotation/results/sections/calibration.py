"""What the calibration section reads: P(t1) under each permutation, of this run and others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from annotation.results.data.figures import (
    Data,
    Json,
    Plot,
    colour,
    lacking,
    plot,
    shown,
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
from judging.methods.calibration.table import CalibrationComparison, CalibrationRow
from judging.methods.intervals.estimates import Undefined
from judging.runs.engine.content_free import answers, by_kind, settings_of
from judging.runs.forms.choice import token_table
from judging.runs.models import Form, Run

MOST_BESIDE = 8
NO_PROBABILITIES = Undefined("this run asked for no probabilities: ask for the form choice")
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
        beside.append(named(run))
    nothing, random = by_kind(answers(of.run))
    plain = {
        "own": named(of.run),
        "settings": settings_of(of.run),
        "band": float(of.run.band),
        "nothing": nothing,
        "random": random,
        "beside": beside,
    }
    return Data(arrays, plain)


def runs_beside(run: Run) -> Sequence[Run]:
    """The newest choice runs of the same judge, which differ in what the section compares."""
    same = run.project.runs.filter(form=Form.CHOICE, model=run.model, ranked_at__isnull=False)
    found = list(same.exclude(pk=run.pk).order_by("-number")[:50])
    return [one for one in found if one.parameters.get("permutations")][:MOST_BESIDE]


def named(run: Run) -> Json:
    """What a choice run was asked under; a recorded one does not say."""
    output = run.parameters.get("output", {})
    return {
        "run": run.name,
        "permutations": list(run.parts),
        "ids": list(output.get("ids", [])),
        "template": run.template_name,
        "shots": run.parameters.get("shots", {}).get("shown", 0),
    }


def calibration_curves(report: Json) -> Plot:
    found = report["calibration"]
    drawn = found.get("curves", [])
    rows = [
        {"p": round(place / (len(one["g"]) - 1), 2), "method": one["title"], "value": g}
        for one in drawn
        for place, g in enumerate(one["g"])
    ]
    line = {
        "mark": {"type": "line"},
        "encoding": {
            "x": x_axis("p", "P(first ID token), as the judge gave it"),
            "y": y_axis("value", "calibrated"),
            "color": colour("method", [one["title"] for one in drawn]),
            "tooltip": tooltip("method", "p", "value"),
        },
    }
    caption = "What each calibration makes of a probability, fitted on the estimation set."
    return plot("calibration-curve", "Calibration functions", caption, rows, line)


def calibration_accuracy(report: Json) -> Plot:
    """Each method's accuracy under one permutation and of the mean, with intervals."""
    comparison = report["calibration"].get("comparison", {"rows": []})
    read = {"one permutation": "average", "mean": "mean"}
    rows = [
        {"method": row["title"], "verdict": words} | value_of(row[key]["accuracy"])
        for row in comparison["rows"]
        for words, key in read.items()
        if row[key]["accuracy"]["value"] is not None
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
    caption = "On examples that the fit has not seen; the mean is over a balanced set."
    return plot("calibration", "Accuracy before and after calibration", caption, rows, drawing)


SHARES = (10, 25, 50, 75)
# From here on fits at several sizes take longer than a page may.
MANY = 5_000
DRAWN = np.linspace(0, 1, 51)
WEIGHTED = Undefined(
    "people saw the contested examples and an audit of the others, and a calibration's accuracy "
    "is compared on examples that all count alike: label every example, or import its votes"
)
NO_MASS = Undefined("the recorded probabilities do not say how likely both tokens were together")
TOO_MANY = Undefined(f"left out above {MANY} examples, where each fit takes long")


def calibration(of: Analysis) -> Json:
    """The section's figures; examples without a probability are left out where one is needed."""
    data = of.own("calibration", read_calibration)
    if isinstance(data, Undefined):
        return data.as_json()
    p, labels = own_probabilities(data), gold(of.sheet)
    found = compared(of, data, p, labels)
    return {
        "asked": data.plain["own"],
        "labels": labels.as_json() if isinstance(labels, Undefined) else found.labelled,
        "mass": mean_mass(data.arrays["mass"]),
        "content_free": {name: len(data.plain[name]) for name in ("nothing", "random")},
        "comparison": in_words(found),
        "curves": curves(found),
        "by_share": by_share(of, data, p, labels),
        "runs": across_runs(of, data, labels),
    }


def mean_mass(masses: Floats) -> Json:
    """A run that was recorded elsewhere may hold probabilities alone."""
    there = ~np.isnan(masses)
    if not there.any():
        return NO_MASS.as_json()
    return shown(float(masses[there].mean()), int(there.any(axis=1).sum()))


def own_probabilities(data: Data) -> ChoiceProbabilities:
    return choice_probabilities(data.arrays["p_t1"], data.plain["own"]["permutations"])


def gold(sheet: Sheet) -> Signs | Undefined:
    """(N,) 1 or -1 where people say which is better; 0 for a tie or no label."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if not known.plain:
        return WEIGHTED
    labels = np.zeros(len(sheet), np.int8)
    labels[known.rows] = sheet.human[known.rows]
    return labels


def methods_of(data: Data) -> list[CalibrationMethod]:
    given = {"nothing": data.plain["nothing"], "random": data.plain["random"]}
    return [method_named(name, **given) for name in data.plain["settings"]["methods"]]


def compared(
    of: Analysis,
    data: Data,
    p: ChoiceProbabilities,
    labels: Signs | Undefined,
    methods: list[CalibrationMethod] | None = None,
    share: float | None = None,
) -> CalibrationComparison:
    return compare_calibrations(
        p,
        methods or methods_of(data),
        of.rng,
        gold=None if isinstance(labels, Undefined) else labels,
        share=float(data.plain["settings"]["estimation_share"]) if share is None else share,
        question=of.sheet.question,
        band=data.plain["band"],
    )


def in_words(found: CalibrationComparison) -> Json:
    rows = [row_of(row) for row in found.rows]
    because = {"recommended_title": TITLES.get(found.recommended, found.recommended)}
    return found.as_json() | {"rows": rows} | because


def row_of(row: CalibrationRow) -> Json:
    """Without the many points of a fitted curve, which `curves` has."""
    kept: dict[str, Any] = row.as_json() | {"title": TITLES.get(row.method, row.method)}
    fitted = dict(kept["calibration"])
    return kept | {"calibration": {k: v for k, v in fitted.items() if k not in ("z", "g")}}


def curves(found: CalibrationComparison) -> list[Json]:
    """g of P(t1) for each calibration that is a function of it."""
    drawn = []
    for row in found.rows:
        fitted = row.calibration
        points = None if isinstance(fitted, Undefined) else fitted.curve(DRAWN)
        if points is not None:
            title = TITLES.get(row.method, row.method)
            drawn.append({"method": row.method, "title": title, "g": points.tolist()})
    return drawn


def by_share(
    of: Analysis, data: Data, p: ChoiceProbabilities, labels: Signs | Undefined
) -> list[Json]:
    """CalibraEval fitted on less, and judged on the rest (Figure 6)."""
    names = data.plain["settings"]["methods"]
    method = method_named("calibraeval")
    if "calibraeval" not in names or isinstance(method.fit(p), Undefined):
        return []
    if len(p) > MANY:
        return [{"share": share} | lacking(TOO_MANY, "kappa", "accuracy") for share in SHARES]
    rows = []
    for share in SHARES:
        row = compared(of, data, p, labels, [method], share).row("calibraeval")
        figures = {"kappa": row.kappa.as_json(), "accuracy": row.mean.accuracy.as_json()}
        rows.append({"share": share} | figures)
    return rows


def across_runs(of: Analysis, data: Data, labels: Signs | Undefined) -> list[Json]:
    """The same judge under other IDs, prompts, shots or permutations, before and after."""
    named = [data.plain["own"], *data.plain["beside"]]
    tables = [data.arrays["p_t1"]]
    tables += [data.arrays[f"beside.{place}"] for place in range(len(named) - 1)]
    if len(named) < 2 or len(of.sheet) > MANY:
        return []
    rows = []
    for settings, table in zip(named, tables, strict=True):
        if np.isnan(table).all():
            continue
        p = choice_probabilities(table, settings["permutations"])
        methods = [method_named("uncalibrated"), method_named("calibraeval")]
        found = compared(of, data, p, labels, methods)
        before, after = (found.row(method.name) for method in methods)
        rows.append(settings | {"before": figures_of(before), "after": figures_of(after)})
    return rows


def figures_of(row: CalibrationRow) -> Json:
    return {
        "kappa": row.kappa.as_json(),
        "rstd": row.average.rstd.as_json(),
        "accuracy": row.average.accuracy.as_json(),
        "accuracy_of_mean": row.mean.accuracy.as_json(),
    }
