"""Models ranked by their wins: pairs, Bradley-Terry, Davidson's model of ties, and style.

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
from judging.methods.intervals.estimates import Estimate, Undefined, holm

NO_TIE = Undefined("no label is a tie, so this is the Bradley–Terry model")
ALL_TIES = Undefined("every label is a tie, so the models can't be told apart")
SAME_STYLE = Undefined("all pairs of responses differ by the same style")
STYLE_OF_MODELS = Undefined(
    "the styles follow from each other or from the models, so they can't be told apart"
)
STYLE_DECIDES = Undefined(
    "no label goes against the style at some strengths of the models, so its effect has no limit"
)
# Two models whose difference has a smaller p, adjusted over all pairs, have different ranks.
LEVEL = 0.05
# The solver keeps its limits up to 1e-7.
NO_AGREEMENT = 1e-6
# The prior of strengths in log odds: nine of ten models win between 4 and 96 % against the average.
PRIOR_SD = 2.0


@dataclass(frozen=True, slots=True)
class RankedModel:
    """strength: log odds, mean 0 over the models. win_rate: expected against the others, 0 to 1.

    n: labels in which the model occurs. ranks: the best and the worst that it may have; models that
    share one are not shown to differ (Holm over all pairs)."""

    model: str
    strength: Estimate
    win_rate: float
    n: int
    ranks: tuple[int, int]


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
    # A pair may come either way round, and is counted from the view of its earlier model.
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

    def played(self, m: int) -> Floats:
        """(m,) in how many labels each model occurs."""
        n = np.bincount(self.cell, minlength=len(self.signs)).astype(np.float64)
        return np.asarray(np.bincount(self.first, n, m) + np.bincount(self.second, n, m))

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
    ranking = _strengths(models, model_1, model_2, sign, question, ties=False)
    return ranking if isinstance(ranking, Undefined) else list(ranking.ranked)


@dataclass(frozen=True, slots=True)
class StyleRanking:
    """ranked: the strongest first, between responses of the same style.

    effects: (S,) log odds of response 1 for one standard deviation more of each style."""

    ranked: tuple[RankedModel, ...]
    effects: tuple[Estimate, ...]


def style_controlled(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    style: ArrayLike,
    *,
    question: ArrayLike | None = None,
) -> StyleRanking | Undefined:
    """Rank models by Bradley-Terry with the style of the responses as covariates.

    log odds of response 1 = strength_1 - strength_2 + sum of effect times style, as Chatbot Arena
    does since 2024 (Li et al., Does style matter?). A tie is half a win.

    Args:
        models, model_1, model_2, sign, question: as in `bradley_terry`.
        style: (N, S) of response 1 less response 2; divided by their standard deviations here.
    Returns: the ranking, or Undefined if there is none, if a style never differs, if the styles
        can't be told apart from the models, or if an effect has no limit."""
    games = (models, model_1, model_2, sign, question)
    fitted = _strengths(*games, ties=False, style=np.asarray(style, dtype=np.float64))
    return fitted if isinstance(fitted, Undefined) else StyleRanking(fitted.ranked, fitted.effects)


def _strengths(
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    question: ArrayLike | None,
    *,
    ties: bool,
    style: Floats | None = None,
) -> DavidsonRanking | Undefined:
    """Fit the comparable models: with ties as halves, or as an outcome of their own."""
    games = _Games.of(models, model_1, model_2, sign)
    if isinstance(games, Undefined):
        return games
    compared = comparable(models, model_1, model_2, sign)
    if isinstance(compared, Undefined):
        return compared
    if compared.apart:
        rows, models, (first, second, signs), question = _among(
            compared, models, model_1, model_2, sign, question
        )
        style = None if style is None else style[np.asarray(rows)]
        games = _Games.of(models, first, second, signs)
        if isinstance(games, Undefined):
            return games
    if ties and (lacking := games.no_tie_model()) is not None:
        return lacking
    if style is not None:
        # Once the labels among the ranked models are all that is left.
        scaled = _scaled(style, games, len(models))
        if isinstance(scaled, Undefined):
            return scaled
        style = scaled
    return _fit(models, games, question, ties=ties, style=style)


def _scaled(style: Floats, games: _Games, m: int) -> Floats | Undefined:
    """Divide by the standard deviations, if the likelihood has one finite maximum."""
    if not style.size or not np.ptp(style, axis=0).all():
        return SAME_STYLE
    scaled, basis = style / style.std(axis=0), _directions(m)
    columns = np.hstack(((basis[games.first] - basis[games.second])[games.cell], scaled))
    if np.linalg.matrix_rank(columns) < columns.shape[1]:
        return STYLE_OF_MODELS
    return STYLE_DECIDES if _separated(columns, games.signs[games.cell]) else scaled


def _separated(columns: Floats, signs: Codes) -> bool:
    """Whether a direction agrees with some labels and goes against none; a tie is on both sides.

    Then the largest likelihood is at infinity (Albert and Anderson 1984,
    doi:10.1093/biomet/71.1.1)."""
    decided = signs != 0
    won, tied = columns[decided] * signs[decided, None], columns[~decided]
    best = scipy.optimize.linprog(
        -won.sum(axis=0) / len(signs),
        A_ub=-won,
        b_ub=np.zeros(len(won)),
        A_eq=tied,
        b_eq=np.zeros(len(tied)),
        bounds=(-1, 1),
    )
    return bool(-best.fun > NO_AGREEMENT)


def _fit(
    models: Sequence[str],
    games: _Games,
    question: ArrayLike | None,
    *,
    ties: bool,
    style: Floats | None,
) -> DavidsonRanking:
    m, n = len(models), len(games.cell)
    basis = _directions(m)
    outcomes, kind, earned = _outcomes(games, basis, ties=ties)
    kinds, gains, weight = kind[games.cell], earned[games.cell], np.ones(n)
    if style is None:
        # Equal labels count as one kind for the value, which is much faster.
        weight = np.bincount(games.cell, minlength=len(kind)).astype(np.float64)
        best = outcome_fit(outcomes[kind], weight, earned, corrected=False)
    else:
        # Turned as the outcomes are, to the model that comes first.
        turned = np.where(games.first < games.second, 1.0, -1.0)[games.cell, None] * style / 2
        won = np.where(games.first < games.second, games.signs, -games.signs)[games.cell, None]
        added = np.stack((turned, -turned), axis=1)
        outcomes = np.concatenate((outcomes[kinds], added), axis=2)
        kinds, gains = np.arange(n), np.column_stack((gains, won * turned))
        best = outcome_fit(outcomes, weight, gains, corrected=False)
    asked = np.arange(n) if question is None else np.asarray(question)
    labels = Labels(kinds, gains, np.ones(n), asked, np.zeros(n, np.intp))
    fit = weighted_fit(outcomes, labels)
    moves, pseudo = influence(fit, labels), pseudo_influence(fit, labels)
    covariance = plus_two_covariance(moves, pseudo, labels)
    # After the strengths: the tie parameter, or the effects of style.
    more = outcomes.shape[2] - (m - 1)
    turn = np.zeros((m + more, m - 1 + more))
    turn[:m, : m - 1] = basis
    turn[m:, m - 1 :] = np.eye(more)
    value, centre = turn @ best.theta, turn @ fit.theta
    spread = np.einsum("ip,pq,iq->i", turn, covariance, turn)
    played = np.append(games.played(m), np.full(more, float(n)))
    figures = [
        _estimate(*row, labels, m - 1 + more)
        for row in zip(value, centre, spread, played, strict=True)
    ]
    expected = _expected(value[:m], np.exp(value[m]) if ties else 0.0)
    strengths = basis @ covariance[: m - 1, : m - 1] @ basis.T
    ranks = _ranks(centre[:m], strengths, labels, m - 1 + more)
    ranked = [
        RankedModel(model, figures[i], float(expected[i]), figures[i].n, ranks[i])
        for i, model in enumerate(models)
    ]
    by_strength = tuple(sorted(ranked, key=lambda entry: -entry.strength.value))
    tie = _exponential(figures[m]) if ties else Estimate(0.0, n)
    return DavidsonRanking(by_strength, tie, () if style is None else tuple(figures[m:]))


def _directions(m: int) -> Floats:
    """The strengths are known up to a constant: m - 1 directions leave their mean at 0."""
    return np.asarray(np.linalg.svd(np.eye(m) - 1 / m)[0][:, : m - 1])


def _ranks(
    strength: Floats, covariance: Floats, labels: Labels, parameters: int
) -> list[tuple[int, int]]:
    """The best and the worst rank of each model: by the models shown to be stronger and weaker."""
    m = len(strength)
    if labels.questions < 2:
        return [(1, m)] * m
    i, j = np.triu_indices(m, 1)
    own = np.diagonal(covariance)
    # A half-width is a multiple of the standard error; where it holds 0, nothing is shown.
    error = np.sqrt(np.maximum(own[i] + own[j] - 2 * covariance[i, j], 0.0))
    degrees = max(1, labels.questions - parameters)
    apart = strength[i] - strength[j]
    p = 2 * scipy.stats.t.sf(np.abs(apart) / np.maximum(error, 1e-300), degrees)
    shown = holm(p.tolist()) < LEVEL
    stronger, weaker = np.where(apart > 0, i, j)[shown], np.where(apart > 0, j, i)[shown]
    better, worse = np.bincount(weaker, minlength=m), np.bincount(stronger, minlength=m)
    return [(1 + int(better[k]), m - int(worse[k])) for k in range(m)]


@dataclass(frozen=True, slots=True)
class NextPair:
    """Two models to compare next. n: their labels so far. information: expected of one more, in
    nats, after the pairs before it."""

    model_1: str
    model_2: str
    n: int
    information: float


def next_pairs(
    models: Sequence[str], model_1: ArrayLike, model_2: ArrayLike, sign: ArrayLike, most: int = 5
) -> list[NextPair]:
    """Choose the pairs of models whose next label tells most about all strengths.

    A label between i and j is expected to add log(1 + p (1 - p) v)/2, v the variance of the
    difference of their strengths, which have a normal prior with a standard deviation of 2: so a
    model that won its only label, or has none, comes first. Each choice counts as labelled for the
    next (a greedy D-optimal design; Glickman and Jensen 2005, doi:10.1016/j.jspi.2003.09.022).

    Args: models, model_1, model_2, sign, most: as in `pairwise_results`, and how many to choose.
    Returns: the pairs, the most telling first; none for fewer than three models."""
    first, second, signs = (np.asarray(a).astype(int) for a in (model_1, model_2, sign))
    m = len(models)
    if m < 3:
        return []
    strength, met = np.zeros(m), np.zeros((m, m))
    if len(signs):
        games = _Games.of(models, first, second, signs)
        assert not isinstance(games, Undefined)
        basis = _directions(m)
        outcomes, kind, earned = _outcomes(games, basis, ties=False)
        weight = np.bincount(games.cell, minlength=len(kind)).astype(np.float64)
        fit = outcome_fit(outcomes[kind], weight, earned)
        # The fit lacks the normal prior: a model with few labels may be so far out that no label
        # would tell anything.
        strength = np.clip(basis @ fit.theta, -3 * PRIOR_SD, 3 * PRIOR_SD)
        np.add.at(met, (first, second), 1.0)
        met += met.T
    chance = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    one_label = chance * (1 - chance)
    weighed = met * one_label
    precision = np.diag(weighed.sum(axis=1)) - weighed + np.eye(m) / PRIOR_SD**2
    variance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    i, j = np.triu_indices(m, 1)
    pairs = []
    for _ in range(min(most, len(i))):
        own = np.diagonal(variance)
        gain = np.log1p(one_label[i, j] * (own[i] + own[j] - 2 * variance[i, j])) / 2
        best = int(np.argmax(gain))
        a, b = int(i[best]), int(j[best])
        pairs.append(NextPair(models[a], models[b], int(met[a, b]), float(gain[best])))
        moved = variance[a] - variance[b]
        spread = float(moved[a] - moved[b])
        # The inverse after one more label by Sherman and Morrison, instead of a new inversion.
        variance = variance - np.outer(moved, moved) / (1 / one_label[a, b] + spread)
    return pairs


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


def _exponential(strength: Estimate) -> Estimate:
    low, high = (
        None if limit is None else float(np.exp(limit)) for limit in (strength.low, strength.high)
    )
    return Estimate(float(np.exp(strength.value)), strength.n, low, high, strength.note)


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
    # First whether all models are connected at all; only then can wins and losses separate them.
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
    compared: Comparable,
    models: Sequence[str],
    model_1: ArrayLike,
    model_2: ArrayLike,
    sign: ArrayLike,
    question: ArrayLike | None,
) -> tuple[Booleans, list[str], tuple[Codes, Codes, Codes], Codes | None]:
    """The labels among the ranked models, in the places that these have alone."""
    place = np.full(len(models), -1)
    place[compared.ranked] = np.arange(len(compared.ranked))
    first, second = place[np.asarray(model_1)], place[np.asarray(model_2)]
    rows = (first >= 0) & (second >= 0)
    asked = None if question is None else np.asarray(question)[rows]
    names = [models[i] for i in compared.ranked]
    return rows, names, (first[rows], second[rows], np.asarray(sign)[rows]), asked


@dataclass(frozen=True, slots=True)
class DavidsonRanking:
    """ranked: the strongest first; strengths on the log-odds scale, mean 0.

    tie: v; two equal models tie with probability v/(2 + v). effects: of style, if controlled."""

    ranked: tuple[RankedModel, ...]
    tie: Estimate
    effects: tuple[Estimate, ...] = ()


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
