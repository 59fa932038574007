"""The report's plots. Each reads the report and nothing else, so that a plot and the table under
it cannot differ."""

from annotation.results.data.figures import (
    Json,
    Plot,
    colour,
    intervals,
    plot,
    tooltip,
    usd,
    value_of,
    x_axis,
    y_axis,
)
from annotation.results.data.runs import Costs
from annotation.results.planner.planning import expectation
from annotation.results.sections import routing
from annotation.results.sections.analysis import Analysis, Section
from annotation.results.sections.calibration import (
    calibration,
    calibration_accuracy,
    calibration_curves,
    read_calibration,
)
from annotation.results.sections.judge_card import judge_card, read_card
from annotation.results.sections.methods import ablation, is_adaptive, methods
from annotation.results.sections.people import NAME, pace, pace_plot, people
from annotation.results.sections.people import read as read_pace
from annotation.results.sections.portia import portia, read_portia
from annotation.results.sections.position import conflict_by_gap, distribution, orders
from annotation.results.sections.review import hitlc
from annotation.results.sections.review_gain import review, ties
from annotation.results.sections.routing import cascades, jury_rows
from annotation.results.sections.trust import alt_test, certificate
from annotation.results.sections.win_rates import by_category, models, win_rates
from judging.methods.intervals.estimates import Undefined
from judging.runs.models import Run

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


def review_curve_plot(report: Json) -> Plot:
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


def distribution_plot(report: Json) -> Plot:
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


def cost_plot(report: Json) -> Plot:
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


def score_gap_plot(report: Json) -> Plot:
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


def categories_plot(report: Json) -> Plot:
    rows = [
        {"category": row["category"], "n": row["n"]} | value_of(row["accuracy"])
        for row in report["by_category"]
        if row["accuracy"]["value"] is not None
    ]
    rows = rows if len(rows) > 1 else []
    caption = "Judge's accuracy in each category, with its interval."
    return plot("category", "By category", caption, rows, intervals("category", "accuracy"))


def agreement_plot(report: Json) -> Plot:
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


def win_rates_plot(report: Json) -> Plot:
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


def _methods(of: Analysis) -> Json:
    given = (of.others, of.prompt_share, of.fewer, of.before(), of.after(), of.band, of.costs)
    rows = methods(of.sheet, of.run, *given, of.rng)
    reviewed = next((n for n, row in enumerate(rows) if row["beta"]), len(rows))
    return {"methods": [*rows[:reviewed], *jury_rows(of), *rows[reviewed:]]}


def _routing(of: Analysis) -> Json:
    return routing.figures(of) | {"cascades": cascades(of)}


def _position(of: Analysis) -> Json:
    return {
        "position": of.position,
        "conflict_by_gap": conflict_by_gap(of.samples, of.run),
        "orders": orders(of.sheet, of.samples, of.rng),
    }


def _ablation(of: Analysis) -> Json:
    return {"ablation": ablation(of.sheet, of.run, of.others, of.fewer, of.before(), of.rng)}


def _review(of: Analysis) -> Json:
    return {
        "hitlc": hitlc(of.sheet, of.samples, of.review, of.band),
        "ties": ties(of),
        "review": review(of),
        "distribution": distribution(of.sheet),
        "expected": expectation(of.sheet, of.review, of.rng),
    }


def _trust(of: Analysis) -> Json:
    claim = certificate(of.sheet, of.audit) | {"unchecked_accuracy": of.unchecked.as_json()}
    return {"certificate": claim, "alt_test": alt_test(of.sheet)}


SECTIONS = (
    Section("methods", _methods, "results/_methods.html", plots=(cost_plot,)),
    Section("position", _position, "results/_position.html", plots=(score_gap_plot,)),
    Section("portia", lambda of: {"portia": portia(of)}, "results/_portia.html", read=read_portia),
    Section(
        "calibration",
        lambda of: {"calibration": calibration(of)},
        "results/_calibration.html",
        read=read_calibration,
        plots=(calibration_accuracy, calibration_curves),
    ),
    Section("ablation", _ablation, "results/_ablation.html"),
    Section(
        "review", _review, "results/_review.html", plots=(review_curve_plot, distribution_plot)
    ),
    Section("length", lambda of: {"length": of.length}, "results/_length.html"),
    Section(
        "judge_card",
        lambda of: {"judge_card": judge_card(of)},
        "results/_judge_card.html",
        read=read_card,
    ),
    Section(
        "win_rate",
        lambda of: {"win_rate": win_rates(of.sheet)},
        "results/_win_rate.html",
        plots=(win_rates_plot,),
    ),
    Section("trust", _trust, "results/_trust.html"),
    Section("routing", _routing, "results/_routing.html", read=routing.read_routing),
    Section("models", lambda of: {"models": models(of.sheet, of.rng)}, "results/_models.html"),
    Section(
        "people",
        lambda of: {"people": people(of.sheet, of.rng)},
        "results/_agreement.html",
        plots=(agreement_plot,),
    ),
    Section(NAME, pace, "results/_pace.html", read=read_pace, plots=(pace_plot,)),
    Section(
        "categories",
        lambda of: {"by_category": by_category(of.sheet, of.samples, of.rng)},
        "results/_categories.html",
        plots=(categories_plot,),
    ),
    Section("cost", lambda of: {"cost": cost(of.costs)}),
)


def report(analysis: Analysis) -> Json:
    """What `report --json` prints; the results page shows the same figures."""
    project = analysis.project
    found: Json = {
        "project": {"slug": project.slug, "name": project.name},
        "run": described(analysis.run),
        "coverage": coverage(analysis),
    }
    for section in SECTIONS:
        found |= section.figures(analysis)
    return found


def plots(report: Json) -> list[Plot]:
    """Those that have something to show, in the order of the sections."""
    drawn = [draw(report) for section in SECTIONS for draw in section.plots]
    return [plot for plot in drawn if plot.table]


def described(run: Run) -> Json:
    return {
        "number": run.number,
        "name": run.name,
        "method": run.method,
        "form": run.form,
        "endpoint": run.endpoint,
        "model": run.model,
        "k": run.k,
        "adaptive": is_adaptive(run),
        "portia": run.parameters.get("portia"),
        "permutations": run.parameters.get("permutations"),
        "temperature": str(run.temperature),
        "template": run.template_name,
        "template_sha256": run.template_hash,
        "seed": run.seed,
        "price_source": run.price_source,
    }


def coverage(analysis: Analysis) -> Json:
    known = analysis.sheet.known
    return {
        "examples": len(analysis.sheet),
        "judged": analysis.coverage.as_json(),
        "samples": analysis.statuses,
        "labels": analysis.shares,
        "final_labels": analysis.final_shares,
        "basis": analysis.sheet.basis,
        "unblinded": analysis.unblinded,
        "known": known.as_json() if isinstance(known, Undefined) else len(known.rows),
    }


def cost(costs: Costs) -> Json:
    return {
        "judge_usd": usd(costs.judge_usd),
        "human_usd": usd(costs.human_usd),
        "total_usd": usd(costs.total_usd),
        "paper_usd": usd(costs.paper_usd),
        "by_hand_one_vote_usd": usd(costs.by_hand_one),
        "by_hand_same_votes_usd": usd(costs.by_hand_same),
        "votes": costs.n_votes,
        "votes_an_example": costs.votes_an_example,
    }
