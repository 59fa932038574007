"""Learned routing: features that may tell that a label is wrong, and the fit that routes by them.

All features look at the example from the verdict: a length difference is positive if the judge
prefers the longer response. docs/methods/routing.md has the reasons and the simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import ratio
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.review.auroc import AurocDifference, auroc, auroc_difference
from judging.methods.review.ridge import RIDGES, RidgeFits, cross_validated, ridge_fits, sigmoid
from judging.methods.verdicts.position import order_labels, outcome_counts

# Rarer categories share the average: a handful of examples says nothing of its own.
MOST_CATEGORIES = 20
FEWEST_OF_CATEGORY = 5
BPDE = "bpde"
CATEGORY = "category: "
# Log odds ratio of a standard deviation of BPDE before any label is seen.
PRIOR = 0.5
# Standard errors by which BPDE must be beaten: the larger bar if errors or right labels are FEW.
# Of the bars compared in simulation, these gain the most and cost at most .01 of AUROC on average.
BAR, BAR_OF_FEW = 0.5, 1.0
FEW = 10
# Below it there is nothing to learn from.
FEWEST = 5
Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Feature:
    """values: (N,) float64, NaN if missing."""

    name: str
    values: Floats


@dataclass(frozen=True, slots=True)
class Features:
    """values: (N, F) in standard deviations from the mean over the judged examples.

    Missing values and unjudged examples are 0; `bpde` is the first column. A category's column is
    its indicator less its share, so that the ridge pulls small categories to the average more.
    constant: names left out since they never differ or nobody has them; `bpde` stays, as zeros.
    missing: name, and number of the examples without it."""

    names: tuple[str, ...]
    values: Floats
    constant: tuple[str, ...]
    missing: tuple[tuple[str, int], ...]


def features(columns: Sequence[Feature], category: Sequence[str], judged: Booleans) -> Features:
    """Standardise over the judged examples; no label is looked at.

    Args: columns, category, judged: features, (N,) categories, and (N,) bool.
    Returns: the columns that vary."""
    names, kept, constant, missing = [], [], [], []
    for column in columns:
        there = judged & np.isfinite(column.values)
        sd = float(column.values[there].std()) if there.any() else 0.0
        if sd < 1e-12:
            constant.append(column.name)
            # The fit's prior is about the first column, so BPDE keeps its place even if it never
            # differs.
            if column.name != BPDE:
                continue
        if lacking := int((judged & ~there).sum()):
            missing.append((column.name, lacking))
        mean = float(column.values[there].mean()) if there.any() else 0.0
        names.append(column.name)
        kept.append(np.where(there, (column.values - mean) / (sd or 1.0), 0.0))
    for name, indicator in _categories(category, judged):
        names.append(CATEGORY + name)
        kept.append(indicator)
    if len(set(np.asarray(category)[judged].tolist())) < 2:
        constant.append("category")
    values = np.column_stack(kept) if kept else np.zeros((len(judged), 0))
    return Features(tuple(names), values, tuple(constant), tuple(missing))


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run says of N examples.

    sign: of the label, 0 if there is none; bpde: smoothed; gap: |CS1 - CS2|.
    outcomes, valid: (N, orders, k), the original order first, turned back to responses 1 and 2.
    length_1, length_2, question: characters."""

    sign: Signs
    bpde: Floats
    gap: Floats
    outcomes: Signs
    valid: Booleans
    length_1: Floats
    length_2: Floats
    question: Floats


def judged_features(judged: Judged) -> list[Feature]:
    """Return the features that every run has; lengths enter as logarithms.

    Args: judged: what a run says.
    Returns: the features, BPDE first."""
    # Logarithms, as twice as long means the same for short and long responses; 1 is added for empty
    # ones.
    length = np.log1p(judged.length_1) - np.log1p(judged.length_2)
    asked, n_valid = judged.valid[0].size if len(judged.valid) else 0, judged.valid.sum(axis=(1, 2))
    columns = [
        Feature(BPDE, judged.bpde),
        Feature("gap", judged.gap),
        Feature("length in favour", length * judged.sign),
        Feature("length difference", np.abs(length)),
        Feature("question length", np.log1p(judged.question)),
        Feature("missing samples", (asked - n_valid).astype(np.float64)),
    ]
    if judged.valid.shape[1] == 2:
        columns += [
            Feature("conflict", _conflict(judged.outcomes, judged.valid)),
            Feature("first position", _first_position(judged.outcomes, judged.valid)),
        ]
    return columns


def jury_agreement(sign: Signs, others: Sequence[tuple[Signs, Booleans]]) -> Feature:
    """Return the mean over other runs: 1 agrees, -1 contradicts, 0 a tie.

    Args: sign, others: (N,) signs, and each other run's signs and whether it has them.
    Returns: the feature, NaN if no other run labelled the example."""
    agreed = np.zeros(len(sign))
    n = np.zeros(len(sign))
    for other, there in others:
        agreed += np.where(there, sign.astype(np.float64) * other, 0.0)
        n += there
    return Feature("jury agreement", ratio(agreed, n))


def preference_features(
    judged: Judged, others: Sequence[tuple[Signs, Booleans]], likelihood: Floats | None = None
) -> list[Feature]:
    """Return what may tell which response people prefer; all turn over with the responses.

    Args:
        judged, others: what a run says, and as in `jury_agreement`.
        likelihood: (N,) of response 1 less that of response 2; None: not known.
    Returns: the features, of response 1."""
    sign = judged.sign.astype(np.float64)
    n_valid = judged.valid.sum(axis=(1, 2))
    mean = (judged.outcomes * judged.valid).sum(axis=(1, 2)) / np.maximum(n_valid, 1)
    columns = [
        Feature("verdict", sign),
        Feature("mean outcome", mean),
        Feature("score difference", judged.gap * sign),
        Feature("verdict by BPDE", sign * _about_mean(judged.bpde)),
        Feature("length", np.log1p(judged.length_1) - np.log1p(judged.length_2)),
    ]
    if judged.valid.shape[1] == 2:
        conflict = _about_mean(_conflict(judged.outcomes, judged.valid))
        columns.append(Feature("verdict by conflict", sign * conflict))
    if likelihood is not None:
        columns.append(Feature("likelihood", likelihood))
    if others:
        total = np.sum([np.where(there, signs, 0.0) for signs, there in others], axis=0)
        columns.append(
            Feature(
                "other runs", ratio(total, np.sum([has_label for _, has_label in others], axis=0))
            )
        )
    return columns


def _about_mean(values: Floats) -> Floats:
    there = np.isfinite(values)
    return values - (float(values[there].mean()) if there.any() else 0.0)


def in_favour(name: str, difference: ArrayLike, sign: Signs) -> Feature:
    """Turn a difference into the direction of the verdict.

    Args: name, difference, sign: (N,) of response 1 less response 2, and (N,) signs.
    Returns: the feature."""
    return Feature(name, np.asarray(difference, dtype=np.float64) * sign)


def smoothed_entropies(outcomes: Signs, valid: Booleans) -> Floats:
    """Return `smoothed_entropy` of N examples.

    Args: outcomes, valid: (N, orders, k) signs, and which samples count.
    Returns: (N,) float64 in nats, NaN if an order has no valid sample."""
    counts = outcome_counts(outcomes, valid)
    per_order = valid.sum(axis=2)
    n = per_order.sum(axis=1)[:, None]
    share = (counts / np.maximum(per_order, 1)[:, :, None]).mean(axis=1)
    # One more sample, shared by win, tie and lose: two equal samples then look less certain than
    # six.
    smooth = (n * share + 1 / 3) / (n + 1)
    there = (per_order > 0).all(axis=1)
    return np.where(there, -(smooth * np.log(smooth)).sum(axis=1), np.nan)


def _conflict(outcomes: Signs, valid: Booleans) -> Floats:
    """Return 1 if the orders' labels differ, 0 if not, NaN if an order has no sample."""
    side, there = order_labels(outcomes, valid)
    conflict = (side[:, 0] != side[:, 1]).astype(np.float64)
    return np.where(there.all(axis=1), conflict, np.nan)


def _first_position(outcomes: Signs, valid: Booleans) -> Floats:
    """Return the share of the valid samples that preferred the response shown first."""
    won = ((outcomes[:, 0] == 1) & valid[:, 0]).sum(axis=1)
    won = won + ((outcomes[:, 1] == -1) & valid[:, 1]).sum(axis=1)
    n = valid.sum(axis=(1, 2))
    return np.where(n > 0, won / np.maximum(n, 1), np.nan)


def _categories(category: Sequence[str], judged: Booleans) -> list[tuple[str, NDArray[np.float64]]]:
    names, counts = np.unique(np.asarray(category, dtype=np.str_)[judged], return_counts=True)
    if len(names) < 2:
        return []
    # Stable, so that equally common categories come in the order of their names on every machine.
    order = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
    common = [str(names[i]) for i in order if names[i] and counts[i] >= FEWEST_OF_CATEGORY]
    every = np.asarray(category, dtype=np.str_)
    return [
        (name, np.where(judged, (every == name) - np.mean(every[judged] == name), 0.0))
        for name in common
    ]


@dataclass(frozen=True, slots=True)
class FittedCoefficient:
    """odds_ratio: of an error, for one standard deviation more, or category against average.

    low, high: the posterior's limits under the ridge, which pulls to 1 (BPDE to its prior); so they
    are no confidence limits of the ratio without it."""

    name: str
    odds_ratio: Estimate


@dataclass(frozen=True, slots=True)
class RoutingTrial:
    """AUROC for errors on the learning sample: cross-validated, BPDE's, and the difference."""

    learned: Figure
    bpde: Figure
    advantage: AurocDifference | Undefined


@dataclass(frozen=True, slots=True)
class Routing:
    """n: labelled examples with a judge's label; n_wrong: errors in them, with halves.

    used: whether the learned score routes; if not, `reason`. ridge: None if nothing was learned.
    notes: what was left out or filled in, a sentence each. constant: names of columns that never
    differ: their coefficient is the prior's, and says nothing about the judge.
    fit: of the score that routes, on the columns `values`; no other part of the columns is used.
    probability: (N,) that the judge's label is wrong, NaN if it has none."""

    n: int
    n_wrong: float
    trial: RoutingTrial
    used: bool
    reason: str
    ridge: float | None
    notes: tuple[str, ...]
    names: tuple[str, ...]
    constant: tuple[str, ...]
    fit: RidgeFits
    probability: Floats

    @property
    def coefficients(self) -> tuple[FittedCoefficient, ...]:
        slope = self.fit.slopes[0]
        half = Z * np.sqrt(np.diagonal(self.fit.covariance[0])[1:])
        limits = zip(np.exp(slope), np.exp(slope - half), np.exp(slope + half), strict=True)
        return tuple(
            FittedCoefficient(name, Estimate(float(value), self.n, float(low), float(high)))
            for name, (value, low, high) in zip(self.names, limits, strict=True)
            if name not in self.constant
        )


def wrongness(judge: Signs, human: Signs) -> Floats:
    """Return how wrong each label is; a judge's tie is half wrong unless people say tie.

    Taken as wholly wrong, ties teach that a judge in doubt errs more than one that is surely wrong.

    Args: judge, human: (n,) signs.
    Returns: (n,) float64: 0, 1/2 or 1."""
    return np.where(judge == human, 0.0, np.where(judge == 0, 0.5, 1.0))


def routing(
    columns: Features,
    level: Floats,
    judged: Booleans,
    sample: Codes,
    wrong: Floats,
    rng: np.random.Generator,
) -> Routing:
    """Learn where the judge errs, and route by it if it beats BPDE.

    Args:
        columns, judged: features of N examples, and (N,) bool; unjudged ones teach nothing.
        level: (N,) BPDE as the round would rank by it.
        sample, wrong: (n,) places drawn at random and labelled, and their `wrongness`.
        rng: source of the folds.
    Returns: the fit of what routes, and the trial that decided it."""
    rows, target = sample[judged[sample]], wrong[judged[sample]]
    notes = _notes(columns, len(sample) - len(rows))
    fewer = min(float(target.sum()), float((1 - target).sum()))
    # Without both kinds in each fold there is nothing to cross-validate.
    if fewer < FEWEST:
        n_wrong = float(target.sum())
        reason = (
            f"in the {len(rows)} labelled examples, the judge was wrong on {n_wrong:g} and right "
            f"on {len(rows) - n_wrong:g}; learning needs {FEWEST} of each"
        )
        trial = RoutingTrial(Undefined(reason), auroc(level[rows], target), Undefined(reason))
        return _fitted(columns, judged, rows, target, trial, None, reason, notes)
    trained = cross_validated(columns.values[rows], target, _prior_of(columns), rng)
    tried = rows[trained.rows]
    trial = RoutingTrial(
        auroc(trained.scores, target[trained.rows]),
        auroc(level[tried], target[trained.rows]),
        auroc_difference(trained.scores, level[tried], target[trained.rows]),
    )
    bar = BAR
    if fewer < FEW:
        bar = BAR_OF_FEW
        notes.append(
            f"fewer than {FEW} errors or right labels were seen, so BPDE had to be beaten by a "
            "whole standard error"
        )
    reason = _not_better(trial.advantage, trained.ridge, bar)
    if not reason and _separated(columns, tried, target[trained.rows]):
        notes.append(
            "the features separate errors and right labels completely, so only "
            "the ridge keeps the coefficients finite"
        )
    return _fitted(columns, judged, rows, target, trial, trained.ridge, reason, notes)


def expected_errors(learned: Routing, next_rows: Codes) -> Figure:
    """Predict how many errors labelling these examples will find.

    Args: learned, next_rows: the routing, and (m,) places.
    Returns: the number, without an interval as it depends on the fit, or Undefined if m is 0."""
    if not len(next_rows):
        return Undefined("no example is left to label")
    return Estimate(float(np.nansum(learned.probability[next_rows])), len(next_rows))


def _prior_of(columns: Features) -> Floats:
    """BPDE alone."""
    prior = np.zeros(len(columns.names))
    prior[0] = PRIOR
    return prior


def _fitted(
    columns: Features,
    judged: Booleans,
    rows: Codes,
    target: Floats,
    trial: RoutingTrial,
    ridge: float | None,
    reason: str,
    notes: list[str],
) -> Routing:
    """Fit what routes: all columns, or BPDE alone if there is a reason for it."""
    width = 1 if reason else len(columns.names)
    # A ridge that was chosen for all columns says nothing about BPDE alone, so it has a fixed one.
    strength = RIDGES[2] if reason or ridge is None else ridge
    values, prior = columns.values[:, :width], _prior_of(columns)[:width]
    every = np.ones((1, len(rows)))
    fit = ridge_fits(values[rows], target, every, np.array([strength]), prior)
    return Routing(
        n=len(rows),
        n_wrong=float(target.sum()),
        trial=trial,
        used=not reason,
        reason=reason,
        ridge=ridge,
        notes=tuple(notes),
        names=columns.names[:width],
        constant=columns.constant,
        fit=fit,
        probability=np.where(judged, sigmoid(fit.linear(values)[0]), np.nan),
    )


def _not_better(advantage: AurocDifference | Undefined, ridge: float, bar: float) -> str:
    if isinstance(advantage, Undefined):
        return advantage.reason
    # With the strongest ridge only the prior is left, which is BPDE alone.
    if ridge == RIDGES[-1]:
        return "no feature other than BPDE told the judge's errors from its right labels"
    if advantage.value > bar * advantage.standard_error:
        return ""
    errors = "the standard error" if bar == BAR_OF_FEW else "half the standard error"
    side = "above" if advantage.value > 0 else "below"
    return (
        f"the learned score's AUROC is {_bare(abs(advantage.value))} {side} BPDE's, and would have "
        f"to be more than {_bare(bar * advantage.standard_error)} above it, {errors} of the "
        "difference"
    )


def _bare(value: float) -> str:
    """Format as papers do, without the leading zero."""
    return f"{value:.3f}".removeprefix("0")


def _separated(columns: Features, rows: Codes, target: Floats) -> bool:
    """Whether even the weakest ridge's fit puts each error above each right label."""
    every, weakest = np.ones((1, len(rows))), np.array([RIDGES[0]])
    fit = ridge_fits(columns.values[rows], target, every, weakest, _prior_of(columns))
    logits = fit.linear(columns.values[rows])[0]
    return bool(logits[target > 0].min() > logits[target < 1].max())


def _notes(columns: Features, unjudged: int) -> list[str]:
    notes = []
    if BPDE in columns.constant:
        notes.append(
            "BPDE is the same for all examples, so it says nothing about where this judge errs"
        )
    if left_out := [name for name in columns.constant if name != BPDE]:
        notes.append(f"left out, because the examples don't differ in it: {', '.join(left_out)}")
    for name, n in columns.missing:
        lacking = "1 example lacks" if n == 1 else f"{n} examples lack"
        counts = "counts" if n == 1 else "count"
        notes.append(f"{lacking} “{name}” and {counts} as average in it")
    if unjudged:
        lacking = "1 example" if unjudged == 1 else f"{unjudged} examples"
        have = "has" if unjudged == 1 else "have"
        notes.append(f"{lacking} of the learning sample {have} no label by the judge")
    return notes
