"""What may tell that the judge's label is wrong, as standardised columns for learned routing.

All columns look at the example from the verdict: a length difference is positive where the
response that the judge prefers is the longer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Booleans, Floats, Signs

# Rarer categories share the average: a handful of examples says nothing of its own.
MOST_CATEGORIES = 20
FEWEST_OF_CATEGORY = 5
BPDE = "bpde"
CATEGORY = "category: "


@dataclass(frozen=True, slots=True)
class Feature:
    """values: (N,), NaN where the example lacks it."""

    name: str
    values: Floats


@dataclass(frozen=True, slots=True)
class Features:
    """values: (N, F) in standard deviations from the mean over the judged examples, 0 where
    missing, and 0 throughout where not judged; `bpde` is the first column. A category's column is
    its indicator less its share, so that the ridge pulls small categories to the average more.

    constant: names of what was left out since it never differs, or since nobody has it; `bpde`
        stays a column then, of zeros.
    missing: name and number of the examples that lack it.
    """

    names: tuple[str, ...]
    values: Floats
    constant: tuple[str, ...]
    missing: tuple[tuple[str, int], ...]


def features(columns: Sequence[Feature], category: Sequence[str], judged: Booleans) -> Features:
    """Standardise over the judged examples; no label is looked at."""
    names, kept, constant, missing = [], [], [], []
    for column in columns:
        there = judged & np.isfinite(column.values)
        sd = float(column.values[there].std()) if there.any() else 0.0
        if sd < 1e-12:
            constant.append(column.name)
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
    return Features(tuple(names), np.column_stack(kept), tuple(constant), tuple(missing))


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run says of N examples. sign: of the label, 0 where there is none; bpde: smoothed;
    gap: |CS1 - CS2|; outcomes, valid: (N, orders, k), the first order the original one, outcomes
    turned back to responses 1 and 2; length_1, length_2, question: characters."""

    sign: Signs
    bpde: Floats
    gap: Floats
    outcomes: Signs
    valid: Booleans
    length_1: Floats
    length_2: Floats
    question: Floats


def judged_features(judged: Judged) -> list[Feature]:
    """The features that every run has. Lengths enter as logarithms."""
    length = np.log1p(judged.length_1) - np.log1p(judged.length_2)
    asked, n_valid = judged.valid[0].size if len(judged.valid) else 0, judged.valid.sum(axis=(1, 2))
    found = [
        Feature(BPDE, judged.bpde),
        Feature("gap", judged.gap),
        Feature("length in favour", length * judged.sign),
        Feature("length difference", np.abs(length)),
        Feature("question length", np.log1p(judged.question)),
        Feature("missing samples", (asked - n_valid).astype(np.float64)),
    ]
    if judged.valid.shape[1] == 2:
        found += [
            Feature("conflict", _conflict(judged.outcomes, judged.valid)),
            Feature("first position", _first_position(judged.outcomes, judged.valid)),
        ]
    return found


def jury_agreement(sign: Signs, others: Sequence[tuple[Signs, Booleans]]) -> Feature:
    """Mean over the other runs that labelled the example: 1 agrees, -1 contradicts, 0 a tie."""
    agreed = np.zeros(len(sign))
    n = np.zeros(len(sign))
    for other, there in others:
        agreed += np.where(there, sign.astype(np.float64) * other, 0.0)
        n += there
    return Feature("jury agreement", np.divide(agreed, n, out=np.full(len(n), np.nan), where=n > 0))


def in_favour(name: str, difference: ArrayLike, sign: Signs) -> Feature:
    """A difference of response 1 less response 2, in the direction of the verdict."""
    return Feature(name, np.asarray(difference, dtype=np.float64) * sign)


def smoothed_entropies(outcomes: Signs, valid: Booleans) -> Floats:
    """`entropy.smoothed_entropy` of N examples: of (n p + 1/3)/(n + 1), NaN where an order has
    no valid sample."""
    counts = np.stack([((outcomes == sign) & valid).sum(axis=2) for sign in (1, 0, -1)], axis=2)
    per_order = valid.sum(axis=2)
    n = per_order.sum(axis=1)[:, None]
    share = (counts / np.maximum(per_order, 1)[:, :, None]).mean(axis=1)
    smooth = (n * share + 1 / 3) / (n + 1)
    there = (per_order > 0).all(axis=1)
    return np.where(there, -(smooth * np.log(smooth)).sum(axis=1), np.nan)


def _conflict(outcomes: Signs, valid: Booleans) -> Floats:
    """1 where the orders' majorities differ, 0 where not, NaN where an order has no sample."""
    side = np.sign(np.where(valid, outcomes, 0).sum(axis=2))
    there = (valid.sum(axis=2) > 0).all(axis=1)
    return np.where(there, (side[:, 0] != side[:, 1]).astype(np.float64), np.nan)


def _first_position(outcomes: Signs, valid: Booleans) -> Floats:
    """Share of the valid samples that preferred what stood first."""
    won = ((outcomes[:, 0] == 1) & valid[:, 0]).sum(axis=1)
    won = won + ((outcomes[:, 1] == -1) & valid[:, 1]).sum(axis=1)
    n = valid.sum(axis=(1, 2))
    return np.where(n > 0, won / np.maximum(n, 1), np.nan)


def _categories(category: Sequence[str], judged: Booleans) -> list[tuple[str, NDArray[np.float64]]]:
    names, counts = np.unique(np.asarray(category, dtype=np.str_)[judged], return_counts=True)
    if len(names) < 2:
        return []
    order = np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]
    common = [str(names[i]) for i in order if names[i] and counts[i] >= FEWEST_OF_CATEGORY]
    every = np.asarray(category, dtype=np.str_)
    return [
        (name, np.where(judged, (every == name) - np.mean(every[judged] == name), 0.0))
        for name in common
    ]
