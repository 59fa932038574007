"""How people agree: with each other, with the majority, and on which side they look."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from annotation.results.ballots import Ballots
from annotation.results.figures import Json, shown
from annotation.results.sheet import Sheet
from judging.methods.comparison import Codes, Floats
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.kappa import cohen_kappa, confusion
from judging.methods.proportions import wilson
from judging.methods.raters import (
    category_counts,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from judging.methods.side_bias import (
    SideBias,
    pooled_side_bias,
    side_bias,
    side_table,
)
from judging.methods.votes import rater_against_majority

SIGNS = (1, 0, -1)
REPEATS = 100
# Pairs of more annotators than this fill pages without saying more.
MOST_PAIRED = 12

Statistic = Callable[[Floats], float | Undefined]


def people(sheet: Sheet, rng: np.random.Generator) -> Json:
    """Over the votes that the labels rest on; `on` says which examples these are."""
    ballots = sheet.ballots
    counts = category_counts(ballots.votes, ballots.present, SIGNS)
    asked = counts.sum(axis=1) > 0
    complete = counts[counts.sum(axis=1) == counts.sum(axis=1).max(initial=0)]
    twice = counts[counts.sum(axis=1) >= 2]
    names = list(ballots.names)
    return {
        "on": _on(sheet, asked),
        "agreement": _with_interval(percent_agreement, twice, rng),
        "fleiss_kappa": _with_interval(fleiss_kappa, complete, rng),
        "krippendorff_alpha": _with_interval(krippendorff_alpha, twice, rng),
        "gwet_ac1": _with_interval(gwet_ac1, twice, rng),
        "pairwise": _pairwise(ballots, names),
        "annotators": [_annotator(ballots, n, name) for n, name in enumerate(names)],
        "side_bias": _side_bias(ballots, names),
        "side_bias_pooled": _pooled(ballots),
    }


def _on(sheet: Sheet, asked: Codes) -> str:
    if sheet.everyone:
        return f"{int(asked.sum())} examples with votes of all {len(sheet)}"
    selected, audited = int((asked & sheet.selected).sum()), int((asked & sheet.audited).sum())
    return f"{selected} selected by rank, where people disagree most, and {audited} audited"


def _with_interval(statistic: Statistic, counts: Floats, rng: np.random.Generator) -> Json:
    """Normal limits from resampled examples; a resample in which it is undefined is left out."""
    value = statistic(counts) if len(counts) else Undefined("no example has two votes")
    if isinstance(value, Undefined):
        return value.as_json()
    cells, code = np.unique(counts, axis=0, return_inverse=True)
    shares = np.bincount(code.reshape(-1)) / len(counts)
    drawn = [
        statistic(np.repeat(cells, times, axis=0))
        for times in rng.multinomial(len(counts), shares, size=REPEATS)
    ]
    there = [one for one in drawn if not isinstance(one, Undefined)]
    if len(there) < 2:
        return shown(value, len(counts))
    half = 1.96 * float(np.std(there, ddof=1))
    low, high = max(-1.0, value - half), min(1.0, value + half)
    return Estimate(float(value), len(counts), low, high).as_json()


def _pairwise(ballots: Ballots, names: list[str]) -> list[Json]:
    busiest = np.argsort(-ballots.present.sum(axis=0), kind="stable")[:MOST_PAIRED]
    rows = []
    for a, b in combinations(sorted(busiest.tolist()), 2):
        both = ballots.present[:, a] & ballots.present[:, b]
        first, second = ballots.votes[both, a], ballots.votes[both, b]
        n = int(both.sum())
        table = confusion(first, second)
        rows.append(
            {
                "annotators": [names[a], names[b]],
                "agreement": wilson(float((first == second).sum()), n).as_json(),
                "kappa": shown(cohen_kappa(table), n),
                "kappa_linear": shown(cohen_kappa(table, linear=True), n),
            }
        )
    return rows


def _annotator(ballots: Ballots, rater: int, name: str) -> Json:
    given = (ballots.votes, ballots.present, rater)
    n = int(ballots.present[:, rater].sum())
    return {
        "annotator": name,
        "n": n,
        "with_majority": shown(rater_against_majority(*given, own_vote=True), n),
        "with_the_others": shown(rater_against_majority(*given, own_vote=False), n),
    }


def _tables(ballots: Ballots) -> list[np.ndarray]:
    tables = []
    for rater in range(len(ballots.names)):
        rows = ballots.present[:, rater] & (ballots.left[:, rater] > 0)
        tables.append(side_table(ballots.votes[rows, rater], ballots.left[rows, rater] == 1))
    return tables


def _side_bias(ballots: Ballots, names: list[str]) -> list[Json]:
    found = side_bias(dict(zip(names, _tables(ballots), strict=True)))
    return [{"annotator": name} | _lean(one) for name, one in found.items()]


def _lean(found: SideBias | Undefined) -> Json:
    if isinstance(found, Undefined):
        return {"left_rate": found.as_json()}
    rate: Figure = wilson(round(found.left_rate * found.n), found.n)
    return {"left_rate": rate.as_json(), "p": found.p, "p_holm": found.p_holm}


def _pooled(ballots: Ballots) -> Json:
    found = pooled_side_bias(_tables(ballots))
    if isinstance(found, Undefined):
        return {"odds_ratio": found.as_json()}
    return {"odds_ratio": shown(found.odds_ratio), "p": found.p}
