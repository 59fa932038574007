"""The report of a run: its figures, its sections on the page, and its plots.

To add a section: a module in `annotation.results.sections`, its figures in `Report` and `report`,
its place on the page in `SECTIONS`, and its keys in docs/report.md. Plots read the report and
nothing else, so that a plot and the table under it cannot differ.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

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
from annotation.results.data.runs import Costs, project_costs
from annotation.results.data.sheet import sheet_of
from annotation.results.sections import calibration as sections_calibration
from annotation.results.sections import judge_card as sections_judge_card
from annotation.results.sections import methods as sections_methods
from annotation.results.sections import people as sections_people
from annotation.results.sections import portia as sections_portia
from annotation.results.sections import position as sections_position
from annotation.results.sections import review as sections_review
from annotation.results.sections import review_gain, trust, win_rates
from annotation.results.sections import routing as sections_routing
from annotation.results.sections.analysis import Analysis, Section
from judging.dataset.models import Label
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.verdicts.position import GapBin
from judging.projects.models import Project
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
    "people": "people only",
    "final": "final labels (hollow)",
    "judge": "judge only (hollow)",
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
    unblinded: trust.Unblinded
    known: int | Undefined


@dataclass(frozen=True)
class Report:
    """All figures of a run, in the order of the keys of `report --json`.

    Types are named by `sections`, since fields have the names of modules.
    """

    project: ProjectName
    run: RunDescription
    coverage: Coverage
    methods: Sequence[sections_methods.MethodRow]
    position: sections_position.Position
    conflict_by_gap: Sequence[GapBin]
    orders: sections_position.Orders
    portia: sections_portia.PortiaFigures | Undefined
    calibration: sections_calibration.CalibrationFigures | Undefined
    ablation: Sequence[sections_methods.FewerRow | sections_methods.RunRow]
    hitlc: sections_review.ReviewCurves
    ties: review_gain.TieConventions
    review: review_gain.ReviewDone | review_gain.NoReview
    distribution: Sequence[sections_position.BpdeBar]
    expected: sections_review.Expectation | sections_review.Unforeseen
    length: win_rates.Preference
    judge_card: sections_judge_card.JudgeCard
    win_rate: win_rates.WinRates
    certificate: trust.CertificateFigures
    alt_test: trust.AlternativeTest | Undefined
    routing: sections_routing.RoutingFigures | Undefined
    cascades: Sequence[sections_routing.CascadeRow]
    models: win_rates.ModelRanking
    people: sections_people.PeopleFigures
    pace: Sequence[sections_people.Pace]
    by_category: Sequence[win_rates.CategoryFigures]
    category_differences: win_rates.CategoryDifferences
    cost: Costs


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
    caption = "Reviewed examples count as right, except in the independent curve."
    return plot("hitlc", "Accuracy after reviewing the top β %", caption, rows, line)


def distribution_plot(report: Report) -> Plot:
    rows = [
        {
            "bpde": f"{bar.low:.1f}–{bar.high:.1f}" if bar.high else "0",
            "people": words,
            "examples": examples,
        }
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
    return plot(
        "bpde",
        "BPDE of selected and other examples",
        "In the first bar (BPDE 0), all samples agree.",
        rows,
        bars,
    )


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
    caption = "Each point is a method. On the frontier, no cheaper method is as accurate."
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
    caption = "With the same samples, part of the drop is an artefact; with separate ones, none is."
    return plot("gap", "Conflict by score gap", caption, rows, line)


def categories_plot(report: Report) -> Plot:
    rows = [
        {"category": row.category, "n": row.n} | value_of(row.accuracy)
        for row in report.by_category
        if not isinstance(row.accuracy, Undefined)
    ]
    rows = rows if len(rows) > 1 else []
    caption = "The judge's accuracy per category, with its 95 % interval."
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
    caption = "Hollow points cover sampling error only, not judge bias."
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


def _method(row: sections_methods.MethodRow) -> str:
    beta = f", β {row.beta:g} %" if row.beta else ""
    return f"{row.name}{beta}" if row.k is None else f"{row.name} (k {row.k}{beta})"


SECTIONS = (
    Section("methods", "results/_methods.html", plots=(cost_plot,)),
    Section("position", "results/_position.html", plots=(score_gap_plot,)),
    Section("portia", "results/_portia.html", read=sections_portia.read_portia),
    Section(
        "calibration",
        "results/_calibration.html",
        read=sections_calibration.read_calibration,
        plots=(
            lambda report: sections_calibration.calibration_accuracy(report.calibration),
            lambda report: sections_calibration.calibration_curves(report.calibration),
        ),
    ),
    Section("ablation", "results/_ablation.html"),
    Section("review", "results/_review.html", plots=(review_curve_plot, distribution_plot)),
    Section("length", "results/_length.html"),
    Section("judge_card", "results/_judge_card.html", read=sections_judge_card.read_card),
    Section("win_rate", "results/_win_rate.html", plots=(win_rates_plot,)),
    Section("trust", "results/_trust.html"),
    Section("routing", "results/_routing.html", read=sections_routing.read_routing),
    Section("models", "results/_models.html"),
    Section("people", "results/_agreement.html", plots=(agreement_plot,)),
    Section(
        sections_people.NAME,
        "results/_pace.html",
        read=sections_people.read,
        plots=(lambda report: sections_people.pace_plot(report.pace),),
    ),
    Section("categories", "results/_categories.html", plots=(categories_plot,)),
)


def report(of: Analysis) -> Report:
    """Everything that the results page, the files and `report --json` say of a run.

    Each section has a generator of its own from the run's seed, so that none changes another.
    """
    by_chance = win_rates.category_tests(of.sheet, of.samples)
    return Report(
        project=ProjectName(of.project.slug, of.project.name),
        run=described(of.run),
        coverage=coverage(of),
        methods=_methods(of),
        position=of.position,
        conflict_by_gap=sections_position.conflict_by_gap(of.samples, of.run),
        orders=sections_position.orders(of.sheet, of.samples, of.rng),
        portia=sections_portia.portia(of),
        calibration=sections_calibration.calibration(of),
        ablation=sections_methods.ablation(
            of.sheet, of.run, of.others, of.fewer, of.before(), of.rng
        ),
        hitlc=sections_review.hitlc(of.sheet, of.samples, of.review, of.band),
        ties=review_gain.ties(of),
        review=review_gain.review(of),
        distribution=sections_position.distribution(of.sheet),
        expected=sections_review.expectation(of.sheet, of.review, of.rng),
        length=of.length,
        judge_card=sections_judge_card.judge_card(of),
        win_rate=win_rates.win_rates(of.sheet),
        certificate=trust.certificate(of.sheet, of.audit, of.unchecked),
        alt_test=trust.alt_test(of.sheet, of.replacement),
        routing=sections_routing.figures(of),
        cascades=sections_routing.cascades(of),
        models=win_rates.models(of.sheet),
        people=sections_people.people(of.sheet, of.rng),
        pace=sections_people.pace(of),
        by_category=win_rates.by_category(of.sheet, of.samples, of.rng, by_chance),
        category_differences=win_rates.category_differences(by_chance),
        # Rows of the database do not belong in what is kept.
        cost=replace(of.costs, runs=()),
    )


@dataclass(frozen=True)
class PeopleAlone:
    """What people say before any run is ranked, from all their votes.

    labels: examples by the label that people gave. sources: the same by how they came to it.
    undecided: examples with votes and without a label.
    """

    project: ProjectName
    run: None
    examples: int
    voted: int
    labels: Mapping[str, int]
    sources: Mapping[str, int]
    undecided: int
    unblinded: trust.Unblinded
    people: sections_people.PeopleFigures
    pace: Sequence[sections_people.Pace]
    cost: Costs


def people_alone(project: Project) -> PeopleAlone | None:
    """Return the report by people alone, which shows nothing of a judge; None without votes."""
    sheet = sheet_of(project, None)
    given = [say for say in sheet.people if say is not None and (say.votes or say.settled)]
    if not given:
        return None
    times = sections_people.times_of(project)
    return PeopleAlone(
        project=ProjectName(project.slug, project.name),
        run=None,
        examples=len(sheet),
        voted=sum(bool(say.votes) for say in given),
        labels={name: sum(say.label == name for say in given) for name in Label.values},
        sources=Counter(say.source for say in given if say.label),
        undecided=sum(not say.label for say in given),
        unblinded=trust.unblinded(sheet),
        people=sections_people.people(sheet, np.random.default_rng(0)),
        pace=[] if isinstance(times, Undefined) else sections_people.by_person(times),
        cost=replace(project_costs(project, None), runs=()),
    )


def _methods(of: Analysis) -> list[sections_methods.MethodRow]:
    """The juries stand between the judge alone and what people review."""
    given = (of.others, of.prompt_share, of.fewer, of.before(), of.after(), of.band, of.costs)
    rows = sections_methods.methods(of.sheet, of.run, *given, of.rng)
    reviewed = next((place for place, row in enumerate(rows) if row.beta), len(rows))
    return [*rows[:reviewed], *sections_routing.jury_rows(of), *rows[reviewed:]]


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
        adaptive=sections_methods.is_adaptive(run),
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
