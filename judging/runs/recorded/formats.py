"""The formats of judgments recorded elsewhere: the samples export, PandaLM's and LLMBar's files.

Every row becomes samples that are turned back to responses 1 and 2, or is refused by its line.
"""

import json
from collections.abc import Callable, Container, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, NamedTuple

from judging.core.text import storable
from judging.dataset.files import Records
from judging.dataset.layouts import Holds
from judging.dataset.reading import translated
from judging.dataset.records import (
    Cells,
    Codes,
    ExampleRow,
    Identities,
    Place,
    Record,
    Refused,
    canonical,
    listed,
    recognise,
    to_example,
)
from judging.llm.parsing.numbers import number
from judging.llm.prompts.templates import ORDERS, PromptVariant, UnknownPart, stage_parts
from judging.methods.portia.stages import Stage
from judging.methods.verdicts.verdicts import Label, outcome_of, score_pair_from_rating
from judging.runs.models import Form, Parse

FORMATS = ("auto", "csv", "tsv", "jsonl", "json", "pandalm", "llmbar")
Status = Parse.Status
STAGES = tuple(stage.value for stage in Stage if stage != Stage.NONE)
MOST_SLOTS = 1000
LONGEST_WHY = 200
# More for one sample is a mistake, and sums of it have to fit into a column, too.
MOST_USD = 10_000
MOST_POINTS = Decimal("99999999.9999999999")
PLACES = Decimal("1e-10")
# What the words of a column mean: each means itself.
_OUTCOMES = {str(word): str(word) for word in Label}
_OTHERS = {"status": Status.values, "stage": STAGES, "order": ORDERS, "form": Form.values}
_WORDS = {name: {str(word): str(word) for word in words} for name, words in _OTHERS.items()}
PANDALM_OUTCOMES = {"1": "win", "2": "lose", "tie": "tie"}
LLMBAR_ORDERS = {"swap = False": "original", "swap = True": "swapped"}
LLMBAR_WINNERS = {"1": "win", "2": "lose"}


class BadRow(ValueError):
    """Why a row as a whole can't be a sample, in a sentence."""


class RecordedRow(NamedTuple):
    """A sample turned back to responses 1 and 2; a slot of None is the next free one."""

    place: Place
    external_id: str
    part: str
    status: str
    slot: int | None = None
    attempt: int = 0
    form: str = ""
    score_1: Decimal | None = None
    score_2: Decimal | None = None
    rating: Decimal | None = None
    p_first: Decimal | None = None
    mass: Decimal | None = None
    outcome: str | None = None
    evidence: str = ""
    raw_text: str | None = None
    finish_reason: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: Decimal | None = None
    estimated: bool = False
    criteria: dict[str, list[str]] | None = None
    why: str = ""


Rows = Iterable[RecordedRow | Refused]
Columns = dict[str, Callable[[Cells, str], Any]]
# Longer values are texts and IDs, which seldom come again. Of each column, this many are known.
LONGEST_KNOWN, MOST_KNOWN = 20, 2000


def judgment_rows(records: Records, labels: Codes, known: Container[str] = frozenset()) -> Rows:
    """Give every sample of the files, or why a row is none.

    Args:
        labels: what codes mean.
        known: the IDs of the project's examples.
    """
    readers: dict[str, Callable[[Record], Rows]] = {}
    rows_read: Iterable[Record | Refused] = records
    if records.file_format == "auto":
        rows_read = translated(records, Holds.JUDGMENTS, known)
    for record in rows_read:
        if isinstance(record, Refused):
            yield record
            continue
        file = record.place.file
        if file not in readers:
            readers[file] = _reader_for(record.values, records.file_format, labels)
        try:
            yield from readers[file](record)
        except BadRow as error:
            yield record.refuse("", str(error))


def _reader_for(
    values: Mapping[str, Any], file_format: str, labels: Codes
) -> Callable[[Record], Rows]:
    """Choose by the format's name, else by what the first record of a file holds."""
    if file_format == "llmbar" or (file_format in ("auto", "json") and "results" in values):
        return _llmbar_reader()
    if file_format == "pandalm" or (file_format in ("auto", "json") and "gpt_result" in values):
        return _pandalm_rows
    outcome = partial(Cells.one_of, meanings=_OUTCOMES | labels)
    columns = _COLUMNS | {"outcome": outcome}
    return partial(_sample_rows, columns, {name: {} for name in columns})


def _sample_rows(columns: Columns, known: dict[str, dict[str, Any]], record: Record) -> Rows:
    """Read the sample in a row of the samples export. Raises BadRow if its columns disagree.

    Args:
        known: what each column made of short texts. Scores, counts and words come again often.
    """
    cells = Cells(record)
    cells.refuse_twins()
    row: dict[str, Any] = {}
    for name, text in record.values.items():
        made = known.get(name)
        if made is None:
            continue
        short = isinstance(text, str) and len(text) <= LONGEST_KNOWN
        if short and text in made:
            value = made[text]
        else:
            n_problems, value = len(cells.problems), columns[name](cells, name)
            if short and len(made) < MOST_KNOWN and len(cells.problems) == n_problems:
                made[text] = value
        if value is not None and value != "":
            row[name] = value
    if "external_id" not in row and not cells.problems:
        cells.require("external_id")
    if refused := cells.refused():
        return [refused]
    stage, order = row.pop("stage", None), row.pop("order", None)
    outcome, status = row.pop("outcome", None), row.pop("status", None)
    derived = _derived_outcome(row) or outcome
    if outcome and derived != outcome:
        raise BadRow(f"outcome is {outcome}, and the scores say {derived}.")
    status = status or (Status.VALID if derived else Status.UNPARSED)
    if (status == Status.VALID) != bool(derived):
        raise BadRow(f"status is {status}, and {'a' if derived else 'no'} verdict is there.")
    part = row.pop("part", None) or str(record.values.get("order") or "")
    part = _checked_part(part, stage, order)
    return [RecordedRow(record.place, part=part, status=status, outcome=derived, **row)]


def _criteria(cells: Cells) -> dict[str, list[str]] | None:
    """Read both scores on each criterion as the export writes them, {"tone": ["8", "6"]}."""
    text = cells.text("criteria")
    if not text:
        return None
    try:
        # Numbers stay texts here, so that 8.10 is not read as a binary float.
        scores_by_name = json.loads(text, parse_int=str, parse_float=str)
        pairs = {
            name: [number(score) for score in scores] for name, scores in scores_by_name.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        pairs = {}
    if not pairs or any(len(pair) != 2 or None in pair for pair in pairs.values()):
        cells.expect("criteria", 'scores such as {"tone": ["8", "6"]}', text)
        return None
    return {name: [str(score) for score in pair] for name, pair in pairs.items()}


def _points(cells: Cells, field: str) -> Decimal | None:
    return _rounded(cells.decimal(field, -MOST_POINTS, MOST_POINTS, expected="a number"))


def _rounded(number: Decimal | None) -> Decimal | None:
    """Round as the column does, so that what is concluded now can be concluded again later."""
    return None if number is None else number.quantize(PLACES)


# How each column of the samples export is read.
_COLUMNS: Columns = {
    **dict.fromkeys(("score_1", "score_2", "rating"), _points),
    **dict.fromkeys(("p_first", "mass"), partial(Cells.decimal, low=0, high=1)),
    **{name: partial(Cells.one_of, meanings=words) for name, words in _WORDS.items()},
    "part": partial(Cells.text, longest=60),
    **dict.fromkeys(("external_id", "evidence", "raw_text"), Cells.text),
    **dict.fromkeys(("slot", "attempt"), partial(Cells.integer, high=MOST_SLOTS)),
    "finish_reason": partial(Cells.text, longest=40),
    "model": partial(Cells.text, longest=200),
    **dict.fromkeys(("prompt_tokens", "completion_tokens"), Cells.integer),
    "usd": lambda cells, name: _rounded(cells.decimal(name, 0, MOST_USD)),
    "estimated": Cells.boolean,
    "criteria": lambda cells, name: _criteria(cells),
    "why": partial(Cells.text, longest=LONGEST_WHY),
}


@lru_cache(maxsize=1000)
def _checked_part(part: str, stage: str | None, order: str | None) -> str:
    """Return `part` if it is given, else the order, within a PORTIA stage if one is named."""
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
    if order and shown != order:
        raise BadRow(f"order is {order}, and part is {part}.")
    return part


def _derived_outcome(row: Mapping[str, Any]) -> str | None:
    """Return what the scores say. A probability is of a position, and needs its outcome given."""
    score_1, score_2, rating = map(row.get, ("score_1", "score_2", "rating"))
    if (score_1 is None) != (score_2 is None):
        raise BadRow("score_1 and score_2 are given together or not at all.")
    if score_1 is not None and score_2 is not None:
        return outcome_of((score_1, score_2)).value
    if rating is not None and "p_first" not in row:
        try:
            return outcome_of(score_pair_from_rating(rating)).value
        except ValueError as error:
            raise BadRow(f"{error}.") from None
    return None


def _pandalm_rows(record: Record) -> Rows:
    """Read PandaLM's verdict of one judge, asked once; `garbage` is a reply without a verdict."""
    reply = str(record.values.get("gpt_result", "")).strip()
    outcome = PANDALM_OUTCOMES.get(canonical(reply))
    if "idx" not in record.values:
        raise BadRow("idx is missing.")
    yield RecordedRow(
        record.place,
        str(record.values["idx"]),
        "original",
        Status.VALID if outcome else Status.UNPARSED,
        outcome=outcome,
        evidence=storable(str(record.values.get("gpt_reason") or "")),
        raw_text=storable(reply),
    )


def _llmbar_reader() -> Callable[[Record], Rows]:
    """Read LLMBar's plain judgments in two orders. A second round, asked on conflict only, is
    left out.

    Texts are numbered within a file, so the same pair in another file is one more sample of it.
    """
    identities = Identities()

    def read(record: Record) -> Rows:
        columns = recognise(record.values)
        if columns.missing:
            raise BadRow(
                f"No column for {listed(columns.missing)}. Found: {listed(record.values)}."
            )
        example = to_example(record, columns)
        if not isinstance(example, Refused):
            example = identities.settle(example, record)
        if isinstance(example, Refused):
            yield example
            return
        results = record.values.get("results")
        if not isinstance(results, list) or not results or not isinstance(results[0], dict):
            raise BadRow("results holds no judgment.")
        for name, part in LLMBAR_ORDERS.items():
            if name in results[0]:
                yield _llmbar_row(example, part, results[0][name])

    return read


def _llmbar_row(example: ExampleRow, part: str, judgment: Any) -> RecordedRow:
    """Read one judgment. Its winner is output 1 or 2, whichever was shown first, or null."""
    if not isinstance(judgment, dict):
        raise BadRow("A judgment should hold a completion and a winner.")
    completion = judgment.get("completion")
    pair = isinstance(completion, list) and len(completion) == 2
    text, finish_reason = completion if pair else (completion, "")
    text = storable(str(text or ""))
    outcome = LLMBAR_WINNERS.get(canonical(str(judgment.get("winner"))))
    return RecordedRow(
        example.place,
        example.external_id,
        part,
        Status.VALID if outcome else Status.UNPARSED,
        outcome=outcome,
        evidence=text,
        raw_text=text,
        finish_reason=storable(str(finish_reason or ""))[:40],
    )
