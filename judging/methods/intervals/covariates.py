"""Are longer (or likelier, or kindred) responses preferred, and is that a bias?

score ~ logit(alpha + gamma tanh(difference / sd)). The slope gamma of the judge alone is an
association: longer responses may be better. The bias is gamma_judge - gamma_human on the same
examples.

An example with linear predictors T_y . theta has outcome y with chance exp(T_y . theta) over the
sum of all outcomes. Logistic regression, Bradley-Terry and Davidson's model are of this kind. The
centre of an interval is Firth's estimate (1993, doi:10.1093/biomet/80.1.27), which is finite if
all labels say the same; its width comes from the residuals by question, with the two
pseudo-observations that win rates have: else ten labels that agree would leave hardly any width.

Which criteria explain people's overall votes is a model of this kind too: `explained_by`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.bootstrap import (
    ONE_QUESTION,
    WIDTH,
    all_differ,
    cells,
    coded,
    plus_two_mean,
    resampled_counts,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined

NEAR = 0.25
FEW_NEAR = 0.10
CONSTANT = "all pairs differ by the same amount, so the result for equal responses is unknown"
STEPS = 100
LONGEST_STEP = 1.0
CONVERGED = 1e-9
# Keeps directions finite that no example says anything about.
TINY = 1e-9
# An example that alone decides a parameter has no residual to tell its noise by.
HIGHEST_LEVERAGE = 0.9
# With more different answers, each resample moves the estimate by one step instead of a new fit.
REPEATS, MANY_CELLS = 500, 1_000
# With fewer questions for each parameter, no interval is given.
QUESTIONS_A_PARAMETER = 5
ALIKE = "the votes always say the same on this criterion"
COPIED = "the answers on this criterion are determined by those on the others"
ONE_OVERALL = "all overall votes say the same, so nothing explains them"


@dataclass(frozen=True, slots=True)
class CovariateEffect:
    """raw: win rate of response 1. equal: sigma(alpha), its win rate if both were alike.

    slope: gamma. near: share of pairs that differ by less than a quarter of an sd; below 10 % the
    equal win rate is an extrapolation. separated: the covariate parts the wins from the losses, so
    that the largest likelihood has no finite slope, and Firth's estimate is given."""

    raw: Figure
    equal: Figure
    slope: Figure
    near: float
    separated: bool

    @property
    def few_comparable(self) -> bool:
        return self.near < FEW_NEAR


@dataclass(frozen=True, slots=True)
class CovariateBias:
    """judge and human on the same examples; bias = gamma_judge - gamma_human."""

    judge: CovariateEffect
    human: CovariateEffect
    bias: Figure


def covariate_effect(
    difference: ArrayLike,
    score: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CovariateEffect | Undefined:
    """Fit preference against a covariate (length, likelihood, family).

    The value of the slope is that of the largest likelihood, its limits lie around Firth's.

    Args:
        difference: (N,) the covariate of response 1 less that of response 2.
        score: (N,) 1, 1/2 or 0 for response 1.
        weight: (N,) how many examples each represents; None: 1 each.
        question, stratum: (N,) codes; None: each example has its own question, and one stratum.
    Returns: the effect, or Undefined if the pairs don't differ."""
    design = _Design.of(difference, weight, question, stratum)
    return design if isinstance(design, Undefined) else design.effect(_Preference.of(design, score))


def covariate_bias(
    difference: ArrayLike,
    judge: ArrayLike,
    human: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CovariateBias | Undefined:
    """Compare the judge's slope with people's on the same examples.

    The interval is about the difference of the two influences of each example, with one more
    disagreement in each direction: labels that are all alike don't exclude a bias.

    Args:
        difference, weight, question, stratum: as in `covariate_effect`.
        judge, human: (N,) scores of the examples that both have labelled.
    Returns: both effects and gamma_judge - gamma_human, or Undefined."""
    design = _Design.of(difference, weight, question, stratum)
    if isinstance(design, Undefined):
        return design
    both = [_Preference.of(design, score) for score in (judge, human)]
    effects = [design.effect(preference) for preference in both]
    moves = influence(both[0].fit, both[0].labels) - influence(both[1].fit, both[1].labels)
    pseudo = [_one_more(preference.fit, preference.labels) for preference in both]
    values = [preference.slope for preference in both]
    bias = design.figure(
        values[0] - values[1],
        both[0].fit.theta[-1] - both[1].fit.theta[-1],
        plus_two_covariance(moves, pseudo[0] + pseudo[1], both[0].labels)[-1, -1],
        both[0].labels,
    )
    return CovariateBias(effects[0], effects[1], bias)


def _one_more(fit: OutcomeFit, labels: Labels) -> Floats:
    """(n, P, P) what a label that turns over at each example would add to the variance."""
    moved = (fit.away[:, 0] - fit.away[:, 1])[labels.kind] @ fit.inverse
    moved *= labels.weight[:, None]
    return np.asarray(moved[:, :, None] * moved[:, None, :])


@dataclass(frozen=True, slots=True)
class _Design:
    """What the pairs differ by. columns: (N, P), without the constant if all differ alike."""

    columns: Floats
    weight: Floats
    question: Codes
    stratum: Codes
    near: float

    @classmethod
    def of(
        cls,
        difference: ArrayLike,
        weight: ArrayLike | None,
        question: ArrayLike | None,
        stratum: ArrayLike | None,
    ) -> _Design | Undefined:
        delta = np.asarray(difference, dtype=np.float64)
        n = len(delta)
        weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        if n == 1:
            return Undefined("one pair is too few to show a preference")
        if not delta.any():
            return Undefined("the two responses are equal in this respect in every pair")
        # If all pairs differ alike, alpha and gamma can't be told apart: the slope alone is fitted.
        constant = bool((delta == delta[0]).all())
        scale = abs(float(delta[0])) if constant else float(delta.std(ddof=1))
        near = float(weights @ (np.abs(delta) < NEAR * scale) / weights.sum())
        # tanh keeps a few very long responses from deciding the slope alone.
        x = np.tanh(delta / scale)
        columns = x[:, None] if constant else np.column_stack((np.ones(n), x))
        asked = np.arange(n) if question is None else coded(question)[1]
        strata = np.zeros(n, np.intp) if stratum is None else coded(stratum)[1]
        return cls(columns, weights, asked, strata, near)

    @property
    def constant(self) -> bool:
        return bool(self.columns.shape[1] == 1)

    def effect(self, preference: _Preference) -> CovariateEffect:
        fit, labels, best = preference.fit, preference.labels, preference.best
        moves, pseudo = influence(fit, labels), pseudo_influence(fit, labels)
        covariance = plus_two_covariance(moves, pseudo, labels)
        score = preference.score
        raw = float(self.weight @ score / self.weight.sum())
        slope = self.figure(best[-1], fit.theta[-1], covariance[-1, -1], labels)
        equal: Figure = Undefined(CONSTANT)
        if not self.constant:
            equal = self.figure(best[0], fit.theta[0], covariance[0, 0], labels)
            if isinstance(equal, Estimate):
                equal = _as_share(equal)
        return CovariateEffect(
            raw=plus_two_mean(score, (0, 1), self.question)
            if np.ptp(self.weight) == 0
            else Estimate(raw, len(score)),
            equal=equal,
            slope=slope,
            near=self.near,
            separated=preference.separated,
        )

    def figure(self, value: float, centre: float, variance: float, labels: Labels) -> Figure:
        n = len(self.columns)
        if labels.questions < 2:
            return Estimate(float(value), n, note=ONE_QUESTION)
        half = half_width(float(variance), labels, self.columns.shape[1])
        low, high = min(centre - half, value), max(centre + half, value)
        return Estimate(float(value), n, float(low), float(high))


@dataclass(frozen=True, slots=True)
class _Preference:
    """Someone's labels. fit: Firth's; best: of the largest likelihood, if that is finite."""

    score: Floats
    labels: Labels
    fit: OutcomeFit
    best: Floats
    separated: bool

    @classmethod
    def of(cls, design: _Design, score: ArrayLike) -> _Preference:
        y = np.asarray(score, dtype=np.float64)
        outcomes = np.stack((design.columns, np.zeros_like(design.columns)), axis=1)
        earned = design.columns * y[:, None]
        kind = np.arange(len(y))
        labels = Labels(kind, earned, design.weight, design.question, design.stratum)
        fit = weighted_fit(outcomes, labels)
        # Newton's steps for the largest likelihood would run off to infinity, so Firth's estimate
        # is the value too.
        separated = _separated(design.columns[:, -1], y, constant=design.constant)
        if separated:
            return cls(y, labels, fit, fit.theta, separated)
        best = outcome_fit(outcomes, design.weight, earned, corrected=False)
        return cls(y, labels, fit, best.theta, separated)

    @property
    def slope(self) -> float:
        return float(self.best[-1])


def _separated(x: Floats, y: Floats, *, constant: bool) -> bool:
    """Whether a threshold of the covariate parts the wins from the losses; a tie is both."""
    won, lost = x[y > 0], x[y < 1]
    if not len(won) or not len(lost):
        return True
    return not constant and bool(won.min() >= lost.max() or lost.min() >= won.max())


def _as_share(log_odds: Estimate) -> Estimate:
    value, low, high = (
        None if limit is None else float(1 / (1 + np.exp(-limit)))
        for limit in (log_odds.value, log_odds.low, log_odds.high)
    )
    assert value is not None
    return Estimate(value, log_odds.n, low, high, log_odds.note)


@dataclass(frozen=True, slots=True)
class Explanation:
    """slope: log odds of an overall win against a lose, for each column. p: two-sided, or None."""

    slope: Figure
    p: float | None = None


def explained_by(
    answers: ArrayLike,
    overall: ArrayLike,
    question: ArrayLike,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Sequence[Explanation]:
    """Explain overall votes by the votes on several criteria: an ordinal logistic regression.

    log P(win) / P(lose) = alpha + sum of beta x. A tie lies half way, as in Davidson's model:
    P(win) : P(tie) : P(lose) = exp(eta / 2) : nu : exp(-eta / 2), which is the adjacent-categories
    logit (Agresti 2010, section 4.1, doi:10.1002/9780470594001); without ties, plain logistic
    regression. The values are Firth's estimates, which are finite if a criterion always says what
    the overall vote says. Questions are resampled with all their votes; the interval is the
    estimate with t standard errors of the resamples, at a question less than there are.

    Args:
        answers: (V, C) each vote's answers, from -1 to 1, above 0 for response 1.
        overall: (V,) signs.
        question: (V,) equal codes share a question.
        rng, confidence: for the resamples, and the level.
    Returns: one for each column, with a reason in place of what can't be known."""
    x, y = np.asarray(answers, dtype=np.float64), np.asarray(overall, dtype=np.intp)
    n_columns = x.shape[1]
    if len(np.unique(y)) < 2:
        return [Explanation(Undefined(ONE_OVERALL))] * n_columns
    rank = int(np.linalg.matrix_rank(_with_constant(x)))
    reasons = [_why_not(x, column, rank) for column in range(n_columns)]
    used = np.flatnonzero([not reason for reason in reasons])
    groups, parameters = coded(question)[0], len(used) + 1 + int((y == 0).any())
    if len(used) and groups < QUESTIONS_A_PARAMETER * parameters:
        least = QUESTIONS_A_PARAMETER * parameters
        on = "1 question" if groups == 1 else f"{groups} questions"
        few = f"votes on {on} are too few; {least} are needed"
        reasons = [reason or few for reason in reasons]
        used = used[:0]
    explanations = [Explanation(Undefined(reason)) for reason in reasons]
    if not len(used):
        return explanations
    kind, first = cells(*x[:, used].T, y)
    outcomes, earned = _outcomes(x[first][:, used], y[first], ties=bool((y == 0).any()))
    drawn = resampled_counts(kind, rng, question=question, repeats=REPEATS)
    fit = _fitted(outcomes, np.bincount(kind), earned, 1.0)
    theta = fit.theta
    if len(first) > MANY_CELLS:
        # This is one step of Newton's method from the estimate: score times inverse information.
        moved = theta + drawn @ ((earned - fit.mean) @ fit.inverse)
    else:
        moved = np.array([_fitted(outcomes, counts, earned, 1.0, theta).theta for counts in drawn])
    errors = moved.std(axis=0, ddof=1)
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, groups - 1))
    for place, column in enumerate(used.tolist()):
        value, error = float(theta[place + 1]), float(errors[place + 1])
        limits = value - reach * error, value + reach * error
        # Resamples that are all alike leave no error to divide by, so there is an estimate but no
        # test.
        p = float(2 * scipy.stats.t.sf(abs(value) / error, groups - 1)) if error > WIDTH else None
        explanations[column] = Explanation(Estimate(value, len(y), *limits), p)
    return explanations


def _with_constant(x: Floats) -> Floats:
    return np.column_stack((np.ones(len(x)), x))


def _why_not(x: Floats, column: int, rank: int) -> str:
    if np.ptp(x[:, column]) == 0:
        return ALIKE
    others = np.delete(x, column, axis=1)
    # If leaving the column out keeps the rank, the others span it and its slope is not identified.
    return COPIED if int(np.linalg.matrix_rank(_with_constant(others))) == rank else ""


def _outcomes(x: Floats, sign: Codes, *, ties: bool) -> tuple[Floats, Floats]:
    """(n, K, P) T of a win, a tie if some votes say so, and a lose; (n, P) T of what was voted."""
    # Win and lose lie eta / 2 on either side, so that their log odds are eta, and a tie is half
    # way.
    half = _with_constant(x) / 2
    rows = [half, -half]
    if ties:
        nothing, ones = np.zeros((len(x), 1)), np.ones((len(x), 1))
        rows = [
            np.hstack((half, nothing)),
            np.hstack((0 * half, ones)),
            np.hstack((-half, nothing)),
        ]
    table = np.stack(rows, axis=1)
    place = 1 - sign if ties else (1 - sign) // 2
    return table, table[np.arange(len(x)), place]


@dataclass(frozen=True, slots=True)
class OutcomeFit:
    """theta: (P,). mean: (n, P) expected T. inverse: (P, P), of Fisher's information.

    away: (n, K, P) T_y - mean. chance: (n, K)."""

    theta: Floats
    mean: Floats
    inverse: Floats
    away: Floats
    chance: Floats

    @property
    def leverage(self) -> Floats:
        """(n, K) (T_y - mean) . inverse . (T_y - mean)."""
        return np.asarray(((self.away @ self.inverse) * self.away).sum(axis=2))


def outcome_fit(
    outcomes: ArrayLike, weight: ArrayLike, earned: ArrayLike, *, corrected: bool = True
) -> OutcomeFit:
    """Fit theta by Newton's method.

    Args:
        outcomes: (n, K, P) T of each possible outcome of each kind of example.
        weight, earned: (n,) how many examples each kind has, and (n, P) their mean T.
        corrected: Firth's estimate, the mode under Jeffreys' prior, instead of the largest
            likelihood, which must exist.
    Returns: the fit."""
    return _fitted(outcomes, weight, earned, 1.0 if corrected else 0.0)


def _fitted(
    outcomes: ArrayLike,
    weight: ArrayLike,
    earned: ArrayLike,
    prior: float,
    start: Floats | None = None,
) -> OutcomeFit:
    table = np.asarray(outcomes, dtype=np.float64)
    weights, seen = (np.asarray(values, dtype=np.float64) for values in (weight, earned))
    theta = np.zeros(table.shape[2]) if start is None else start
    for _ in range(STEPS):
        fit = _at(theta, table, weights)
        score = weights @ (seen - fit.mean)
        if prior:
            expected = (fit.chance * fit.leverage * weights[:, None]).reshape(-1)
            # This is the gradient of half the log determinant of the information, which is
            # Jeffreys' prior.
            score += prior / 2 * (expected @ fit.away.reshape(-1, len(theta)))
        step = fit.inverse @ score
        longest = float(np.abs(step).max(initial=0.0))
        # Full steps may overshoot if labels are nearly separated.
        theta = theta + step * (LONGEST_STEP / max(longest, LONGEST_STEP))
        if longest < CONVERGED:
            break
    return _at(theta, table, weights)


def _at(theta: Floats, table: Floats, weights: Floats) -> OutcomeFit:
    linear = table @ theta
    # Without subtracting the largest, exp would overflow.
    chance = np.exp(linear - linear.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    mean = (chance[:, :, None] * table).sum(axis=1)
    away = table - mean[:, None, :]
    rows = (away * np.sqrt(weights[:, None] * chance)[:, :, None]).reshape(-1, len(theta))
    information = rows.T @ rows
    inverse = np.linalg.inv(information + TINY * np.eye(len(theta)))
    return OutcomeFit(theta, mean, inverse, away, chance)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that a fit rests on, one by one.

    kind: (n,) the kind of each example. earned: (n, P) its T. weight: (n,) how many examples it
    represents. question, stratum: (n,) codes; audited and selected examples are strata."""

    kind: Codes
    earned: Floats
    weight: Floats
    question: Codes
    stratum: Codes

    @property
    def questions(self) -> int:
        return int(coded(self.question)[0])


def weighted_fit(outcomes: Floats, labels: Labels) -> OutcomeFit:
    """Return Firth's fit of weighted labels, which are worth no more than their effective number.

    Args: outcomes, labels: as in `outcome_fit`, and the labels.
    Returns: the fit."""
    kinds = len(outcomes)
    weight = np.bincount(labels.kind, labels.weight, kinds).astype(np.float64)
    columns = [
        np.bincount(labels.kind, labels.weight * column, kinds) for column in labels.earned.T
    ]
    earned = np.stack(columns, axis=1) / np.where(weight > 0, weight, 1.0)[:, None]
    # The penalty counts once against the effective number, so more against the sum of weights.
    prior = float(labels.weight @ labels.weight / labels.weight.sum())
    return _fitted(outcomes, weight, earned, prior)


def influence(fit: OutcomeFit, labels: Labels) -> Floats:
    """Return by how much each label moves theta.

    Each residual is divided by the root of one less its leverage (HC2; MacKinnon and White 1985,
    doi:10.1016/0304-4076(85)90158-7).

    Args: fit, labels: from `weighted_fit`.
    Returns: (n, P)."""
    leverage = (fit.chance * fit.leverage).sum(axis=1)
    own = np.minimum(labels.weight * leverage[labels.kind], HIGHEST_LEVERAGE)
    residual = (labels.earned - fit.mean[labels.kind]) * (labels.weight / np.sqrt(1 - own))[:, None]
    return np.asarray(residual @ fit.inverse)


def pseudo_influence(fit: OutcomeFit, labels: Labels) -> Floats:
    """Return (n, P, P): what one more example of each outcome like this one adds to the variance.

    Args: fit, labels: as in `influence`.
    Returns: the sums of squares and products."""
    moved = fit.away @ fit.inverse
    squares = moved.transpose(0, 2, 1) @ moved
    return np.asarray(squares[labels.kind] * (labels.weight**2)[:, None, None])


def plus_two_covariance(moves: Floats, pseudo: Floats, labels: Labels) -> Floats:
    """Return the covariance of theta by question, with pseudo-observations.

    One more example of each outcome is added to each stratum, as an average one of it; if
    questions repeat, one more question of them.

    Args: moves, pseudo, labels: (n, P) and (n, P, P) as `influence` and `pseudo_influence` give.
    Returns: (P, P)."""
    alone = moves.T @ moves
    together, effect = alone, 1.0
    if not all_differ(labels.question):
        groups, code = coded(labels.question)
        sums = np.stack([np.bincount(code, column, groups) for column in moves.T], axis=1)
        # Small numbers of clusters understate the variance by (G - 1) / G.
        together = np.asarray(sums.T @ sums * (groups / max(groups - 1, 1)), dtype=np.float64)
        before, after = float(np.trace(alone)), float(np.trace(together))
        effect = max(1.0, after / before if before > WIDTH else len(code) / groups)
    more = np.zeros_like(alone)
    for value in np.unique(labels.stratum):
        more += pseudo[labels.stratum == value].mean(axis=0)
    # A pseudo-question holds as many alike labels as repeated questions make one worth, and moves
    # count squared.
    return np.asarray(together + effect**2 * more)


def half_width(variance: float, labels: Labels, parameters: int, confidence: float = 0.95) -> float:
    """Return t standard errors, t with the questions less the parameters as degrees of freedom.

    Args: variance, labels, parameters, confidence: of one value, and what it rests on.
    Returns: half of the interval's width."""
    strata = [labels.question[labels.stratum == number] for number in np.unique(labels.stratum)]
    # The stratum with the fewest questions is the weakest part of the variance, so it limits t.
    fewest = min(coded(questions)[0] for questions in strata) if strata else 1
    degrees = max(1, fewest - parameters)
    return float(scipy.stats.t.ppf((1 + confidence) / 2, degrees) * np.sqrt(variance))
