"""What each calibration does to judges whose bias is known: the table in docs/methods.

python -m benchmarks.simulations.calibrations
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.simulations.choices import CONFUSED, ChoiceJudge
from judging.methods.calibration.comparison import compare_calibrations
from judging.methods.calibration.methods import TITLES, method_named
from judging.methods.calibration.probabilities import THREE
from judging.methods.intervals.estimates import Estimate, Figure

SEED, EXAMPLES = 20230529, 1_000
NAMES = ("uncalibrated", "mean", "mean_three", "pride", "calibraeval")
JUDGES = {
    "token 1.0, position 0.75 logits": CONFUSED,
    "token 1.2 logits alone": ChoiceJudge(token=1.2, clear=2.1, noise=0.6),
    "position 1.2 logits alone": ChoiceJudge(position=1.2, clear=2.1, noise=0.6),
}


def main() -> None:
    for title, judge in JUDGES.items():
        sys.stdout.write(f"\nK = {EXAMPLES:,}, {title}\n\n")
        sys.stdout.write("| method | X0 | X1 | X2 | mean of X0, X2 | kappa |\n")
        sys.stdout.write("|---|---|---|---|---|---|\n")
        for line in table(judge):
            sys.stdout.write(line + "\n")


def table(judge: ChoiceJudge) -> list[str]:
    """A line a method: accuracy under each permutation and of the mean, and Fleiss' kappa."""
    p, truth = judge.judge(EXAMPLES, np.random.default_rng(SEED), THREE)
    methods = [method_named(name) for name in NAMES]
    found = compare_calibrations(p, methods, np.random.default_rng(SEED), gold=truth)
    lines = []
    for row in found.rows:
        alone = [text(row.by_permutation[name].accuracy) for name in THREE]
        cells = [TITLES[row.method], *alone, text(row.mean.accuracy), text(row.kappa)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def text(figure: Figure) -> str:
    return f"{figure.value:.3f}" if isinstance(figure, Estimate) else "–"


if __name__ == "__main__":
    main()
