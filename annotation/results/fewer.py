"""What fewer samples would have given: MEC(k') as the exact mean over all subsets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from annotation.results.samples_array import Samples
from annotation.results.sheet import Known, Sheet
from judging.methods.arrays import Codes, Floats, Signs
from judging.methods.bootstrap import (
    ALIKE,
    WIDTH,
    bootstrap_estimate,
    cells,
    interval,
    resampled_counts,
)
from judging.methods.derived import (
    expected_labels,
    expected_right,
    kappa_of_expected_table,
)
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.kappa import cohen_kappa
from judging.models.runs import Run

ADAPTIVE = Undefined(
    "an adaptive run stops where its answers agree, which biases score gaps and what fewer "
    "samples seem to give"
)
PORTIA = Undefined("fewer samples would have come to other stages of PORTIA")
# All subsets of so many samples can be taken; of more only one and all.
MOST_SUBSETS = 6
REPEATS = 500


@dataclass(frozen=True)
class Fewer:
    """What k of the run's samples in each order would have given: the mean over all subsets."""

    k: int
    bpc: bool
    accuracy: Figure
    kappa: Figure


def is_adaptive(run: Run) -> bool:
    return "adaptive" in run.parameters


def fewer_samples(
    sheet: Sheet, run: Run, samples: Samples | Undefined, rng: np.random.Generator
) -> Iterator[Fewer]:
    """MEC(k') and, where both orders were asked, MEC(k') + BPC(k')."""
    if isinstance(samples, Undefined) or samples.orders > 2:
        return
    known = ADAPTIVE if is_adaptive(run) else PORTIA if run.stages else sheet.known
    sizes = range(1, samples.k + 1) if samples.k <= MOST_SUBSETS else (1, samples.k)
    for bpc in (False, True)[: samples.orders]:
        for k in sizes:
            if isinstance(known, Undefined):
                yield Fewer(k, bpc, known, known)
            else:
                yield _fewer(sheet, known, samples, k, bpc, rng)


def _fewer(
    sheet: Sheet, known: Known, samples: Samples, k: int, bpc: bool, rng: np.random.Generator
) -> Fewer:
    rows = known.rows
    given = (samples.difference[rows], samples.valid[rows], k)
    shares = expected_labels(*given, both_orders=bpc)
    human = sheet.human[rows]
    right = expected_right(shares, human)
    design = {"question": sheet.question[rows], "stratum": known.stratum}
    reached = bootstrap_estimate(
        lambda counts, values: counts @ values[:, 0] / (counts @ values[:, 1]),
        (known.weight * right, known.weight * shares[:, :3].sum(axis=1)),
        rng,
        reason="no subset has a valid sample",
        limits=(0, 1),
        **design,
    )
    return Fewer(k, bpc, reached, _expected_kappa(shares, human, known.weight, rng, **design))


def _expected_kappa(
    shares: Floats,
    human: Signs,
    weight: Floats,
    rng: np.random.Generator,
    question: Codes,
    stratum: Codes,
) -> Figure:
    """Kappa of the expected confusion table, with the limits of resampled tables."""
    value = kappa_of_expected_table(shares, human, weight)
    if isinstance(value, Undefined):
        return value
    cell, row = cells(shares[:, 0], shares[:, 1], shares[:, 2], human, weight)
    counts = resampled_counts(cell, rng, question=question, stratum=stratum, repeats=REPEATS)
    columns = human[row][:, None] == np.array([1, 0, -1])
    tables = (weight[row, None, None] * shares[row, :3, None] * columns[:, None, :]).reshape(-1, 9)
    drawn = [cohen_kappa(table.reshape(3, 3)) for table in counts @ tables]
    values = [np.nan if isinstance(one, Undefined) else one for one in drawn]
    low, high, lacking = interval(values)
    note = "kappa of the expected confusion table"
    if high - low < WIDTH:
        return Estimate(value, len(human), note=f"{note}; {ALIKE}")
    note += f"; undefined in {lacking} of {REPEATS} resamples" if lacking else ""
    return Estimate(value, len(human), low, high, note)
