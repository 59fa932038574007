"""Logistic regression with a ridge around a prior, many fits at once, and what it predicts.

The penalty is (ridge / 2) sum (b - prior)^2 over the coefficients, not over the intercept: with
much of it the fit becomes the prior, and never noise (le Cessie and van Houwelingen 1992,
doi:10.2307/2347628, with the prior's mean in place of zero).

`calibrated_labels` puts such predictions of people's labels in the judge's place in the difference
estimator of `win_rate` (cross-prediction-powered inference, Zrnic and Candes 2024,
doi:10.1073/pnas.2322083121, with the design of a routed round)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.agreement.accuracy import Design
from judging.methods.agreement.votes import cohen_kappa, confusion
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import coded, design_effect
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.intervals.win_rate import About, AuditedLabels, best_lambda, win_rate

STEPS = 60
LONGEST_STEP = 3.0
CONVERGED = 1e-8
# Keeps the intercept finite if a training part holds only errors, or none.
INTERCEPT_RIDGE = 1e-3
# The last one leaves nothing but the prior.
RIDGES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1e6)
FOLDS = 5
REPEATS = 4
# With more rows the folds agree: the ridge hardly matters, and one division is enough.
FEW_ROWS = 200
MOST_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class RidgeFits:
    """B fits of 1 + F coefficients, the intercept first.

    coefficients: (B, 1 + F); covariance: (B, 1 + F, 1 + F), the inverse of the penalised
    information (Laplace)."""

    coefficients: Floats
    covariance: Floats

    def linear(self, features: Floats) -> Floats:
        """Return (B, rows) logits."""
        return np.asarray(self.coefficients[:, :1] + self.slopes @ features.T)

    @property
    def slopes(self) -> Floats:
        return self.coefficients[:, 1:]


def ridge_fits(
    features: Floats, target: Floats, weights: Floats, ridge: Floats, prior: ArrayLike
) -> RidgeFits:
    """Fit B logistic regressions by Newton's method, with steps of a bounded length.

    Args:
        features: (n, F), standardised.
        target: (n,) 0 to 1; 1/2 equals two rows of weight 1/2, one of either kind.
        weights: (B, n), 0 if a fit leaves a row out.
        ridge, prior: (B,) strengths, and (F,) the coefficients that they pull to.
    Returns: the fits."""
    n, width = features.shape
    rows = np.column_stack((np.ones(n), features))
    penalty = np.tile(np.asarray(ridge, dtype=np.float64)[:, None], (1, width + 1))
    penalty[:, 0] = INTERCEPT_RIDGE
    mean = np.concatenate(([0.0], np.asarray(prior, dtype=np.float64)))
    fitted = np.tile(mean, (len(weights), 1))
    information = np.zeros((len(weights), width + 1, width + 1))
    # All fits run side by side in one batch; those that have converged leave it.
    diagonal, left = np.arange(width + 1), np.arange(len(weights))
    for _ in range(STEPS):
        chance = sigmoid(fitted[left] @ rows.T)
        slope = (weights[left] * (target - chance)) @ rows
        slope -= penalty[left] * (fitted[left] - mean)
        spread = weights[left] * chance * (1 - chance)
        curvature = np.matmul(rows.T * spread[:, None, :], rows)
        curvature[:, diagonal, diagonal] += penalty[left]
        information[left] = curvature
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1)
        fitted[left] += step * (LONGEST_STEP / np.maximum(longest, LONGEST_STEP))[:, None]
        left = left[longest > CONVERGED]
        if not len(left):
            break
    return RidgeFits(fitted, np.linalg.inv(information))


def log_loss(target: Floats, linear: Floats) -> Floats:
    """Return -[y log p + (1 - y) log(1 - p)] of each row.

    Args: target, linear: outcomes, 0 to 1, and logits.
    Returns: float64 in nats, 0 or more."""
    # The same value from the logit, without the logarithm of a probability that rounds to 0.
    return np.asarray(np.logaddexp(0.0, linear) - target * linear)


def sigmoid(linear: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)) without overflow.

    Args: linear: logits.
    Returns: float64, 0 to 1."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * linear)))


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """ridge: the one with the smallest log loss on rows left out. rows: those that were used.

    scores: each row's score (without the intercept) by fits that left it out, their mean over the
    repeated divisions."""

    ridge: float
    rows: Codes
    scores: Floats


def cross_validated(
    features: Floats, target: Floats, prior: Floats, rng: np.random.Generator
) -> CrossValidated:
    """Choose the ridge by the log loss on rows left out; more than 1,000 rows are thinned.

    Scores leave the intercept out: a fold that happens to hold more errors is scored by a fit that
    saw fewer, and would fall below the other folds for that alone.

    Args:
        features, target, prior: (n, F), (n,) and (F,) as in `ridge_fits`.
        rng: source of thinning and folds.
    Returns: ridge, rows and their scores."""
    rows = np.arange(len(target))
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    x, y = features[rows], target[rows]
    repeats = REPEATS if len(y) <= FEW_ROWS else 1
    folds = np.stack([_folds(y, rng) for _ in range(repeats)])
    left_out = folds[:, None, :] == np.arange(FOLDS)[None, :, None]
    weights = np.tile((~left_out).reshape(-1, len(y)).astype(np.float64), (len(RIDGES), 1))
    ridges = np.repeat(np.array(RIDGES), repeats * FOLDS)
    fits = ridge_fits(x, y, weights, ridges, prior)
    shape = (len(RIDGES), repeats, FOLDS, len(y))
    # Each row was left out by exactly one fold of a division, so the sum picks that fold's fit.
    logits = (fits.linear(x).reshape(shape) * left_out).sum(axis=2)
    scores = ((fits.slopes @ x.T).reshape(shape) * left_out).sum(axis=2)
    # The strongest of equally good ones.
    losses = log_loss(y, logits).sum(axis=(1, 2))
    best = len(losses) - 1 - int(np.argmin(losses[::-1]))
    return CrossValidated(RIDGES[best], rows, scores[best].mean(axis=0))


def _folds(target: Floats, rng: np.random.Generator) -> Codes:
    """A fold for each row, errors and right ones dealt out evenly."""
    order = rng.permutation(len(target))
    # Sorted by target after shuffling: dealing in turn gives each fold its share of errors.
    order = order[np.argsort(target[order], kind="stable")]
    fold = np.empty(len(target), dtype=np.intp)
    fold[order] = np.arange(len(target)) % FOLDS
    return fold


@dataclass(frozen=True, slots=True)
class CalibratedLabels:
    """labels: as for `win_rate`, with a prediction of people's label in the judge's place; of an
    audited example by a fit that left it out. ridge: None if the verdict itself predicts better."""

    labels: AuditedLabels
    ridge: float | None


def calibrated_labels(
    features: Floats,
    target: Floats,
    verdict: Floats,
    selected: Booleans,
    audited: Booleans,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
) -> CalibratedLabels:
    """Predict what people would say of each example, from what they said of others.

    The audit is dealt into five folds, questions whole. Each fit learns from the selected and from
    four folds, and predicts the fifth and the unlabelled: an audited example's residual is of a fit
    that never saw its label, so the interval of `win_rate` needs no faith in the fit. Of the ridges
    and of the verdict itself, the one with the smallest variance of residuals predicts.

    Args:
        features: (N, F), standardised, known of every example.
        target: (N,) people's scores, 0 to 1, read where selected or audited.
        verdict: (N,) what the judge's label alone says the target is.
        selected, audited: (N,) as in `Design`; the audit is a random sample of the rest.
        rng: deals the folds.
        question: (N,) equal codes share a question; None: each example has its own.
    Returns: the labels."""
    drawn, rest = np.flatnonzero(audited & ~selected), np.flatnonzero(~selected)
    labelled = np.concatenate((drawn, np.flatnonzero(selected)))
    asked = np.arange(len(target)) if question is None else np.asarray(question)
    # The selected have fold -1 and teach every fit, as no residual of theirs is used.
    fold = np.full(len(labelled), -1)
    groups, code = coded(asked[drawn])
    fold[: len(drawn)] = (rng.permutation(groups) % FOLDS)[code]
    learns = np.arange(FOLDS)[:, None] != fold
    weights = np.tile(learns.astype(np.float64), (len(RIDGES), 1))
    ridges, prior = np.repeat(np.array(RIDGES), FOLDS), np.zeros(features.shape[1])
    fits = ridge_fits(features[labelled], target[labelled], weights, ridges, prior)
    chance = sigmoid(fits.linear(features[rest])).reshape(len(RIDGES), FOLDS, len(rest))
    place, inside = np.searchsorted(rest, drawn), fold[: len(drawn)]

    def as_labels(predicted: Floats) -> AuditedLabels:
        return AuditedLabels(target[selected], predicted, target[drawn], predicted[place])

    candidates = [CalibratedLabels(as_labels(verdict[rest].astype(np.float64)), None)]
    # The strongest of equally good ones comes first.
    for number in reversed(range(len(RIDGES))):
        # The unlabelled were seen by no fit, so the mean of all five predicts them.
        predicted = chance[number].mean(axis=0)
        predicted[place] = chance[number, inside, place]
        candidates.append(CalibratedLabels(as_labels(predicted), RIDGES[number]))
    best = min(candidates, key=lambda candidate: _left_over(candidate.labels))
    if question is None:
        return best
    final = np.array(target, dtype=np.float64)
    final[rest] = best.labels.rest
    final[drawn] = target[drawn]
    effect, questions = design_effect(final, asked)
    return replace(best, labels=replace(best.labels, effect=effect, questions=questions))


def _left_over(labels: AuditedLabels) -> float:
    """Variance of the residuals at the weight that `win_rate` gives."""
    return float((labels.audited - best_lambda(labels) * labels.audited_judge).var())


def calibrated_accuracy(
    features: Floats,
    right: Floats,
    design: Design,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
) -> Figure:
    """Return how often the judge is right over this project, with a prediction of it everywhere.

    Args:
        features, rng, question: as in `calibrated_labels`.
        right: (N,) what each label earns (`credit`), read where people labelled.
        design: which examples people labelled, and why.
    Returns: accuracy, 0 to 1, with the interval of `win_rate`, or Undefined."""
    unknown = np.zeros(len(right))
    known = (features, right, unknown, design.selected, design.audited, rng)
    labels = calibrated_labels(*known, question=question)
    return win_rate(labels.labels, about=About.THIS_PROJECT)


def calibrated_kappa(
    features: Floats,
    judge: Signs,
    human: Signs,
    design: Design,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
) -> Figure:
    """Return Cohen's kappa of judge and people over this project, as `calibrated_accuracy`.

    With p the judge's shares of labels, which are known, and q people's, chance agreement is p . q.
    To first order, an example with labels j and h moves kappa by its influence
    1[j = h]/(1 - chance) - (1 - agreed)/(1 - chance)^2 p_h, of which a mean is estimated.

    Args:
        features, design, rng, question: as in `calibrated_accuracy`.
        judge, human: (N,) signs, people's read where they labelled.
    Returns: kappa with its interval, or Undefined."""
    weight = design.weights()
    if isinstance(weight, Undefined):
        return weight
    rows = np.flatnonzero(weight)
    table = confusion(judge[rows], human[rows], weight[rows])
    plain = cohen_kappa(table)
    if isinstance(plain, Undefined):
        return plain
    shares = table / table.sum()
    # The judge's shares are over all examples, labelled or not.
    of_judge = np.bincount(1 - judge.astype(int), minlength=3) / len(judge)
    agreed, chance = float(np.trace(shares)), float(of_judge @ shares.sum(axis=0))
    if chance >= 1:
        return Undefined("judge and people both give one label only")
    by_agreement, by_chance = 1 / (1 - chance), -(1 - agreed) / (1 - chance) ** 2
    # The range of the influence, to bring it to the scale from 0 to 1 that `win_rate` reads.
    low = by_chance * float(of_judge.max())
    wide = by_agreement + by_chance * float(of_judge.min()) - low
    moved = by_agreement * (judge == human) + by_chance * of_judge[1 - human.astype(int)]
    figure = calibrated_accuracy(features, (moved - low) / wide, design, rng, question=question)
    if isinstance(figure, Undefined) or figure.low is None or figure.high is None:
        return figure
    start = (agreed - chance) / (1 - chance) + low - by_agreement * agreed - by_chance * chance
    value, least, most = (start + wide * limit for limit in (figure.value, figure.low, figure.high))
    return Estimate(min(value, 1.0), figure.n, max(least, -1.0), min(most, 1.0))
