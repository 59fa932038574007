"""The report in the shape in which pages show it."""

from decimal import Decimal
from typing import Any

from annotation.results.figures import Json
from annotation.results.in_short import in_short
from annotation.results.report import SECTIONS
from judging.models.runs import Run

_BETAS_SHOWN = (0, 5, 10, 20, 30, 50, 100)
_CURVES = ("bpde", "random", "oracle", "one_order", "margin", "independent")
_HEADINGS = {
    "methods": "Methods",
    "position": "Position",
    "portia": "PORTIA",
    "calibration": "Calibration",
    "ablation": "Judged otherwise",
    "review": "Review",
    "length": "Length",
    "judge_card": "The judge’s card",
    "win-rate": "Who is better?",
    "trust": "Trust",
    "routing": "Routing",
    "models": "Models",
    "people": "People",
    "pace": "Pace",
    "categories": "Categories",
    "cost": "Cost",
}
_LINES = ("unreviewed_accuracy", "errors_found", "errors_expected", "errors_p", "gain")


def page_context(run: Run, report: Json) -> Json:
    lacking = no_people(report)
    shown = said_once(report, lacking) if lacking else report
    return {
        "run": run,
        "report": shown,
        "no_people": lacking,
        "in_short": in_short(report),
        "contents": contents(report),
        "templates": [one.template for one in SECTIONS if one.template],
        "betas": by_beta(shown["hitlc"]),
        "costs": costs_of(report),
    }


def no_people(report: Json) -> str:
    """Why nothing is compared with people yet; empty where something is."""
    known = report["coverage"]["known"]
    return known["reason"] if isinstance(known, dict) else ""


def said_once(part: Any, reason: str) -> Any:
    """The same, with a mark on every figure that lacks its value for this reason: the page says it
    once, and its cells stay short."""
    if isinstance(part, dict):
        marked = {name: said_once(value, reason) for name, value in part.items()}
        return marked | {"said": True} if part.get("reason") == reason else marked
    return [said_once(one, reason) for one in part] if isinstance(part, list) else part


def contents(report: Json) -> dict[str, str]:
    """The short name of each section that the page shows, by its place on the page."""
    run, left_out = report["run"], set()
    if "reason" in report["portia"] and not run["portia"]:
        left_out.add("portia")
    if "reason" in report["calibration"] and run["form"] != "choice":
        left_out.add("calibration")
    return {place: name for place, name in _HEADINGS.items() if place not in left_out}


def by_beta(hitlc: Json) -> list[Json]:
    """The report's lists, turned into one row a beta."""
    return [
        {"beta": beta} | {name: hitlc[name][place] for name in (*_CURVES, *_LINES)}
        for place, beta in enumerate(hitlc["beta"])
        if beta in _BETAS_SHOWN
    ]


def costs_of(report: Json) -> Json:
    """Amounts as decimals again, under the names of `Costs`."""
    cost = report["cost"]
    amounts = {
        name.removesuffix("_votes_usd").removesuffix("_vote_usd") if "hand" in name else name: (
            None if amount is None else Decimal(amount)
        )
        for name, amount in cost.items()
        if name.endswith("_usd")
    }
    return amounts | {"n_votes": cost["votes"], "votes_an_example": cost["votes_an_example"]}
