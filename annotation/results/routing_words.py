"""What learned routing found, a sentence for each feature."""

from annotation.results.figures import Json
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


def sentence(name: str, ratio: Json) -> str:
    """As in “wrong more often when it prefers the longer response: ×2.1 [1.4–3.3] per sd”."""
    value, low, high = (ratio[key] for key in ("value", "low", "high"))
    category = name.startswith(CATEGORY)
    when = f"in “{name.removeprefix(CATEGORY)}”" if category else _WHEN.get(name, f"with “{name}”")
    unit = "against the average category" if category else "per sd"
    times = f"×{_ratio(value)} [{_ratio(low)}–{_ratio(high)}] {unit}"
    if low <= 1 <= high:
        return f"No clear difference {when}: {times}"
    return f"Wrong {'more' if value > 1 else 'less'} often {when}: {times}"


def _ratio(value: float) -> str:
    """Two significant digits below 1, one decimal up to 100, whole ones above."""
    if value < 1:
        return f"{value:.2g}"
    return decimals(value, 1) if value < 100 else count(round(value))
