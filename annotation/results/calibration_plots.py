"""Drawings of the calibration section."""

from annotation.results.figures import Json
from annotation.results.vega import Plot, colour, plot, tooltip, value_of, x_axis, y_axis


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
