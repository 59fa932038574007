"""The report of a run: its sections, their figures, and its plots.

A section adds its fields to `Report`, and docs/report.md says what their keys mean. Plots read the
report and nothing else, so that a plot and the table under it cannot differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from annotation.results.data.figures import (
    HollowEstimate,
    Json,
    Plot,
    colour,
    intervals,
    plot,
    to_json,
    tooltip,
    value_of,
    x_axis,
    y_axis,
)
from annotation.results.data.runs import Costs
from annotation.results.sections import routing
from annotation.results.sections.analysis import Analysis, Section
from annotation.results.sections.calibration import (
    CalibrationFigures,
    calibration,
    calibration_accuracy,
    calibration_curves,
    read_calibration,
)
from annotation.results.sections.judge_card import JudgeCard, judge_card, read_card
from annotation.results.sections.methods import (
    FewerRow,
    MethodRow,
    RunRow,
    ablation,
    is_adaptive,
    methods,
)
from annotation.results.sections.people import NAME, Pace, PeopleFigures, pace, pace_plot, people
from annotation.results.sections.people import read as read_pace
from annotation.results.sections.portia import PortiaFigures, portia, read_portia
from annotation.results.sections.position import (
    BpdeBar,
    Orders,
    Position,
    conflict_by_gap,
    distribution,
    orders,
)
from annotation.results.sections.review import (
    Expectation,
    ReviewCurves,
    Unforeseen,
    expectation,
    hitlc,
)
from annotation.results.sections.review_gain import (
    NoReview,
    ReviewDone,
    TieConventions,
    review,
    ties,
)
from annotation.results.sections.routing import CascadeRow, RoutingFigures, cascades, jury_rows
from annotation.results.sections.trust import (
    AlternativeTest,
    CertificateFigures,
    Unblinded,
    alt_test,
    certificate,
)
from annotation.results.sections.win_rates import (
    CategoryFigures,
    ModelRanking,
    Preference,
    WinRates,
    by_category,
    models,
    win_rates,
)
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.verdicts.position import GapBin
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


@dataclass(frozen=True)
class ProjectName:
    slug: str
    name: str


@dataclass(frozen=True)
class RunDescription:
    """The settings that a run was judged by. portia, permutations: None for other methods."""

    number: int
    name: str
    method: str
    form: str
    endpoint: str
    model: str
    k: int
    adaptive: bool
    portia: Json | None
    permutations: Sequence[str] | None
    temperature: str
    template: str
    template_sha256: str
    seed: int
    price_source: str


@dataclass(frozen=True)
class Coverage:
    """samples: slots by status. labels: the judge's, by what they say. basis: whose labels are
    compared, as in `Sheet`. known: how many of these there are, or why there are none."""

    examples: int
    judged: Figure
    samples: Mapping[str, int]
    labels: Mapping[str, int]
    final_labels: Mapping[str, int]
    basis: str
    unblinded: Unblinded
    known: int | Undefined


@dataclass(frozen=True)
class CostFigures:
    """As in `Costs`; None is unknown, and never 0."""

    judge_usd: Decimal | None
    human_usd: Decimal
    total_usd: Decimal | None
    paper_usd: Decimal | None
    by_hand_one_vote_usd: Decimal
    by_hand_same_votes_usd: Decimal
    votes: int
    votes_an_example: int


@dataclass(frozen=True)
class Report:
    """All figures of a run, in the order of the keys of `report --json`."""

    project: ProjectName
    run: RunDescription
    coverage: Coverage
    methods: Sequence[MethodRow]
    position: Position
    conflict_by_gap: Sequence[GapBin]
    orders: Orders
    portia: PortiaFigures | Undefined
    calibration: CalibrationFigures | Undefined
    ablation: Sequence[FewerRow | RunRow]
    hitlc: ReviewCurves
    ties: TieConventions
    review: ReviewDone | NoReview
    distribution: Sequence[BpdeBar]
    expected: Expectation | Unforeseen
    length: Preference
    judge_card: JudgeCard
    win_rate: WinRates
    certificate: CertificateFigures
    alt_test: AlternativeTest | Undefined
    routing: RoutingFigures | Undefined
    cascades: Sequence[CascadeRow]
    models: ModelRanking
    people: PeopleFigures
    pace: Sequence[Pace]
    by_category: Sequence[CategoryFigures]
    cost: CostFigures


def review_curve_plot(report: Report) -> Plot:
    curves = report.hitlc
    rows = [
        {"beta": beta, "ranking": words} | value_of(point)
        for name, words in CURVES.items()
        for beta, point in zip(curves.beta, getattr(curves, name), strict=True)
        if not isinstance(point, Undefined)
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


def distribution_plot(report: Report) -> Plot:
    rows = [
        {"bpde": f"{bar.low:.1f}–{bar.high:.1f}", "people": words, "examples": examples}
        for bar in report.distribution
        for words, examples in (("selected", bar.selected), ("not selected", bar.others))
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


def cost_plot(report: Report) -> Plot:
    rows = [
        {"method": _method(row), "usd": float(row.judge_usd) + float(row.human_usd)}
        | value_of(row.accuracy)
        for row in report.methods
        if row.judge_usd is not None and not isinstance(row.accuracy, Undefined)
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


def score_gap_plot(report: Report) -> Plot:
    names = {"same_samples": "same samples", "split_samples": "separate samples"}
    bins = {f"{bin_.low:g}–{bin_.high:g}": bin_ for bin_ in report.conflict_by_gap}
    rows = [
        {"gap": gap, "measured": words} | value_of(getattr(bin_, name))
        for name, words in names.items()
        for gap, bin_ in bins.items()
        if not isinstance(getattr(bin_, name), Undefined)
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


def categories_plot(report: Report) -> Plot:
    rows = [
        {"category": row.category, "n": row.n} | value_of(row.accuracy)
        for row in report.by_category
        if not isinstance(row.accuracy, Undefined)
    ]
    rows = rows if len(rows) > 1 else []
    caption = "Judge's accuracy in each category, with its interval."
    return plot("category", "By category", caption, rows, intervals("category", "accuracy"))


def agreement_plot(report: Report) -> Plot:
    rows = []
    for pair in report.people.pairwise:
        if not isinstance(pair.kappa, Undefined):
            for first, second in (pair.annotators, pair.annotators[::-1]):
                rows.append({"first": first, "second": second, "kappa": pair.kappa.value})
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


def win_rates_plot(report: Report) -> Plot:
    rates = {words: getattr(report.win_rate, name) for name, words in RATES.items()}
    rows = [
        {"by": words, "hollow": isinstance(rate, HollowEstimate)} | value_of(rate)
        for words, rate in rates.items()
        if not isinstance(rate, Undefined)
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


def _method(row: MethodRow) -> str:
    beta = f", β {row.beta:g} %" if row.beta else ""
    return f"{row.name}{beta}" if row.k is None else f"{row.name} (k {row.k}{beta})"


def _methods(of: Analysis) -> dict[str, Any]:
    given = (of.others, of.prompt_share, of.fewer, of.before(), of.after(), of.band, of.costs)
    rows = methods(of.sheet, of.run, *given, of.rng)
    reviewed = next((n for n, row in enumerate(rows) if row.beta), len(rows))
    return {"methods": [*rows[:reviewed], *jury_rows(of), *rows[reviewed:]]}


def _routing(of: Analysis) -> dict[str, Any]:
    return {"routing": routing.figures(of), "cascades": cascades(of)}


def _position(of: Analysis) -> dict[str, Any]:
    return {
        "position": of.position,
        "conflict_by_gap": conflict_by_gap(of.samples, of.run),
        "orders": orders(of.sheet, of.samples, of.rng),
    }


def _ablation(of: Analysis) -> dict[str, Any]:
    return {"ablation": ablation(of.sheet, of.run, of.others, of.fewer, of.before(), of.rng)}


def _review(of: Analysis) -> dict[str, Any]:
    return {
        "hitlc": hitlc(of.sheet, of.samples, of.review, of.band),
        "ties": ties(of),
        "review": review(of),
        "distribution": distribution(of.sheet),
        "expected": expectation(of.sheet, of.review, of.rng),
    }


def _trust(of: Analysis) -> dict[str, Any]:
    claim = certificate(of.sheet, of.audit, of.unchecked)
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
        plots=(
            lambda report: calibration_accuracy(report.calibration),
            lambda report: calibration_curves(report.calibration),
        ),
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
    Section(
        NAME,
        lambda of: {"pace": pace(of)},
        "results/_pace.html",
        read=read_pace,
        plots=(lambda report: pace_plot(report.pace),),
    ),
    Section(
        "categories",
        lambda of: {"by_category": by_category(of.sheet, of.samples, of.rng)},
        "results/_categories.html",
        plots=(categories_plot,),
    ),
    Section("cost", lambda of: {"cost": cost(of.costs)}),
)


def report(analysis: Analysis) -> Report:
    """Everything that the results page, the files and `report --json` say of a run."""
    project, figures = analysis.project, {}
    for section in SECTIONS:
        figures |= section.figures(analysis)
    name = ProjectName(project.slug, project.name)
    return Report(name, described(analysis.run), coverage(analysis), **figures)


def report_json(analysis: Analysis) -> Json:
    """What `report --json` prints: docs/report.md has all keys."""
    return to_json(report(analysis))


def plots(report: Report) -> list[Plot]:
    """Those that have something to show, in the order of the sections."""
    drawn = [draw(report) for section in SECTIONS for draw in section.plots]
    return [plot for plot in drawn if plot.table]


def described(run: Run) -> RunDescription:
    return RunDescription(
        number=run.number,
        name=run.name,
        method=run.method,
        form=run.form,
        endpoint=run.endpoint,
        model=run.model,
        k=run.k,
        adaptive=is_adaptive(run),
        portia=run.parameters.get("portia"),
        permutations=run.parameters.get("permutations"),
        temperature=str(run.temperature),
        template=run.template_name,
        template_sha256=run.template_hash,
        seed=run.seed,
        price_source=run.price_source,
    )


def coverage(analysis: Analysis) -> Coverage:
    known = analysis.sheet.known
    return Coverage(
        examples=len(analysis.sheet),
        judged=analysis.coverage,
        samples=analysis.statuses,
        labels=analysis.shares,
        final_labels=analysis.final_shares,
        basis=analysis.sheet.basis,
        unblinded=analysis.unblinded,
        known=known if isinstance(known, Undefined) else len(known.rows),
    )


def cost(costs: Costs) -> CostFigures:
    return CostFigures(
        judge_usd=costs.judge_usd,
        human_usd=costs.human_usd,
        total_usd=costs.total_usd,
        paper_usd=costs.paper_usd,
        by_hand_one_vote_usd=costs.by_hand_one,
        by_hand_same_votes_usd=costs.by_hand_same,
        votes=costs.n_votes,
        votes_an_example=costs.votes_an_example,
    )
