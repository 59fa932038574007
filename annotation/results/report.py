"""The report of a run: its sections, and their figures as JSON.

A section is one module beside this one, one template part, and one entry of `SECTIONS`:

1. `annotation/results/NAME.py` has `figures(analysis) -> Json`, the value of its key. Statistics
   are functions of `judging.methods`; this module brings them the data of `analysis` (`sheet`,
   `samples`, `others`, `rng` …) and writes each number by `Estimate.as_json`, `shown` or `lacking`
   (annotation.results.figures), so that it has an interval, an n, or the reason why there is none.
   Where the section does not apply to a run, the value is `undefined("why")`.
2. What the analysis does not hold, `read(analysis) -> Data` fetches once: arrays and plain JSON
   (annotation.results.sections), or an `Undefined`. `figures` has it by
   `analysis.own("NAME", read)`, and may touch no database itself: `verify` calls it on what the
   ZIP holds. Texts and names of people do not belong into it; pseudonyms do.
3. `templates/results/_NAME.html` shows `report.NAME`: one `<section id="NAME">` that shows the
   reason where there is one. The same file serves the page and the HTML report, so it has no form
   and needs no script.
4. A drawing is a function of the whole report that returns a `Plot`
   (annotation.results.vega); its rows are also its table.
5. An entry of `SECTIONS` names these, in the order of the page. Packing, `verify`, the page, the
   files and the plots follow from it.

What else must renew a kept report goes into `state_of_data.fingerprint`. A test of its figures on
recorded data, and one that packs, unpacks and compares, belong to each.
"""

from annotation.results import plots as drawn
from annotation.results import routing, routing_data
from annotation.results.ablation import ablation
from annotation.results.agreement import people
from annotation.results.analysis import Analysis
from annotation.results.calibration import calibration
from annotation.results.calibration_data import read_calibration
from annotation.results.calibration_plots import calibration_accuracy, calibration_curves
from annotation.results.categories import by_category
from annotation.results.costs import Costs
from annotation.results.curves import hitlc
from annotation.results.distribution import distribution
from annotation.results.expecting import expectation
from annotation.results.fewer import is_adaptive
from annotation.results.figures import Json, usd
from annotation.results.honest import review, ties
from annotation.results.judge_card import judge_card
from annotation.results.judge_card_data import read_card
from annotation.results.jury import cascades, jury_rows
from annotation.results.methods_table import methods
from annotation.results.models_ranking import models
from annotation.results.pace import NAME, pace, pace_plot
from annotation.results.pace import read as read_pace
from annotation.results.portia import portia
from annotation.results.portia_data import read_portia
from annotation.results.position import conflict_by_gap, orders
from annotation.results.sections import Section
from annotation.results.trust import alt_test, certificate
from annotation.results.vega import Plot
from annotation.results.win_rates import win_rates
from judging.methods.estimates import Undefined
from judging.models.runs import Run


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
    Section("methods", _methods, "results/_methods.html", plots=(drawn.costs,)),
    Section("position", _position, "results/_position.html", plots=(drawn.gaps,)),
    Section("portia", lambda of: {"portia": portia(of)}, "results/_portia.html", read=read_portia),
    Section(
        "calibration",
        lambda of: {"calibration": calibration(of)},
        "results/_calibration.html",
        read=read_calibration,
        plots=(calibration_accuracy, calibration_curves),
    ),
    Section("ablation", _ablation, "results/_ablation.html"),
    Section("review", _review, "results/_review.html", plots=(drawn.curves, drawn.distribution)),
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
        plots=(drawn.rates,),
    ),
    Section("trust", _trust, "results/_trust.html"),
    Section("routing", _routing, "results/_routing.html", read=routing_data.read_routing),
    Section("models", lambda of: {"models": models(of.sheet, of.rng)}, "results/_models.html"),
    Section(
        "people",
        lambda of: {"people": people(of.sheet, of.rng)},
        "results/_agreement.html",
        plots=(drawn.agreement,),
    ),
    Section(NAME, pace, "results/_pace.html", read=read_pace, plots=(pace_plot,)),
    Section(
        "categories",
        lambda of: {"by_category": by_category(of.sheet, of.samples, of.rng)},
        "results/_categories.html",
        plots=(drawn.categories,),
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
