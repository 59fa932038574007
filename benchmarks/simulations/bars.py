"""What the bar of learned routing costs and gains: its AUROC for the judge's errors less BPDE's.

Judges err where they are unsure, where they like the longer response, both, or anywhere.  A random
sample is labelled, and both scores rank the rest.  A sample without five errors ranks by BPDE."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import optimize
from scipy.special import expit

from judging.methods.intervals.estimates import Estimate
from judging.methods.review.auroc import auroc
from judging.methods.review.routing import Feature, features, routing

# Log odds of an error for a standard deviation of BPDE, and of length in the verdict's favour.
KINDS = {
    "strongly unsure": (3.0, 0.0),
    "unsure": (1.5, 0.0),
    "unsure, and likes length": (1.0, 1.0),
    "likes length a little": (0.3, 0.7),
    "likes length": (0.0, 2.0),
    "anywhere": (0.0, 0.0),
}
N, NOISE = 600, 5
# The learned route may be worse than BPDE by that much on average.
MOST_LOST = 0.01


@dataclass(frozen=True, slots=True)
class Draws:
    """labels: in the learning sample."""

    labels: int
    error: float
    kind: str

    def __str__(self) -> str:
        return f"{self.labels} labels, error {self.error:.0%}, {self.kind}"


def draws() -> list[Draws]:
    every = product((30, 60, 100), (0.03, 0.05, 0.10, 0.20, 0.30, 0.50), KINDS)
    return [Draws(*each) for each in every]


@dataclass(frozen=True, slots=True)
class Gain:
    """used: share of the draws in which the learned score routes. gain: mean over all of them."""

    setting: str
    repeats: int
    used: float
    gain: float
    standard_error: float

    def passes(self) -> bool:
        """Whether it loses no more than it may, but for chance."""
        return self.gain >= -MOST_LOST - 3 * self.standard_error


def simulate(setting: Draws, repeats: int, seed: int) -> Gain:
    rng = np.random.default_rng([seed, setting.labels, int(100 * setting.error)])
    found = [_gain(setting, rng) for _ in range(repeats)]
    gains = np.array([gain for _, gain in found])
    used = float(np.mean([was_used for was_used, _ in found]))
    error = float(gains.std(ddof=1) / repeats**0.5)
    return Gain(str(setting), repeats, used, float(gains.mean()), error)


def _gain(setting: Draws, rng: np.random.Generator) -> tuple[bool, float]:
    bpde = np.clip(np.rint(rng.normal(1.5, 1.2, N)), 0, 5)
    favour = rng.normal(size=N)
    of_bpde, of_length = KINDS[setting.kind]
    odds = of_bpde * (bpde - 1.5) / 1.2 + of_length * favour
    offset = optimize.brentq(lambda a: expit(odds + a).mean() - setting.error, -30, 30)
    wrong = (rng.random(N) < expit(odds + offset)).astype(float)
    columns = [
        Feature("bpde", bpde),
        Feature("length in favour", favour),
        Feature("gap", rng.normal(size=N) - bpde),
    ]
    columns += [Feature(f"noise {one}", rng.normal(size=N)) for one in range(NOISE)]
    every = np.ones(N, bool)
    order = rng.permutation(N)
    sample, rest = order[: setting.labels], order[setting.labels :]
    made = features(columns, [""] * N, every)
    fit = routing(made, bpde, every, sample, wrong[sample], rng)
    if not fit.used:
        return False, 0.0
    areas = [auroc(score[rest], wrong[rest]) for score in (fit.probability, bpde)]
    values = [one.value for one in areas if isinstance(one, Estimate)]
    return True, values[0] - values[1] if len(values) == 2 else 0.0
