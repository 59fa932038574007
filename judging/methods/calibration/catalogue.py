"""The calibrations by the names that commands, pages and reports use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judging.methods.calibration.calibraeval import CalibraEval
from judging.methods.calibration.content_free import ContentFree
from judging.methods.calibration.interface import Method
from judging.methods.calibration.permutation_mean import THREE_PERMUTATION_MEAN, PermutationMean
from judging.methods.calibration.pride import Pride
from judging.methods.calibration.uncalibrated import Uncalibrated

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


def method_named(
    name: str, *, nothing: ContentFreeAnswers = (), random: ContentFreeAnswers = ()
) -> Method:
    """nothing, random: P(t1) for CC's input and for each of DC's, where they were asked."""
    methods: dict[str, Method] = {
        "uncalibrated": Uncalibrated(),
        "mean": PermutationMean(),
        "mean_three": THREE_PERMUTATION_MEAN,
        "cc": ContentFree("cc", nothing),
        "cc_softmax": ContentFree("cc_softmax", nothing, softmax=True),
        "dc": ContentFree("dc", random),
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
