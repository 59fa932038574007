"""Compare calibrations on examples that they were not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Codes
from judging.methods.calibration.probabilities import (
    Calibration,
    CalibrationMethod,
    ChoiceProbabilities,
)
from judging.methods.calibration.table import (
    PLAIN,
    CalibrationComparison,
    CalibrationRow,
    ComparisonTable,
)
from judging.methods.intervals.bootstrap import coded
from judging.methods.intervals.estimates import Estimate, Undefined

WHOLE = 100.0
FOLDS = 5
# From here on a fifth less to learn from makes no difference, and a fit takes a minute.
MANY, FEWER_FOLDS = 20_000, 2


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """How fitting and judging are kept apart.

    estimation, judged: (K,) bool. fold: (K,) the part of each example, out of `folds`; a fit for a
    part uses all other parts. With a share below 100 % there is one fit, on the estimation set."""

    estimation: Booleans
    judged: Booleans
    fold: Codes
    folds: int

    @property
    def text(self) -> str:
        n, judged = int(self.estimation.sum()), int(self.judged.sum())
        if not (self.judged & self.estimation).any():
            return f"fitted on {n} examples, judged on the other {judged}"
        if self.folds > 1:
            return f"each of {self.folds} parts is judged by a fit on all the others"
        return f"fitted and judged on the same {n} examples"


def estimation_rows(
    n: int, share: float, rng: np.random.Generator, *, question: ArrayLike | None = None
) -> Booleans:
    """Draw the estimation set; questions are kept whole.

    Args:
        n, share: number of examples, and percent of them to draw, rounded half up.
        rng, question: source of the draw, and (n,) equal codes share a question.
    Returns: (n,) bool.
    Raises: ValueError unless 0 < share <= 100."""
    if not 0 < share <= WHOLE:
        raise ValueError("The estimation set is more than 0 % and at most 100 % of the examples.")
    many, group = coded(np.arange(n) if question is None else question)
    take = max(1, int(np.floor(many * share / 100 + 0.5))) if many else 0
    chosen = np.zeros(many, dtype=bool)
    chosen[rng.permutation(many)[:take]] = True
    return np.asarray(chosen[group])


def split(
    n: int,
    share: float,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    apart: bool = True,
) -> Split:
    """Decide which examples fit a calibration and which judge it.

    Args:
        n, share, rng, question: as in `estimation_rows`.
        apart: judge on examples that the fit has not seen; False does as the paper does.
    Returns: the parts."""
    estimation = estimation_rows(n, share, rng, question=question)
    many, group = coded(np.arange(n) if question is None else question)
    one_fit = np.zeros(n, dtype=np.intp)
    if not estimation.all() and apart:
        return Split(estimation, ~estimation, one_fit, 1)
    if not apart or many < 2:
        return Split(estimation, np.ones(n, dtype=bool), one_fit, 1)
    # Questions are dealt out whole, so there can't be more parts than questions.
    folds = min(FOLDS if n <= MANY else FEWER_FOLDS, many)
    fold = rng.permutation(np.arange(many) % folds)[group]
    return Split(estimation, np.ones(n, dtype=bool), np.asarray(fold, dtype=np.intp), folds)


def calibrated_apart(
    method: CalibrationMethod, probabilities: ChoiceProbabilities, parts: Split
) -> tuple[Calibration, ChoiceProbabilities] | Undefined:
    """Fit on the estimation set, and calibrate the judged examples.

    Args: method, probabilities, parts: what is fitted, all examples, and their `split`.
    Returns: the fit, and the judged examples in their order, each by a fit that may see it."""
    whole = method.fit(probabilities.rows(parts.estimation))
    if isinstance(whole, Undefined):
        return whole
    if parts.folds == 1:
        return whole, whole.apply(probabilities.rows(parts.judged))
    p_t1, present = probabilities.p_t1.copy(), probabilities.present.copy()
    for part in range(parts.folds):
        rows = parts.fold == part
        fitted = method.fit(probabilities.rows(~rows))
        if isinstance(fitted, Undefined):
            return fitted
        applied = fitted.apply(probabilities.rows(rows))
        p_t1[rows], present[rows] = applied.p_t1, applied.present
    return whole, ChoiceProbabilities(p_t1, probabilities.permutations, present)


def compare_calibrations(
    probabilities: ChoiceProbabilities,
    methods: Sequence[CalibrationMethod],
    rng: np.random.Generator,
    *,
    gold: ArrayLike | None = None,
    share: float = WHOLE,
    question: ArrayLike | None = None,
    band: float = 0.0,
    apart: bool = True,
) -> CalibrationComparison:
    """Compare calibrations by agreement, accuracy and recall balance (CalibraEval §4).

    Args:
        probabilities: K examples under one or more permutations.
        methods: what to compare.
        rng: for the split and the draws of kappa.
        gold: (K,) 1 or -1 for the better response, 0 for a tie or no label; no fit ever sees it.
        share: percent of the examples in the estimation set.
        question: (K,) examples of one question stay on one side and are resampled together.
        band: a probability within this distance of one half is a tie.
        apart: False fits and judges on the same examples, as the paper does.
    Returns: the table.
    Raises: ValueError without an example."""
    k = len(probabilities)
    if not k:
        raise ValueError("There is no example to compare calibrations on.")
    labels = np.zeros(k, np.int8) if gold is None else np.asarray(gold, dtype=np.int8)
    questions = None if question is None else np.asarray(question)
    parts = split(k, share, rng, question=questions, apart=apart)
    kept = questions[parts.judged] if questions is not None else None
    table = ComparisonTable(probabilities.permutations, labels[parts.judged], band, kept, rng)
    # Each method's gain is over the plain mean on the same examples.
    table.add(PLAIN, probabilities.rows(parts.judged))
    fits: dict[str, Calibration | Undefined] = {}
    for method in methods:
        calibration = calibrated_apart(method, probabilities, parts)
        if isinstance(calibration, Undefined):
            fits[method.name] = calibration
            continue
        fits[method.name] = calibration[0]
        table.add(method.name, calibration[1])
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
        f"On examples that it was not fitted on, the accuracy of the calibrated mean is "
        f"{100 * gain:.1f} points higher than that of the plain mean. That is beyond chance, even "
        "though several methods are compared."
    )
