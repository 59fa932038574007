"""Every calibration beside the others: consistency, RStd and accuracy, on examples it hasn't seen.

CalibraEval's Tables 1 and 2 for one's own data.  The plain mean over a balanced set of permutations
needs no fit, so it is what a calibration has to beat before it is recommended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.calibration.estimation import WHOLE, calibrated_apart, split
from judging.methods.calibration.interface import Calibration, Method
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.calibration.rows import CalibrationComparison, CalibrationRow
from judging.methods.calibration.table import PLAIN, ComparisonTable
from judging.methods.estimates import Estimate, Undefined


def compare_calibrations(
    probabilities: ChoiceProbabilities,
    methods: Sequence[Method],
    rng: np.random.Generator,
    *,
    gold: ArrayLike | None = None,
    share: float = WHOLE,
    question: ArrayLike | None = None,
    band: float = 0.0,
    apart: bool = True,
) -> CalibrationComparison:
    """gold: (K,) 1 or -1 for the better response, 0 for a tie or no label; no fit ever sees it.

    share: percent of the examples in the estimation set.  question: examples of one question stay
    on one side and are resampled together.  band: a tie within so much of one half.
    apart: False fits and judges on the same examples, as the paper does.
    """
    k = len(probabilities)
    if not k:
        raise ValueError("There is no example to compare calibrations on.")
    labels = np.zeros(k, np.int8) if gold is None else np.asarray(gold, dtype=np.int8)
    questions = None if question is None else np.asarray(question)
    parts = split(k, share, rng, question=questions, apart=apart)
    kept = questions[parts.judged] if questions is not None else None
    table = ComparisonTable(probabilities.permutations, labels[parts.judged], band)
    table.add(PLAIN, probabilities.rows(parts.judged))
    fits: dict[str, Calibration | Undefined] = {}
    for method in methods:
        found = calibrated_apart(method, probabilities, parts)
        if isinstance(found, Undefined):
            fits[method.name] = found
            continue
        fits[method.name] = found[0]
        table.add(method.name, found[1])
    table.resample(rng, kept)
    rows = tuple(table.row(name, fit) for name, fit in fits.items())
    recommended, because = _recommendation(rows, table.over is not None)
    return CalibrationComparison(
        rows=rows,
        n=int(parts.judged.sum()),
        labelled=int((labels[parts.judged] != 0).sum()),
        permutations=probabilities.permutations,
        over=table.over,
        split=parts.text,
        recommended=recommended,
        because=because,
    )


def _recommendation(rows: Sequence[CalibrationRow], balanced: bool) -> tuple[str, str]:
    """The plain mean, unless a calibration is more accurate than it beyond doubt."""
    if not balanced:
        return "mean", (
            "Ask a balanced set of permutations first, X0 and X2 or all four: their plain mean "
            "cancels what position and ID token add, and no calibration is known to be better."
        )
    if not any(isinstance(row.gain, Estimate) for row in rows):
        return "mean", (
            "Without labels nothing shows that a calibration is better than the plain mean of a "
            "balanced set of permutations; agreement alone doesn't, since the mean agrees with "
            "itself by construction."
        )
    better = [
        (row.gain.value, row.method)
        for row in rows
        if isinstance(row.gain, Estimate) and row.beats_mean
    ]
    if not better:
        return "mean", (
            "No calibration is more accurate than the plain mean of a balanced set of "
            "permutations beyond chance on these examples, so the mean is the one to use."
        )
    gain, method = max(better)
    return method, (
        f"On examples that it was not fitted on, the calibrated mean is right in "
        f"{100 * gain:.1f} points more than the plain mean, beyond chance even with as many "
        "methods compared."
    )
