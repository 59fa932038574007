"""What money for people is expected to buy, with the chosen point on the curve."""

from annotation.results.expecting import expected_at
from annotation.results.figures import Json
from annotation.results.planning import Plan
from annotation.results.vega import Plot, colour, plot, tooltip, x_axis, y_axis

CURVE, BAND, CHANCE, CHOSEN = "by BPDE", "at least", "at random", "chosen"


def cost_curve(expected: Json, plan: Plan) -> Plot:
    """One point a β; the lower band holds at all of them at once. No rows without known labels."""
    rows = []
    if expected["beta"]:
        first, last = expected["accuracy"][0], expected["accuracy"][-1]
        for place, beta in enumerate(expected["beta"]):
            values = {
                CURVE: expected["accuracy"][place],
                BAND: expected["lower_band"][place],
                CHANCE: first + beta / 100 * (last - first),
            }
            usd = float(plan.usd_at(beta))
            rows += [
                {"beta": beta, "usd": usd, "line": line, "value": value}
                for line, value in values.items()
            ]
        here = expected_at(expected, float(plan.beta), plan.n_frame, plan.usd)
        at = {"beta": round(float(plan.beta), 1), "usd": float(plan.usd)}
        rows.append(at | {"line": CHOSEN, "value": here.accuracy})
    lines = [CURVE, BAND, CHANCE]
    encoding = {
        "x": x_axis("usd", "people, USD"),
        "y": y_axis("value", "expected accuracy"),
        "color": colour("line", lines),
        "tooltip": tooltip("line", "beta", "usd", "value"),
    }
    drawing = {
        "layer": [
            {
                "transform": [{"filter": f"datum.line != '{CHOSEN}'"}],
                "mark": {"type": "line", "point": {"size": 14}},
                "encoding": encoding | {"strokeDash": colour("line", lines)},
            },
            {
                "transform": [{"filter": f"datum.line == '{CHOSEN}'"}],
                "mark": {"type": "point", "size": 140, "filled": True},
                "encoding": {name: encoding[name] for name in ("x", "y", "tooltip")},
            },
        ]
    }
    caption = "The large point is the chosen one; “at least” holds at every β at once."
    return plot("plan", "Accuracy by money for people", caption, rows, drawing)
