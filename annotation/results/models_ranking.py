"""Several models against each other, from the final labels."""

from collections.abc import Sequence

import numpy as np

from annotation.results.figures import Json, shown
from annotation.results.sheet import Sheet
from annotation.results.win_rates import mean_of
from judging.methods.arrays import Booleans
from judging.methods.bradley_terry import (
    PairResult,
    RankedModel,
    bradley_terry,
    pairwise_results,
)
from judging.methods.davidson import davidson
from judging.methods.estimates import Figure, Undefined


def models(sheet: Sheet, rng: np.random.Generator) -> Json:
    """Pairs in the order of import, and the Bradley-Terry ranking, a tie half a win each.

    `davidson` has the same with ties as outcomes of their own.
    """
    named = np.array([bool(name) for name in sheet.models], dtype=bool)
    rows = sheet.has_final & (sheet.model_1 != sheet.model_2)
    rows &= named[sheet.model_1] & named[sheet.model_2] if len(sheet) else False
    given = (sheet.model_1[rows], sheet.model_2[rows], sheet.final[rows])
    asked = {"question": sheet.question[rows]}
    ranking = bradley_terry(sheet.models, *given, rng, **asked)
    with_ties = davidson(sheet.models, *given, rng, **asked)
    pairs = pairwise_results(sheet.models, *given)
    found: Json = {
        "pairwise": [
            {
                "model_1": one.model_1,
                "model_2": one.model_2,
                "win": one.wins,
                "tie": one.ties,
                "lose": one.losses,
                "win_rate": _win_rate(sheet, rows, one).as_json(),
            }
            for one in pairs
        ],
        "same_places": len(np.unique(np.stack(given[:2]), axis=1).T) == 1,
        "davidson": {"ranking": [], "reason": with_ties.reason}
        if isinstance(with_ties, Undefined)
        else {"tie": with_ties.tie.as_json(), "ranking": _ranked(with_ties.ranked)},
    }
    if isinstance(ranking, Undefined):
        return found | {"ranking": [], "reason": ranking.reason}
    return found | {"ranking": _ranked(ranking)}


def _ranked(models: Sequence[RankedModel]) -> list[Json]:
    return [
        {
            "model": one.model,
            "strength": one.strength.as_json(),
            "win_rate": shown(one.win_rate, one.n),
        }
        for one in models
    ]


def _win_rate(sheet: Sheet, rows: Booleans, pair: PairResult) -> Figure:
    """Of the pair's first model, wherever it stands; a tie is half a win."""
    one, other = (sheet.models.index(name) for name in (pair.model_1, pair.model_2))
    first, second = sheet.model_1[rows], sheet.model_2[rows]
    there = (first == one) & (second == other)
    turned = (first == other) & (second == one)
    signs = np.where(turned, -sheet.final[rows], sheet.final[rows])
    inside = there | turned
    return mean_of(signs[inside], sheet.question[rows][inside])
