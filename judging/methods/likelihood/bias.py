"""From a judge's and people's scores to the quantities of Ohi et al.

Notation: LS(t) = log P(output | input, task description), US(t) the judge's score less the
people's on a common scale, RS(t) how far the two agree in sign and size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Booleans, Codes, Floats, ratio
from judging.methods.intervals.bootstrap import coded, estimate_of, questions_at, resampled_counts
from judging.methods.intervals.estimates import Figure, Undefined, figures_as_json

# Two variables, and what is held fixed; or why one of them isn't known.
Question = tuple[Floats | Undefined, Floats | Undefined, Floats | Undefined | None]
REPEATS = 1_000
CHUNK = 2_000_000
FEWEST = 4
TOTAL = "total"
TOO_FEW = "fewer than 4 items have a likelihood and both scores"
ALIKE = "one of the two is the same for all items, so there is no order to compare"
NO_LENGTH = "the lengths are not known"
NO_TOKENS = "the numbers of tokens are not known"
SHOWN = 8
TRAIN_SHARE = 0.8


def expected_score(probabilities: Mapping[int, float]) -> float | Undefined:
    """Equation 7: sum of i Q(i) / sum of Q(j), over the score tokens; any range of scores."""
    mass = sum(probabilities.values())
    if not mass > 0:
        return Undefined("no score has any probability")
    return sum(score * share for score, share in probabilities.items()) / mass


def of_mean_0_and_range_1(scores: Floats) -> Floats:
    """(x - mean) / (max - min) along the last axis; all 0 where there is no range."""
    if not scores.size:
        return scores
    spread = np.ptp(scores, axis=-1, keepdims=True)
    centred = scores - scores.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def unfairness(model: Floats, human: Floats) -> Floats:
    """(N,) US, equation 2: both brought to the same mean and range."""
    return of_mean_0_and_range_1(model) - of_mean_0_and_range_1(human)


def between_minus_1_and_1(values: Floats) -> Floats:
    """(x - mean) / max |x - mean|: LS* and US* of equation 6."""
    centred = values - values.mean()
    most = np.abs(centred).max(initial=0.0)
    return np.asarray(centred / (most if most else 1.0))


def bias_by_instance(log_likelihood: Floats, model: Floats, human: Floats) -> Floats:
    """(N,) RS = |LS* + US*|, equation 6: large for likely and overrated, or neither."""
    over = between_minus_1_and_1(unfairness(model, human))
    return np.asarray(np.abs(between_minus_1_and_1(log_likelihood) + over))


def total_score(by_criterion: Sequence[ArrayLike]) -> Floats:
    """(N,) mean over the criteria, NaN where one is missing; `total` averages, then compares."""
    columns = [np.asarray(scores, dtype=np.float64) for scores in by_criterion]
    return np.asarray(np.mean(columns, axis=0))


def average_ranks(values: ArrayLike) -> Floats:
    return np.asarray(scipy.stats.rankdata(np.asarray(values, dtype=np.float64)), dtype=np.float64)


def spearman_of_counts(counts: Floats, first: Floats, second: Floats) -> Floats:
    """(R,) one for each row of (R, N) counts: how often each of the N pairs occurs in it."""
    x, y = ranks_of_counts(counts, first), ranks_of_counts(counts, second)
    n = counts.sum(axis=1)
    # Ranks, ties averaged, have the mean (n + 1) / 2 whatever the ties.
    x -= (n[:, None] + 1) / 2
    y -= (n[:, None] + 1) / 2
    together = np.einsum("rn,rn,rn->r", counts, x, y)
    spread = np.einsum("rn,rn,rn->r", counts, x, x) * np.einsum("rn,rn,rn->r", counts, y, y)
    return ratio(together, np.sqrt(spread))


def ranks_of_counts(counts: Floats, values: Floats) -> Floats:
    """(R, N) average ranks that the N values have in each of the R resamples."""
    _, code = coded(values)
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    in_group = np.add.reduceat(counts[:, order], starts, axis=1)
    rank = np.cumsum(in_group, axis=1) - in_group / 2 + 0.5
    return np.asarray(rank[:, code])


def partial_correlation(xy: Floats, xz: Floats, yz: Floats) -> Floats:
    """Of x and y given z, from the three correlations; NaN where z explains one completely."""
    left = (1 - xz**2) * (1 - yz**2)
    undefined = np.full(np.shape(xy), np.nan)
    root = np.sqrt(np.maximum(left, 0))
    return np.asarray(np.divide(xy - xz * yz, root, out=undefined, where=left > 1e-12))


@dataclass(frozen=True, slots=True)
class LikelihoodBias:
    """Spearman correlations, each with a bootstrap interval.

    bias: BiasScore, of LS and US; given_length: the same as a partial correlation;
    per_token: of LS per token and US; per_token_given_length: its partial correlation.
    length, length_per_token: of LS, and of LS per token, with the length.
    performance: of the judge's scores and the people's.
    """

    n: int
    bias: Figure
    given_length: Figure
    per_token: Figure
    per_token_given_length: Figure
    length: Figure
    length_per_token: Figure
    performance: Figure

    def as_json(self) -> dict[str, object]:
        names = [name for name in self.__slots__ if name != "n"]
        return {"n": self.n, **figures_as_json({name: getattr(self, name) for name in names})}


def likelihood_bias(
    log_likelihood: ArrayLike,
    model: ArrayLike,
    human: ArrayLike,
    rng: np.random.Generator,
    *,
    length: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    question: ArrayLike | None = None,
) -> LikelihoodBias:
    """All (N,); an item without a finite likelihood or a score (NaN) is left out.

    length: of the outputs, in characters or words.  question: resampled with all its rows.  The
    resamples keep the scale of the sample, since the bootstrap of a range says nothing.
    """
    ls, judged, people = (np.asarray(a, np.float64) for a in (log_likelihood, model, human))
    rows = np.isfinite(ls + judged + people)
    ls, judged, people = ls[rows], judged[rows], people[rows]
    size = _known(length, rows, NO_LENGTH)
    number = _known(tokens, rows, NO_TOKENS)
    if not isinstance(number, Undefined) and not (number > 0).all():
        number = Undefined("an output has no tokens")
    each = number if isinstance(number, Undefined) else ls / number
    over: Floats | Undefined = Undefined(ALIKE)
    if len(ls) and np.ptp(judged) > 0 and np.ptp(people) > 0:
        over = unfairness(judged, people)
    found = _correlations(
        {
            "bias": (ls, over, None),
            "given_length": (ls, over, size),
            "per_token": (each, over, None),
            "per_token_given_length": (each, over, size),
            "length": (ls, size, None),
            "length_per_token": (each, size, None),
            "performance": (judged, people, None),
        },
        len(ls),
        rng,
        questions_at(question, rows),
    )
    return LikelihoodBias(n=len(ls), **found)


def likelihood_biases(
    log_likelihood: ArrayLike,
    by_criterion: Mapping[str, tuple[ArrayLike, ArrayLike]],
    rng: np.random.Generator,
    *,
    length: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    question: ArrayLike | None = None,
) -> dict[str, LikelihoodBias]:
    """For each criterion's (judge's, people's) scores; with several also `total`.

    `total` averages the criteria before anything else, over the items that have them all.
    """
    return {
        name: likelihood_bias(
            log_likelihood, model, human, rng, length=length, tokens=tokens, question=question
        )
        for name, (model, human) in with_total(by_criterion).items()
    }


def with_total(
    by_criterion: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> dict[str, tuple[ArrayLike, ArrayLike]]:
    """A criterion that people call total themselves stays theirs."""
    if len(by_criterion) < 2 or TOTAL in by_criterion:
        return dict(by_criterion)
    models, humans = zip(*by_criterion.values(), strict=True)
    return {**by_criterion, TOTAL: (total_score(models), total_score(humans))}


def _known(values: ArrayLike | None, rows: Booleans, reason: str) -> Floats | Undefined:
    """The rows of them; a value that is missing anywhere makes them unknown."""
    if values is None:
        return Undefined(reason)
    known = np.asarray(values, dtype=np.float64)[rows]
    return Undefined(reason) if np.isnan(known).any() else known


def _correlations(
    questions: Mapping[str, Question],
    n: int,
    rng: np.random.Generator,
    question: NDArray[np.generic] | None,
) -> dict[str, Figure]:
    """Each with its percentile interval, all from the same resamples."""
    found: dict[str, Figure] = {}
    askable: dict[str, tuple[Floats, Floats, Floats | None]] = {}
    for name, (x, y, given) in questions.items():
        lacking = [each for each in (x, y, given) if isinstance(each, Undefined)]
        if n < FEWEST:
            found[name] = Undefined(TOO_FEW)
        elif lacking:
            found[name] = lacking[0]
        elif not isinstance(x, Undefined) and not isinstance(y, Undefined):
            askable[name] = (x, y, None if isinstance(given, Undefined) else given)
    if askable:
        drawn = _resampled(askable, n, rng, question)
        for name, asked in askable.items():
            value = float(_of_counts(np.ones((1, n)), *asked)[0])
            found[name] = _figure(value, drawn[name], n)
    return found


def _resampled(
    askable: Mapping[str, tuple[Floats, Floats, Floats | None]],
    n: int,
    rng: np.random.Generator,
    question: NDArray[np.generic] | None,
) -> dict[str, Floats]:
    step = max(1, CHUNK // n)
    parts: dict[str, list[Floats]] = {name: [] for name in askable}
    for start in range(0, REPEATS, step):
        repeats = min(step, REPEATS - start)
        counts = resampled_counts(np.arange(n), rng, question=question, repeats=repeats)
        for name, asked in askable.items():
            parts[name].append(_of_counts(counts, *asked))
    return {name: np.concatenate(values) for name, values in parts.items()}


def _of_counts(counts: Floats, x: Floats, y: Floats, given: Floats | None) -> Floats:
    xy = spearman_of_counts(counts, x, y)
    if given is None:
        return xy
    return partial_correlation(
        xy, spearman_of_counts(counts, x, given), spearman_of_counts(counts, y, given)
    )


def _figure(value: float, drawn: Floats, n: int) -> Figure:
    if not np.isfinite(value):
        return Undefined(ALIKE)
    return estimate_of(value, drawn, n)


def train_rows(
    n: int, rng: np.random.Generator, *, group: ArrayLike | None = None, share: float = TRAIN_SHARE
) -> Booleans:
    """(n,) whether each instance is for training, 4:1; the rest is the test part.

    group: instances of one group (outputs for the same input) are kept together, so that nothing
    that the judge was shown is asked of it.
    """
    groups = np.arange(n) if group is None else coded(group)[1]
    size = np.bincount(groups, minlength=1)
    order = rng.permutation(len(size))
    # Whole groups, up to the nearest to the share; each part gets one where there are two.
    filled = np.cumsum(size[order])
    take = int(np.argmin(np.abs(filled - share * n))) + 1
    take = min(take, max(len(size) - 1, 1))
    chosen = np.zeros(len(size), dtype=bool)
    chosen[order[:take]] = True
    return np.asarray(chosen[groups])


def most_biased(
    log_likelihood: ArrayLike,
    model: ArrayLike,
    human: ArrayLike,
    *,
    train: ArrayLike | None = None,
    count: int = SHOWN,
) -> Codes:
    """Places of the `count` instances with the largest RS, the largest first; ties by place.

    train: (N,) the part that they are taken from, and that LS and US are normalised over.
    """
    ls, judged, people = (np.asarray(a, np.float64) for a in (log_likelihood, model, human))
    rows = np.isfinite(ls + judged + people)
    if train is not None:
        rows &= np.asarray(train, dtype=bool)
    places = np.flatnonzero(rows)
    if not len(places):
        return places
    strength = bias_by_instance(ls[rows], judged[rows], people[rows])
    return places[np.argsort(-strength, kind="stable")[:count]]


def random_examples(train: ArrayLike, rng: np.random.Generator, *, count: int = SHOWN) -> Codes:
    """Places of as many instances of the training part, drawn without regard to bias."""
    places = np.flatnonzero(np.asarray(train, dtype=bool))
    return np.asarray(rng.permutation(places)[:count])
