"""How sure agreement among people is: resampled by question, as everything else is.

A question or a text that repeats brings the same difficulty with it each time, so resampling its
examples one by one would take them for more than they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.bootstrap import ALIKE, WIDTH, cells, interval, resampled_counts
from judging.methods.distinct import all_differ
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.raters import TOO_FEW

REPEATS = 500

# From counts (rows, categories) and how often each row occurs.
Statistic = Callable[[Floats, Floats], float | Undefined]


def agreement_interval(
    statistic: Statistic, counts: Floats, question: ArrayLike, rng: np.random.Generator
) -> Figure:
    """One of `judging.methods.raters` with its percentile limits.

    Where each question occurs once, rows are drawn from Dirichlet weights with one
    pseudo-observation, half of it an agreement and half a disagreement of one rater, as
    `judging.methods.kappa` has it for two: without it, votes that all agree have no width.
    """
    if not len(counts):
        return Undefined(TOO_FEW)
    value = statistic(counts, np.ones(len(counts)))
    if isinstance(value, Undefined):
        return value
    cell, first = cells(*counts.T)
    rows = counts[first]
    if all_differ(question):
        rows, drawn = _likely(rows, np.bincount(cell).astype(np.float64), rng)
    else:
        drawn = resampled_counts(cell, rng, question=question, repeats=REPEATS)
    found = [statistic(rows, times) for times in drawn]
    low, high, lacking = interval([np.nan if isinstance(one, Undefined) else one for one in found])
    if high - low < WIDTH:
        return Estimate(float(value), len(counts), note=ALIKE)
    note = f"undefined in {lacking} of {len(drawn)} resamples" if lacking else ""
    return Estimate(float(value), len(counts), min(low, value), max(high, value), note)


def _likely(rows: Floats, often: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The rows with those of the pseudo-observation, and (R, rows) weights of R draws."""
    raters = int(np.bincount(rows.sum(axis=1).astype(int)).argmax())
    one = np.eye(rows.shape[1])
    agree = raters * one
    differ = np.array(
        [(raters - 1) * one[a] + one[b] for a in range(len(one)) for b in range(len(one)) if a != b]
    )
    prior = np.concatenate(
        (
            often,
            np.full(len(agree), 0.5 / len(agree)),
            np.full(len(differ), 0.5 / max(len(differ), 1)),
        )
    )
    drawn = rng.standard_gamma(prior, size=(REPEATS, len(prior)))
    return np.vstack((rows, agree, differ)), drawn
