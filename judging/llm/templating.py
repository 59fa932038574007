"""A judge template: a text with named slots, and how the reply to it is read."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property


class Form(StrEnum):
    """What is asked of the judge."""

    SCORE = "score"
    RELATION = "relation"
    LIKERT = "likert"
    CHOICE = "choice"
    POINTWISE = "pointwise"


class ReplyFormat(StrEnum):
    """How the verdict stands in a reply; each has one parser."""

    SCORE_LINES = "score_lines"
    SCORE_JSON = "score_json"
    SCORE_PAIR = "score_pair"
    VERDICT_MARK = "verdict_mark"
    VERDICT_LINE = "verdict_line"
    RATING_LINE = "rating_line"
    CHOICE_TOKEN = "choice_token"


REPLIES_OF_FORM = {
    Form.SCORE: (ReplyFormat.SCORE_LINES, ReplyFormat.SCORE_JSON, ReplyFormat.SCORE_PAIR),
    Form.RELATION: (ReplyFormat.VERDICT_MARK, ReplyFormat.VERDICT_LINE),
    Form.LIKERT: (ReplyFormat.RATING_LINE,),
    Form.CHOICE: (ReplyFormat.CHOICE_TOKEN,),
    Form.POINTWISE: (ReplyFormat.RATING_LINE,),
}

# The papers' names for a slot, and ours.
ALIASES = {"Q": "question", "R1": "first", "R2": "second"}
_PAIR = {"question", "first", "second", "reference", "criteria"}
_IDS = {"id_1", "id_2", "id_first", "id_second"}
SLOTS = frozenset(_PAIR | _IDS | {"input", "output"})
SLOT = re.compile(r"\{(" + "|".join(sorted(SLOTS | ALIASES.keys())) + r")\}")


@dataclass(frozen=True)
class Scale:
    """The lowest and the highest value that a judge may give; `whole`: no fractions."""

    low: Decimal
    high: Decimal
    whole: bool = False

    def __contains__(self, value: Decimal) -> bool:
        whole = not self.whole or value == value.to_integral_value()
        return self.low <= value <= self.high and whole

    def turned(self, rating: Decimal) -> Decimal:
        """A rating that favours the first, as one that favours the second by as much."""
        return self.low + self.high - rating


SCORES = Scale(Decimal(1), Decimal(10))
LIKERT = Scale(Decimal(1), Decimal(7), whole=True)


@dataclass(frozen=True)
class Template:
    """`ids` are the option-ID tokens of the form `choice`, and a probability within `band` of 1/2
    is a tie; `task` describes what an output is for.

    `twin` names the template that asks the same in text or in JSON.
    """

    name: str
    text: str
    form: Form
    reply: ReplyFormat
    scale: Scale = SCORES
    source: str = ""
    twin: str = ""
    task: str = ""
    ids: tuple[str, str] = ("A", "B")
    band: Fraction = Fraction(0)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def slots(self) -> frozenset[str]:
        return frozenset(canonical(name) for name in SLOT.findall(self.text))

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with its slots filled in one pass: what is filled in is never read again."""
        return SLOT.sub(lambda match: values[canonical(match[1])], self.text)


def canonical(slot: str) -> str:
    return ALIASES.get(slot, slot)
