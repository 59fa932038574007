"""The report's plots. Each reads the report and nothing else, so that a plot and the table under
it cannot differ."""

from annotation.results.figures import Json
from annotation.results.vega import (
    Plot,
    colour,
    intervals,
    plot,
    tooltip,
    value_of,
    x_axis,
    y_axis,
)

CURVES = {
    "bpde": "by BPDE",
    "random": "at random",
    "one_order": "entropy of one order",
    "margin": "score margin",
    "oracle": "oracle",
    "independent": "independent",
}
FRONTIER, BEATEN = "on the frontier", "beaten"
RATES = {
    "judge_and_people": "judge and people",
    "people": "people alone",
    "final": "final labels (hollow)",
    "judge": "judge alone (hollow)",
}


def curves(report: Json) -> Plot:
    curves = report["hitlc"]
    rows = [
        {"beta": beta, "ranking": words} | value_of(curves[name][place])
        for name, words in CURVES.items()
        for place, beta in enumerate(curves["beta"])
        if curves[name][place]["value"] is not None
    ]
    drawn = list(dict.fromkeys(row["ranking"] for row in rows))
    line = {
        "mark": {"type": "line", "point": {"size": 18}},
        "encoding": {
            "x": x_axis("beta", "β, percent reviewed"),
            "y": y_axis("value", "accuracy"),
            "color": colour("ranking", drawn),
            "strokeDash": colour("ranking", drawn),
            "tooltip": tooltip("ranking", "beta", "value", "low", "high"),
        },
    }
    caption = "Reviewed examples count as right by construction, but for the independent curve."
    return plot("hitlc", "Accuracy after a review of the top β %", caption, rows, line)


def distribution(report: Json) -> Plot:
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
            "color": colour("people", ["selected", "not selected"]),
            "tooltip": tooltip("bpde", "people", "examples"),
        },
    }
    return plot("bpde", "BPDE, and what was selected", "The first bar is 0 to 0.1.", rows, bars)


def costs(report: Json) -> Plot:
    rows = [
        {
            "method": _method(row),
            "usd": float(row["judge_usd"] or 0) + float(row["human_usd"]),
        }
        | value_of(row["accuracy"])
        for row in report["methods"]
        if row["accuracy"]["value"] is not None and row["judge_usd"] is not None
    ]
    for row in rows:
        beaten = any(other["usd"] <= row["usd"] and other["value"] > row["value"] for other in rows)
        row["place"] = BEATEN if beaten else FRONTIER
    points = {
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": x_axis("usd", "judge and people, USD"),
            "y": y_axis("value", "accuracy"),
            "color": colour("place", [FRONTIER, BEATEN]),
            "tooltip": tooltip("method", "usd", "value", "low", "high"),
        },
    }
    frontier = {
        "transform": [{"filter": f"datum.place === '{FRONTIER}'"}],
        "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.5},
        "encoding": {"x": x_axis("usd", ""), "y": y_axis("value", "")},
    }
    caption = "Each method a point; on the frontier nothing cheaper is as accurate."
    return plot("cost", "Cost against accuracy", caption, rows, {"layer": [frontier, points]})


def gaps(report: Json) -> Plot:
    names = {"same_samples": "same samples", "split_samples": "separate samples"}
    bins = {f"{bin_['low']:g}–{bin_['high']:g}": bin_ for bin_ in report["conflict_by_gap"]}
    rows = [
        {"gap": gap, "measured": words} | value_of(bin_[name])
        for name, words in names.items()
        for gap, bin_ in bins.items()
        if bin_[name]["value"] is not None
    ]
    line = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gap", "type": "ordinal", "sort": list(bins), "title": "score gap"},
            "y": y_axis("value", "conflict rate"),
            "color": colour("measured", list(names.values())),
            "tooltip": tooltip("gap", "measured", "value", "low", "high"),
        },
    }
    caption = "With the same samples the fall is partly an artefact; with separate ones it is not."
    return plot("gap", "Conflict by score gap", caption, rows, line)


def categories(report: Json) -> Plot:
    rows = [
        {"category": row["category"], "n": row["n"]} | value_of(row["accuracy"])
        for row in report["by_category"]
        if row["accuracy"]["value"] is not None
    ]
    rows = rows if len(rows) > 1 else []
    caption = "Judge's accuracy in each category, with its interval."
    return plot("category", "By category", caption, rows, intervals("category", "accuracy"))


def agreement(report: Json) -> Plot:
    rows = []
    for pair in report["people"]["pairwise"]:
        a, b = pair["annotators"]
        if pair["kappa"]["value"] is not None:
            kappa = pair["kappa"]["value"]
            rows += [{"first": x, "second": y, "kappa": kappa} for x, y in ((a, b), (b, a))]
    shared = {
        "x": {"field": "first", "type": "nominal", "title": None},
        "y": {"field": "second", "type": "nominal", "title": None},
        "tooltip": tooltip("first", "second", "kappa"),
    }
    shade = {"field": "kappa", "type": "quantitative", "title": "kappa"}
    # Kappa has a scale of its own: shades over what there is would make small differences large.
    shade["scale"] = {"domain": [0, 1], "clamp": True}
    strong = {"condition": {"test": "datum.kappa > 0.55", "value": "white"}, "value": "black"}
    number = {"field": "kappa", "type": "quantitative", "format": ".2f"}
    matrix = {
        "layer": [
            {"mark": "rect", "encoding": shared | {"color": shade}},
            {"mark": "text", "encoding": shared | {"text": number, "color": strong}},
        ]
    }
    return plot("people", "Agreement of each pair of people", "Cohen's kappa.", rows, matrix)


def rates(report: Json) -> Plot:
    found = report["win_rate"]
    rows = [
        {"by": words, "hollow": "hollow" in found[name]} | value_of(found[name])
        for name, words in RATES.items()
        if found[name]["value"] is not None
    ]
    caption = "Hollow figures have sampling error only; the judge's bias is not in them."
    drawing = intervals("by", "win rate")
    line, points = drawing["layer"]
    drawing["layer"] = [line] + [
        points
        | {"mark": {"type": "point", "size": 70, "strokeWidth": 1.5, "filled": filled}}
        | {"transform": [{"filter": f"{'!' if filled else ''}datum.hollow"}]}
        for filled in (True, False)
        # A layer without a row would have no scale.
        if any(row["hollow"] != filled for row in rows)
    ]
    return plot("win-rate", "Win rate of response 1", caption, rows, drawing)


def _method(row: Json) -> str:
    beta = f", β {row['beta']:g} %" if row["beta"] else ""
    if row["k"] is None:
        return f"{row['name']}{beta}"
    return f"{row['name']} (k {row['k']}{beta})"
