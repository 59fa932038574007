"""CC and DC: the prior is what the judge says of contents that say nothing.

CC (Zhao et al. 2021): one input, N/A.  DC (Fei et al. 2023): the mean over inputs of words drawn
at random from the task's own texts.  Both are asked as X0 is, t1 first, and the same prior is
divided out of every permutation, as CalibraEval's baselines do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.calibration.prior import PriorCalibration, prior_calibration
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.estimates import Undefined

NOT_ASKED = "the judge was not asked about contents that say nothing"
INPUTS = 20


@dataclass(frozen=True, slots=True)
class ContentFree:
    """p_t1: what the judge gave t1 for each such input; None or NaN where it gave nothing."""

    name: str
    p_t1: Sequence[float | None]
    softmax: bool = False

    def fit(self, probabilities: ChoiceProbabilities) -> PriorCalibration | Undefined:
        given = np.array([np.nan if p is None else p for p in self.p_t1], dtype=np.float64)
        given = given[~np.isnan(given)]
        if not len(given):
            return Undefined(NOT_ASKED)
        return prior_calibration(self.name, float(given.mean()), len(given), softmax=self.softmax)


@dataclass(frozen=True, slots=True)
class ContentFreeInput:
    """What is asked in place of an example."""

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
    """DC's inputs: words drawn from the texts of the same kind, as many as these have on average.

    A word's chance is its share of all words.  Texts without white space between words (Chinese,
    Thai) are drawn by character.
    """
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
