"""Whether longer responses are preferred, and by the judge more than by people."""

import numpy as np

from annotation.results.figures import Json, lacking
from annotation.results.sheet import Sheet
from annotation.results.win_rates import of_labels
from judging.methods.arrays import Booleans, Floats
from judging.methods.covariates import (
    CovariateBias,
    CovariateEffect,
    covariate_bias,
    covariate_effect,
)
from judging.methods.estimates import Undefined


def length(sheet: Sheet, rng: np.random.Generator) -> Json:
    """By the characters of response 1 less those of response 2."""
    return preference(sheet, sheet.length.astype(np.float64), rng)


def preference(sheet: Sheet, difference: Floats, rng: np.random.Generator) -> Json:
    """`judge` over everything judged; `human` and `bias` over the examples that both labelled.

    difference: (N,) of response 1 less response 2; NaN where it is not known.
    """
    there = sheet.judged & ~np.isnan(difference)
    effect = covariate_effect(
        difference[there], (sheet.judge[there] + 1) / 2, rng, question=sheet.question[there]
    )
    judge = {"judge": effect.as_json() if isinstance(effect, Undefined) else _effect(effect)}
    if not isinstance(effect, Undefined):
        judge["judge"]["raw_win_rate"] = of_labels(sheet, sheet.judge, there).as_json()
    both = _bias(sheet, difference, there, rng)
    if isinstance(both, Undefined):
        return judge | lacking(both, "human", "bias")
    return judge | {"human": _effect(both.human), "bias": both.bias.as_json()}


def _bias(
    sheet: Sheet, difference: Floats, there: Booleans, rng: np.random.Generator
) -> CovariateBias | Undefined:
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    inside = there[known.rows]
    rows = known.rows[inside]
    return covariate_bias(
        difference[rows],
        (sheet.judge[rows] + 1) / 2,
        (sheet.human[rows] + 1) / 2,
        rng,
        weight=known.weight[inside],
        question=sheet.question[rows],
        stratum=known.stratum[inside],
    )


def _effect(found: CovariateEffect) -> Json:
    return {
        "raw_win_rate": found.raw.as_json(),
        "equal_length_win_rate": found.equal.as_json(),
        "slope": found.slope.as_json(),
        "share_alike": found.near,
        "few_alike": found.few_comparable,
        "separated": found.separated,
    }
