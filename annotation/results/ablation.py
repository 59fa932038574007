"""The same examples judged otherwise: fewer samples, and the project's other runs beside this."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from annotation.results.fewer import Fewer
from annotation.results.figures import Json
from annotation.results.other_runs import OtherRun, settings_of
from annotation.results.rightness import Agreement, agreement
from annotation.results.sheet import Known, Sheet
from judging.methods.accuracy import credit
from judging.methods.arrays import Floats
from judging.methods.bootstrap import bootstrap_estimate
from judging.methods.distinct import all_differ
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.proportions import holm, mcnemar
from judging.models.runs import Run

NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Paired:
    """difference: accuracy of this run less the other's, over what both judged."""

    difference: Figure
    p: float | None


def ablation(
    sheet: Sheet,
    run: Run,
    others: Sequence[OtherRun],
    fewer: Sequence[Fewer],
    alone: Agreement,
    rng: np.random.Generator,
) -> list[Json]:
    """Rows over k from this run's samples, then one row a run; p-values by Holm over the runs.

    All samples are the run as it is, so that row has the intervals of its labels `alone`.
    """
    rows = [_k_row(run, one) for one in fewer]
    if fewer and _same(fewer[-1].accuracy, alone.accuracy):
        rows[-1] |= {"accuracy": alone.accuracy.as_json(), "kappa": alone.kappa.as_json()}
    known = sheet.known
    if isinstance(known, Undefined):
        return rows
    paired = [_compare(sheet, known, other, rng) for other in others]
    tested = [one.p for one in paired if one.p is not None]
    adjusted = iter(holm(tested).tolist() if tested else [])
    for other, one in zip(others, paired, strict=True):
        p_holm = None if one.p is None else next(adjusted)
        rows.append(_run_row(sheet, run, other, one, p_holm, rng))
    return rows


def _same(one: Figure, other: Figure) -> bool:
    """A run of X0 and X1 has X0's label alone, and its samples together another."""
    if isinstance(one, Undefined) or isinstance(other, Undefined):
        return False
    return math.isclose(one.value, other.value)


def _k_row(run: Run, fewer: Fewer) -> Json:
    return {
        "run": run.name,
        "differs": {"k": [str(run.k), str(fewer.k)]},
        "bpc": fewer.bpc,
        "accuracy": fewer.accuracy.as_json(),
        "kappa": fewer.kappa.as_json(),
    }


def _run_row(
    sheet: Sheet,
    run: Run,
    other: OtherRun,
    paired: Paired,
    p_holm: float | None,
    rng: np.random.Generator,
) -> Json:
    found, here = agreement(sheet.comparison(other.judge, other.judged), rng), settings_of(run)
    return {
        "run": other.name,
        "differs": {
            name: [here[name], value]
            for name, value in other.settings.items()
            if name != "name" and value != here[name]
        },
        "accuracy": found.accuracy.as_json(),
        "kappa": found.kappa.as_json(),
        "difference": paired.difference.as_json(),
        "p": paired.p,
        "p_holm": p_holm,
    }


def _compare(sheet: Sheet, known: Known, other: OtherRun, rng: np.random.Generator) -> Paired:
    both = (sheet.judged & other.judged)[known.rows]
    rows = known.rows[both]
    if not len(rows):
        return Paired(Undefined("no example with a known label was judged by both runs"), None)
    human, ties = sheet.human[rows], bool(np.any(sheet.human[known.rows] == 0))
    here = credit(sheet.judge[rows], sheet.judged[rows], human, knows_ties=ties)
    there = credit(other.judge[rows], other.judged[rows], human, knows_ties=ties)
    weight, question = known.weight[both], sheet.question[rows]
    difference = bootstrap_estimate(
        _mean_difference,
        (here, there, weight),
        rng,
        question=question,
        stratum=known.stratum[both],
        limits=(-1, 1),
    )
    exact = known.plain and all_differ(question)
    if exact and not np.any((here == 0.5) | (there == 0.5)):
        return Paired(difference, mcnemar(int((here > there).sum()), int((there > here).sum())))
    return Paired(difference, _p_of(difference))


def _mean_difference(counts: Floats, values: Floats) -> Floats:
    here, there, weight = values.T
    return np.asarray(counts @ (weight * (here - there)) / (counts @ weight))


def _p_of(difference: Figure) -> float | None:
    """Two-sided, from the bootstrap's width as a normal one; None where it has no width."""
    if not isinstance(difference, Estimate) or difference.low is None or difference.high is None:
        return None
    error = (difference.high - difference.low) / (2 * NORMAL_95)
    return float(2 * scipy.stats.norm.sf(abs(difference.value) / error)) if error else None
