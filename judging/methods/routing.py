"""Learned routing: how probably the judge's label is wrong, from a random sample people labelled.

A ridge logistic regression on features of the verdict (`routing_features`), around a prior that
is BPDE alone.  It is used only where its cross-validated AUROC for the judge's errors beats
BPDE's by more than the standard error of the difference; otherwise BPDE routes, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.auroc import AurocDifference, auroc, auroc_difference
from judging.methods.cross_validation import RIDGES, cross_validated
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.ridge_logistic import RidgeFits, ridge_fits, sigmoid
from judging.methods.routing_features import BPDE, Features

# Log odds ratio of a standard deviation of BPDE before any label is seen.
PRIOR = 0.5
# Below it BPDE must be beaten by two standard errors, which are poorly known themselves.
FEW = 10
# Below it there is nothing to learn from.
FEWEST = 5
DRAWS = 2_000
Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Coefficient:
    """odds_ratio: of an error, for one standard deviation more, or in the category against the
    average; its interval is the posterior's, which includes the ridge."""

    name: str
    odds_ratio: Estimate


@dataclass(frozen=True, slots=True)
class Trial:
    """AUROC for the judge's errors on the learning sample: cross-validated, BPDE's, and the
    first less the second."""

    learned: Figure
    bpde: Figure
    advantage: AurocDifference | Undefined


@dataclass(frozen=True, slots=True)
class Routing:
    """n: labelled examples with a judge's label; n_wrong: errors in them, with halves.

    used: whether the learned score routes; if not, `reason`. ridge: None where nothing was
    learned. notes: what was left out or filled in, a sentence each. constant: names of columns
    that never differ: their coefficient is the prior's, and says nothing about the judge.
    fit: of the score that routes, on the columns `values`; all else of the columns is not used.
    probability: (N,) that the judge's label is wrong, NaN where there is none.
    """

    n: int
    n_wrong: float
    trial: Trial
    used: bool
    reason: str
    ridge: float | None
    notes: tuple[str, ...]
    names: tuple[str, ...]
    constant: tuple[str, ...]
    fit: RidgeFits
    probability: Floats

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        slope = self.fit.slopes[0]
        half = Z * np.sqrt(np.diagonal(self.fit.covariance[0])[1:])
        limits = zip(np.exp(slope), np.exp(slope - half), np.exp(slope + half), strict=True)
        return tuple(
            Coefficient(name, Estimate(float(value), self.n, float(low), float(high)))
            for name, (value, low, high) in zip(self.names, limits, strict=True)
            if name not in self.constant
        )


def wrongness(judge: Signs, human: Signs) -> Floats:
    """1 for a wrong label, 0 for the right one; a judge's tie is half wrong unless people say tie.

    Taken as wholly wrong, ties teach that a judge in doubt errs more than one that is surely
    wrong.
    """
    return np.where(judge == human, 0.0, np.where(judge == 0, 0.5, 1.0))


def routing(
    columns: Features,
    level: Floats,
    judged: Booleans,
    sample: Codes,
    wrong: Floats,
    rng: np.random.Generator,
) -> Routing:
    """level: (N,) BPDE as the round would rank by it; sample: (n,) places that were drawn at
    random and labelled; wrong: (n,) by `wrongness`.  What the judge gave no label teaches nothing.
    """
    rows, target = sample[judged[sample]], wrong[judged[sample]]
    notes = _notes(columns, len(sample) - len(rows))
    fewer = min(float(target.sum()), float((1 - target).sum()))
    if fewer < FEWEST:
        reason = too_few(len(rows), float(target.sum()))
        trial = Trial(Undefined(reason), auroc(level[rows], target), Undefined(reason))
        return _fitted(columns, judged, rows, target, trial, None, reason, notes)
    found = cross_validated(columns.values[rows], target, prior_of(columns), rng)
    tried = rows[found.rows]
    trial = Trial(
        auroc(found.scores, target[found.rows]),
        auroc(level[tried], target[found.rows]),
        auroc_difference(found.scores, level[tried], target[found.rows]),
    )
    bar = 1
    if fewer < FEW:
        bar = 2
        notes.append(
            f"fewer than {FEW} errors or right labels were seen, so BPDE had to be beaten by two "
            "standard errors"
        )
    reason = _not_better(trial.advantage, found.ridge, bar)
    if not reason and _separated(columns, tried, target[found.rows]):
        notes.append(
            "the features part the errors from the right labels without an exception, so only "
            "the ridge keeps the coefficients finite"
        )
    return _fitted(columns, judged, rows, target, trial, found.ridge, reason, notes)


def expected_errors(
    found: Routing, columns: Features, next_rows: Codes, rng: np.random.Generator
) -> Figure:
    """Errors that labelling these examples is expected to find, with a 95 % predictive interval:
    over the coefficients' posterior, and then over which of the labels are wrong."""
    if not len(next_rows):
        return Undefined("no example is left to label")
    value = float(np.nansum(found.probability[next_rows]))
    drawn = rng.multivariate_normal(found.fit.coefficients[0], found.fit.covariance[0], DRAWS)
    used = columns.values[next_rows][:, : len(found.names)]
    chance = sigmoid(drawn[:, :1] + drawn[:, 1:] @ used.T)
    errors = (rng.random(chance.shape) < chance).sum(axis=1)
    low, high = np.quantile(errors, (0.025, 0.975))
    return Estimate(value, len(next_rows), float(low), float(high))


def prior_of(columns: Features) -> Floats:
    """BPDE alone."""
    prior = np.zeros(len(columns.names))
    prior[0] = PRIOR
    return prior


def too_few(n: int, n_wrong: float) -> str:
    return (
        f"the {n} labelled examples hold {n_wrong:g} errors of the judge and {n - n_wrong:g} "
        f"right labels; {FEWEST} of each are needed to learn from"
    )


def _fitted(
    columns: Features,
    judged: Booleans,
    rows: Codes,
    target: Floats,
    trial: Trial,
    ridge: float | None,
    reason: str,
    notes: list[str],
) -> Routing:
    """The fit of what routes: all columns, or BPDE alone where there is a reason for it."""
    width = 1 if reason else len(columns.names)
    strength = RIDGES[2] if reason or ridge is None else ridge
    values, prior = columns.values[:, :width], prior_of(columns)[:width]
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


def _not_better(advantage: AurocDifference | Undefined, ridge: float, bar: int) -> str:
    if isinstance(advantage, Undefined):
        return advantage.reason
    if ridge == RIDGES[-1]:
        return "beside BPDE no feature told the judge's errors from its right labels"
    if advantage.value > bar * advantage.standard_error:
        return ""
    errors = "the standard error" if bar == 1 else "two standard errors"
    side = "above" if advantage.value > 0 else "below"
    return (
        f"the learned score's AUROC is {_bare(abs(advantage.value))} {side} BPDE's, and would have "
        f"to be more than {_bare(bar * advantage.standard_error)} above it, {errors} of the "
        "difference"
    )


def _bare(value: float) -> str:
    """As papers set it, and as AUROC stands beside it."""
    return f"{value:.3f}".removeprefix("0")


def _separated(columns: Features, rows: Codes, target: Floats) -> bool:
    """Whether even the weakest ridge's fit puts each error above each right label."""
    every, weakest = np.ones((1, len(rows))), np.array([RIDGES[0]])
    fit = ridge_fits(columns.values[rows], target, every, weakest, prior_of(columns))
    logits = fit.linear(columns.values[rows])[0]
    return bool(logits[target > 0].min() > logits[target < 1].max())


def _notes(columns: Features, unjudged: int) -> list[str]:
    notes = []
    if BPDE in columns.constant:
        notes.append("BPDE is the same everywhere, so it tells nothing of where this judge errs")
    if left_out := [name for name in columns.constant if name != BPDE]:
        notes.append(f"left out, since it is the same everywhere: {', '.join(left_out)}")
    for name, n in columns.missing:
        lacking = "1 example lacks" if n == 1 else f"{n} examples lack"
        counts = "counts" if n == 1 else "count"
        notes.append(f"{lacking} “{name}” and {counts} as average in it")
    if unjudged:
        notes.append(f"{unjudged} examples of the learning sample have no label by the judge")
    return notes
