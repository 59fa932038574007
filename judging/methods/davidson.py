"""Ranking with ties as outcomes of their own (Davidson 1970), beside ties as half a win each.

P(i beats j) = p_i/(p_i + p_j + v sqrt(p_i p_j)) and P(tie) = v sqrt(p_i p_j)/(the same), eq. 2 of
the paper with p_i = exp(strength).  Fitted by Newton's method for all resamples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.bootstrap import estimate_of, resampled_counts
from judging.methods.bradley_terry import (
    REPEATS,
    STEPS,
    Games,
    RankedModel,
    disconnected,
    strongly_connected,
)
from judging.methods.estimates import Estimate, Undefined

NO_TIE = Undefined("no label is a tie, so the model is Bradley and Terry's")
ALL_TIES = Undefined("every label is a tie, so no strength can be told from another")


@dataclass(frozen=True, slots=True)
class DavidsonRanking:
    """ranked: the strongest first; strengths on the log-odds scale, mean 0.

    tie: v; two equal models tie with probability v/(2 + v).
    """

    ranked: tuple[RankedModel, ...]
    tie: Estimate


def davidson(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    repeats: int = REPEATS,
) -> DavidsonRanking | Undefined:
    """Arguments as for `bradley_terry`; an expected win rate counts a tie as half."""
    labels = Games.of(models, model_1, model_2, sign)
    if isinstance(labels, Undefined):
        return labels
    if not np.any(labels.signs == 0):
        return NO_TIE
    if not np.any(labels.signs):
        return ALL_TIES
    m, tables = len(models), _cell_tables(labels, len(models))
    observed = labels.total(tables).reshape(1, 2, m, m)
    if reason := disconnected(models, observed[0, 0] + observed[0, 1] / 2):
        return Undefined(reason)
    counts = resampled_counts(labels.cell, rng, question=question, repeats=repeats)
    strength, tie = _fit(observed)
    drawn_strength, drawn_tie = _fit((counts @ tables).reshape(-1, 2, m, m))
    win, even = _chances(strength[0], tie[0])
    games = observed[0].sum(axis=0)
    played = (games + games.T).sum(axis=1) - observed[0, 1].sum(axis=1)
    expected = (win + even / 2).sum(axis=1) / (m - 1)
    ranked = [
        RankedModel(
            model,
            estimate_of(float(strength[0, i]), drawn_strength[:, i], round(float(played[i]))),
            float(expected[i]),
            round(float(played[i])),
        )
        for i, model in enumerate(models)
    ]
    return DavidsonRanking(
        tuple(sorted(ranked, key=lambda entry: -entry.strength.value)),
        estimate_of(float(tie[0]), drawn_tie, len(labels.cell)),
    )


def _cell_tables(labels: Games, m: int) -> Floats:
    """(cells, 2·m·m): for each cell its win at [winner, loser], or its tie at both places."""
    first, second, signs = labels.first, labels.second, labels.signs
    tables = np.zeros((len(signs), 2, m, m))
    index = np.arange(len(signs))
    winner, loser = np.where(signs < 0, second, first), np.where(signs < 0, first, second)
    decided = signs != 0
    tables[index[decided], 0, winner[decided], loser[decided]] = 1
    tables[index[~decided], 1, first[~decided], second[~decided]] = 1
    tables[index[~decided], 1, second[~decided], first[~decided]] = 1
    return tables.reshape(len(signs), -1)


def _chances(strength: Floats, tie: ArrayLike) -> tuple[Floats, Floats]:
    """P(i beats j) and P(tie), (…, m, m) with 0 on the diagonal."""
    half = (strength[..., :, None] - strength[..., None, :]) / 2
    v = np.asarray(tie)[..., None, None]
    total = np.exp(half) + np.exp(-half) + v
    apart = 1 - np.eye(strength.shape[-1])
    return np.exp(half) / total * apart, v / total * apart


def _fit(tables: Floats) -> tuple[Floats, Floats]:
    """(R, m) strengths and (R,) v of (R, 2, m, m) wins and ties; NaN where none are finite."""
    repeats, _, m, _ = tables.shape
    wins, ties = tables[:, 0], tables[:, 1]
    games = wins + wins.transpose(0, 2, 1) + ties
    won = (wins + ties / 2).sum(axis=2)
    n_ties = ties.sum(axis=(1, 2)) / 2
    decided = games.sum(axis=(1, 2)) / 2 - n_ties
    usable = strongly_connected(wins + ties / 2) & (n_ties > 0) & (decided > 0)
    strength = np.zeros((repeats, m))
    log_tie = np.log(np.clip(2 * n_ties, 0.5, None) / np.clip(decided, 0.5, None))
    for _ in range(STEPS):
        step = _step(strength, log_tie, games, won, n_ties)
        strength += step[:, :m]
        log_tie += step[:, m]
        if np.abs(step[usable]).max(initial=0) < 1e-10:
            break
    strength -= strength.mean(axis=1, keepdims=True)
    strength[~usable], log_tie[~usable] = np.nan, np.nan
    return strength, np.exp(log_tie)


def _step(strength: Floats, log_tie: Floats, games: Floats, won: Floats, n_ties: Floats) -> Floats:
    """(R, m + 1) Newton steps of strengths and log v, from score and Fisher's information."""
    repeats, m = strength.shape
    win, even = _chances(strength, np.exp(log_tie))
    points, lost = win + even / 2, win.transpose(0, 2, 1)
    score = np.empty((repeats, m + 1))
    score[:, :m] = won - (games * points).sum(axis=2)
    score[:, m] = n_ties - (games * even).sum(axis=(1, 2)) / 2
    information = np.zeros((repeats, m + 1, m + 1))
    # Variance of the points (1, 1/2, 0) of one game, of its tie, and their covariance.
    spread = games * (win + even / 4 - points**2)
    places = np.arange(m)
    information[:, :m, :m] = -spread
    information[:, places, places] = spread.sum(axis=2)
    shared = (games * even * (0.5 - points)).sum(axis=2)
    information[:, :m, m] = information[:, m, :m] = shared
    information[:, m, m] = (games * even * (win + lost)).sum(axis=(1, 2)) / 2
    # The strengths are known up to a constant: 1/m in each of their cells fixes their mean.
    information[:, :m, :m] += 1 / m
    information[:, range(m + 1), range(m + 1)] += 1e-9
    return np.clip(np.linalg.solve(information, score[..., None])[..., 0], -2, 2)
