"""What the stored text `part` of a call says: what its prompt shows, and in which order.

    original, swapped          both responses, with response 1 or response 2 first
    X0, X1, X2, X3             a choice: also which response bears which ID token (CalibraEval)
    portia:semantic:swapped    the parts of a PORTIA stage, in an order
    cc:X0, dc:3:X0             a content-free input of a calibration, in a permutation
    item:fluency               one response alone, by a criterion

Databases, exports and backups hold these texts, so they never change.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from judging.methods.calibration.probabilities import PERMUTATIONS, SHOWN_FIRST, bears_t1
from judging.methods.portia.stages import Stage

Order = Literal["original", "swapped"]
Shown = TypeVar("Shown")

ORDERS: tuple[Order, Order] = ("original", "swapped")
UNSPLIT = Stage.UNSPLIT.value
_PORTIA = "portia:"
_ITEM = "item:"


class UnknownPart(ValueError):
    """A part that names no order."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"The part {part!r} names no order; it ends in original, swapped or X0-X3."
        )


@dataclass(frozen=True, slots=True)
class PromptVariant:
    """One way to ask about an example or a single response; `str()` gives its stored text.

    Attributes:
        arrangement: `original`, `swapped`, or a permutation `X0` to `X3`. Empty if one response
            is shown alone.
        stage: The PORTIA stage; `unsplit` if the responses are shown whole.
        criterion: What a single response is scored for.
        input: The content-free input that is shown in place of an example: `cc`, or `dc:3` for
            input 3 of DC. A file of recorded judgments may use names of its own here.
    """

    arrangement: str = ""
    stage: str = UNSPLIT
    criterion: str = ""
    input: str = ""

    @staticmethod
    def parse(part: str) -> "PromptVariant":
        """Read a stored text. Raises UnknownPart if it names neither an order nor a criterion."""
        return _parse(part)

    def __str__(self) -> str:
        if not self.arrangement:
            return f"{_ITEM}{self.criterion}"
        if self.stage != UNSPLIT:
            return f"{_PORTIA}{self.stage}:{self.arrangement}"
        return f"{self.input}:{self.arrangement}" if self.input else self.arrangement

    @property
    def permutation(self) -> str | None:
        """The permutation of a choice, `X0` to `X3`, if one was asked for."""
        return self.arrangement if self.arrangement in PERMUTATIONS else None

    @property
    def swapped(self) -> bool:
        """True if response 2 is shown first. Raises UnknownPart for a single response."""
        if not self.arrangement:
            raise UnknownPart(str(self))
        if self.permutation:
            return self.permutation not in SHOWN_FIRST
        return self.arrangement == "swapped"

    @property
    def order(self) -> Order:
        return "swapped" if self.swapped else "original"

    @property
    def response_1_bears_first_token(self) -> bool:
        return bears_t1(self.permutation) if self.permutation else not self.swapped

    @property
    def first_bears_first_token(self) -> bool:
        """True if the response shown first bears the first ID token, as outside X1 and X3."""
        return self.response_1_bears_first_token != self.swapped

    def shown(self, of_1: Shown, of_2: Shown) -> tuple[Shown, Shown]:
        """Order what belongs to responses 1 and 2 as it is shown, or turn it back again."""
        return (of_2, of_1) if self.swapped else (of_1, of_2)

    def shown_ids(self, ids: tuple[str, str]) -> tuple[str, str]:
        """Return the ID tokens in the order in which they are shown."""
        return ids if self.first_bears_first_token else (ids[1], ids[0])

    def token_probability(self, p_first: float) -> float:
        """Return P(t1), CalibraEval's s, from the probability of the response shown first."""
        return p_first if self.first_bears_first_token else 1 - p_first


# Results ask about the part of every recorded sample, and a run has few parts.
@lru_cache(maxsize=512)
def _parse(part: str) -> PromptVariant:
    if part.startswith(_ITEM):
        return PromptVariant(criterion=part.removeprefix(_ITEM))
    before, _, arrangement = part.rpartition(":")
    if arrangement not in ORDERS and arrangement not in PERMUTATIONS:
        raise UnknownPart(part)
    if part.startswith(_PORTIA):
        return PromptVariant(arrangement, stage=before.removeprefix(_PORTIA))
    return PromptVariant(arrangement, input=before)


def stage_parts(stage: str) -> tuple[str, str]:
    """Return the parts of a PORTIA stage, one for each order.

    Those of the unsplit stage are the parts of any other method.
    """
    original, swapped = (str(PromptVariant(order, stage=stage)) for order in ORDERS)
    return original, swapped


def balanced(permutations: Collection[str]) -> tuple[str, ...]:
    """Return the permutations in which position and ID token cancel: all four, or X0 and X2.

    If neither set is complete, the first permutation counts alone, as with a method that asks for
    one order. X0, X1 and X2 together show response 1 first once in three times, so they are not
    balanced.
    """
    for cancelling in (PERMUTATIONS, ("X0", "X2")):
        if set(cancelling) <= set(permutations):
            return cancelling
    return tuple(sorted(permutations)[:1])
