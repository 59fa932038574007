"""What learned routing found, a sentence for each feature."""

import math

from annotation.results.figures import Json
from annotation.results.names import set_apart
from judging.figures import count, decimals
from judging.methods.routing_features import CATEGORY

_WHEN = {
    "bpde": "the more its outcomes contradict each other (BPDE)",
    "gap": "the further apart its scores are (|CS₁ − CS₂|)",
    "length in favour": "when it prefers the longer response",
    "length difference": "the more the responses differ in length",
    "question length": "the longer the question",
    "missing samples": "the more of its samples are missing",
    "conflict": "when its two orders give different labels",
    "first position": "the more often the response shown first won",
    "jury agreement": "the more the other runs agree with it",
    "log-probability margin": "the surer its token probabilities are",
    "PORTIA's stage": "the later the stage that settled it",
    "likelihood in favour": "when it prefers the likelier response",
}

# Odds half as large again, or a third smaller.
NOTABLE = math.log(1.5)


def sentence(name: str, ratio: Json) -> str:
    """As in “wrong more often when it prefers the longer response: ×2.1 [1.4–3.3] per sd”."""
    value, low, high = (ratio[key] for key in ("value", "low", "high"))
    category = name.startswith(CATEGORY)
    shown = set_apart(name.removeprefix(CATEGORY))
    when = f"in “{shown}”" if category else _WHEN.get(name, f"with “{shown}”")
    unit = "against the average category" if category else "per sd"
    times = f"×{_ratio(value)} [{_ratio(low)}–{_ratio(high)}] {unit}"
    often = "more often" if value > 1 else "less often"
    if not low <= 1 <= high:
        return f"Wrong {often} {when}: {times}"
    if abs(math.log(value)) > NOTABLE:
        return f"Perhaps wrong {often} {when}: {times}"
    return f"No clear difference {when}: {times}"


def evidence(ratio: Json) -> float:
    """How far the odds ratio is from 1, in widths of its interval."""
    width = math.log(ratio["high"] / ratio["low"])
    return abs(math.log(ratio["value"])) / width if width else 0.0


def _ratio(value: float) -> str:
    """Two significant digits below 1, one decimal up to 100, whole ones above."""
    if value < 1:
        return f"{value:.2g}"
    return decimals(value, 1) if value < 100 else count(round(value))
