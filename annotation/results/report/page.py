"""The honest answer in a few sentences: who is better, how far the judge can be trusted, and why.

Read from the report alone, for the head of the page, of the HTML file, and of the printed lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from annotation.results.data.figures import Json
from annotation.results.report.report import SECTIONS
from annotation.results.sections.trust import SCORES, sentence
from judging.core.formatting import count, decimals, interval, percent, set_apart
from judging.runs.models import Run

EVEN = 0.5


@dataclass(frozen=True)
class Sentence:
    """section: where the page shows what it is about. warns: it speaks against trust."""

    text: str
    section: str
    warns: bool = False


def in_short(report: Json) -> list[Sentence]:
    return [
        *_better(report),
        *_accuracy(report),
        *_unblinded(report),
        *_unchecked(report),
        *_position(report),
        *_ranking(report),
    ]


def _better(report: Json) -> Iterator[Sentence]:
    """About people where that can be said; what the judge says is no answer by itself."""
    if len(report["models"]["pairwise"]) > 1:
        yield from _first_of_many(report)
        return
    rate, names = report["win_rate"], _names(report)
    found = _shortest(rate["judge_and_people"], rate["people"])
    if found is not None:
        whom = "by the known labels" if report["coverage"]["basis"] == "gold" else "for people"
        yield Sentence(f"{_verdict(found, names)} {whom}: win rate {_figure(found)}.", "win-rate")
        return
    reason = rate["people"]["reason"]
    judge = rate["judge"]
    if judge["value"] is None:
        yield Sentence(f"Who is better cannot be said ({reason}).", "win-rate", warns=True)
        return
    yield Sentence(
        f"Who is better for people cannot be said ({reason}). The judge alone gives "
        f"{_subject(names)} a win rate of {_figure(judge)}, its bias unknown.",
        "win-rate",
        warns=True,
    )


def _first_of_many(report: Json) -> Iterator[Sentence]:
    """Responses 1 and 2 are by different models from example to example."""
    found = report["models"]
    if not found["ranking"]:
        yield Sentence(f"The models cannot be ranked: {found['reason']}.", "models", warns=True)
        return
    first, second = found["ranking"][:2]
    low, high = first["strength"]["low"], second["strength"]["high"]
    apart = None not in (low, high) and low > high
    by, more, checked = _resting_on(report)
    yield Sentence(
        f"Of {len(found['ranking'])} models {set_apart(first['model'])} ranks first by {by}, "
        f"{'clearly' if apart else 'not clearly'} before {set_apart(second['model'])}{more}.",
        "models",
        warns=not checked,
    )


def _resting_on(report: Json) -> tuple[str, str, bool]:
    """Whose the final labels are, what else is to be said of them, and whether people gave all."""
    n = report["coverage"]["examples"]
    done = (row["m"] + row["audited"] for row in report["methods"] if row.get("done"))
    m = next(done, 0)
    if m and m == n:
        return "people's labels", "", True
    if m:
        return "the final labels", f"; {m} of {n} are people's, the others the judge's", False
    if report["coverage"]["basis"] == "round":
        return "the judge's labels", ", which nobody has checked", False
    return "the judge's labels", "; what people say is not in this ranking", False


def _verdict(found: Json, names: tuple[str, str] | None) -> str:
    first, second = names or ("Response 1", "response 2")
    if found["low"] > EVEN:
        return f"{first} is better than {second}"
    if found["high"] < EVEN:
        return f"{first} is worse than {second}"
    first, second = names or ("response 1", "response 2")
    return f"Neither {first} nor {second} is shown to be better"


def _accuracy(report: Json) -> Iterator[Sentence]:
    accuracy = report["ties"]["half"]["accuracy"]
    if accuracy["value"] is None:
        return
    kappa = next(
        (
            row["kappa"]
            for row in report["methods"]
            if row.get("run") == report["run"]["name"] and not row["beta"]
        ),
        {"value": None},
    )
    beside = "" if kappa["value"] is None else f" (Cohen's kappa {_figure(kappa)})"
    against = {
        "votes": "people's majority",
        "gold": "the known labels",
        "round": "what people say, weighted for all examples",
    }[report["coverage"]["basis"]]
    yield Sentence(
        f"Alone, the judge gives the right label for {_figure(accuracy)} of what it judged, "
        f"against {against}{beside}.",
        "methods",
    )


def _unblinded(report: Json) -> Iterator[Sentence]:
    found = report["coverage"]["unblinded"]
    if said := sentence(found):
        yield Sentence(said, "people", warns=bool(found["counted"]))


def _unchecked(report: Json) -> Iterator[Sentence]:
    found = report["certificate"]
    if found["issued"]:
        yield Sentence(
            f"Certified: at most {percent(found['epsilon'])} of the {found['n_from_judge']} labels "
            f"with {SCORES[found['score']]} of at most {decimals(found['threshold'])} are wrong, "
            f"with confidence {percent(found['confidence'])}.",
            "trust",
        )
    elif report["coverage"]["basis"] == "round":
        yield Sentence(
            f"The labels that nobody checked have no certificate ({found['reason']}).",
            "trust",
            warns=True,
        )


def _position(report: Json) -> Iterator[Sentence]:
    conflict = report["position"]["conflict_rate"]
    if conflict["value"] is None:
        return
    first = report["position"]["first_position_rate"]
    lean, of = "", ""
    if first["value"] is not None and first["low"] is not None:
        of = f" (n = {count(first['n'])})"
        if first["low"] > EVEN:
            lean = f"it is the first {percent(first['value'])} of the time"
        elif first["high"] < EVEN:
            lean = f"it is the second {percent(1 - first['value'])} of the time"
    yield Sentence(
        f"Swapping the two responses changes its verdict on {_figure(conflict)} of the examples; "
        f"where one position wins both times{of}, {lean or 'neither is shown to be favoured'}.",
        "position",
        warns=bool(lean),
    )


def _ranking(report: Json) -> Iterator[Sentence]:
    area = report["hitlc"]["auroc"]
    if area["value"] is None:
        return
    if not report["hitlc"]["bpde_varies"]:
        yield Sentence(
            "BPDE is the same for every example that this judge labelled, so it ranks none before "
            "another: more samples, or both orders, would tell where the judge wavers.",
            "review",
            warns=True,
        )
    elif report["hitlc"].get("no_better_than_chance"):
        yield Sentence(
            f"BPDE finds this judge's errors no better than chance (AUROC {_figure(area)}): a "
            "review by rank buys no more than a random one.",
            "review",
            warns=True,
        )
    elif report["hitlc"].get("better_than_chance"):
        yield Sentence(
            f"BPDE finds its errors better than chance (AUROC {_figure(area)}).", "review"
        )
    else:
        yield Sentence(
            "There is not enough data to tell whether BPDE finds the judge's errors better than "
            f"chance (AUROC {_figure(area)}).",
            "review",
        )


def _names(report: Json) -> tuple[str, str] | None:
    """Where the project compares the same two models throughout, in the same places."""
    pairs = report["models"]["pairwise"]
    same = report["models"]["same_places"]
    if not same or len(pairs) != 1:
        return None
    return set_apart(pairs[0]["model_1"]), set_apart(pairs[0]["model_2"])


def _subject(names: tuple[str, str] | None) -> str:
    return names[0] if names else "response 1"


def _shortest(*found: Json) -> Json | None:
    """Both answer about people; the narrower one is the better estimate."""
    there = [one for one in found if one["value"] is not None and one["low"] is not None]
    return min(there, key=lambda one: one["high"] - one["low"], default=None)


def _figure(found: Json) -> str:
    text = decimals(found["value"])
    if found.get("low") is None or found.get("high") is None:
        return text
    return f"{text} [{interval(found['low'], found['high'])}]"


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
