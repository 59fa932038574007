"""Ranking of several models from pairwise labels (Bradley and Terry 1952), a tie half a win each.

Fitted by Newton's method for all bootstrap resamples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes, Floats
from judging.methods.bootstrap import cells, estimate_of, resampled_counts
from judging.methods.estimates import Estimate, Undefined

STEPS = 60
REPEATS = 1_000


@dataclass(frozen=True, slots=True)
class RankedModel:
    """strength: log-odds scale, mean 0 over the models.  win_rate: expected against the others."""

    model: str
    strength: Estimate
    win_rate: float
    n: int


@dataclass(frozen=True, slots=True)
class PairResult:
    """Labels between two models, from the first one's view."""

    model_1: str
    model_2: str
    wins: int
    ties: int
    losses: int

    @property
    def win_rate(self) -> float:
        return (self.wins + self.ties / 2) / (self.wins + self.ties + self.losses)


def pairwise_results(
    models: Sequence[str], model_1: ArrayLike, model_2: ArrayLike, sign: ArrayLike
) -> list[PairResult]:
    """model_1, model_2: index of each example's models; sign: 1, 0, -1 for response 1."""
    first, second, signs = (np.asarray(a) for a in (model_1, model_2, sign))
    turned = np.where(first < second, signs, -signs)
    low, high = np.minimum(first, second), np.maximum(first, second)
    results = []
    for i in range(len(models)):
        for j in range(i + 1, len(models)):
            rows = turned[(low == i) & (high == j)]
            if len(rows):
                wins, ties, losses = (int((rows == s).sum()) for s in (1, 0, -1))
                results.append(PairResult(models[i], models[j], wins, ties, losses))
    return results


@dataclass(frozen=True, slots=True)
class Games:
    """Labels by their kind: two models and a sign.  cell: the kind of each label; first, second
    and signs: of each kind."""

    cell: Codes
    first: Codes
    second: Codes
    signs: Codes

    @classmethod
    def of(
        cls, models: Sequence[str], model_1: ArrayLike, model_2: ArrayLike, sign: ArrayLike
    ) -> Games | Undefined:
        first, second, signs = (np.asarray(a).astype(int) for a in (model_1, model_2, sign))
        if len(models) < 2 or not len(signs):
            return Undefined("a ranking needs two models and an example that compares them")
        cell, row = cells(first, second, signs)
        return cls(cell, first[row], second[row], signs[row])

    def total(self, tables: Floats) -> Floats:
        """The sum over all labels of what a label of each kind, (kinds, …), counts."""
        return np.bincount(self.cell, minlength=len(self.signs)).astype(np.float64) @ tables


def bradley_terry(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    repeats: int = REPEATS,
) -> list[RankedModel] | Undefined:
    """Strengths with intervals, the strongest first; bootstrapped by question."""
    games = Games.of(models, model_1, model_2, sign)
    if isinstance(games, Undefined):
        return games
    m, wins = len(models), _wins(games, len(models))
    table = games.total(wins).reshape(m, m)
    if reason := disconnected(models, table):
        return Undefined(reason)
    strength = _fit(table[None])[0]
    counts = resampled_counts(games.cell, rng, question=question, repeats=repeats)
    resampled = _fit((counts @ wins).reshape(-1, m, m))
    played = table.sum(axis=0) + table.sum(axis=1)
    chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    ranked = [
        RankedModel(
            model,
            estimate_of(float(strength[i]), resampled[:, i], round(float(played[i]))),
            float((chance[i].sum() - 0.5) / (m - 1)),
            round(float(played[i])),
        )
        for i, model in enumerate(models)
    ]
    return sorted(ranked, key=lambda entry: -entry.strength.value)


def _wins(games: Games, m: int) -> Floats:
    """(kinds, m·m): what each kind of label adds at [winner, loser], a tie half to both."""
    wins = np.zeros((len(games.signs), m, m))
    score, index = (1 + games.signs) / 2, np.arange(len(games.signs))
    wins[index, games.first, games.second] += score
    wins[index, games.second, games.first] += 1 - score
    return wins.reshape(len(games.signs), -1)


def disconnected(models: Sequence[str], wins: Floats) -> str:
    """Why there is no finite ranking: some models never win against the others, or never meet."""
    n, group = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(wins > 0), directed=True, connection="strong"
    )
    if n == 1:
        return ""
    groups = [
        "{" + ", ".join(m for m, g in zip(models, group, strict=True) if g == k) + "}"
        for k in range(n)
    ]
    met, _ = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(wins + wins.T > 0), directed=False
    )
    if met > 1:
        return f"these groups of models were never compared: {' and '.join(groups)}"
    return f"one of these groups of models won every comparison with another: {', '.join(groups)}"


def _fit(wins: Floats) -> Floats:
    """(R, m) strengths of (R, m, m) win tables; NaN where no finite ones exist."""
    repeats, m, _ = wins.shape
    games = wins + wins.transpose(0, 2, 1)
    won = wins.sum(axis=2)
    strength = np.zeros((repeats, m))
    diagonal = np.arange(m)
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(strength[:, None, :] - strength[:, :, None]))
        gradient = won - (games * chance).sum(axis=2)
        information = -games * chance * (1 - chance)
        information[:, diagonal, diagonal] = 0.0
        information[:, diagonal, diagonal] = -information.sum(axis=2) + 1e-9
        # The strengths are known up to a constant: 1/m in each cell fixes their mean.
        step = np.linalg.solve(information + 1 / m, gradient[..., None])[..., 0]
        strength += np.clip(step, -2, 2)
        if np.abs(step).max(initial=0) < 1e-10:
            break
    strength -= strength.mean(axis=1, keepdims=True)
    strength[~strongly_connected(wins)] = np.nan
    return strength


def strongly_connected(wins: Floats) -> NDArray[np.bool_]:
    """For each of (R, m, m) win tables whether every model reaches every other through wins."""
    m = wins.shape[-1]
    reach = ((wins > 0) | np.eye(m, dtype=bool)).astype(np.float64)
    for _ in range(max(1, m.bit_length())):
        reach = (reach @ reach > 0).astype(np.float64)
    return np.asarray(reach.all(axis=(1, 2)))
