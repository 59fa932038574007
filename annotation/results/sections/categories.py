"""The same figures within each category."""

from collections.abc import Sequence

import numpy as np

from annotation.results.data.figures import Json, shown, undefined
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from annotation.results.sections.accuracy import label_agreement
from annotation.results.sections.win_rates import mean_of, of_labels
from judging.methods.agreement.accuracy import Comparison
from judging.methods.arrays import Booleans
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.ranking.models import (
    PairResult,
    RankedModel,
    bradley_terry,
    davidson,
    pairwise_results,
)
from judging.methods.verdicts.position import conflicts, order_labels

# The rest has too few examples each to say anything.
MOST = 50


def by_category(
    sheet: Sheet, samples: SampleArrays | Undefined, rng: np.random.Generator
) -> list[Json]:
    """The largest categories first; examples without one are `(none)`."""
    names, code, sizes = np.unique(sheet.category, return_inverse=True, return_counts=True)
    compared = sheet.comparison(sheet.judge, sheet.judged)
    largest = np.argsort(-sizes, kind="stable")[:MOST]
    return [
        {"category": str(names[c]) or "(none)", "n": int(sizes[c])}
        | _category(sheet, samples, compared, code == c, rng)
        for c in largest
    ]


def _category(
    sheet: Sheet,
    samples: SampleArrays | Undefined,
    compared: Comparison | Undefined,
    inside: Booleans,
    rng: np.random.Generator,
) -> Json:
    part = compared if isinstance(compared, Undefined) else _within(sheet, compared, inside)
    found = label_agreement(part, rng)
    return {
        "accuracy": found.accuracy.as_json(),
        "kappa": found.kappa.as_json(),
        "conflict_rate": _conflict_rate(sheet, samples, inside),
        "judge_win_rate": of_labels(sheet, sheet.judge, inside & sheet.judged).as_json(),
    }


def _within(sheet: Sheet, compared: Comparison, inside: Booleans) -> Comparison | Undefined:
    known = sheet.known
    rows = inside[known.rows] if not isinstance(known, Undefined) else np.zeros(0, bool)
    if not rows.any():
        return Undefined("no known label in this category")
    return compared.at(rows)


def _conflict_rate(sheet: Sheet, samples: SampleArrays | Undefined, inside: Booleans) -> Json:
    if isinstance(samples, Undefined):
        return samples.as_json()
    if samples.orders < 2:
        return undefined("this run asked in one order only")
    labels, there = order_labels(samples.difference[inside], samples.valid[inside])
    return conflicts(labels, there, sheet.question[inside]).conflict_rate.as_json()


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
