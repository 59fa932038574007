"""BiasScore: whether a judge overrates what is likely, with intervals and beside the length.

Ohi et al., equations 3 to 5.  A sum of log-probabilities tracks the length, so the same is given
per token and as a partial correlation given the length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Floats
from judging.methods.bootstrap import estimate_of, resampled_counts
from judging.methods.estimates import Figure, Undefined, figures_as_json
from judging.methods.likelihood.rank_correlation import partial_correlation, spearman_of_counts
from judging.methods.likelihood.scores import total_score, unfairness

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
        None if question is None else np.asarray(question)[rows],
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


def _known(values: ArrayLike | None, rows: NDArray[np.bool_], reason: str) -> Floats | Undefined:
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
