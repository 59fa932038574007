"""One recorded sample, read from the columns of the samples export."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from judging.core.errors import UserError
from judging.core.text import storable, unstorable
from judging.dataset import files
from judging.dataset.records import Identities, Record, Refused, listed, recognise, to_example
from judging.llm.prompts.templates import ORDERS, PromptVariant, UnknownPart, stage_parts
from judging.methods.portia.stages import Stage
from judging.methods.verdicts.verdicts import Label, outcome_of, score_pair_from_rating
from judging.runs.models import Form, Parse

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
        variant = PromptVariant.parse(part)
        shown = variant.order
    except UnknownPart as error:
        raise BadRow(str(error)) from None
    if variant.stage not in STAGES:
        raise BadRow(f"part is {part}, and PORTIA has the stages {', '.join(STAGES)}.")
    if stage and variant.stage != stage:
        raise BadRow(f"stage is {stage}, and part is {part}.")
    order = read.one_of("order", ORDERS)
    if order and shown != order:
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


FORMATS = ("auto", "csv", "tsv", "jsonl", "json", "pandalm", "llmbar")
PANDALM_OUTCOMES = {"1": "win", "2": "lose", "tie": "tie"}
LLMBAR_ORDERS = {"swap = False": "original", "swap = True": "swapped"}
WINNERS = {"1": "win", "2": "lose"}


@dataclass(frozen=True, slots=True)
class Line:
    """Where a row stands in a file, for the sentence that refuses it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}"


Read = Callable[[Record], Iterator[RecordedRow]]


def read_judgments(
    paths: Sequence[Path], file_format: str
) -> Iterator[tuple[Line, RecordedRow | BadRow]]:
    """Every sample of the files, or why a row is none."""
    if file_format not in FORMATS:
        raise UserError(f"There is no format {file_format!r}. Use one of {', '.join(FORMATS)}.")
    reads: dict[str, Read] = {}
    for record in files.records(paths, file_format):
        if isinstance(record, Refused):
            problem = record.problems[0]
            yield Line(problem.file, problem.line), BadRow(problem.sentence)
            continue
        line = Line(record.file, record.line)
        read = reads.setdefault(record.file, reader_for(record.values, file_format))
        try:
            yield from ((line, row) for row in read(record))
        except BadRow as error:
            yield line, error


def reader_for(values: Mapping[str, Any], file_format: str) -> Read:
    """By the format's name, else by what the first record of a file holds."""
    if file_format == "llmbar" or (file_format in ("auto", "json") and "results" in values):
        return llmbar_reader()
    if file_format == "pandalm" or (file_format in ("auto", "json") and "gpt_result" in values):
        return pandalm_rows
    return lambda record: sample_rows(record.values)


def pandalm_rows(record: Record) -> Iterator[RecordedRow]:
    """PandaLM's verdicts of one judge, asked once; `garbage` is a reply without a verdict."""
    found = str(record.values.get("gpt_result", "")).strip()
    outcome = PANDALM_OUTCOMES.get(found.casefold())
    if "idx" not in record.values:
        raise BadRow("idx is missing.")
    yield RecordedRow(
        str(record.values["idx"]),
        "original",
        "valid" if outcome else "unparsed",
        outcome=outcome,
        evidence=storable(str(record.values.get("gpt_reason") or "")),
        raw_text=storable(found),
    )


def llmbar_reader() -> Read:
    """LLMBar's plain two-order judgments; a second round, asked on conflict only, is left out.

    Texts are numbered within a file: the same pair in another file is one more sample of it.
    """
    identities = Identities()

    def read(record: Record) -> Iterator[RecordedRow]:
        columns = recognise(record.values)
        if columns.missing:
            raise BadRow(
                f"No column for {listed(columns.missing)}. Found: {listed(record.values)}."
            )
        example = to_example(record, columns)
        if not isinstance(example, Refused):
            example = identities.settle(example)
        if isinstance(example, Refused):
            raise BadRow(example.problems[0].sentence)
        results = record.values.get("results")
        if not isinstance(results, list) or not results or not isinstance(results[0], dict):
            raise BadRow("results holds no judgment.")
        for name, part in LLMBAR_ORDERS.items():
            if name in results[0]:
                yield llmbar_row(example.external_id, part, results[0][name])

    return read


def llmbar_row(external_id: str, part: str, judgment: Any) -> RecordedRow:
    """`winner` is turned back to output 1 or 2 already, or null."""
    if not isinstance(judgment, dict):
        raise BadRow("A judgment should hold a completion and a winner.")
    completion = judgment.get("completion")
    pair = isinstance(completion, list) and len(completion) == 2
    text, finish_reason = completion if pair else (completion, "")
    text = storable(str(text or ""))
    outcome = WINNERS.get(str(judgment.get("winner")))
    return RecordedRow(
        external_id,
        part,
        "valid" if outcome else "unparsed",
        outcome=outcome,
        evidence=text,
        raw_text=text,
        finish_reason=storable(str(finish_reason or ""))[:40],
    )
