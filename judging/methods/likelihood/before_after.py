"""Whether showing the most biased instances changed the bias, and the performance (Table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.estimates import Undefined
from judging.methods.likelihood.bias import with_total
from judging.methods.likelihood.permutation_test import (
    REPEATS,
    PermutationTest,
    bias_test,
    performance_test,
)


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """bias: BiasScore; performance: Spearman's correlation with people's scores."""

    bias: PermutationTest | Undefined
    performance: PermutationTest | Undefined

    @property
    def nearer_to_zero(self) -> bool:
        return isinstance(self.bias, PermutationTest) and abs(self.bias.after) < abs(
            self.bias.before
        )

    def as_json(self) -> dict[str, object]:
        return {
            "bias": self.bias.as_json(),
            "performance": self.performance.as_json(),
            "nearer_to_zero": self.nearer_to_zero,
        }


def before_after(
    log_likelihood: ArrayLike,
    before: Mapping[str, ArrayLike],
    after: Mapping[str, ArrayLike],
    human: Mapping[str, ArrayLike],
    rng: np.random.Generator,
    *,
    repeats: int = REPEATS,
) -> dict[str, BeforeAfter]:
    """For each criterion that all three have, and for `total`; (N,) scores of the test part.

    An item counts where both scores of the judge, the people's and the likelihood are there.
    """
    shared = [name for name in before if name in after and name in human]
    first = with_total({name: (before[name], human[name]) for name in shared})
    second = with_total({name: (after[name], human[name]) for name in shared})
    likelihood = np.asarray(log_likelihood, dtype=np.float64)
    found = {}
    for name, (earlier, people) in first.items():
        later = second[name][0]
        # The two tests are about the same items.
        gold = np.where(np.isfinite(likelihood), np.asarray(people, dtype=np.float64), np.nan)
        found[name] = BeforeAfter(
            bias_test(likelihood, earlier, later, gold, rng, repeats=repeats),
            performance_test(earlier, later, gold, rng, repeats=repeats),
        )
    return found
