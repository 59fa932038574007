"""How people agree: with each other, with the majority, and on which side they look."""

from itertools import combinations

import numpy as np

from annotation.results.ballots import Ballots
from annotation.results.figures import Json, shown
from annotation.results.sheet import Sheet
from judging.methods.arrays import Booleans, Codes
from judging.methods.clustered import share
from judging.methods.comparison import Comparison
from judging.methods.estimates import Figure, Undefined
from judging.methods.kappa import kappa
from judging.methods.proportions import wilson
from judging.methods.rater_intervals import Statistic, agreement_interval
from judging.methods.raters import (
    category_counts,
    equally_often,
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
from judging.methods.votes import NO_MAJORITY, agrees_with_majority

SIGNS = (1, 0, -1)
# Pairs of more annotators than this fill pages without saying more.
MOST_PAIRED = 12
NOTHING_SHARED = Undefined("these two share no example")


def people(sheet: Sheet, rng: np.random.Generator) -> Json:
    """Over the votes that the labels rest on; `on` says which examples these are."""
    ballots = sheet.ballots
    counts = category_counts(ballots.votes, ballots.present, SIGNS)
    given = counts.sum(axis=1)
    twice, (fleiss_votes, alike) = given >= 2, equally_often(counts)

    def over(statistic: Statistic, rows: Booleans) -> Json:
        return agreement_interval(statistic, counts[rows], sheet.question[rows], rng).as_json()

    names = list(ballots.names)
    return {
        "on": _on(sheet, given > 0),
        "agreement": over(percent_agreement, twice),
        "fleiss_kappa": over(fleiss_kappa, alike),
        "fleiss_votes": fleiss_votes,
        "krippendorff_alpha": over(krippendorff_alpha, twice),
        "gwet_ac1": over(gwet_ac1, twice),
        "pairwise": _pairwise(ballots, sheet.question, rng),
        "annotators": [
            _annotator(ballots, n, name, sheet.question) for n, name in enumerate(names)
        ],
        "side_bias": _side_bias(ballots, names),
        "side_bias_pooled": _pooled(ballots),
    }


def _on(sheet: Sheet, asked: Codes) -> str:
    if sheet.everyone:
        return f"{int(asked.sum())} of all {len(sheet)} examples, those with votes"
    selected, audited = int((asked & sheet.selected).sum()), int((asked & sheet.audited).sum())
    return f"{selected} selected by rank, where people disagree most, and {audited} audited"


def _pairwise(ballots: Ballots, question: Codes, rng: np.random.Generator) -> list[Json]:
    busiest = np.argsort(-ballots.present.sum(axis=0), kind="stable")[:MOST_PAIRED]
    rows = []
    for a, b in combinations(sorted(busiest.tolist()), 2):
        both = np.flatnonzero(ballots.present[:, a] & ballots.present[:, b])
        first, second = ballots.votes[both, a], ballots.votes[both, b]
        n = len(both)
        nothing = np.zeros(n, np.intp)
        pair = Comparison(first, np.ones(n, bool), second, np.ones(n), nothing, question[both])
        agreed = share(first == second, question[both], reason=NOTHING_SHARED.reason)
        rows.append(
            {
                "annotators": [ballots.names[a], ballots.names[b]],
                "agreement": agreed.as_json(),
                "kappa": _kappa(pair, rng).as_json(),
                "kappa_linear": _kappa(pair, rng, linear=True).as_json(),
            }
        )
    return rows


def _kappa(pair: Comparison, rng: np.random.Generator, *, linear: bool = False) -> Figure:
    return kappa(pair, rng, linear=linear) if len(pair) else NOTHING_SHARED


def _annotator(ballots: Ballots, rater: int, name: str, question: Codes) -> Json:
    found: Json = {"annotator": name, "n": int(ballots.present[:, rater].sum())}
    for key, own_vote in (("with_majority", True), ("with_the_others", False)):
        rows, agreed = agrees_with_majority(
            ballots.votes, ballots.present, rater, own_vote=own_vote
        )
        found[key] = share(agreed, question[rows], reason=NO_MAJORITY).as_json()
    return found


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
