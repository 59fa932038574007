"""A judge that gives probabilities, whose position and ID-token bias are known.

The log-odds of t1 are what the contents say, plus `token` for t1, plus `position` for the response
shown first, plus noise of each request.  So every calibration's effect can be foretold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from judging.methods.arrays import Floats
from judging.methods.calibration.probabilities import (
    PERMUTATIONS,
    ChoiceProbabilities,
    bears_t1,
    choice_probabilities,
)

SHOWN_FIRST = ("X0", "X3")


@dataclass(frozen=True)
class ChoiceJudge:
    """Biases in logits; clear, noise: sd of the contents' log-odds, and of each request's."""

    token: float = 0.0
    position: float = 0.0
    clear: float = 2.0
    noise: float = 0.0

    def judge(
        self,
        examples: int,
        rng: np.random.Generator,
        permutations: tuple[str, ...] = PERMUTATIONS,
    ) -> tuple[ChoiceProbabilities, np.ndarray]:
        """What it says, and (K,) the truth: 1 or -1 for the better response."""
        better = rng.normal(0, self.clear, examples)
        columns = [self.p_t1(better, name, rng) for name in permutations]
        given = choice_probabilities(np.stack(columns, axis=1), permutations)
        return given, np.where(better > 0, 1, -1)

    def p_t1(self, better: Floats, name: str, rng: np.random.Generator) -> Floats:
        of_t1 = better if bears_t1(name) else -better
        t1_first = bears_t1(name) == (name in SHOWN_FIRST)
        place = self.position if t1_first else -self.position
        noise = rng.normal(0, self.noise, len(better)) if self.noise else 0.0
        return np.asarray(expit(of_t1 + self.token + place + noise))


# K = 1,000 of this judge: X0 is right in seven of ten, a plain mean in more than nine.
CONFUSED = ChoiceJudge(token=1.0, position=0.75, clear=2.1, noise=0.6)
