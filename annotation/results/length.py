"""Whether longer responses are preferred, and by the judge more than by people."""

import numpy as np

from annotation.results.figures import Json, lacking
from annotation.results.sheet import Sheet
from judging.methods.covariates import (
    CovariateBias,
    CovariateEffect,
    covariate_bias,
    covariate_effect,
)
from judging.methods.estimates import Undefined


def length(sheet: Sheet, rng: np.random.Generator) -> Json:
    """`judge` over everything judged; `human` and `bias` over the examples that both labelled."""
    rows = sheet.judged
    effect = covariate_effect(
        sheet.length[rows], (sheet.judge[rows] + 1) / 2, rng, question=sheet.question[rows]
    )
    judge = {"judge": effect.as_json() if isinstance(effect, Undefined) else _effect(effect)}
    both = _bias(sheet, rng)
    if isinstance(both, Undefined):
        return judge | lacking(both, "human", "bias")
    return judge | {"human": _effect(both.human), "bias": both.bias.as_json()}


def _bias(sheet: Sheet, rng: np.random.Generator) -> CovariateBias | Undefined:
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    inside = sheet.judged[known.rows]
    rows = known.rows[inside]
    return covariate_bias(
        sheet.length[rows],
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
