"""Several runs as one panel, and as a cascade: what they reach, cost, and may keep from people.

The members are this run and the project's other ranked runs that label at least half of what it
labels. Scores of different forms are compared by their verdicts.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from annotation.models import Item, Round, RoutingScores, Selection
from annotation.results.data.figures import Data, Json, Number, figure_from, optional
from annotation.results.data.runs import MOST_RUNS, OtherRun, settings_of
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import LABELS, KnownLabels, Sheet, text_lengths
from annotation.results.merge.final_labels import places_of, spread
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import MICRO_USD, MethodRow
from annotation.results.sections.review import label_agreement
from annotation.results.sections.win_rates import EVEN, audited_labels, width_ratio
from annotation.rounds.changes import RoutingFit, open_second_stage
from annotation.votes.agreement import SIGN
from judging.core.errors import UserError
from judging.core.formatting import count, decimals, set_apart
from judging.dataset.models import frame_of
from judging.methods.agreement.accuracy import Design, Ties, credit
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import FEWEST_AUDITED
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, design_total, narrower
from judging.methods.intervals.win_rate import best_lambda, win_points, win_rate
from judging.methods.review.auroc import AurocDifference, auroc
from judging.methods.review.certificate import first_sure, stage_prices, trust_or_escalate
from judging.methods.review.panels import accuracy_weights, cascade, equal_weights, panel
from judging.methods.review.ridge import calibrated_accuracy, calibrated_kappa, calibrated_labels
from judging.methods.review.routing import (
    CATEGORY,
    Feature,
    Features,
    Judged,
    Routing,
    expected_errors,
    features,
    in_favour,
    judged_features,
    jury_agreement,
    preference_features,
    routing,
    smoothed_entropies,
    wrongness,
)
from judging.methods.review.teaching import simulated_confidence, simulated_likelihood
from judging.methods.verdicts.verdicts import cut
from judging.projects.models import Project
from judging.runs.forms.likelihood import pair_differences
from judging.runs.models import Form, Run, Verdict

_WHEN = {
    "bpde": "the more its samples contradict each other (BPDE)",
    "gap": "the larger the difference between its scores (|CS₁ − CS₂|)",
    "length in favour": "when it prefers the longer response",
    "length difference": "the more the responses differ in length",
    "question length": "the longer the question",
    "missing samples": "the more of its samples are missing",
    "conflict": "when its two orders give different labels",
    "first position": "the more often the response shown first won",
    "jury agreement": "the more the other runs agree with it",
    "log-probability margin": "the more certain its token probabilities are",
    "PORTIA's stage": "the later the PORTIA stage that settled it",
    "likelihood in favour": "when it prefers the response that a language model finds more likely",
}

# Odds half as large again, or a third smaller.
NOTABLE = math.log(1.5)


def sentence(name: str, ratio: Estimate) -> str:
    """Say “wrong more often when it prefers the longer response: ×2.1 [1.4–3.3] per sd”."""
    value, low, high = ratio.value, ratio.low, ratio.high
    category = name.startswith(CATEGORY)
    shown = set_apart(name.removeprefix(CATEGORY))
    when = f"in “{shown}”" if category else _WHEN.get(name, f"with “{shown}”")
    unit = "compared with the average category" if category else "per standard deviation"
    times = f"×{_ratio(value)} [{_ratio(low)}–{_ratio(high)}] {unit}"
    often = "more often" if value > 1 else "less often"
    if not low <= 1 <= high:
        return f"Wrong {often} {when}: {times}"
    if abs(math.log(value)) > NOTABLE:
        return f"Possibly wrong {often} {when}: {times}"
    return f"No clear difference {when}: {times}"


def evidence(ratio: Estimate) -> float:
    """Return how far the odds ratio is from 1, in widths of its interval."""
    width = math.log(ratio.high / ratio.low)
    return abs(math.log(ratio.value)) / width if width else 0.0


def _ratio(value: float) -> str:
    """Write two significant digits below 1, one decimal up to 100, and whole numbers above."""
    if value < 1:
        return f"{value:.2g}"
    return decimals(value, 1) if value < 100 else count(round(value))


# Beyond it a probability's logit says more of rounding than of the judge.
_SUREST = 1 - 1e-6


def pair_texts(project: Project, ids: Codes) -> Data:
    """Read what all runs of a project share: lengths in characters, and how much likelier a
    language model finds response 1 per token, if it was asked. In the order of `ids`."""
    lengths = text_lengths(project, ids).astype(np.float64)
    arrays = dict(zip(("length_1", "length_2", "question"), lengths.T, strict=True))
    likelihood = pair_differences(project, ids).per_token
    # Most projects have no likelihoods, and need not be told that this feature was left out.
    if np.isfinite(likelihood).any():
        arrays["likelihood"] = likelihood
    return Data(arrays)


def with_stages(texts: Data, sheet: Sheet, run: Run) -> Data:
    """Return the texts with PORTIA's stages, if the run has any."""
    stages = dict(Verdict.objects.filter(run=run).exclude(stage="").values_list("example", "stage"))
    return Data(texts.arrays | _stages(sheet, run, stages))


def texts_of(project: Project, run: Run, sheet: Sheet) -> Data:
    """Return what is known of the texts of one run."""
    return with_stages(pair_texts(project, sheet.ids), sheet, run)


def columns_of(
    sheet: Sheet, run: Run, samples: SampleArrays, others: Sequence[OtherRun], texts: Data
) -> Features:
    """Return the columns of the features, standardised."""
    judged = _judged(sheet, run, samples, texts)
    columns = judged_features(judged)
    if run.form == Form.CHOICE:
        # Only a choice has a probability; its gap is |2 P − 1|.
        columns.append(Feature("log-probability margin", _margin(sheet.gap)))
    if "likelihood" in texts.arrays:
        columns.append(in_favour("likelihood in favour", texts.arrays["likelihood"], judged.sign))
    if "stage" in texts.arrays:
        columns.append(Feature("PORTIA's stage", texts.arrays["stage"]))
    if others:
        verdicts = [(other.judge, other.judged) for other in others]
        columns.append(jury_agreement(judged.sign, verdicts))
    return features(columns, sheet.category.tolist(), sheet.judged)


def _judged(sheet: Sheet, run: Run, samples: SampleArrays, texts: Data) -> Judged:
    """Return BPDE, smoothed unless it comes from probabilities."""
    signs = samples.signs
    bpde = sheet.bpde
    if run.form != Form.CHOICE:
        # Smoothing also counts how many samples there are: three that agree say less than ten.
        bpde = smoothed_entropies(signs, samples.valid)
    return Judged(
        # A sign without a label means nothing, and 0 favours neither response.
        sign=np.where(sheet.judged, sheet.judge, 0).astype(np.int8), bpde=bpde, gap=sheet.gap,
        outcomes=signs, valid=samples.valid, length_1=texts.arrays["length_1"],
        length_2=texts.arrays["length_2"], question=texts.arrays["question"],
    )  # fmt: skip


def _margin(gap: Floats) -> Floats:
    """Return the logit of P, from |2 P - 1|."""
    sure = np.minimum(gap, _SUREST)
    return np.asarray(np.log1p(sure) - np.log1p(-sure))


def _stages(sheet: Sheet, run: Run, stages: dict[int, str]) -> dict[str, Floats]:
    """Which of the stages settled an example, 1 for the first; nothing for runs without them."""
    if not stages:
        return {}
    number = {name: float(place) for place, name in enumerate(run.stages, start=1)}
    values = [number.get(stages.get(pk, ""), np.nan) for pk in sheet.ids.tolist()]
    return {"stage": np.array(values)}


NO_ROUND = Undefined("no round of this run has learned from a random sample of labels")


def read_routing(analysis: Analysis) -> Data | Undefined:
    """Read what the newest round of this run learned. Arrays are in the order of the sheet:
    `sample`, where it learned, and `scores`, NaN without one; `plain` says which round it was and
    what it kept, or how far one is that still learns. Without one, and with the label of every
    example known, what it would have learned from."""
    sheet, run = analysis.sheet, analysis.run
    rounds = Round.objects.filter(
        run=run, frame=analysis.frame, stage__in=[Round.Stage.LEARN, Round.Stage.SELECT]
    )
    newest = rounds.order_by("-number").first()
    if newest is None:
        return texts_of(analysis.project, run, sheet) if sheet.everyone else NO_ROUND
    items = Item.objects.filter(round=newest, selection__kind=Selection.Kind.LEARN)
    sample = np.zeros(len(sheet), dtype=bool)
    learned = places_of(sheet.ids, list(items.values_list("example_id", flat=True)))
    # An example that the sheet leaves out has no row.
    sample[learned[learned >= 0]] = True
    stored: Json = {"round": newest.number, "m": newest.parameters["m"]}
    arrays = {"sample": sample}
    kept = RoutingScores.objects.filter(round=newest).first()
    if kept is None:
        done = items.filter(state=Item.State.COMPLETE).count()
        return Data(arrays, stored | {"waits": [done, items.count()]})
    scores = spread(sheet.ids, kept.examples, kept.scores)
    return Data(arrays | {"scores": scores}, stored | {"fit": kept.fit})


# How far ahead is looked.
NEXT_LABELS = 20
logger = logging.getLogger(__name__)


def select_what_was_learned(round_: Round) -> bool:
    """Open the second stage. Return False if another process was faster."""
    run = round_.run
    if run is None:
        logger.warning("Round %s lost the run that it would select from.", round_.pk)
        return False
    return open_second_stage(round_, learned_of(round_, run))


def learned_of(round_: Round, run: Run) -> RoutingFit:
    """Return what the labels of the learning sample teach, by the round's own seed."""
    analysis = Analysis(round_.project, run, round_.frame)
    sheet, samples = analysis.sheet, analysis.samples
    if isinstance(samples, Undefined):
        return RoutingFit(False, {"reason": samples.reason}, _scores(sheet, sheet.bpde))
    places = learning_places(round_, sheet)
    # The answers to this round's own question, and not what is known from elsewhere.
    wrong = wrongness(sheet.judge[places], sheet.answer[places])
    texts = texts_of(round_.project, run, sheet)
    columns = columns_of(sheet, run, samples, analysis.others, texts)
    rng = np.random.default_rng(abs(round_.seed))
    learned = routing(columns, sheet.level, sheet.judged, places, wrong, rng)
    # The score routes only if it beat BPDE on labels that it was not fitted to.
    scores = learned.probability if learned.used else sheet.bpde
    following = _after_the_cut(round_, sheet, scores, places)
    fit = described(learned) | {"next": expected_errors(learned, following).as_json()}
    return RoutingFit(learned.used, fit, _scores(sheet, scores))


def _after_the_cut(round_: Round, sheet: Sheet, scores: Floats, sample: Codes) -> Codes:
    """Return the examples that the next labels would go to if the cut were extended."""
    left = np.setdiff1d(np.arange(len(sheet)), sample)
    # Without a label they come first in the cut, and no error of the judge is found by them.
    unjudged = int((~sheet.judged[left]).sum())
    left = left[sheet.judged[left]]
    start = max(0, round_.parameters["m"] - len(sample) - unjudged)
    return left[np.argsort(-scores[left], kind="stable")][start : start + NEXT_LABELS]


def learning_places(round_: Round, sheet: Sheet) -> Codes:
    """Return the places in the sheet of the labelled learning sample."""
    items = Item.objects.filter(round=round_, selection__kind=Selection.Kind.LEARN)
    here = set(items.values_list("example_id", flat=True))
    drawn = np.array([pk in here for pk in sheet.ids.tolist()], dtype=bool)
    return np.flatnonzero(drawn & sheet.answered)


def described(learned: Routing) -> Json:
    """Return what is stored of a fit, to show how examples were selected."""
    trial, apart = learned.trial, learned.trial.advantage
    advantage = (
        {"value": apart.value, "standard_error": apart.standard_error}
        if isinstance(apart, AurocDifference)
        else apart.as_json()
    )
    return {
        "used": learned.used,
        "reason": learned.reason,
        "n": learned.n,
        "n_wrong": learned.n_wrong,
        "ridge": learned.ridge,
        "learned": trial.learned.as_json(),
        "bpde": trial.bpde.as_json(),
        "advantage": advantage,
        "notes": list(learned.notes),
        "coefficients": [
            {"name": row.name, "odds_ratio": row.odds_ratio.as_json()}
            for row in learned.coefficients
        ],
        "intercept_and_slopes": learned.fit.coefficients[0].tolist(),
        "covariance": learned.fit.covariance[0].tolist(),
    }


def _scores(sheet: Sheet, scores: Floats) -> dict[int, float]:
    # An example without a label has no score to keep. It comes first in the cut all the same.
    there = sheet.judged & np.isfinite(scores)
    return dict(zip(sheet.ids[there].tolist(), scores[there].tolist(), strict=True))


NOT_KEPT = Undefined("the round selected by BPDE, so it has no learned score")
NO_JURY = Undefined("the project has no other run")
SHRUNK = "the range includes the shrinkage of the fit, so it is no 95\u202f% interval"


@dataclass(frozen=True)
class RoutingScoreFigures:
    """AUROC of each score for the judge's errors."""

    bpde: Figure
    learned: Figure
    jury: Figure


@dataclass(frozen=True, kw_only=True)
class ErrorsByRoute:
    """Errors in the labels spent, and what as many by BPDE's rank and at random would have found.

    labels: how many those are, of a round.
    """

    labels: int | None = optional()
    people: Figure
    bpde: Figure
    random: Figure


@dataclass(frozen=True)
class Advantage:
    """AUROC of the learned score less that of BPDE."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Coefficient:
    name: str
    odds_ratio: Estimate
    sentence: str


@dataclass(frozen=True)
class RoutingFigures:
    """What was learned of where this judge errs. source: a round, or the known labels.

    used, reason: whether the learned score selects, and why not. auroc: where it learned, by
    cross-validation; held_out: elsewhere. next: errors that the next labels are expected to find.
    """

    source: str
    round: int | None
    used: bool
    reason: str
    n: int
    n_wrong: float
    ridge: float
    advantage: Advantage | Undefined
    notes: Sequence[str]
    coefficients: Sequence[Coefficient]
    auroc: RoutingScoreFigures
    held_out: RoutingScoreFigures
    errors_found: ErrorsByRoute
    next: Figure


@dataclass(frozen=True)
class NotLearned(Undefined):
    """A round that could not learn."""

    round: int

    def as_json(self) -> Json:
        return super().as_json() | {"round": self.round}


def figures(analysis: Analysis) -> RoutingFigures | Undefined:
    data = analysis.own("routing", read_routing)
    if isinstance(data, Undefined):
        return data
    if "fit" in data.plain:
        return _of_round(analysis, data)
    if "waits" in data.plain:
        done, n = data.plain["waits"]
        reason = f"round {data.plain['round']} is still learning: {done} of {n} items are settled"
        return Undefined(reason)
    return _of_known_labels(analysis, data)


def _of_round(analysis: Analysis, data: Data) -> RoutingFigures | NotLearned:
    sheet, plain = analysis.sheet, data.plain
    fit, sample = plain["fit"], data.arrays["sample"]
    # A round without valid samples stores only the reason why it could not learn.
    if "coefficients" not in fit:
        return NotLearned(fit["reason"], plain["round"])
    jury = _jury(sheet, analysis.others, np.flatnonzero(sample & sheet.answered))
    return _of_fit(
        fit, jury, source="round", round=plain["round"], held_out=_held_out(analysis, data),
        errors_found=_errors_found(sheet, data), next=_next(sheet, data),
    )  # fmt: skip


def _next(sheet: Sheet, data: Data) -> Figure:
    """Errors that the next labels are expected to find; once the cut was extended, from the
    scores alone."""
    fit, scores = data.plain["fit"], data.arrays["scores"]
    if sheet.selected.sum() <= data.plain["m"]:
        return alone(fit["next"])
    if not fit["used"]:
        return Undefined("the cut was extended, and BPDE can't predict a number of errors")
    left = np.sort(scores[~sheet.selected & np.isfinite(scores)])[::-1][:NEXT_LABELS]
    return Estimate(float(left.sum()), len(left))


def _of_known_labels(analysis: Analysis, data: Data) -> RoutingFigures | Undefined:
    """Return what all known labels teach. No vote was spent on it, and no error is left to find."""
    sheet, samples = analysis.sheet, analysis.samples
    rows = np.flatnonzero(sheet.labelled)
    if isinstance(samples, Undefined) or not len(rows):
        return Undefined("no example has both a judge's sample and a known label")
    columns = columns_of(sheet, analysis.run, samples, analysis.others, data)
    wrong = wrongness(sheet.judge[rows], sheet.human[rows])
    learned = routing(columns, sheet.level, sheet.judged, rows, wrong, analysis.rng)
    known = Undefined("the label of every example is known")
    return _of_fit(
        described(learned), _jury(sheet, analysis.others, rows), source="known labels", round=None,
        held_out=RoutingScoreFigures(known, known, known),
        errors_found=ErrorsByRoute(people=known, bpde=known, random=known), next=known,
    )  # fmt: skip


def _of_fit(fit: Json, jury: Figure, **more: Any) -> RoutingFigures:
    """Read the figures of a stored fit, the coefficients with the most evidence first."""
    ratios = [
        (row["name"], Estimate(**row["odds_ratio"], note=SHRUNK)) for row in fit["coefficients"]
    ]
    # By the distance from 1 in widths of the interval: a large ratio with a wide one says little.
    ratios.sort(key=lambda pair: -evidence(pair[1]))
    gain = fit["advantage"]
    kept = ("used", "reason", "n", "n_wrong", "ridge", "notes")
    return RoutingFigures(
        **{name: fit[name] for name in kept},
        advantage=Undefined(gain["reason"]) if gain["value"] is None else Advantage(**gain),
        coefficients=[Coefficient(name, ratio, sentence(name, ratio)) for name, ratio in ratios],
        auroc=RoutingScoreFigures(figure_from(fit["bpde"]), alone(fit["learned"]), jury),
        **more,
    )


def alone(stored: Json) -> Figure:
    """Return a stored figure without its range, which depends on the fit and wasn't simulated."""
    figure = figure_from(stored)
    return figure if isinstance(figure, Undefined) else Estimate(figure.value, figure.n)


def _jury(sheet: Sheet, others: tuple[OtherRun, ...], rows: Codes) -> Figure:
    """Return how well the panel's disagreement finds this run's errors."""
    if not others:
        return NO_JURY
    there = rows[sheet.judged[rows]]
    wrong = wrongness(sheet.judge[there], _labels(sheet)[there])
    apart = disagreement(sheet, others)[there]
    return auroc(apart, wrong, question=sheet.question[there])


def disagreement(sheet: Sheet, others: tuple[OtherRun, ...]) -> Floats:
    signs = np.stack([sheet.judge, *(other.judge for other in others)])
    judged = np.stack([sheet.judged, *(other.judged for other in others)])
    return panel(signs, judged, equal_weights(len(signs))).disagreement


def _labels(sheet: Sheet) -> np.ndarray:
    return sheet.human if sheet.everyone else sheet.answer


def _held_out(analysis: Analysis, data: Data) -> RoutingScoreFigures:
    """Measure the scores on examples that they were not learned from, each with its weight."""
    sheet, known = analysis.sheet, analysis.sheet.known
    if isinstance(known, Undefined):
        return RoutingScoreFigures(known, known, known)
    keep = ~data.arrays["sample"][known.rows] & sheet.judged[known.rows]
    rows, weight = known.rows[keep], known.weight[keep]
    wrong = wrongness(sheet.judge[rows], sheet.human[rows])
    scores = data.arrays["scores"]
    question = sheet.question[rows]
    # None of these labels taught the learned score.
    by_bpde = auroc(sheet.level[rows], wrong, weight=weight, question=question)
    # An example that was judged after the selection has no score.
    fair = np.isfinite(scores[rows])
    learned = auroc(scores[rows][fair], wrong[fair], weight=weight[fair], question=question[fair])
    if not data.plain["fit"]["used"]:
        # The round selected by BPDE.
        learned = NOT_KEPT
    by_jury: Figure = NO_JURY
    if analysis.others:
        apart = disagreement(sheet, analysis.others)[rows]
        by_jury = auroc(apart, wrong, weight=weight, question=question)
    return RoutingScoreFigures(by_bpde, learned, by_jury)


def _errors_found(sheet: Sheet, data: Data) -> ErrorsByRoute:
    known, m = sheet.known, int(sheet.selected.sum())
    if isinstance(known, Undefined):
        return ErrorsByRoute(labels=m, people=known, bpde=known, random=known)
    wrong = np.zeros(len(sheet))
    rows = known.rows
    # A missing label counts as an error, as in the accuracy over all examples.
    wrong[rows] = np.where(sheet.judged[rows], wrongness(sheet.judge[rows], sheet.human[rows]), 1.0)
    first = np.zeros(len(sheet), dtype=bool)
    first[sheet.ranking[:m]] = True
    by_chance = _total(sheet, known, wrong)
    if isinstance(by_chance, Estimate):
        # m examples drawn at random hold m/N of all errors on average.
        share = m / len(sheet)
        limits = (None if end is None else end * share for end in (by_chance.low, by_chance.high))
        by_chance = Estimate(by_chance.value * share, by_chance.n, *limits)
    return ErrorsByRoute(
        labels=m,
        people=Estimate(float(wrong[sheet.selected].sum()), m),
        bpde=_total(sheet, known, wrong * first),
        random=by_chance,
    )


def _total(sheet: Sheet, known: KnownLabels, values: Floats) -> Figure:
    """Estimate the total over the project from the selected examples and the audit."""
    if sheet.everyone:
        return Estimate(float(values[known.rows].sum()), len(known.rows))
    audited: Booleans = sheet.audited & ~sheet.selected
    return design_total(values[sheet.selected], values[audited], int((~sheet.selected).sum()))


# The section whose data, in the package and on the page, `calibrated` belongs to.
NAME = "win_rate"
ALL_KNOWN = Undefined("every label is known, so the judge's labels need no calibration")


@dataclass(frozen=True)
class Calibrated:
    """The judge's labels, calibrated by what people's labels teach of them.

    accuracy, kappa: of the judge over this project. labels: audited examples. learned: False if the
    verdict itself predicts people best. width_ratio: of the interval of the win rate to that of
    judge and people. residual_variance: of what the prediction leaves open; design_effect: of the
    labels where questions repeat. By both the planner predicts a width.
    """

    labels: int
    learned: bool
    accuracy: Figure
    kappa: Figure
    width_ratio: Number | Undefined
    residual_variance: Number | Undefined
    design_effect: Number | Undefined


def read_calibration(analysis: Analysis) -> Data:
    """Texts as for learned routing, if there is anything to calibrate, and the planned estimate."""
    sheet, run = analysis.sheet, analysis.run
    rounds = Round.objects.filter(run=run, frame=analysis.frame).order_by("number")
    chosen = [kept for kept in rounds.values_list("parameters", flat=True) if kept.get("audit")]
    # The choice of the first round counts, because later ones were opened after votes were seen.
    cite = chosen[0].get("cite", Round.Cite.NARROWER) if chosen else Round.Cite.NARROWER
    # With every label known, or too few, nothing is calibrated and no text needs to be measured.
    enough = not sheet.everyone and int((sheet.audited & ~sheet.selected).sum()) >= FEWEST_AUDITED
    texts = texts_of(analysis.project, run, sheet) if enough else Data()
    return Data(texts.arrays, {"cite": str(cite)})


def planned(analysis: Analysis) -> str:
    """Return which estimate is the one to cite, by the first round that had an audit."""
    data = analysis.own(NAME, read_calibration)
    return data.plain["cite"] if isinstance(data, Data) else Round.Cite.NARROWER


def calibrated(analysis: Analysis) -> tuple[Figure, Calibrated]:
    """Return the win rate for examples like these, and the rest."""
    sheet, known, samples = analysis.sheet, analysis.sheet.known, analysis.samples
    labels = audited_labels(sheet)
    if isinstance(known, Undefined) or isinstance(labels, Undefined):
        return _not_calibrated(known if isinstance(known, Undefined) else labels)
    if sheet.everyone:
        return _not_calibrated(ALL_KNOWN)
    if (n := len(labels.audited)) < FEWEST_AUDITED:
        return _not_calibrated(win_rate(labels), n)
    data = analysis.own(NAME, read_calibration)
    if isinstance(samples, Undefined) or isinstance(data, Undefined):
        return _not_calibrated(samples if isinstance(samples, Undefined) else data, n)
    preferred, right = _calibrating(analysis, samples, data)
    selected, audited = sheet.selected, sheet.audited & ~sheet.selected
    human, judge = win_points(sheet.human), win_points(sheet.judge)
    verdict = np.where(sheet.judged, judge, EVEN)
    columns = (preferred, human, verdict, selected, audited, analysis.rng)
    fitted = calibrated_labels(*columns, question=sheet.question)
    rate, plain = win_rate(fitted.labels), win_rate(labels)
    rows = sheet.judged
    design = Design(selected[rows], audited[rows])
    earned = credit(sheet.judge[rows], rows[rows], sheet.human[rows], knows_ties=sheet.knows_ties)
    of_judge = analysis.before()
    asked = sheet.question[rows]
    accuracy = calibrated_accuracy(right[rows], earned, design, analysis.rng, question=asked)
    both = np.column_stack((preferred, right))[rows]
    signs = (sheet.judge[rows], sheet.human[rows])
    kappa = calibrated_kappa(both, *signs, design, analysis.rng, question=asked)
    # The residuals Y − λg of the audit, whose variance the width of the interval comes from.
    left = fitted.labels.audited - best_lambda(fitted.labels) * fitted.labels.audited_judge
    return rate, Calibrated(
        labels=n,
        learned=fitted.ridge is not None,
        accuracy=narrower(of_judge.accuracy, accuracy),
        kappa=narrower(of_judge.kappa, kappa),
        width_ratio=width_ratio(rate, plain),
        residual_variance=Number(float(left.var(ddof=1))),
        design_effect=Number(fitted.labels.effect),
    )


def _not_calibrated(why: Figure, labels: int = 0) -> tuple[Figure, Calibrated]:
    reason = why if isinstance(why, Undefined) else ALL_KNOWN
    return reason, Calibrated(labels, False, *(reason,) * 5)


def _calibrating(analysis: Analysis, samples: SampleArrays, texts: Data) -> tuple[Floats, Floats]:
    """Return what tells which response people prefer, and what tells that the judge is right."""
    sheet, others = analysis.sheet, [(other.judge, other.judged) for other in analysis.others]
    judged = _judged(sheet, analysis.run, samples, texts)
    made = preference_features(judged, others, texts.arrays.get("likelihood"))
    # No categories: what tells the better response has to turn over when the responses change
    # places.
    preferred = features(made, [""] * len(sheet), sheet.judged)
    right = columns_of(sheet, analysis.run, samples, analysis.others, texts)
    return preferred.values, right.values


SHARES = (10, 20, 30, 50)


def members_of(analysis: Analysis) -> tuple[OtherRun, ...]:
    """Return the other runs on the panel."""
    least = analysis.sheet.judged.sum() / 2
    return tuple(other for other in analysis.others if other.judged.sum() >= max(least, 1))


def jury_rows(analysis: Analysis) -> Iterator[MethodRow]:
    """Lines of Table 4: every member the same weight, and weights by accuracy where labels of a
    random sample, or of everything, are there to weigh by."""
    members = members_of(analysis)
    if not members:
        return
    costs = [analysis.costs.judge_usd, *(member.judge_usd for member in members)]
    known = [usd for usd in costs if usd is not None]
    # One unknown price makes the sum unknown.
    cost = sum(known, Decimal(0)) if len(known) == len(costs) else None
    signs, there = _verdicts(analysis, members)
    # Equal weights need no labels. Weights by accuracy need a random sample of them.
    weighings = {"": equal_weights(len(signs)), ", weighted": _weights(analysis, signs, there)}
    for name, weights in weighings.items():
        if isinstance(weights, Undefined):
            continue
        jury = panel(signs, there, weights)
        compared = analysis.sheet.comparison(jury.sign, jury.judged)
        yield MethodRow(
            name=f"Jury of {len(signs)}{name}", k=None, bpc=False, beta=0, judge_usd=cost,
            members=[analysis.run.name, *(member.name for member in members)],
            **vars(label_agreement(compared, analysis.rng)),
        )  # fmt: skip


@dataclass(frozen=True)
class CascadeRow:
    """The other run asked about the `share` percent with the largest BPDE, which are m examples.

    judge_usd: of both judges; None if one price is not known.
    """

    run: str
    share: int
    m: int
    judge_usd: Decimal | None
    accuracy: Figure


def cascades(analysis: Analysis) -> list[CascadeRow]:
    """For each other run: this one about everything, the other about the most contested."""
    known, order = analysis.sheet.known, _order(analysis)
    rows = []
    for other in members_of(analysis):
        earned = _earned(analysis, other)
        costs = (analysis.costs.judge_usd, other.judge_usd)
        for share in SHARES:
            combined = cascade(order, *earned, cut(len(order), share), costs)
            reached = (
                known
                if isinstance(known, Undefined)
                else Estimate(combined.right / float(known.weight.sum()), len(known.rows))
            )
            cost = None if combined.usd is None else combined.usd.quantize(MICRO_USD)
            rows.append(CascadeRow(other.name, share, combined.m, cost, reached))
    return rows


AGREEMENTS = (0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
# The chance that what a row says is untrue.
DELTA = 0.1
MOST_JUDGES = 3
# If every label is known, this number is drawn as if people had labelled only these.
TRIAL = 160
BY_BPDE, BY_LEARNED, BY_SIMULATED = "bpde", "learned", "simulated"
ESCALATION = "escalation"
NO_CASCADE_SCORE = "a score is learned for one judge alone, the one whose labels were audited"


@dataclass(frozen=True)
class EscalationRow:
    """What judges keep if people have to agree with `agreement` of it.

    kept: labels that each judge keeps, in the order of the plan. people: the others. usd: of asking
    each judge about what those before it didn't keep. people_usd: of people's votes on the others.
    Both are None where a price is unknown. audited,
    wrong: labelled examples among the kept ones, and those that people contradict. bound: upper
    limit of the share of wrong labels among the kept. reason: why nothing is kept. agreed: how
    often people do agree; only where every label is known.
    """

    agreement: float
    kept: Sequence[int]
    people: int
    audited: int | None = None
    wrong: int | None = None
    threshold: float | None = None
    bound: float | None = None
    agreed: float | None = None
    reason: str | None = optional()
    usd: Sequence[Decimal | None] = ()
    people_usd: Decimal | None = None

    @property
    def keeps(self) -> bool:
        return self.reason is None

    @property
    def stages(self) -> list[tuple[int, Decimal | None]]:
        """Return how many labels each judge keeps, and what asking it costs."""
        return list(zip(self.kept, self.usd, strict=True))


@dataclass(frozen=True)
class EscalationPlan:
    """Judges in a row and the score by which they keep a label. labels: of people, by which the
    threshold is chosen; taught: of people, from which the score was learned, or whose votes the
    prompts of simulated annotators show."""

    judges: Sequence[str]
    score: str
    labels: int
    taught: int
    rows: Sequence[EscalationRow]


@dataclass(frozen=True)
class Escalations:
    """confidence: of each row by itself. trial: every label is known, and some were drawn as if
    people had been asked about these alone."""

    confidence: float
    trial: bool
    plans: Sequence[EscalationPlan]


@dataclass(frozen=True)
class LabelSample:
    """A random sample of labels by people. All are (N,); people contradict a label that they did
    not settle. rest: the examples that a claim is about, with the sample among them."""

    sample: Booleans
    rest: Booleans
    human: np.ndarray
    settled: Booleans


def label_sample(analysis: Analysis) -> LabelSample | Undefined:
    """Return the audit, as far as it is settled in its order, or a draw where all is known."""
    sheet, sample = analysis.sheet, np.zeros(len(analysis.sheet), bool)
    if sheet.everyone:
        known = np.flatnonzero(sheet.labelled)
        # At most half of the labels is drawn, so that the claim is about as many others.
        sample[analysis.rng.permutation(known)[: min(TRIAL, len(known) // 2)]] = True
        return LabelSample(sample, sheet.labelled, sheet.human, sheet.labelled)
    audit = analysis.audit
    if isinstance(audit, Undefined):
        return audit
    # Only a prefix of the draw is a random sample: what is settled first is easy.
    sample[audit.places[: audit.resolved]] = True
    rest = ~sheet.selected
    return LabelSample(sample & rest, rest, sheet.answer, sheet.answered)


def escalations(analysis: Analysis) -> Escalations | Undefined:
    """This run by BPDE, by what people's labels teach, and with the dearer runs after it.

    Runs with simulated annotators are also tried by how many of these agree.
    """
    labelled = label_sample(analysis)
    if isinstance(labelled, Undefined):
        return labelled
    row = [as_judge(analysis), *sorted(members_of(analysis), key=_dearness)][:MOST_JUDGES]
    tried = [(row[:1], BY_BPDE), (row[:1], BY_LEARNED), (row, BY_BPDE)]
    # Without another run, the whole row is this run alone, which is tried already.
    tried = tried[: 1 + len(row)]
    names = simulated_runs(analysis).plain.get("runs", [])
    simulated = [judge for judge in _comparable(analysis) if judge.name in names][:MOST_JUDGES]
    tried += [(simulated[:n], BY_SIMULATED) for n in sorted({1, len(simulated)}) if simulated]
    scored = [unsure_judges(analysis, labelled, *candidate) for candidate in tried]
    plans = [escalation(labelled, judges) for judges in scored if not isinstance(judges, Undefined)]
    return Escalations(1 - DELTA, analysis.sheet.everyone, plans)


def _comparable(analysis: Analysis) -> list[OtherRun]:
    """Return this run, and then the others, the cheapest first."""
    return [as_judge(analysis), *sorted(analysis.others, key=_dearness)]


def _dearness(other: OtherRun) -> tuple[bool, Decimal]:
    return other.judge_usd is None, other.judge_usd or Decimal(0)


@dataclass(frozen=True)
class UnsureJudges:
    """Judges in a row. signs, unsure: (R, N) labels and scores, NaN without a label. taught: (N,)
    whose labels by people the score was learned from, or prompts show. usd_each: USD of one example
    by each judge. person: USD of one example by people."""

    names: tuple[str, ...]
    score: str
    signs: np.ndarray
    unsure: Floats
    taught: Booleans
    usd_each: tuple[Decimal | None, ...]
    person: Decimal


def as_judge(analysis: Analysis) -> OtherRun:
    """Return this run as one of a row."""
    sheet = analysis.sheet
    columns = settings_of(analysis.run), sheet.judge, sheet.judged, sheet.bpde
    return OtherRun(*columns, analysis.costs.judge_usd)


def unsure_judges(
    analysis: Analysis, labelled: LabelSample, row: Sequence[OtherRun], score: str = BY_BPDE
) -> UnsureJudges | Undefined:
    """Return the judges in their order with their scores.

    Only this run has a learned one, and only runs with simulated annotators have one by these.
    """
    names, n = tuple(judge.name for judge in row), len(analysis.sheet)
    signs = np.stack([judge.judge for judge in row])
    unsure, taught = np.stack([judge.bpde for judge in row]), np.zeros(n, bool)
    if score == BY_LEARNED:
        alone = names == (analysis.run.name,)
        learned = _learned_score(analysis, labelled) if alone else Undefined(NO_CASCADE_SCORE)
        if isinstance(learned, Undefined):
            return learned
        unsure, taught = learned[0][None], learned[1]
    if score == BY_SIMULATED:
        simulated = simulated_runs(analysis)
        if missing := [name for name in names if name not in simulated.plain.get("runs", [])]:
            return Undefined(NOT_SIMULATED.format(missing[0]))
        places = [simulated.plain["runs"].index(name) for name in names]
        unsure = simulated.arrays["unsure"][places]
        taught = simulated.arrays["taught"][places].any(axis=0)
    # A judge can't keep a label that it didn't give, whatever its score is.
    unsure = np.where(np.stack([judge.judged for judge in row]), unsure, np.nan)
    usd_each = tuple(_usd_of_one(judge) for judge in row)
    person = analysis.costs.by_hand_same / max(n, 1)
    return UnsureJudges(names, score, signs, unsure, taught, usd_each, person)


NOT_SIMULATED = (
    "{} has no simulated annotators; teach a judge by annotators, and judge with its template"
)


def simulated_runs(analysis: Analysis) -> Data:
    """Return what `read_simulated` read."""
    data = analysis.own(ESCALATION, read_simulated)
    assert isinstance(data, Data)
    return data


def read_simulated(of: Analysis) -> Data:
    """unsure: (R, N) share of simulated annotators that contradict a label, NaN without a label.
    taught: (R, N) whose votes their prompts show. runs: names. Empty without such a run."""
    ranked = of.project.runs.filter(ranked_at__isnull=False)
    ranked = ranked.filter(parameters__output__lesson__annotators__isnull=False)
    runs = list(ranked.order_by("-number")[:MOST_RUNS])
    if not runs:
        return Data()
    ids, unsure = of.sheet.ids, np.full((len(runs), len(of.sheet)), np.nan)
    taught = np.zeros(unsure.shape, bool)
    for place, run in enumerate(runs):
        columns = ("example", "label", "cs_1", "outcomes")
        rows = list(Verdict.objects.filter(run=run, label__isnull=False).values_list(*columns))
        at = places_of(ids, [row[0] for row in rows])
        unsure[place, at[at >= 0]] = (1 - _simulated(run, rows))[at >= 0]
        lesson = run.parameters["output"]["lesson"]
        shown = places_of(ids, lesson["taught"])
        taught[place, shown[shown >= 0]] = True
    return Data({"unsure": unsure, "taught": taught}, {"runs": [run.name for run in runs]})


def _simulated(run: Run, rows: Sequence[tuple[int, str, float, dict[str, Any]]]) -> Floats:
    label = np.array([SIGN[row[1]] for row in rows], np.int8)
    if run.form == Form.CHOICE:
        return simulated_likelihood(np.array([row[2] for row in rows], float), label)
    answers = [[row[3].get(order, ()) for order in run.orders] for row in rows]
    most = max((len(order) for row in answers for order in row), default=0)
    shape = len(rows), len(run.orders), most
    signs, there = np.zeros(shape, np.int8), np.zeros(shape, bool)
    for i, row in enumerate(answers):
        for j, order in enumerate(row):
            # A simulated annotator without an answer counts for nobody.
            there[i, j, : len(order)] = [answer is not None for answer in order]
            signs[i, j, : len(order)] = [0 if answer is None else SIGN[answer] for answer in order]
    return simulated_confidence(signs, there, label)


def _usd_of_one(judge: OtherRun) -> Decimal | None:
    judged = int(judge.judged.sum())
    return None if judge.judge_usd is None else judge.judge_usd / max(judged, 1)


def priced(judges: UnsureJudges, row: EscalationRow) -> EscalationRow:
    """Return a row with the price of each stage, for the examples that it is about."""
    prices = stage_prices(sum(row.kept) + row.people, row.kept, judges.usd_each)
    return replace(
        row,
        usd=[None if price is None else price.quantize(MICRO_USD) for price in prices],
        people_usd=(judges.person * row.people).quantize(MICRO_USD),
    )


def escalation(
    labelled: LabelSample,
    judges: UnsureJudges,
    agreements: Sequence[float] = AGREEMENTS,
    delta: float = DELTA,
) -> EscalationPlan:
    """Return what the judges keep at each agreement that is asked for."""
    rest, sample = labelled.rest & ~judges.taught, labelled.sample & ~judges.taught
    # An audited example that people did not settle counts as wrong, so that hard ones can't help.
    wrong = (judges.signs != labelled.human) | ~labelled.settled
    rows = []
    for agreement in agreements:
        tested = judges.unsure[:, rest], wrong[:, rest], sample[rest]
        claim = trust_or_escalate(*tested, 1 - agreement, delta)
        if isinstance(claim, Undefined):
            people, none = int((rest & ~sample).sum()), [0] * len(judges.names)
            rows.append(EscalationRow(agreement, none, people, reason=claim.reason))
            continue
        judge = first_sure(judges.unsure, claim.threshold)
        kept = np.flatnonzero(rest & ~sample & (judge >= 0))
        right = ~wrong[judge[kept], kept]
        # How often people do agree is known only if every label that is claimed about is.
        whole = bool(labelled.settled[rest].all()) and len(kept)
        row = EscalationRow(
            agreement, claim.kept, claim.people, claim.audited, claim.wrong, claim.threshold,
            claim.bound, float(right.mean()) if whole else None,
        )  # fmt: skip
        rows.append(row)
    labels, taught = int(sample.sum()), int(judges.taught.sum())
    rows = [priced(judges, row) for row in rows]
    return EscalationPlan(judges.names, judges.score, labels, taught, rows)


def escalation_asked(
    project: Project, runs: Sequence[Run], agreement: float, delta: float, score: str = BY_BPDE
) -> tuple[EscalationPlan, Iterator[dict[str, str | None]]]:
    """Return what these judges in a row keep, and who labels each example, with the label.

    An example is labelled by people who were asked, by a run, or by nobody yet.

    Raises:
        UserError: The runs can't be asked in a row, or no label of people chooses a threshold.
    """
    if len({run.pk for run in runs}) < len(runs):
        raise UserError("A run is named twice. Each judge is asked once.")
    if len(runs) > MOST_JUDGES:
        raise UserError(f"{len(runs)} runs are named; {MOST_JUDGES} judges in a row are the most.")
    for run in runs:
        run.require_ranking("Nothing was decided.")
    analysis, labelled = _audited(project, runs)
    # All judges come from one analysis, so that their labels are in one order of the examples.
    known = {judge.name: judge for judge in (as_judge(analysis), *analysis.others)}
    if missing := [run.name for run in runs if run.name not in known]:
        raise UserError(f"Run {missing[0]} is too old: only the newest runs are compared.")
    judges = unsure_judges(analysis, labelled, [known[run.name] for run in runs], score)
    if isinstance(judges, Undefined):
        raise UserError(f"There is no such score: {judges.reason}.")
    plan = escalation(labelled, judges, (agreement,), delta)
    return plan, _who_labels(analysis, labelled, judges, plan.rows[0].threshold)


def _audited(project: Project, runs: Sequence[Run]) -> tuple[Analysis, LabelSample]:
    """Return the first of the runs whose labels people checked at random, with these labels.

    A run with a taught template is also measured by the labels of the run that it learned from.
    """
    lessons = [run.parameters.get("output", {}).get("lesson", {}).get("number") for run in runs]
    taught_by = project.runs.filter(lessons__number__in=[number for number in lessons if number])
    reasons = []
    for run in (*runs, *taught_by.distinct().order_by("number")):
        analysis = Analysis(project, run)
        labelled = label_sample(analysis)
        if isinstance(labelled, LabelSample):
            return analysis, labelled
        reasons.append(labelled.reason)
    raise UserError(f"No label of people can choose a threshold: {reasons[0]}.")


def _who_labels(
    analysis: Analysis, labelled: LabelSample, judges: UnsureJudges, threshold: float | None
) -> Iterator[dict[str, str | None]]:
    sheet = analysis.sheet
    nobody = np.full(len(sheet), -1)
    judge = nobody if threshold is None else first_sure(judges.unsure, threshold)
    asked = labelled.sample | judges.taught | ~labelled.rest
    examples = frame_of(analysis.project, analysis.frame.pk if analysis.frame else None)
    names = dict(examples.values_list("pk", "external_id"))
    for place, pk in enumerate(sheet.ids.tolist()):
        label_from = label = None
        # What people were asked about has their label, however sure a judge is.
        if asked[place]:
            label_from = "people"
            label = labelled.human[place] if labelled.settled[place] else None
        elif judge[place] >= 0:
            label_from = judges.names[judge[place]]
            label = judges.signs[judge[place], place]
        written = None if label is None else str(LABELS[int(label)])
        yield {"external_id": names[pk], "label_from": label_from, "label": written}


def _learned_score(analysis: Analysis, labels: LabelSample) -> tuple[Floats, Booleans] | Undefined:
    """Return the probability of an error, and the part of the sample that it was learned from.

    That is none after a round that learned, else a random half: no label may teach and test."""
    sheet, samples = analysis.sheet, analysis.samples
    routed = analysis.own("routing", read_routing)
    # A round that learned has drawn its audit afterwards, so all of the audit may test the score.
    if isinstance(routed, Data) and routed.plain.get("fit", {}).get("used"):
        return routed.arrays["scores"], np.zeros(len(sheet), bool)
    texts = routed if sheet.everyone else analysis.own(NAME, read_calibration)
    if isinstance(samples, Undefined) or isinstance(texts, Undefined):
        return samples if isinstance(samples, Undefined) else texts
    if "length_1" not in texts.arrays:
        return Undefined(f"fewer than {FEWEST_AUDITED} labels are too few to learn from")
    drawn = analysis.rng.permutation(np.flatnonzero(labels.sample))
    places = np.sort(drawn[: len(drawn) // 2])
    places = places[labels.settled[places]]
    taught = np.zeros(len(sheet), bool)
    # The whole half is set aside, settled or not, so that the other half stays a random sample.
    taught[drawn[: len(drawn) // 2]] = True
    columns = columns_of(sheet, analysis.run, samples, analysis.others, texts)
    wrong = wrongness(sheet.judge[places], labels.human[places])
    learned = routing(columns, sheet.level, sheet.judged, places, wrong, analysis.rng)
    return learned.probability, taught


def _verdicts(analysis: Analysis, members: tuple[OtherRun, ...]) -> tuple[np.ndarray, Booleans]:
    sheet = analysis.sheet
    signs = np.stack([sheet.judge, *(member.judge for member in members)])
    return signs, np.stack([sheet.judged, *(member.judged for member in members)])


def _weights(analysis: Analysis, signs: np.ndarray, there: Booleans) -> Floats | Undefined:
    """Weigh the members by a random sample, for each example without its own label.

    Selected examples are the hard ones, so they would mislead.
    """
    sheet = analysis.sheet
    data = analysis.own("routing", read_routing)
    sample = data.arrays.get("sample") if isinstance(data, Data) else None
    if sheet.everyone:
        labelled, human = sheet.labelled, sheet.human
    elif sample is not None:
        labelled, human = sample & sheet.answered, sheet.answer
    else:
        return Undefined("no random sample of labels to weigh the members by")
    if not labelled.any():
        return Undefined("no label to weigh the members by")
    # Any sign will do without a label: the weights come from labelled examples alone.
    gold = np.where(labelled, human, 1).astype(np.int8)
    right = np.stack(
        [
            credit(labels, seen, gold, Ties.HALF, sheet.knows_ties)
            for labels, seen in zip(signs, there, strict=True)
        ]
    )
    return accuracy_weights(right, labelled, leave_out=True)


def _earned(analysis: Analysis, other: OtherRun) -> Floats:
    """Return (2, N) what this run's label earns, and the other's, times the example's weight."""
    sheet, known = analysis.sheet, analysis.sheet.known
    earned = np.zeros((2, len(sheet)))
    if isinstance(known, Undefined):
        return earned
    rows = known.rows
    for place, (judge, judged) in enumerate(
        ((sheet.judge, sheet.judged), (other.judge, other.judged))
    ):
        earned[place, rows] = known.weight * credit(
            judge[rows], judged[rows], sheet.human[rows], knows_ties=sheet.knows_ties
        )
    return earned


def _order(analysis: Analysis) -> np.ndarray:
    """Return the examples by rank, and last those without one."""
    ranking = analysis.sheet.ranking
    rest = np.setdiff1d(np.arange(len(analysis.sheet)), ranking)
    return np.concatenate((ranking, rest))
