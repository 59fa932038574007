"""What `part` says about a call: which response is shown first, and which ID token it bears.

A part is canonical text: `original`, `swapped`, `X0` to `X3`, `r1:fluency`, or a stage before an
order, such as `portia:semantic:swapped`.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Literal

Order = Literal["original", "swapped"]

PERMUTATIONS = ("X0", "X1", "X2", "X3")
ORDERS: tuple[Order, Order] = ("original", "swapped")
UNSPLIT = "unsplit"
_PORTIA = "portia:"

# CalibraEval, eqs. 5 and 6: X1 and X2 show response 2 first; X2 and X3 give it the first token.
_SWAPPED = {"original": False, "swapped": True, "X0": False, "X1": True, "X2": True, "X3": False}
_FIRST_TOKEN_IS_FIRST = {"X0": True, "X1": False, "X2": True, "X3": False}


class UnknownPart(ValueError):
    """A part that names no order."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"The part {part!r} names no order; it ends in original, swapped or X0-X3."
        )


def balanced(permutations: Collection[str]) -> tuple[str, ...]:
    """The permutations among them in which position and ID token cancel: all four, or X0 and X2.

    Where neither is complete it is the first alone, as of a method that asks one order. X0, X1
    and X2 together show response 1 first once in three times and are not balanced.
    """
    for cancelling in (PERMUTATIONS, ("X0", "X2")):
        if set(cancelling) <= set(permutations):
            return cancelling
    return tuple(sorted(permutations)[:1])


def is_swapped(part: str) -> bool:
    """Whether response 2 is shown first."""
    try:
        return _SWAPPED[part.rpartition(":")[2]]
    except KeyError:
        raise UnknownPart(part) from None


@lru_cache(maxsize=256)
def order(part: str) -> Order:
    return "swapped" if is_swapped(part) else "original"


def stage_of(part: str) -> str:
    """The PORTIA stage that a part belongs to; `unsplit` where the responses are shown whole."""
    return part.split(":")[1] if part.startswith(_PORTIA) else UNSPLIT


def stage_parts(stage: str) -> tuple[str, str]:
    """The two parts of a PORTIA stage; the unsplit ones are those of any other method."""
    prefix = "" if stage == UNSPLIT else f"{_PORTIA}{stage}:"
    return f"{prefix}original", f"{prefix}swapped"


def first_token_is_first(part: str) -> bool:
    """Whether the response shown first bears the first ID token; so it does outside X1 and X3."""
    return _FIRST_TOKEN_IS_FIRST.get(part.rpartition(":")[2], True)


def shown_ids(ids: tuple[str, str], part: str) -> tuple[str, str]:
    """The ID tokens in the order in which they are shown."""
    return ids if first_token_is_first(part) else (ids[1], ids[0])


def token_probability(p_first: float, part: str) -> float:
    """P(t1), CalibraEval's s, from the probability of the response that was shown first."""
    return p_first if first_token_is_first(part) else 1 - p_first
