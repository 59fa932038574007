"""Models ranked by their wins: pairs, Bradley-Terry, and Davidson's model of ties.

Which examples people review first is the subject of `verdicts.rank` and `review`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import cells, estimate_of, resampled_counts
from judging.methods.intervals.estimates import Estimate, Undefined

STEPS = 60
REPEATS = 1_000
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
    """Rank models by their wins, a tie as half (Bradley, Terry 1952, doi:10.2307/2334029).

    Args:
        models, model_1, model_2, sign: as in `pairwise_results`.
        rng, question, repeats: as in `resampled_counts`.
    Returns: the strongest first of the `comparable` models, or Undefined if there is no ranking."""
    games = _Games.of(models, model_1, model_2, sign)
    if isinstance(games, Undefined):
        return games
    found = comparable(models, model_1, model_2, sign)
    if isinstance(found, Undefined):
        return found
    if found.apart:
        names, rows, asked = _among(found, models, model_1, model_2, sign, question)
        return bradley_terry(names, *rows, rng, question=asked, repeats=repeats)
    m, tables = len(models), _tables(games, len(models))
    wins = (tables[:, 0] + tables[:, 1] / 2).reshape(len(tables), -1)
    table = games.total(wins).reshape(m, m)
    strength = _fit_bradley_terry(table[None])[0]
    counts = resampled_counts(games.cell, rng, question=question, repeats=repeats)
    resampled = _fit_bradley_terry((counts @ wins).reshape(-1, m, m))
    played = table.sum(axis=0) + table.sum(axis=1)
    chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    return _ranked(models, strength, resampled, (chance.sum(axis=1) - 0.5) / (m - 1), played)


def _ranked(
    models: Sequence[str], strength: Floats, resampled: Floats, expected: Floats, played: Floats
) -> list[RankedModel]:
    """The models with their figures, the strongest first."""
    ranked = [
        RankedModel(
            model,
            estimate_of(float(strength[i]), resampled[:, i], round(float(played[i]))),
            float(expected[i]),
            round(float(played[i])),
        )
        for i, model in enumerate(models)
    ]
    return sorted(ranked, key=lambda entry: -entry.strength.value)


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
        return Undefined(
            f"these groups of models were never compared: {' and '.join(_groups(models, side))}"
        )
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


def _fit_bradley_terry(wins: Floats) -> Floats:
    """Return (R, m) strengths of (R, m, m) win tables; NaN if none are finite."""
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
    strength[~_strongly_connected(wins)] = np.nan
    return strength


def _strongly_connected(wins: Floats) -> Booleans:
    """For each of (R, m, m) win tables whether every model reaches every other through wins."""
    m = wins.shape[-1]
    reach = ((wins > 0) | np.eye(m, dtype=bool)).astype(np.float64)
    for _ in range(max(1, m.bit_length())):
        reach = (reach @ reach > 0).astype(np.float64)
    return np.asarray(reach.all(axis=(1, 2)))


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
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    repeats: int = REPEATS,
) -> DavidsonRanking | Undefined:
    """Rank models with a tie parameter (Davidson 1970, doi:10.1080/01621459.1970.10481082).

    Args: models, model_1, model_2, sign, rng, question, repeats: as in `bradley_terry`.
    Returns: the ranking, in which a tie is half a win, or Undefined without ties."""
    labels = _Games.of(models, model_1, model_2, sign)
    if isinstance(labels, Undefined):
        return labels
    if not np.any(labels.signs == 0):
        return NO_TIE
    if not np.any(labels.signs):
        return ALL_TIES
    found = comparable(models, model_1, model_2, sign)
    if isinstance(found, Undefined):
        return found
    if found.apart:
        names, rows, asked = _among(found, models, model_1, model_2, sign, question)
        return davidson(names, *rows, rng, question=asked, repeats=repeats)
    m = len(models)
    tables = _tables(labels, m).reshape(len(labels.signs), -1)
    observed = labels.total(tables).reshape(1, 2, m, m)
    counts = resampled_counts(labels.cell, rng, question=question, repeats=repeats)
    strength, tie = _fit_davidson(observed)
    drawn_strength, drawn_tie = _fit_davidson((counts @ tables).reshape(-1, 2, m, m))
    win, even = _davidson_chances(strength[0], tie[0])
    games = observed[0].sum(axis=0)
    played = (games + games.T).sum(axis=1) - observed[0, 1].sum(axis=1)
    expected = (win + even / 2).sum(axis=1) / (m - 1)
    return DavidsonRanking(
        tuple(_ranked(models, strength[0], drawn_strength, expected, played)),
        estimate_of(float(tie[0]), drawn_tie, len(labels.cell)),
    )


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


def _davidson_chances(strength: Floats, tie: ArrayLike) -> tuple[Floats, Floats]:
    """P(i beats j) and P(tie), (…, m, m) with 0 on the diagonal."""
    half = (strength[..., :, None] - strength[..., None, :]) / 2
    v = np.asarray(tie)[..., None, None]
    total = np.exp(half) + np.exp(-half) + v
    apart = 1 - np.eye(strength.shape[-1])
    return np.exp(half) / total * apart, v / total * apart


def _fit_davidson(tables: Floats) -> tuple[Floats, Floats]:
    """Return (R, m) strengths and (R,) v of (R, 2, m, m) wins and ties; NaN if none are finite."""
    repeats, _, m, _ = tables.shape
    wins, ties = tables[:, 0], tables[:, 1]
    games = wins + wins.transpose(0, 2, 1) + ties
    won = (wins + ties / 2).sum(axis=2)
    n_ties = ties.sum(axis=(1, 2)) / 2
    decided = games.sum(axis=(1, 2)) / 2 - n_ties
    usable = _strongly_connected(wins + ties / 2) & (n_ties > 0) & (decided > 0)
    strength = np.zeros((repeats, m))
    log_tie = np.log(np.clip(2 * n_ties, 0.5, None) / np.clip(decided, 0.5, None))
    for _ in range(STEPS):
        step = _davidson_step(strength, log_tie, games, won, n_ties)
        strength += step[:, :m]
        log_tie += step[:, m]
        if np.abs(step[usable]).max(initial=0) < 1e-10:
            break
    strength -= strength.mean(axis=1, keepdims=True)
    strength[~usable], log_tie[~usable] = np.nan, np.nan
    return strength, np.exp(log_tie)


def _davidson_step(
    strength: Floats, log_tie: Floats, games: Floats, won: Floats, n_ties: Floats
) -> Floats:
    """(R, m + 1) Newton steps of strengths and log v, from score and Fisher's information."""
    repeats, m = strength.shape
    win, even = _davidson_chances(strength, np.exp(log_tie))
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
