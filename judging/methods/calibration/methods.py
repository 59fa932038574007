"""The calibrations to choose from: none, means of permutations, CC, DC, Pride and CalibraEval.

CC: Zhao et al., arXiv:2102.09690. DC: Fei et al., arXiv:2305.19148. Pride: Zheng et al.,
arXiv:2309.03882. CalibraEval: Li et al., arXiv:2410.15393, whose `calibraeval` is next door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.calibration.calibraeval import CalibraEval
from judging.methods.calibration.probabilities import (
    ABSENT,
    THREE,
    CalibrationMethod,
    ChoiceProbabilities,
    balanced_set,
    content_probability,
    is_balanced,
)
from judging.methods.intervals.estimates import Undefined

CERTAIN = "the prior gives one of the ID tokens all the probability, so it can't be divided out"
NOT_ASKED = "the judge was not asked about content-free inputs"
INPUTS = 20
SWAPPED = ("X0", "X2")
# A probability of exactly 0 or 1 has no logarithm.
TINY = 1e-12
TITLES: Mapping[str, str] = {
    "uncalibrated": "Uncalibrated",
    "mean": "Mean of a balanced set of permutations",
    "mean_three": "Mean of X0, X1 and X2 (not balanced)",
    "cc": "Contextual calibration (CC)",
    "cc_softmax": "CC as first published (softmax)",
    "dc": "Domain-context calibration (DC)",
    "pride": "Pride (geometric)",
    "pride_arithmetic": "Pride (arithmetic)",
    "calibraeval": "CalibraEval",
    "calibraeval_tokens": "CalibraEval, L1: tokens alone",
    "calibraeval_positions": "CalibraEval, L2: positions alone",
}
NAMES = tuple(TITLES)
# What the table shows unless more is asked for.
USUAL = ("uncalibrated", "mean", "cc", "dc", "pride", "calibraeval")
ContentFreeAnswers = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Uncalibrated:
    """Method and calibration in one: there is nothing to fit."""

    name: str = "uncalibrated"

    @property
    def method(self) -> str:
        return self.name

    def fit(self, probabilities: ChoiceProbabilities) -> Uncalibrated:
        return self

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        return probabilities

    def curve(self, p_t1: Floats) -> Floats:
        return p_t1

    def as_json(self) -> dict[str, object]:
        return {"method": self.method}


@dataclass(frozen=True, slots=True)
class MeanCalibration:
    """Give every permutation the mean of `over`, so that they agree by construction."""

    method: str
    over: tuple[str, ...]

    @property
    def balanced(self) -> bool:
        return is_balanced(self.over)

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        mean, there = mean_probability(probabilities, self.over)
        names = probabilities.permutations
        turned = np.stack([content_probability(mean, name) for name in names], axis=1)
        present = np.broadcast_to(there[:, None], turned.shape)
        return ChoiceProbabilities(np.where(present, turned, ABSENT), names, present.copy())

    def curve(self, p_t1: Floats) -> None:
        return None

    def as_json(self) -> dict[str, object]:
        return {"method": self.method, "over": list(self.over), "balanced": self.balanced}


@dataclass(frozen=True, slots=True)
class PermutationMean:
    """over: the permutations; None: the largest balanced set that was asked."""

    name: str = "mean"
    over: tuple[str, ...] | None = None

    def fit(self, probabilities: ChoiceProbabilities) -> MeanCalibration | Undefined:
        over = self.over or balanced_set(probabilities.permutations)
        if over is None:
            return Undefined("no balanced set of permutations was asked: X0 and X2, or all four")
        if not probabilities.has(over):
            return Undefined(f"{', '.join(over)} were not all asked")
        return MeanCalibration(self.name, over)


THREE_PERMUTATION_MEAN = PermutationMean("mean_three", THREE)


def mean_probability(
    probabilities: ChoiceProbabilities, over: tuple[str, ...]
) -> tuple[Floats, Booleans]:
    """Average the permutations.

    Args:
        probabilities: K examples.
        over: names of the permutations.
    Returns: (K,) mean P of response 1, 0 to 1, and (K,) whether all of them are present."""
    turned = [content_probability(probabilities.column(name), name) for name in over]
    return np.mean(turned, axis=0, dtype=np.float64), probabilities.complete(over)


@dataclass(frozen=True, slots=True)
class PriorCalibration:
    """prior: P(t1) that the judge gives whatever the contents, between 0 and 1.

    softmax: CC as published, softmax(P / prior); else P / prior, normalised (CalibraEval, eq. 3).
    n: number of examples or inputs behind the prior."""

    method: str
    prior: float
    n: int
    softmax: bool = False

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        return probabilities.with_p_t1(self.curve(probabilities.p_t1))

    def curve(self, p_t1: Floats) -> Floats:
        first, second = p_t1 / self.prior, (1 - p_t1) / (1 - self.prior)
        if self.softmax:
            return np.asarray(1 / (1 + np.exp(second - first)))
        return np.asarray(first / (first + second))

    def as_json(self) -> dict[str, object]:
        return {"method": self.method, "prior": self.prior, "n": self.n, "softmax": self.softmax}


def _prior_calibration(
    method: str, prior: float, n: int, *, softmax: bool = False
) -> PriorCalibration | Undefined:
    """A prior within 1e-12 of 0 or 1 leaves nothing to divide."""
    if not 1e-12 < prior < 1 - 1e-12:
        return Undefined(CERTAIN)
    return PriorCalibration(method, prior, n, softmax)


@dataclass(frozen=True, slots=True)
class ContentFreeCalibration:
    """p_t1: P(t1) for each content-free input; None or NaN: the judge gave none."""

    name: str
    p_t1: Sequence[float | None]
    softmax: bool = False

    def fit(self, probabilities: ChoiceProbabilities) -> PriorCalibration | Undefined:
        # An input without an answer says nothing about the prior, so it is left out of the mean.
        known = np.array([np.nan if p is None else p for p in self.p_t1], dtype=np.float64)
        known = known[~np.isnan(known)]
        if not len(known):
            return Undefined(NOT_ASKED)
        return _prior_calibration(self.name, float(known.mean()), len(known), softmax=self.softmax)


@dataclass(frozen=True, slots=True)
class ContentFreeInput:
    """What is asked instead of an example."""

    question: str
    response_1: str
    response_2: str


NOTHING = ContentFreeInput("N/A", "N/A", "N/A")


def random_inputs(
    questions: Sequence[str],
    responses: Sequence[str],
    rng: np.random.Generator,
    *,
    count: int = INPUTS,
) -> list[ContentFreeInput]:
    """Draw DC's inputs (Fei et al., arXiv:2305.19148): random words, average length.

    A word's chance is its share of all words. Texts without white space between words (Chinese,
    Thai) are drawn by character.

    Args:
        questions, responses: texts of the same kind.
        rng, count: source of the draws, and number of inputs.
    Returns: the inputs.
    Raises: ValueError if the texts hold no word."""
    asked, answered = _Words.of(questions), _Words.of(responses)
    return [
        ContentFreeInput(asked.draw(rng), answered.draw(rng), answered.draw(rng))
        for _ in range(count)
    ]


@dataclass(frozen=True, slots=True)
class _Words:
    words: Sequence[str]
    average: int
    joint: str

    @classmethod
    def of(cls, texts: Sequence[str]) -> _Words:
        spaced = [word for text in texts for word in text.split()]
        letters = sum(map(len, spaced))
        # Words of more than 25 characters on average are sentences.
        joint = " " if letters <= 25 * len(spaced) else ""
        words = spaced if joint else [letter for word in spaced for letter in word]
        if not words:
            raise ValueError("There are no words to draw from.")
        return cls(words, max(1, round(len(words) / len(texts))), joint)

    def draw(self, rng: np.random.Generator) -> str:
        chosen: ArrayLike = rng.integers(len(self.words), size=self.average)
        return self.joint.join(self.words[place] for place in np.asarray(chosen).tolist())


@dataclass(frozen=True, slots=True)
class Pride:
    """Take the prior from the mean of log P; arithmetic: of P, as in CalibraEval."""

    name: str = "pride"
    arithmetic: bool = False

    def fit(self, probabilities: ChoiceProbabilities) -> PriorCalibration | Undefined:
        if not probabilities.has(SWAPPED):
            return Undefined("X0 and X2 were not both asked")
        # t1 bears each response once and is first both times. So the contents cancel in the mean,
        # and what is left is the preference for t1 in the first place.
        both = probabilities.complete(SWAPPED)
        if not both.any():
            return Undefined("no example has a probability under both X0 and X2")
        priors = self._priors(probabilities.columns(SWAPPED)[both])
        return _prior_calibration(self.name, float(priors.mean()), len(priors))

    def _priors(self, p_t1: Floats) -> Floats:
        """(n,) each example's prior from its (n, 2) probabilities."""
        if self.arithmetic:
            return np.asarray(p_t1.mean(axis=1))
        return np.asarray(
            scipy.special.expit(scipy.special.logit(np.clip(p_t1, TINY, 1 - TINY)).mean(axis=1))
        )


def method_named(
    name: str, *, nothing: ContentFreeAnswers = (), random: ContentFreeAnswers = ()
) -> CalibrationMethod:
    """Return a calibration method by its name.

    Args:
        name: one of NAMES.
        nothing, random: P(t1) for CC's input and for each of DC's, if they were asked.
    Returns: the method.
    Raises: ValueError for another name."""
    methods: dict[str, CalibrationMethod] = {
        "uncalibrated": Uncalibrated(),
        "mean": PermutationMean(),
        "mean_three": THREE_PERMUTATION_MEAN,
        "cc": ContentFreeCalibration("cc", nothing),
        "cc_softmax": ContentFreeCalibration("cc_softmax", nothing, softmax=True),
        "dc": ContentFreeCalibration("dc", random),
        "pride": Pride(),
        "pride_arithmetic": Pride("pride_arithmetic", arithmetic=True),
        "calibraeval": CalibraEval(),
        "calibraeval_tokens": CalibraEval("calibraeval_tokens", objective="tokens"),
        "calibraeval_positions": CalibraEval("calibraeval_positions", objective="positions"),
    }
    try:
        return methods[name]
    except KeyError:
        raise ValueError(
            f"There is no calibration {name!r}; there are {', '.join(NAMES)}."
        ) from None
