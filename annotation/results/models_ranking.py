"""Several models against each other, from the final labels."""

from collections.abc import Sequence

import numpy as np

from annotation.results.figures import Json, shown
from annotation.results.sheet import Sheet
from judging.methods.bradley_terry import RankedModel, bradley_terry, pairwise_results
from judging.methods.davidson import davidson
from judging.methods.estimates import Undefined
from judging.methods.proportions import wilson


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
                "win_rate": _share(one.wins + one.ties / 2, one.wins + one.ties + one.losses),
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


def _share(points: float, n: int) -> Json:
    """Halves are not 0/1 values: the interval holds only where there is no tie."""
    return wilson(points, n).as_json() if points == int(points) else shown(points / n, n)
