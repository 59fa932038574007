"""One recorded sample, read from the columns of the samples export."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from judging.imports.encodings import unstorable
from judging.llm.parts import ORDERS, UnknownPart, is_swapped, stage_of, stage_parts
from judging.methods.outcomes import Label, outcome_of, score_pair_from_rating
from judging.methods.portia.stages import Stage
from judging.models.calls import Parse
from judging.models.runs import Form

Status = Parse.Status
STAGES = tuple(stage.value for stage in Stage if stage != Stage.NONE)
LONGEST = {"part": 60, "finish_reason": 40, "model": 200}
MOST_SLOTS = 1000
# Of one sample: more is a mistake, and sums have to be kept too.
MOST_USD = 10_000
PLACES = Decimal("1e-10")


class BadRow(ValueError):
    """Why a row can't be a sample, in a sentence."""


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """A sample turned back to responses 1 and 2; a slot of None is the next free one."""

    external_id: str
    part: str
    status: str
    slot: int | None = None
    attempt: int = 0
    form: str = ""
    score_1: Decimal | None = None
    score_2: Decimal | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    outcome: str | None = None
    evidence: str = ""
    raw_text: str | None = None
    finish_reason: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: Decimal | None = None
    estimated: bool = False


def sample_rows(values: Mapping[str, Any]) -> Iterator[RecordedRow]:
    """The sample in a row of the samples export. Raises BadRow."""
    read = Cells(values)
    external_id = read.text("external_id")
    if not external_id:
        raise BadRow("external_id is empty.")
    numbers = {name: read.decimal(name) for name in ("score_1", "score_2", "rating")}
    p_first, mass = (read.probability(name) for name in ("p_first", "mass"))
    outcome = read.one_of("outcome", tuple(Label))
    found = derived_outcome(numbers, p_first is not None) or outcome
    if outcome and found != outcome:
        raise BadRow(f"outcome is {outcome}, and the scores say {found}.")
    status = read.one_of("status", Status.values) or (Status.VALID if found else Status.UNPARSED)
    if (status == Status.VALID) != bool(found):
        raise BadRow(f"status is {status}, and {'a' if found else 'no'} verdict is there.")
    yield RecordedRow(
        external_id,
        part_of(read),
        status,
        slot=read.count("slot", MOST_SLOTS),
        attempt=read.count("attempt", MOST_SLOTS) or 0,
        form=read.one_of("form", Form.values) or "",
        p_first=p_first,
        mass=mass,
        outcome=found,
        evidence=read.text("evidence"),
        raw_text=read.text("raw_text") or None,
        finish_reason=read.text("finish_reason"),
        model=read.text("model"),
        prompt_tokens=read.count("prompt_tokens"),
        completion_tokens=read.count("completion_tokens"),
        usd=read.usd("usd"),
        estimated=read.text("estimated").casefold() in ("true", "1", "yes"),
        **numbers,
    )


def part_of(read: "Cells") -> str:
    """`part` where it is given, else the order, of a PORTIA stage where one is named."""
    part = read.text("part") or read.text("order")
    stage = read.one_of("stage", STAGES)
    if stage and part in ORDERS:
        part = stage_parts(stage)[ORDERS.index(part)]
    if not part:
        raise BadRow("order is empty: it should be original or swapped.")
    try:
        is_swapped(part)
    except UnknownPart as error:
        raise BadRow(str(error)) from None
    if part.startswith("portia:") and stage_of(part) not in STAGES:
        raise BadRow(f"part is {part}, and PORTIA has the stages {', '.join(STAGES)}.")
    if stage and stage_of(part) != stage:
        raise BadRow(f"stage is {stage}, and part is {part}.")
    order = read.one_of("order", ORDERS)
    if order and is_swapped(part) != (order == "swapped"):
        raise BadRow(f"order is {order}, and part is {part}.")
    return part


def derived_outcome(numbers: Mapping[str, Decimal | None], by_probability: bool) -> str | None:
    """What the scores say; a probability is of a position, and needs its outcome beside it."""
    one, two, rating = numbers["score_1"], numbers["score_2"], numbers["rating"]
    if (one is None) != (two is None):
        raise BadRow("score_1 and score_2 are given together or not at all.")
    if one is not None and two is not None:
        return outcome_of((one, two)).value
    if rating is not None and not by_probability:
        try:
            return outcome_of(score_pair_from_rating(rating)).value
        except ValueError as error:
            raise BadRow(f"{error}.") from None
    return None


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of a row, by column."""

    values: Mapping[str, Any]

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, dict | list):
            raise BadRow(f"{name} should be text or a number.")
        text = "" if value is None else str(value)
        if found := unstorable(text):
            raise BadRow(f"{name} holds {found}, which is not text.")
        if len(text) > LONGEST.get(name, len(text)):
            raise BadRow(f"{name} may have {LONGEST[name]} characters, it has {len(text)}.")
        return text

    def one_of(self, name: str, allowed: tuple[str, ...] | list[str]) -> str | None:
        text = self.text(name).strip().casefold()
        if text and text not in allowed:
            raise BadRow(f"{name} should be one of {', '.join(allowed)}, found {text[:60]!r}.")
        return text or None

    def number(self, name: str) -> Decimal | None:
        text = self.text(name).strip()
        if not text:
            return None
        try:
            number = Decimal(text)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or abs(number) >= 10**8:
            raise BadRow(f"{name} should be a number, found {text[:60]!r}.")
        return number

    def decimal(self, name: str) -> Decimal | None:
        """Rounded as it is kept, so that what is concluded now can be concluded again."""
        number = self.number(name)
        return None if number is None else number.quantize(PLACES)

    def usd(self, name: str) -> Decimal | None:
        usd = self.decimal(name)
        if usd is not None and not 0 <= usd <= MOST_USD:
            found = self.text(name)[:60]
            raise BadRow(f"{name} should be from 0 to {MOST_USD}, found {found!r}.")
        return usd

    def probability(self, name: str) -> float | None:
        number = self.number(name)
        if number is None:
            return None
        if not 0 <= number <= 1:
            raise BadRow(f"{name} should be from 0 to 1, found {number}.")
        return float(number)

    def count(self, name: str, most: int = 2**31 - 1) -> int | None:
        number = self.number(name)
        if number is None:
            return None
        if number != int(number) or not 0 <= number <= most:
            raise BadRow(f"{name} should be a whole number from 0 to {most}, found {number}.")
        return int(number)
