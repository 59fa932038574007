"""Models ranked by their wins: pairs, Bradley-Terry, and Davidson's model of ties.

Which examples people review first is the subject of `verdicts.rank` and `review`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import ONE_QUESTION, cells
from judging.methods.intervals.covariates import (
    Labels,
    half_width,
    influence,
    outcome_fit,
    plus_two_covariance,
    pseudo_influence,
    weighted_fit,
)
from judging.methods.intervals.estimates import Estimate, Undefined

NO_TIE = Undefined("no label is a tie, so this is the Bradley–Terry model")
ALL_TIES = Undefined("every label is a tie, so the models can't be told apart")


@dataclass(frozen=True, slots=True)
class RankedModel:
    """strength: log odds, mean 0 over the models. win_rate: expected against the others, 0 to 1.

    n: labels in which the model occurs."""

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
    """Count the labels between each two models.

    Args:
        models: names.
        model_1, model_2: (N,) each example's models, as places in `models`.
        sign: (N,) 1, 0 or -1 for response 1.
    Returns: each pair that met, in the order of `models`."""
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
class _Games:
    """Labels by their kind: two models and a sign.

    cell: (n,) the kind of each label; first, second, signs: (kinds,)."""

    cell: Codes
    first: Codes
    second: Codes
    signs: Codes

    @classmethod
    def of(
        cls, models: Sequence[str], model_1: ArrayLike, model_2: ArrayLike, sign: ArrayLike
    ) -> _Games | Undefined:
        first, second, signs = (np.asarray(a).astype(int) for a in (model_1, model_2, sign))
        if len(models) < 2 or not len(signs):
            return Undefined("a ranking needs two models and an example that compares them")
        cell, row = cells(first, second, signs)
        return cls(cell, first[row], second[row], signs[row])

    def no_tie_model(self) -> Undefined | None:
        """Why ties can't be an outcome of their own, if they can't."""
        if not np.any(self.signs == 0):
            return NO_TIE
        return None if np.any(self.signs) else ALL_TIES

    def played(self, m: int, *, ties: bool) -> Floats:
        """(m,) in how many labels each model occurs; with ties, also how many labels there are."""
        n = np.bincount(self.cell, minlength=len(self.signs)).astype(np.float64)
        each = np.bincount(self.first, n, m) + np.bincount(self.second, n, m)
        return np.asarray(np.append(each, n.sum()) if ties else each, dtype=np.float64)

    def total(self, tables: Floats) -> Floats:
        """The sum over all labels of what a label of each kind, (kinds, …), counts."""
        return np.bincount(self.cell, minlength=len(self.signs)).astype(np.float64) @ tables


def bradley_terry(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    *,
    question: ArrayLike | None = None,
) -> list[RankedModel] | Undefined:
    """Rank models by their wins, a tie as half (Bradley, Terry 1952, doi:10.2307/2334029).

    Strengths are those of the largest likelihood; their limits are those of `covariates`.

    Args:
        models, model_1, model_2, sign: as in `pairwise_results`.
        question: (N,) codes; None: each label has its own.
    Returns: the strongest first of the `comparable` models, or Undefined if there is no ranking."""
    found = _strengths(models, model_1, model_2, sign, question, ties=False)
    return found if isinstance(found, Undefined) else list(found.ranked)


def _strengths(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    question: ArrayLike | None,
    *,
    ties: bool,
) -> DavidsonRanking | Undefined:
    """Fit the comparable models: with ties as halves, or as an outcome of their own."""
    games = _Games.of(models, model_1, model_2, sign)
    if isinstance(games, Undefined):
        return games
    found = comparable(models, model_1, model_2, sign)
    if isinstance(found, Undefined):
        return found
    if found.apart:
        models, (first, second, signs), question = _among(
            found, models, model_1, model_2, sign, question
        )
        games = _Games.of(models, first, second, signs)
        if isinstance(games, Undefined):
            return games
    if ties and (lacking := games.no_tie_model()) is not None:
        return lacking
    return _fit(models, games, question, ties=ties)


def _fit(
    models: Sequence[str], games: _Games, question: ArrayLike | None, *, ties: bool
) -> DavidsonRanking:
    m, n = len(models), len(games.cell)
    # The strengths are known up to a constant: m - 1 directions leave their mean at 0.
    basis = np.linalg.svd(np.eye(m) - 1 / m)[0][:, : m - 1]
    outcomes, kind, earned = _outcomes(games, basis, ties=ties)
    asked = np.arange(n) if question is None else np.asarray(question)
    labels = Labels(kind[games.cell], earned[games.cell], np.ones(n), asked, np.zeros(n, np.intp))
    fit = weighted_fit(outcomes, labels)
    moves, pseudo = influence(fit, labels), pseudo_influence(fit, labels)
    covariance = plus_two_covariance(moves, pseudo, labels)
    weight = np.bincount(games.cell, minlength=len(kind)).astype(np.float64)
    best = outcome_fit(outcomes[kind], weight, earned, corrected=False)
    turn = np.zeros((m + ties, m - 1 + ties))
    turn[:m, : m - 1] = basis
    if ties:
        turn[m, m - 1] = 1
    value, centre = turn @ best.theta, turn @ fit.theta
    spread = np.einsum("ip,pq,iq->i", turn, covariance, turn)
    figures = [
        _estimate(*one, labels, m - 1 + ties)
        for one in zip(value, centre, spread, games.played(m, ties=ties), strict=True)
    ]
    expected = _expected(value[:m], np.exp(value[m]) if ties else 0.0)
    ranked = [
        RankedModel(model, figures[i], float(expected[i]), figures[i].n)
        for i, model in enumerate(models)
    ]
    by_strength = tuple(sorted(ranked, key=lambda entry: -entry.strength.value))
    tie = _exponential(figures[m]) if ties else Estimate(0.0, n)
    return DavidsonRanking(by_strength, tie)


def _outcomes(games: _Games, basis: Floats, *, ties: bool) -> tuple[Floats, Codes, Floats]:
    """T of each outcome of each two models, each kind's two models, and what the kind earned."""
    low, high = np.minimum(games.first, games.second), np.maximum(games.first, games.second)
    pairs, kind = np.unique(np.stack((low, high)), axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    half = (basis[pairs[0]] - basis[pairs[1]]) / 2
    won = np.where(games.first < games.second, games.signs, -games.signs)[:, None]
    earned = won * half[kind]
    outcomes = np.stack((half, -half), axis=1)
    if not ties:
        # Half a win and half a lose is nothing on this scale.
        return outcomes, kind, earned
    outcomes = np.stack((half, np.zeros_like(half), -half), axis=1)
    tied = np.zeros((*outcomes.shape[:2], 1))
    tied[:, 1] = 1
    own = np.column_stack((earned, games.signs == 0))
    return np.concatenate((outcomes, tied), axis=2), kind, own


def _estimate(
    value: float, centre: float, variance: float, n: float, labels: Labels, parameters: int
) -> Estimate:
    if labels.questions < 2:
        return Estimate(float(value), round(n), note=ONE_QUESTION)
    half = half_width(float(variance), labels, parameters)
    low, high = min(centre - half, value), max(centre + half, value)
    return Estimate(float(value), round(n), float(low), float(high))


def _exponential(found: Estimate) -> Estimate:
    low, high = (None if one is None else float(np.exp(one)) for one in (found.low, found.high))
    return Estimate(float(np.exp(found.value)), found.n, low, high, found.note)


def _expected(strength: Floats, tie: float) -> Floats:
    """(m,) what each model earns against the others on average, a tie as half."""
    half = (strength[:, None] - strength[None, :]) / 2
    total = np.exp(half) + np.exp(-half) + tie
    earned = (np.exp(half) + tie / 2) / total
    np.fill_diagonal(earned, 0.0)
    return np.asarray(earned.sum(axis=1) / (len(strength) - 1))


@dataclass(frozen=True, slots=True)
class Comparable:
    """Which models have a place on one scale.

    ranked: (c,) places in `models`. apart: each other model, and why it has none yet."""

    ranked: Codes
    apart: tuple[tuple[str, str], ...]


def comparable(
    models: Sequence[str], model_1: ArrayLike, model_2: ArrayLike, sign: ArrayLike
) -> Comparable | Undefined:
    """Find the models that have a finite strength: each reaches each other through wins and ties.

    If a few models won or lost all that compares them, the others are ranked without them, as long
    as more than half of the labels are among the ranked.

    Args: models, model_1, model_2, sign: as in `pairwise_results`.
    Returns: the ranked and the others, or Undefined if no such ranking exists."""
    games = _Games.of(models, model_1, model_2, sign)
    if isinstance(games, Undefined):
        return games
    m, tables = len(models), _tables(games, len(models))
    wins = games.total((tables[:, 0] + tables[:, 1] / 2).reshape(len(tables), -1)).reshape(m, m)
    met, side = _components(wins + wins.T, "weak")
    if met > 1:
        groups = " and ".join(_groups(models, side))
        return Undefined(f"no label compares these groups of models with each other: {groups}")
    n, group = _components(wins, "strong")
    labels = [wins[np.ix_(group == k, group == k)].sum() for k in range(n)]
    best = int(np.argmax(labels))
    if 2 * labels[best] <= wins.sum():
        groups = ", ".join(_groups(models, group))
        return Undefined(
            f"one of these groups of models won every comparison with another: {groups}"
        )
    inside = group == best
    apart = tuple(
        (models[i], _why_apart(wins, i, inside)) for i in np.flatnonzero(~inside).tolist()
    )
    return Comparable(np.flatnonzero(inside), apart)


def _components(table: Floats, connection: str) -> tuple[int, Codes]:
    graph = scipy.sparse.csr_array(table > 0)
    n, group = scipy.sparse.csgraph.connected_components(graph, connection=connection)
    return n, group


def _groups(models: Sequence[str], group: Codes) -> list[str]:
    """The models of each group, as `{a, b}`, in their order."""
    members = [
        [models[i] for i in np.flatnonzero(group == k).tolist()] for k in dict.fromkeys(group)
    ]
    return ["{" + ", ".join(names) + "}" for names in members]


def _why_apart(wins: Floats, model: int, ranked: Booleans) -> str:
    won, lost = wins[model, ranked].sum(), wins[ranked, model].sum()
    if not won and not lost:
        return "no label compares it with a ranked model"
    verb, n = ("won", won) if won else ("lost", lost)
    return f"it {verb} every comparison with a ranked model (n = {n:.0f})"


def _among(
    found: Comparable,
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    question: ArrayLike | None,
) -> tuple[list[str], tuple[Codes, Codes, Codes], Codes | None]:
    """The labels among the ranked models, in the places that these have alone."""
    place = np.full(len(models), -1)
    place[found.ranked] = np.arange(len(found.ranked))
    first, second = place[np.asarray(model_1)], place[np.asarray(model_2)]
    rows = (first >= 0) & (second >= 0)
    asked = None if question is None else np.asarray(question)[rows]
    names = [models[i] for i in found.ranked]
    return names, (first[rows], second[rows], np.asarray(sign)[rows]), asked


@dataclass(frozen=True, slots=True)
class DavidsonRanking:
    """ranked: the strongest first; strengths on the log-odds scale, mean 0.

    tie: v; two equal models tie with probability v/(2 + v)."""

    ranked: tuple[RankedModel, ...]
    tie: Estimate


def davidson(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    *,
    question: ArrayLike | None = None,
) -> DavidsonRanking | Undefined:
    """Rank models with a tie parameter (Davidson 1970, doi:10.1080/01621459.1970.10481082).

    Args: models, model_1, model_2, sign, question: as in `bradley_terry`.
    Returns: the ranking, in which a tie is half a win, or Undefined without ties."""
    games = _Games.of(models, model_1, model_2, sign)
    if not isinstance(games, Undefined) and (lacking := games.no_tie_model()) is not None:
        return lacking
    return _strengths(models, model_1, model_2, sign, question, ties=True)


def _tables(labels: _Games, m: int) -> Floats:
    """(kinds, 2, m, m): each kind's win at [winner, loser], or its tie at both places."""
    first, second, signs = labels.first, labels.second, labels.signs
    tables = np.zeros((len(signs), 2, m, m))
    index = np.arange(len(signs))
    winner, loser = np.where(signs < 0, second, first), np.where(signs < 0, first, second)
    decided = signs != 0
    tables[index[decided], 0, winner[decided], loser[decided]] = 1
    tables[index[~decided], 1, first[~decided], second[~decided]] = 1
    tables[index[~decided], 1, second[~decided], first[~decided]] = 1
    return tables
