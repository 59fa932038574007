"""The report of a run: its figures, its chapters with their sections, and its plots.

To add a section: a module in `annotation.results.sections`, its figures in `Report` and `report`,
its place in `CHAPTERS`, and its keys in docs/report.md. Plots read the report and
nothing else, so that a plot and the table under it cannot differ.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from annotation.results.data.figures import Data, Json, Plot, Sentence, to_json
from annotation.results.data.runs import Costs, project_costs
from annotation.results.data.sheet import NO_LABELS, sheet_of
from annotation.results.sections import calibration as sections_calibration
from annotation.results.sections import disagreement as sections_disagreement
from annotation.results.sections import judge_card as sections_judge_card
from annotation.results.sections import methods as sections_methods
from annotation.results.sections import people as sections_people
from annotation.results.sections import portia as sections_portia
from annotation.results.sections import position as sections_position
from annotation.results.sections import registration as sections_registration
from annotation.results.sections import review as sections_review
from annotation.results.sections import review_gain, trust, win_rates
from annotation.results.sections import routing as sections_routing
from annotation.results.sections import skills as sections_skills
from annotation.results.sections import vote_details as sections_details
from annotation.results.sections.analysis import (
    Analysis,
    Dataset,
    Section,
    dataset_of,
    questions_plot,
    read_dataset,
    read_style,
    style_of,
    words_plot,
)
from judging.core.formatting import count
from judging.dataset.models import Frame, Label
from judging.methods.agreement.skills import FEW_PEOPLE, FEWEST_RATERS
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.verdicts.position import GapBin
from judging.projects.models import Project
from judging.runs.models import Run


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
    # As the run stores it: what a recorded run says of PORTIA can be anything.
    portia: Json | None
    permutations: Sequence[str] | None
    temperature: str
    template: str
    template_sha256: str
    seed: int
    price_source: str


@dataclass(frozen=True)
class Coverage:
    """frame: how the examples were chosen, in words; None for all. samples: slots by status.
    reused: how many samples were copied from other runs.

    labels: the judge's, by what they say. basis: whose labels are
    compared, as in `Sheet`. known: how many of these there are, or why there are none."""

    examples: int
    frame: str | None
    reused: int
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
    dataset: Dataset
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
    judge_criteria: Sequence[sections_judge_card.JudgeOnCriterion]
    win_rate: win_rates.WinRates
    calibrated: sections_routing.Calibrated
    certificate: trust.CertificateFigures
    alt_test: trust.AlternativeTest | Undefined
    routing: sections_routing.RoutingFigures | Undefined
    cascades: Sequence[sections_routing.CascadeRow]
    escalation: sections_routing.Escalations | Undefined
    models: win_rates.ModelRanking
    people: sections_people.PeopleFigures
    pace: Sequence[sections_people.Pace]
    self_agreement: Sequence[sections_people.SelfAgreement]
    skills: sections_skills.SkillFigures | Undefined
    noise: sections_skills.NoiseFigures | Undefined
    disagreement: sections_disagreement.DisagreementFigures | Undefined
    criteria: sections_people.CriteriaFigures | Undefined
    vote_details: sections_details.VoteDetails | Undefined
    by_category: Sequence[win_rates.CategoryFigures]
    category_differences: win_rates.CategoryDifferences
    preregistration: sections_registration.Registration | Undefined
    cost: Costs


def alone(report: Report) -> Figure:
    """Accuracy of the judge's labels, without people."""
    return report.ties.half.accuracy


def after(report: Report) -> Figure | None:
    """Accuracy of the final labels; None before a review."""
    done = report.review
    if isinstance(done, review_gain.NoReview):
        return None
    # Without an audit, the accuracy after the review is that of the final labels.
    return done.final_accuracy or done.accuracy


def resting_on(report: Report) -> win_rates.RestingOn:
    """Say whose the final labels are that the models are ranked by."""
    n, labels = report.coverage.examples, sum(report.coverage.final_labels.values())
    done = (row.m + row.audited for row in report.methods if row.done)
    m = next(done, 0)
    # People gave every label, so nothing in the ranking is the judge's.
    if m and m == n:
        return win_rates.RestingOn("people's labels", "", True)
    if m:
        more = f"; people gave {count(m)} of these {count(labels)} labels, the judge the others"
        return win_rates.RestingOn("the final labels", more, False)
    known = report.coverage.known
    if isinstance(known, Undefined) and known.reason == NO_LABELS:
        return win_rates.RestingOn("the judge's labels", "; nobody has checked these labels", False)
    more = "; people's labels are not part of this ranking"
    return win_rates.RestingOn("the judge's labels", more, False)


def who_wins(report: Report) -> Sentence:
    """Say who wins, by people if that can be said: what the judge says is no answer by itself."""
    if not win_rates.is_of_models(report.models):
        return win_rates.models_answer(report.models, resting_on(report))
    return win_rates.answer(report.win_rate, report.models, report.coverage.basis)


def names_of(report: Report) -> tuple[str, str] | None:
    """Return the two models that the whole project compares, if it does."""
    return win_rates.pair_names(report.models)


def _read_plans(of: Analysis) -> Data | Undefined:
    return trust.registrations_of(of.project, of.run)


def lacks_people(report: Report, part: object) -> bool:
    """Return True if a part has no figures for the reason that no label by people is known."""
    known = report.coverage.known
    # A part that lacks labels is left out: the head of the page gives this reason once.
    lacks = isinstance(known, Undefined) and isinstance(part, Undefined)
    return lacks and part.reason == known.reason


def has_audit(report: Report) -> bool:
    certificate = report.certificate
    return certificate.issued or bool(certificate.bounds) or bool(certificate.looks)


@dataclass(frozen=True)
class Chapter:
    """A page of the results, and a chapter of the report file.

    answer: its first line. sections: the first one is shown at once, next to its first plot, the
    others under "More". method: only shown for a run that has its figures.
    """

    name: str
    title: str
    answer: Callable[[Report], Sentence]
    sections: tuple[Section, ...]
    method: bool = False


CHAPTERS = (
    Chapter(
        "verdict",
        "Verdict",
        who_wins,
        (
            Section(
                "win_rate",
                "results/_win_rate.html",
                read=sections_routing.read_calibration,
                plots=(lambda report: win_rates.win_rates_plot(report.win_rate, report.models),),
                anchor="win-rate",
            ),
            Section("shift", "results/_shift.html", "How far do judge errors shift the win rate?"),
            Section(
                "categories",
                "results/_categories.html",
                "Results by category",
                has=lambda report: len(report.by_category) > 1,
                plots=(lambda report: win_rates.categories_plot(report.by_category),),
            ),
            Section(
                "dataset",
                "results/_dataset.html",
                "What is in the data?",
                read=read_dataset,
                plots=(
                    lambda report: questions_plot(report.dataset),
                    lambda report: words_plot(report.dataset),
                ),
            ),
        ),
    ),
    Chapter(
        "trust",
        "Trust",
        lambda report: trust.answer(
            alone(report), after(report), report.coverage.basis, report.certificate
        ),
        (
            Section(
                "accuracy",
                "results/_accuracy.html",
                plots=(
                    lambda report: trust.accuracy_plot(
                        alone(report), after(report), report.certificate.unchecked_accuracy
                    ),
                ),
            ),
            Section(
                "trust",
                "results/_trust.html",
                "Can the unreviewed labels be trusted?",
                has=has_audit,
            ),
            Section(
                "escalation",
                "results/_escalation.html",
                "Which labels may judges keep?",
                read=sections_routing.read_simulated,
                has=lambda report: not isinstance(report.escalation, Undefined),
            ),
            Section(
                "alt-test",
                "results/_alt_test.html",
                "Can the judge replace an annotator?",
                has=lambda report: not lacks_people(report, report.alt_test),
            ),
            Section(
                "methods",
                "results/_methods.html",
                "How accurate is each method, and what does it cost?",
                plots=(lambda report: sections_methods.cost_plot(report.methods),),
            ),
            Section("cost", "results/_cost.html", "Costs"),
            Section(
                trust.REGISTERED,
                "results/_preregistration.html",
                "Was the plan kept?",
                has=lambda report: not isinstance(report.preregistration, Undefined),
                read=_read_plans,
            ),
        ),
    ),
    Chapter(
        "judge",
        "Judge",
        lambda report: sections_position.answer(report.position),
        (
            Section(
                "judge_card",
                "results/_judge_card.html",
                read=sections_judge_card.read_card,
                plots=(
                    lambda report: sections_position.swap_plot(report.orders, names_of(report)),
                ),
            ),
            Section("meanings", "results/_judge_meanings.html", "What does each measure mean?"),
            Section(
                "position",
                "results/_position.html",
                "Does the judge prefer a position?",
                plots=(lambda report: sections_position.score_gap_plot(report.conflict_by_gap),),
            ),
            Section(
                sections_judge_card.JUDGE_CRITERIA,
                "results/_judge_criteria.html",
                "Does the judge agree with people on each criterion?",
                has=lambda report: bool(report.judge_criteria),
                read=sections_judge_card.read_judge_criteria,
            ),
            Section("length", "results/_length.html", "Does the judge prefer longer responses?"),
            Section(
                "ablation",
                "results/_ablation.html",
                "Other judge settings",
                has=lambda report: bool(report.ablation),
            ),
        ),
    ),
    Chapter(
        "review",
        "Review",
        lambda report: review_gain.answer(report.review, report.hitlc),
        (
            Section(
                "review",
                "results/_review.html",
                plots=(lambda report: review_gain.review_plot(report.hitlc),),
            ),
            Section(
                "rankings",
                "results/_rankings.html",
                "Which ranking finds the judge's errors?",
                has=lambda report: bool(report.hitlc.beta),
                plots=(
                    lambda report: review_gain.other_rankings_plot(report.hitlc),
                    lambda report: sections_position.distribution_plot(report.distribution),
                ),
            ),
            Section(
                "routing",
                "results/_routing.html",
                "Does learned routing find more errors?",
                has=lambda report: (
                    bool(report.cascades) or not lacks_people(report, report.routing)
                ),
                read=sections_routing.read_routing,
            ),
            Section(
                "ties",
                "results/_ties.html",
                "Accuracy if the known labels have no ties",
                # Both conventions give the same if people could say tie, or the judge never did.
                has=lambda report: report.ties.half != report.ties.wrong,
            ),
        ),
    ),
    Chapter(
        "people",
        "People",
        lambda report: sections_people.answer(report.people),
        (
            Section(
                "people",
                "results/_agreement.html",
                plots=(lambda report: sections_people.agreement_plot(report.people),),
            ),
            Section(
                "pairs",
                "results/_people_pairs.html",
                "Pairs of annotators, and sides",
                has=lambda report: bool(report.people.annotators),
            ),
            Section(
                sections_people.NAME,
                "results/_pace.html",
                "How fast do people vote?",
                has=lambda report: bool(report.pace),
                read=sections_people.read,
                plots=(lambda report: sections_people.pace_plot(report.pace),),
            ),
            Section(
                sections_people.SELF,
                "results/_self_agreement.html",
                "Do people agree with themselves?",
                has=lambda report: bool(report.self_agreement),
                read=sections_people.read_again,
            ),
            Section(
                sections_skills.SKILLS,
                "results/_skills.html",
                "How skilled are annotators, and what do models make of their votes?",
                has=lambda report: not isinstance(report.skills, Undefined),
                plots=(lambda report: sections_skills.skills_plot(report.skills),),
            ),
            Section(
                sections_skills.NOISE,
                "results/_noise.html",
                "How much of the disagreement with the judge is people's noise?",
                has=lambda report: not isinstance(report.noise, Undefined),
            ),
            Section(
                sections_disagreement.NAME,
                "results/_disagreement.html",
                "Why do judge and people disagree?",
                has=lambda report: not isinstance(report.disagreement, Undefined),
                read=sections_disagreement.read_disagreement,
            ),
            Section(
                sections_people.CRITERIA,
                "results/_criteria.html",
                "What do people say on each criterion?",
                has=lambda report: not isinstance(report.criteria, Undefined),
                read=sections_people.read_criteria,
                plots=(lambda report: sections_people.criteria_plot(report.criteria),),
            ),
            Section(
                sections_people.DETAILS,
                "results/_vote_details.html",
                "How sure are people, and why?",
                has=lambda report: not isinstance(report.vote_details, Undefined),
                read=sections_details.read_details,
                anchor="vote-details",
            ),
        ),
    ),
    Chapter(
        "models",
        "Models",
        lambda report: win_rates.models_answer(report.models, resting_on(report)),
        (
            Section(
                "models",
                "results/_models.html",
                plots=(lambda report: win_rates.models_plot(report.models),),
            ),
            Section(
                "ranking",
                "results/_ranking.html",
                "Bradley–Terry ranking",
                read=read_style,
                has=lambda report: bool(report.models.pairwise),
            ),
        ),
    ),
    Chapter(
        "portia",
        "PORTIA",
        lambda report: sections_portia.answer(report.portia),
        (
            Section(
                "portia",
                "results/_portia.html",
                read=sections_portia.read_portia,
                plots=(lambda report: sections_portia.consistency_plot(report.portia),),
            ),
            Section(
                "portia-stages",
                "results/_portia_more.html",
                "Stages, settings and failures",
                has=lambda report: not isinstance(report.portia, Undefined),
                plots=(lambda report: sections_portia.parts_plot(report.portia),),
            ),
        ),
        method=True,
    ),
    Chapter(
        "calibration",
        "Calibration",
        lambda report: sections_calibration.answer(report.calibration),
        (
            Section(
                "calibration",
                "results/_calibration.html",
                read=sections_calibration.read_calibration,
                plots=(
                    lambda report: sections_calibration.calibration_accuracy(report.calibration),
                    lambda report: sections_calibration.calibration_curves(report.calibration),
                ),
            ),
            Section(
                "calibration-more",
                "results/_calibration_more.html",
                "Each permutation, more data and other settings",
                has=lambda report: not isinstance(report.calibration, Undefined),
            ),
        ),
        method=True,
    ),
    Chapter(
        "likelihood",
        "Likelihood",
        lambda report: sections_judge_card.likelihood_answer(report.judge_card),
        (
            Section(
                "likelihood",
                "results/_likelihood.html",
                plots=(lambda report: sections_judge_card.likelihood_plot(report.judge_card),),
            ),
        ),
        method=True,
    ),
)
# The ZIP packs what each section reads, and plots are addressed by name across all chapters.
SECTIONS = tuple(section for chapter in CHAPTERS for section in chapter.sections)


def chapters_of(report: Report) -> list[Chapter]:
    """Return the chapters that this run has figures for, those of methods last."""
    likelihood = sections_judge_card.entry_of(report.judge_card, "likelihood")
    has = {
        "portia": bool(report.run.portia),
        "calibration": report.run.form == "choice",
        "likelihood": not isinstance(likelihood.value, Undefined),
    }
    return [chapter for chapter in CHAPTERS if not chapter.method or has[chapter.name]]


def drawn(report: Report, section: Section) -> list[Plot]:
    """Return the section's plots that have something to show."""
    # A drawing without rows has no columns, which its table would need.
    return [made for made in (draw(report) for draw in section.plots) if made.table]


def report(of: Analysis) -> Report:
    """Everything that the results page, the files and `report --json` say of a run.

    Each section has a generator of its own from the run's seed, so that none changes another.
    """
    made = _figures(of)
    known = made.coverage.known
    labelled = 0 if isinstance(known, Undefined) else known
    data = of.own(trust.REGISTERED, _read_plans)
    # Most projects have no plan, and need not pass through the section to say so.
    if isinstance(data, Undefined):
        return made
    registered = sections_registration.registration(of, data, _reported(made), labelled)
    return replace(made, preregistration=registered)


def _reported(made: Report) -> dict[str, bool]:
    """Say for each analysis that can be promised whether the report has a figure for it."""
    models = made.models.pairwise
    figures: dict[str, object] = {
        "accuracy": alone(made),
        "position": made.position.conflict_rate,
        "length": made.length.judge,
        "alt_test": made.alt_test,
        "people": made.people.agreement,
    }
    return {name: not isinstance(figure, Undefined) for name, figure in figures.items()} | {
        "win_rate": win_rates.to_cite(made.win_rate) is not None,
        "review": isinstance(made.review, review_gain.ReviewDone),
        "certificate": has_audit(made),
        "categories": len(made.by_category) > 1,
        "models": bool(models),
    }


def _figures(of: Analysis) -> Report:
    # Two parts of the report show these tests, which draw many permutations.
    by_chance, known = win_rates.category_tests(of.sheet, of.samples), of.sheet.known
    calibrated_rate, calibrated = sections_routing.calibrated(of)
    return Report(
        project=ProjectName(of.project.slug, of.project.name),
        run=described(of.run),
        coverage=coverage(of),
        dataset=dataset_of(of),
        methods=_methods(of),
        position=of.position,
        conflict_by_gap=sections_position.conflict_by_gap(of.samples, of.run),
        orders=sections_position.orders(of.sheet, of.samples, of.rng),
        # Most runs are by another method, and need not pass through the section to say so.
        portia=sections_portia.portia(of) if of.run.stages else sections_portia.NOT_PORTIA,
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
        judge_criteria=sections_judge_card.judge_criteria(of),
        win_rate=win_rates.win_rates(of.sheet, calibrated_rate, sections_routing.planned(of)),
        calibrated=calibrated,
        certificate=trust.certificate(of.sheet, of.audit, of.unchecked),
        alt_test=trust.alt_test(of.sheet, of.replacement),
        routing=sections_routing.figures(of),
        cascades=sections_routing.cascades(of),
        escalation=sections_routing.escalations(of),
        models=win_rates.models(of.sheet, style_of(of)),
        people=sections_people.people(of.sheet, of.rng),
        pace=sections_people.pace(of),
        self_agreement=sections_people.self_agreement(of),
        # As above: most of it needs three annotators, or labels to compare with.
        skills=sections_skills.skills(of.sheet, of.project)
        if len(of.sheet.ballots.names) >= FEWEST_RATERS
        else FEW_PEOPLE,
        noise=sections_skills.noise(of) if not isinstance(known, Undefined) else known,
        disagreement=sections_disagreement.disagreement(of)
        if not isinstance(known, Undefined)
        else known,
        criteria=sections_people.criteria(of),
        vote_details=sections_details.vote_details(of)
        if sections_people.says_more(of)
        else sections_people.NOT_ASKED,
        by_category=win_rates.by_category(of.sheet, of.samples, of.rng, by_chance),
        category_differences=win_rates.category_differences(by_chance),
        # What was done is compared with it once all figures are there.
        preregistration=trust.NOT_REGISTERED,
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
    self_agreement: Sequence[sections_people.SelfAgreement]
    skills: sections_skills.SkillFigures | Undefined
    criteria: sections_people.CriteriaFigures | Undefined
    vote_details: sections_details.VoteDetails | Undefined
    cost: Costs


def people_alone(project: Project, frame: Frame | None = None) -> PeopleAlone | None:
    """Return the report by people alone, which shows nothing of a judge; None without votes."""
    sheet = sheet_of(project, None, frame.pk if frame else None)
    answered = [say for say in sheet.people if say is not None and (say.votes or say.settled)]
    if not answered:
        return None
    times = sections_people.times_of(project)
    again = sections_people.again_of(project)
    answers = sections_people.criterion_votes(project, sheet)
    details = sections_details.details_in(project, sheet)
    # There is no run whose seed could be used. A fixed one gives the same intervals each time.
    rng = np.random.default_rng(0)
    return PeopleAlone(
        project=ProjectName(project.slug, project.name),
        run=None,
        examples=len(sheet),
        voted=sum(bool(say.votes) for say in answered),
        labels={name: sum(say.label == name for say in answered) for name in Label.values},
        sources=Counter(say.source for say in answered if say.label),
        undecided=sum(not say.label for say in answered),
        unblinded=trust.unblinded(sheet),
        people=sections_people.people(sheet, np.random.default_rng(0)),
        pace=[] if isinstance(times, Undefined) else sections_people.by_person(times),
        self_agreement=[]
        if isinstance(again, Undefined)
        else sections_people.with_themselves(again),
        skills=sections_skills.skills(sheet, project, run=False),
        criteria=answers
        if isinstance(answers, Undefined)
        else sections_people.criteria_of(sheet, answers, rng),
        vote_details=details
        if isinstance(details, Undefined)
        else sections_details.details_of(sheet, details, np.random.default_rng(0)),
        cost=replace(project_costs(project, None), runs=()),
    )


def _methods(of: Analysis) -> list[sections_methods.MethodRow]:
    """Return the rows of all methods, with juries between the judge alone and reviews."""
    figures = (of.others, of.prompt_share, of.fewer, of.before(), of.after(), of.band, of.costs)
    rows = sections_methods.methods(of.sheet, of.run, *figures, of.rng)
    # Rows that people review come last, and have a β.
    reviewed = next((place for place, row in enumerate(rows) if row.beta), len(rows))
    return [*rows[:reviewed], *sections_routing.jury_rows(of), *rows[reviewed:]]


def report_json(analysis: Analysis) -> Json:
    """Return what `report --json` prints. docs/report.md has all keys."""
    return to_json(report(analysis))


def plots(report: Report) -> list[Plot]:
    """Return the plots that have something to show, in the order of the chapters."""
    return [plot_ for section in SECTIONS for plot_ in drawn(report, section)]


def described(run: Run) -> RunDescription:
    return RunDescription(
        number=run.number, name=run.name, method=run.method, form=run.form, endpoint=run.endpoint,
        model=run.model, k=run.k, adaptive=sections_methods.is_adaptive(run),
        portia=run.parameters.get("portia"), permutations=run.parameters.get("permutations"),
        temperature=str(run.temperature), template=run.template_name,
        template_sha256=run.template_hash, seed=run.seed, price_source=run.price_source,
    )  # fmt: skip


def coverage(analysis: Analysis) -> Coverage:
    known = analysis.sheet.known
    return Coverage(
        examples=len(analysis.sheet), frame=analysis.about, reused=analysis.reused,
        judged=analysis.coverage, samples=analysis.statuses, labels=analysis.shares,
        final_labels=analysis.final_shares, basis=analysis.sheet.basis,
        unblinded=analysis.unblinded,
        known=known if isinstance(known, Undefined) else len(known.rows),
    )  # fmt: skip
