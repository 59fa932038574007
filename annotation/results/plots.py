"""The report's plots as Vega-Lite, drawn by the page and, for a paper, by the server.

Each reads the report and nothing else, so that a plot and the table under it cannot differ.
"""

from dataclasses import dataclass
from typing import Any

import vl_convert

from annotation.results.figures import Json

WIDTH, HEIGHT = 560, 280
RATE = {"axis": {"format": ".2f"}}
# For paper: the page takes its colours from the stylesheet instead.
PAPER = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "range": {"category": ["#2f5fb3", "#777777", "#b3622f", "#3f8f5f", "#8a4fa0", "#111111"]},
    "view": {"stroke": None},
}
CURVES = {
    "bpde": "by BPDE",
    "random": "at random",
    "one_order": "entropy of one order",
    "margin": "score margin",
    "oracle": "oracle",
    "independent": "independent",
}
RATES = {
    "judge_and_people": "judge and people",
    "people": "people alone",
    "final": "final labels (hollow)",
    "judge": "judge alone (hollow)",
}


@dataclass(frozen=True)
class Plot:
    """table: the numbers drawn, one dict a row, for those who can't see the plot."""

    name: str
    title: str
    caption: str
    spec: Json

    @property
    def table(self) -> list[Json]:
        return self.spec["data"]["values"]

    @property
    def columns(self) -> list[str]:
        return list(self.table[0])


def plots(report: Json) -> list[Plot]:
    """Those that have something to show."""
    drawn = [make(report) for make in (_curves, _bpde, _costs, _gaps, _categories, _people, _rates)]
    return [plot for plot in drawn if plot.table]


def as_svg(plot: Plot) -> str:
    return vl_convert.vegalite_to_svg(_on_paper(plot))


def as_png(plot: Plot) -> bytes:
    """Twice the size on the screen, for print."""
    return vl_convert.vegalite_to_png(_on_paper(plot), scale=2)


def _on_paper(plot: Plot) -> Json:
    return plot.spec | {"config": PAPER, "title": plot.title, "width": WIDTH}


def _curves(report: Json) -> Plot:
    curves = report["hitlc"]
    rows = [
        {"beta": beta, "ranking": words} | _value(curves[name][place])
        for name, words in CURVES.items()
        for place, beta in enumerate(curves["beta"])
        if curves[name][place]["value"] is not None
    ]
    line = {
        "mark": {"type": "line", "point": {"size": 18}},
        "encoding": {
            "x": _x("beta", "β, percent reviewed"),
            "y": _y("value", "accuracy"),
            "color": _colour("ranking", list(CURVES.values())),
            "strokeDash": _colour("ranking", list(CURVES.values())),
            "tooltip": _tips("ranking", "beta", "value", "low", "high"),
        },
    }
    caption = "Reviewed examples count as right by construction, but for the independent curve."
    return _plot("hitlc", "Accuracy after a review of the top β %", caption, rows, line)


def _bpde(report: Json) -> Plot:
    rows = [
        {"bpde": f"{bar['low']:.1f}–{bar['high']:.1f}", "people": words, "examples": bar[key]}
        for bar in report["distribution"]
        for key, words in (("selected", "selected"), ("others", "not selected"))
    ]
    bars = {
        "mark": "bar",
        "encoding": {
            "x": {"field": "bpde", "type": "ordinal", "sort": None, "title": "BPDE"},
            "y": {"field": "examples", "type": "quantitative", "title": "examples"},
            "color": _colour("people", ["selected", "not selected"]),
            "tooltip": _tips("bpde", "people", "examples"),
        },
    }
    return _plot("bpde", "BPDE, and what was selected", "The first bar is 0 to 0.1.", rows, bars)


def _costs(report: Json) -> Plot:
    rows = [
        {
            "method": _method(row),
            "usd": float(row["judge_usd"] or 0) + float(row["human_usd"]),
        }
        | _value(row["accuracy"])
        for row in report["methods"]
        if row["accuracy"]["value"] is not None and row["judge_usd"] is not None
    ]
    for row in rows:
        row["frontier"] = not any(
            other["usd"] <= row["usd"] and other["value"] > row["value"] for other in rows
        )
    points = {
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": _x("usd", "judge and people, USD"),
            "y": _y("value", "accuracy"),
            "color": _colour("frontier", [True, False]),
            "tooltip": _tips("method", "usd", "value", "low", "high"),
        },
    }
    frontier = {
        "transform": [{"filter": "datum.frontier"}],
        "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.5},
        "encoding": {"x": _x("usd", ""), "y": _y("value", "")},
    }
    caption = "Each method a point; on the frontier nothing cheaper is as accurate."
    return _plot("cost", "Cost against accuracy", caption, rows, {"layer": [frontier, points]})


def _gaps(report: Json) -> Plot:
    names = {"same_samples": "same samples", "split_samples": "separate samples"}
    rows = [
        {"gap": f"{bin_['low']:g}–{bin_['high']:g}", "measured": words} | _value(bin_[name])
        for name, words in names.items()
        for bin_ in report["conflict_by_gap"]
        if bin_[name]["value"] is not None
    ]
    line = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gap", "type": "ordinal", "sort": None, "title": "score gap"},
            "y": _y("value", "conflict rate"),
            "color": _colour("measured", list(names.values())),
            "tooltip": _tips("gap", "measured", "value", "low", "high"),
        },
    }
    caption = "With the same samples the fall is partly an artefact; with separate ones it is not."
    return _plot("gap", "Conflict by score gap", caption, rows, line)


def _categories(report: Json) -> Plot:
    rows = [
        {"category": row["category"], "n": row["n"]} | _value(row["accuracy"])
        for row in report["by_category"]
        if row["accuracy"]["value"] is not None
    ]
    rows = rows if len(rows) > 1 else []
    caption = "Judge's accuracy in each category, with its interval."
    return _plot("category", "By category", caption, rows, _intervals("category", "accuracy"))


def _people(report: Json) -> Plot:
    rows = []
    for pair in report["people"]["pairwise"]:
        a, b = pair["annotators"]
        if pair["kappa"]["value"] is not None:
            kappa = pair["kappa"]["value"]
            rows += [{"first": x, "second": y, "kappa": kappa} for x, y in ((a, b), (b, a))]
    matrix = {
        "mark": "rect",
        "encoding": {
            "x": {"field": "first", "type": "nominal", "title": None},
            "y": {"field": "second", "type": "nominal", "title": None},
            "color": {"field": "kappa", "type": "quantitative", "title": "kappa"},
            "tooltip": _tips("first", "second", "kappa"),
        },
    }
    return _plot("people", "Agreement of each pair of people", "Cohen's kappa.", rows, matrix)


def _rates(report: Json) -> Plot:
    found = report["win_rate"]
    rows = [
        {"by": words, "hollow": "hollow" in found[name]} | _value(found[name])
        for name, words in RATES.items()
        if found[name]["value"] is not None
    ]
    caption = "Hollow figures have sampling error only; the judge's bias is not in them."
    drawing = _intervals("by", "win rate")
    hollow = {"field": "hollow", "type": "nominal", "legend": None}
    drawing["layer"][1]["encoding"]["fillOpacity"] = hollow | {
        "scale": {"domain": [False, True], "range": [1, 0]}
    }
    return _plot("win-rate", "Win rate of response 1", caption, rows, drawing)


def _intervals(field: str, title: str) -> Json:
    y = {"field": field, "type": "nominal", "sort": None, "title": None}
    x = {"field": "value", "type": "quantitative", "title": title, "scale": {"zero": False}}
    ends = {"x": x | {"field": "low"}, "x2": {"field": "high"}, "y": y}
    point = {"x": x, "y": y, "tooltip": _tips(field, "value", "low", "high")}
    return {
        "layer": [
            {"mark": "rule", "encoding": ends},
            {"mark": {"type": "circle", "size": 70, "strokeWidth": 1.5}, "encoding": point},
        ]
    }


def _plot(name: str, title: str, caption: str, rows: list[Json], drawing: Json) -> Plot:
    size = {"width": "container", "height": HEIGHT}
    if "layer" not in drawing:
        size["autosize"] = {"type": "fit-x", "contains": "padding"}
    return Plot(name, title, caption, {"data": {"values": rows}} | size | drawing)


def _value(figure: Json) -> Json:
    return {name: figure.get(name) for name in ("value", "low", "high")}


def _method(row: Json) -> str:
    beta = f", β {row['beta']:g} %" if row["beta"] else ""
    return f"{row['name']} (k {row['k']}{beta})"


def _x(field: str, title: str) -> Json:
    return {"field": field, "type": "quantitative", "title": title}


def _y(field: str, title: str) -> Json:
    return RATE | {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False},
    }


def _colour(field: str, domain: list[Any]) -> Json:
    return {"field": field, "type": "nominal", "title": None, "scale": {"domain": domain}}


def _tips(*fields: str) -> list[Json]:
    rounded = ("value", "low", "high", "kappa", "usd")
    return [
        {"field": field} | ({"format": ".3f", "type": "quantitative"} if field in rounded else {})
        for field in fields
    ]
