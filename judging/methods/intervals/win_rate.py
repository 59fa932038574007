"""Is model 1 better? People's win rate, from a routed round, its audit and the judge.

A difference estimator: the judge's verdicts replace people's on the examples that nobody reviewed,
and a random audit of these measures what that does to the mean. The design is known (all of S, a
simple random sample A of the rest U), so the interval needs no model of the judge.
Prediction-powered inference (Angelopoulos et al. 2023, doi:10.1126/science.adi6000) has the same
form; its published code takes S and A for one random sample, which they are not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.intervals.bootstrap import FEWEST_AUDITED, ONE_QUESTION, plus_two
from judging.methods.intervals.estimates import Estimate, Figure, Undefined

# A lambda from fewer audited examples is itself too uncertain; the fixed 1 needs no estimate.
FEWEST_FOR_LAMBDA = 40
# What a label counts lies between these: win 1, tie 1/2, lose 0.
LIMITS = (0.0, 1.0)


class About(StrEnum):
    """What the interval describes: these N examples, or examples drawn like them."""

    THIS_PROJECT = "this project's examples"
    EXAMPLES_LIKE_THESE = "examples like these"


def win_points(signs: ArrayLike) -> Floats:
    """Return what labels count in a win rate: win 1, tie 1/2, lose 0.

    Args: signs: labels' signs, 1, 0 and -1.
    Returns: float64 of that shape."""
    return (1 + np.asarray(signs, dtype=np.float64)) / 2


@dataclass(frozen=True, slots=True)
class AuditedLabels:
    """What the estimator reads, float64 on one scale.

    selected: Y of S. rest: f of every example of U. audited: Y of A.
    audited_judge: f of A, in the order of `audited`.
    effect, questions: `design_effect` of the final labels if questions repeat; other examples like
        these would have other questions."""

    selected: Floats
    rest: Floats
    audited: Floats
    audited_judge: Floats
    effect: float = 1.0
    questions: int | None = None

    @property
    def n(self) -> int:
        return len(self.selected) + len(self.rest)


@dataclass(frozen=True, slots=True)
class DifferenceEstimate:
    """The parts of the estimator; `difference_estimate` has the formulas.

    finite_centre: the plus-two centre with the pseudo-observations only in the unaudited part of
        the rest, so that it goes to the truth as the audit becomes complete."""

    theta: float
    se_this_project: float
    se_examples_like_these: float
    plus_two_centre: float
    finite_centre: float
    plus_two_se_this_project: float
    plus_two_se_examples_like_these: float
    weighted_variance: float
    degrees: int


def best_lambda(labels: AuditedLabels) -> float:
    """Return cov(Y, f)/var(f) within the audit, clipped to 0 to 1.

    Args: labels: people's and judge's scores.
    Returns: lambda; 1 below 40 audited examples, for which it is too noisy."""
    if len(labels.audited) < FEWEST_FOR_LAMBDA:
        return 1.0
    # A judge that says the same on all audited examples predicts nothing about people.
    judge = labels.audited_judge - labels.audited_judge.mean()
    variance = float(judge @ judge)
    if variance == 0:
        return 0.0
    return float(np.clip(judge @ (labels.audited - labels.audited.mean()) / variance, 0, 1))


def difference_estimate(
    labels: AuditedLabels, lam: float, noise: float = 0.0
) -> DifferenceEstimate:
    """Return theta = (1/N) [sum_S Y + lam sum_U f + (N_U/n) sum_A e], e = Y - lam f.

    For this project V = (N_U/N)^2 (1 - n/N_U) s_e^2/n; for examples like these plus the weighted
    variance of Y over N. The plus-two form has one more e at +1 and one at -1, so that an audit
    without a disagreement still has a width.

    Args:
        labels, lam: scores, and the weight of the judge, 0 to 1.
        noise: the votes' own variance, added to both variances.
    Returns: the parts of the estimator.
    Raises: ValueError below two audited examples."""
    n, n_rest = len(labels.audited), len(labels.rest)
    if n < 2:
        raise ValueError("the difference estimator needs two audited examples")
    total = labels.n
    error = labels.audited - lam * labels.audited_judge
    known = labels.selected.sum() + lam * labels.rest.sum()
    # The finite-population factor 1 - n/N_U: a complete audit leaves no error.
    share = (n_rest / total) ** 2 * (1 - n / n_rest)
    mean_two = error.sum() / (n + 2)
    # The 2 is 2 R^2 with R = 1, the largest error of a win rate, at +1 and -1.
    variance_two = (error @ error + 2) / (n + 2) - mean_two**2
    spread = _weighted_variance(labels)
    # For examples like these, the N examples are a sample themselves, and repeated questions make
    # it worth less.
    sampling = labels.effect * spread / total

    plain = share * error.var(ddof=1) / n + noise
    plus_two = share * variance_two / (n + 1) + noise
    return DifferenceEstimate(
        theta=float((known + n_rest * error.mean()) / total),
        se_this_project=float(np.sqrt(plain)),
        se_examples_like_these=float(np.sqrt(plain + sampling)),
        plus_two_centre=float((known + n_rest * mean_two) / total),
        finite_centre=float((known + error.sum() + (n_rest - n) * mean_two) / total),
        plus_two_se_this_project=float(np.sqrt(plus_two)),
        plus_two_se_examples_like_these=float(np.sqrt(plus_two + sampling)),
        weighted_variance=spread,
        degrees=min(n, labels.questions or n) - 1,
    )


def win_rate(
    labels: AuditedLabels,
    *,
    lam: float | None = None,
    about: About = About.EXAMPLES_LIKE_THESE,
    noise: float = 0.0,
    confidence: float = 0.95,
) -> Figure:
    """Return people's win rate with the plus-two interval; the printed point stays theta.

    The pseudo-observations move the centre by about 2/n of the mean error, which no longer
    shrinks with the width once most of the rest is audited (coverage .92 at 60 of 64); from one
    half on the interval also holds the one around the centre that does.

    Args:
        labels, noise: as in `difference_estimate`.
        lam: 0: people alone; 1: trust the judge fully; None: `best_lambda`.
        about, confidence: what the interval describes, and its level.
    Returns: win rate, 0 to 1, or Undefined below 10 audited examples."""
    if not len(labels.rest):
        return everyone_labelled(
            labels.selected,
            about,
            noise,
            confidence,
            effect=labels.effect,
            questions=labels.questions,
        )
    n = len(labels.audited)
    if n < FEWEST_AUDITED:
        return Undefined(_too_few(n))
    chosen = best_lambda(labels) if lam is None else lam
    parts = difference_estimate(labels, chosen, noise)
    error = (
        parts.plus_two_se_this_project
        if about is About.THIS_PROJECT
        else parts.plus_two_se_examples_like_these
    )
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, parts.degrees)) * error
    low, high = LIMITS
    centres = [parts.plus_two_centre]
    if 2 * n > len(labels.rest):
        centres.append(parts.finite_centre)
    return Estimate(
        float(np.clip(parts.theta, low, high)),
        labels.n,
        max(low, min(centres) - half),
        min(high, max(centres) + half),
        f"judge weighted {chosen:.2f}; for {about.value}",
    )


def _too_few(n: int) -> str:
    audited = "1 audited example is" if n == 1 else f"{n} audited examples are"
    return f"{audited} too few for an interval; {FEWEST_AUDITED} are needed"


def expected_width(
    residual: float,
    spread: float,
    *,
    total: int,
    n_rest: int,
    audit: int,
    about: About = About.EXAMPLES_LIKE_THESE,
    confidence: float = 0.95,
    effect: float = 1.0,
    questions: int | None = None,
) -> float | None:
    """Predict how wide the interval of `win_rate` will be, at most 1.

    Args:
        residual, spread: variances of e and of Y; 1/4 each is the most that they can be, so that
            the width is the widest that people alone can have.
        total, n_rest, audit: N, N_U and n of the planned round.
        about, confidence: as in `win_rate`.
        effect, questions: as in `AuditedLabels`.
    Returns: the width, or None below 10 audited examples of a rest and for a single question."""
    if questions == 1 or (n_rest and audit < FEWEST_AUDITED):
        return None
    half = expected_half_widths(
        residual, spread, total=total, n_rest=n_rest, audit=audit, about=about,
        confidence=confidence, effect=effect, questions=questions,
    )  # fmt: skip
    return 2 * float(half)


def expected_half_widths(
    residual: ArrayLike,
    spread: ArrayLike,
    *,
    total: int,
    n_rest: ArrayLike,
    audit: ArrayLike,
    about: About = About.EXAMPLES_LIKE_THESE,
    confidence: float = 0.95,
    effect: float = 1.0,
    questions: int | None = None,
) -> Floats:
    """Predict half the width of many rounds at once, at most 1/2.

    Args:
        residual, spread, n_rest, audit: as in `expected_width`, arrays of one shape; audits below
            10 are taken as they are.
        total, about, confidence, effect, questions: as in `expected_width`.
    Returns: float64 of that shape."""
    rest, n = np.asarray(n_rest, dtype=np.float64), np.asarray(audit, dtype=np.float64)
    sampling = np.asarray(effect * np.asarray(spread) / total)
    if about is not About.EXAMPLES_LIKE_THESE:
        sampling = np.zeros_like(sampling)
    # Two pseudo-observations at a distance of 1, as in the plus-two rule.
    apart = (n * np.asarray(residual) + 2) / (n + 2)
    unseen = 1 - n / np.maximum(rest, 1)
    checking = np.where(rest > 0, (rest / total) ** 2 * unseen * apart / (n + 1), 0.0)
    worth = np.where(rest > 0, np.minimum(n, questions or n), questions or total)
    reach = scipy.stats.t.ppf((1 + confidence) / 2, np.maximum(worth - 1, 1))
    half = reach * np.sqrt(np.maximum(checking, 0.0) + sampling)
    return np.asarray(np.minimum(0.5, half), dtype=np.float64)


def win_rate_test(labels: AuditedLabels, half: float = 0.5) -> float | None:
    """Test whether people's win rate differs from one half, for examples like these.

    The p is that of the interval of `win_rate`: below 1 - confidence if it leaves one half out.

    Args: labels, half: as in `win_rate`, and the rate under H0.
    Returns: two-sided p, or None where there is no interval."""
    if not len(labels.rest):
        if len(labels.selected) < 2 or labels.questions == 1:
            return None
        centre, variance = plus_two(labels.selected, LIMITS, labels.effect)
        centres, error = [centre], float(np.sqrt(variance))
        degrees = (labels.questions or len(labels.selected)) - 1
    elif len(labels.audited) < FEWEST_AUDITED:
        return None
    else:
        parts = difference_estimate(labels, best_lambda(labels))
        centres = [parts.plus_two_centre]
        if 2 * len(labels.audited) > len(labels.rest):
            centres.append(parts.finite_centre)
        error, degrees = parts.plus_two_se_examples_like_these, parts.degrees
    if min(centres) <= half <= max(centres):
        return 1.0
    nearest = min(abs(centre - half) for centre in centres)
    return float(2 * scipy.stats.t.sf(nearest / error, degrees))


def everyone_labelled(
    values: Floats,
    about: About = About.EXAMPLES_LIKE_THESE,
    noise: float = 0.0,
    confidence: float = 0.95,
    *,
    effect: float = 1.0,
    questions: int | None = None,
) -> Figure:
    """Return the mean of labels that all examples have, with two pseudo-values.

    Args:
        values: (N,) scores.
        about, noise, confidence: as in `win_rate`.
        effect, questions: as in `AuditedLabels`; the examples are worth that many times fewer.
    Returns: the mean; the interval covers sampling error only."""
    n = len(values)
    if n < 2:
        return Undefined("two labelled examples are needed")
    mean = float(values.mean())
    if about is About.THIS_PROJECT and noise == 0:
        return Estimate(mean, n, mean, mean, "all examples are labelled")
    if questions == 1:
        return Estimate(mean, n, note=ONE_QUESTION)
    low, high = LIMITS
    centre, variance = plus_two(values, LIMITS, effect)
    sampling = variance if about is About.EXAMPLES_LIKE_THESE else 0.0
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, (questions or n) - 1))
    half = reach * float(np.sqrt(sampling + noise))
    return Estimate(mean, n, max(low, centre - half), min(high, centre + half))


def judge_bias(labels: AuditedLabels, confidence: float = 0.95) -> Figure:
    """Return (N_U/N) mean_A (f - Y): the shift in the win rate caused by judge errors.

    It is the difference of two estimates of `win_rate` for this project, so its interval is the
    plus-two interval of their mean error: 30 audits without an error don't exclude a bias.

    Args: labels, confidence: scores, and the level of the interval.
    Returns: the shift, or Undefined below 10 audited examples."""
    n, share = len(labels.audited), len(labels.rest) / labels.n
    if n < FEWEST_AUDITED:
        return Undefined(_too_few(n))
    estimate = difference_estimate(labels, 1.0)
    judge = float(labels.selected.sum() + labels.rest.sum()) / labels.n
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * estimate.plus_two_se_this_project
    centres = [estimate.plus_two_centre]
    if 2 * n > len(labels.rest):
        centres.append(estimate.finite_centre)
    # The bias is the judge's mean, which has no error here, less the estimate: limits change sides.
    low, high = judge - max(centres) - half, judge - min(centres) + half
    return Estimate(judge - estimate.theta, n, max(-share, low), min(share, high))


def vote_noise(selected: Floats, audited: Floats, n_rest: int, total: int) -> float:
    """Return (N_U^2/n^2 sum_A v + sum_S v)/N^2: what variation between voters adds to the variance.

    Args:
        selected, audited: v of S and of A, from `VoteCounts.score_variance`.
        n_rest, total: N_U and N.
    Returns: a variance, 0 or more."""
    # Each audited example represents N_U/n, and weights count squared in a variance.
    factor = (n_rest / len(audited)) ** 2 if len(audited) else 0.0
    return float((factor * audited.sum() + selected.sum()) / total**2)


def _weighted_variance(labels: AuditedLabels) -> float:
    """Variance of Y over S with weight 1 and A with weight N_U/n, divided by the sum of weights."""
    values = np.concatenate((labels.selected, labels.audited))
    weight = np.ones(len(values))
    weight[len(labels.selected) :] = len(labels.rest) / len(labels.audited)
    mean = weight @ values / weight.sum()
    return float(weight @ (values - mean) ** 2 / weight.sum())
