"""Several runs as one panel, and two of them as a cascade: what they reach, and what they cost.

The members are this run and the project's other ranked runs that label at least half of what it
labels. Scores of different forms are compared by their verdicts.
"""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np

from annotation.results.analysis import Analysis
from annotation.results.figures import Json, usd
from annotation.results.methods_table import agreement_of
from annotation.results.other_runs import OtherRun
from annotation.results.routing_data import read_routing
from annotation.results.sections import Data
from judging.methods.accuracy import Ties, credit
from judging.methods.arrays import Booleans, Floats
from judging.methods.estimates import Estimate, Undefined
from judging.methods.jury import (
    Panel,
    accuracy_weights,
    cascade,
    equal_weights,
    panel,
)
from judging.methods.ranking import cut

SHARES = (10, 20, 30, 50)
MICRO_USD = Decimal("0.000001")


def members_of(analysis: Analysis) -> tuple[OtherRun, ...]:
    """The other runs that sit on the panel beside this one."""
    least = analysis.sheet.judged.sum() / 2
    return tuple(one for one in analysis.others if one.judged.sum() >= max(least, 1))


def jury_rows(analysis: Analysis) -> Iterator[Json]:
    """Lines of Table 4: every member the same weight, and weights by accuracy where labels of a
    random sample, or of everything, are there to weigh by."""
    members = members_of(analysis)
    if not members:
        return
    costs = [analysis.costs.judge_usd, *(one.judge_usd for one in members)]
    known = [one for one in costs if one is not None]
    cost = sum(known, Decimal(0)) if len(known) == len(costs) else None
    signs, there = _verdicts(analysis, members)
    weighings = {"": equal_weights(len(signs)), ", weighted": _weights(analysis, signs, there)}
    for name, weights in weighings.items():
        if isinstance(weights, Undefined):
            continue
        found = panel(signs, there, weights)
        yield {
            "name": f"Jury of {len(signs)}{name}",
            "k": None,
            "bpc": False,
            "beta": 0,
            "judge_usd": usd(cost),
            "human_usd": "0",
            "members": [analysis.run.name, *(one.name for one in members)],
        } | _agreement(analysis, found)


def cascades(analysis: Analysis) -> list[Json]:
    """For each other run: this one about everything, the other about the most contested."""
    known, order = analysis.sheet.known, _order(analysis)
    rows: list[Json] = []
    for other in members_of(analysis):
        earned = _earned(analysis, other)
        costs = (analysis.costs.judge_usd, other.judge_usd)
        for share in SHARES:
            found = cascade(order, *earned, cut(len(order), share), costs)
            reached = (
                known
                if isinstance(known, Undefined)
                else Estimate(found.right / float(known.weight.sum()), len(known.rows))
            )
            cost = None if found.usd is None else usd(found.usd.quantize(MICRO_USD))
            row = {"run": other.name, "share": share, "m": found.m, "judge_usd": cost}
            rows.append(row | {"accuracy": reached.as_json()})
    return rows


def _verdicts(analysis: Analysis, members: tuple[OtherRun, ...]) -> tuple[np.ndarray, Booleans]:
    sheet = analysis.sheet
    signs = np.stack([sheet.judge, *(one.judge for one in members)])
    return signs, np.stack([sheet.judged, *(one.judged for one in members)])


def _weights(analysis: Analysis, signs: np.ndarray, there: Booleans) -> Floats | Undefined:
    """From a random sample, each example's without its own label; the selected would mislead."""
    sheet = analysis.sheet
    data = analysis.own("routing", read_routing)
    sample = data.arrays.get("sample") if isinstance(data, Data) else None
    if sheet.everyone:
        labelled, human = sheet.labelled, sheet.human
    elif sample is not None:
        labelled, human = sample & sheet.answered, sheet.answer
    else:
        return Undefined("no random sample of labels to weigh the members by")
    if not labelled.any():
        return Undefined("no label to weigh the members by")
    gold = np.where(labelled, human, 1).astype(np.int8)
    right = np.stack(
        [credit(one, seen, gold, Ties.HALF) for one, seen in zip(signs, there, strict=True)]
    )
    return accuracy_weights(right, labelled, leave_out=True)


def _agreement(analysis: Analysis, found: Panel) -> Json:
    return agreement_of(analysis.sheet, found.sign, found.judged, analysis.rng)


def _earned(analysis: Analysis, other: OtherRun) -> Floats:
    """(2, N): what this run's label earns, and the other's, times what the example stands for."""
    sheet, known = analysis.sheet, analysis.sheet.known
    earned = np.zeros((2, len(sheet)))
    if isinstance(known, Undefined):
        return earned
    rows = known.rows
    for place, (judge, judged) in enumerate(
        ((sheet.judge, sheet.judged), (other.judge, other.judged))
    ):
        earned[place, rows] = known.weight * credit(judge[rows], judged[rows], sheet.human[rows])
    return earned


def _order(analysis: Analysis) -> np.ndarray:
    """By rank; what is not ranked comes last."""
    ranking = analysis.sheet.ranking
    rest = np.setdiff1d(np.arange(len(analysis.sheet)), ranking)
    return np.concatenate((ranking, rest))
