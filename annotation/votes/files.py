"""Reading votes that people gave elsewhere: CSV, JSON lines, and two published layouts.

Every row is a vote or a reason, by line, why it is none. Labels may be win, tie and lose of
response 1, or the name of the model that won.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.utils.dateparse import parse_datetime

from judging.core.errors import UserError
from judging.core.text import open_text, unstorable
from judging.dataset import files
from judging.dataset.models import Label
from judging.dataset.records import CONTROLS, Problem, Record, Refused, listed, plain, quoted

FORMATS = ("auto", "csv", "tsv", "jsonl", "json", "faireval", "pandalm")
# A day for one vote: more is a mistake, and would be charged for.
LONGEST_SECONDS = 86_400
LONGEST_NAME = 200
A_NAME = f"a name of at most {LONGEST_NAME} characters on one line"
_MARKS = {"": False, "false": False, "0": False, "true": True, "1": True}
_PANDALM = {"0": Label.TIE, "1": Label.WIN, "2": Label.LOSE}


@dataclass(frozen=True)
class KnownExample:
    """An example that votes can be about."""

    pk: int
    external_id: str
    model_1: str
    model_2: str


@dataclass(frozen=True)
class VoteRow:
    line: int
    example: KnownExample
    annotator: str
    label: Label
    left_response: int | None = None
    comment: str = ""
    active_seconds: float | None = None
    submitted_at: datetime | None = None
    answer: dict[str, Any] | None = None
    unblinded: bool = False


@dataclass(frozen=True)
class VotesRead:
    """What a file is read against. `names` maps plain spellings of a winner to a model's name."""

    examples: Sequence[KnownExample]
    annotator: str
    names: Mapping[str, str]

    def label(self, text: str, example: KnownExample) -> Label | None:
        """Win, tie or lose, or whose model's name it is."""
        text = text.strip()
        if text.casefold() in Label.values:
            return Label(text.casefold())
        name = self.names.get(plain(text), text)
        if plain(name) == plain(example.model_1) != plain(example.model_2):
            return Label.WIN
        if plain(name) == plain(example.model_2) != plain(example.model_1):
            return Label.LOSE
        return None


def read_votes(path: Path, file_format: str, reading: VotesRead) -> Iterator[VoteRow | Refused]:
    """Every vote of a file in order. Raises UserError where the file as a whole makes no sense."""
    if file_format not in FORMATS:
        raise UserError(f"There is no format {file_format}. Use one of {', '.join(FORMATS)}.")
    files.refuse_unreadable(path)
    if reading.annotator and not is_name(reading.annotator):
        raise UserError(f"--annotator should be {A_NAME}. Nothing was imported.")
    if file_format == "auto" and path.suffix == ".txt":
        file_format = "faireval"
    if file_format == "faireval":
        yield from _faireval(path, reading)
        return
    by_id = {example.external_id: example for example in reading.examples}
    for record in files.records([path], "json" if file_format == "pandalm" else file_format):
        if refused := record if isinstance(record, Refused) else _unstorable(record):
            yield refused
        elif file_format == "pandalm" or (file_format in ("auto", "json") and _numbered(record)):
            yield from _pandalm(record, reading, by_id)
        else:
            yield from _row(record, reading, by_id)


def is_name(text: str) -> bool:
    """Whether an annotator may be called so."""
    return 0 < len(text.strip()) <= LONGEST_NAME and not CONTROLS.search(text)


def _numbered(record: Record) -> bool:
    """Whether the columns are PandaLM's: one for each annotator, and none for the label."""
    names = {plain(name) for name in record.values}
    return {"idx", plain("annotator1")} <= names and not {"label", "annotator"} & names


def names_of(pairs: Sequence[str]) -> dict[str, str]:
    """`CHATGPT=gpt35` and the like, as plain spelling → model name."""
    names = {}
    for pair in pairs:
        found, equals, model = pair.partition("=")
        if not equals or not plain(found) or not model.strip():
            raise UserError(f"“{pair}” should read FOUND=MODEL, such as CHATGPT=gpt35.")
        names[plain(found)] = model.strip()
    return names


def _row(
    record: Record, reading: VotesRead, by_id: Mapping[str, KnownExample]
) -> Iterator[VoteRow | Refused]:
    values = {plain(name): value for name, value in record.values.items()}

    def text(column: str) -> str:
        value = values.get(plain(column))
        return "" if value is None or isinstance(value, (list, dict)) else str(value)

    example = by_id.get(text("external_id") or text("id") or text("idx"))
    annotator = (text("annotator") or reading.annotator).strip()
    label = reading.label(text("label"), example) if example else None
    # Tables that hold whole numbers beside gaps write 1 as 1.0.
    left = text("left_response").removesuffix(".0")
    unblinded = _MARKS.get(text("unblinded").casefold().removesuffix(".0"))
    faults = [
        (example is None, "external_id", "the id of an example of this project"),
        (example is not None and label is None, "label", "win, tie, lose, or a model's name"),
        (not is_name(annotator), "annotator", f"{A_NAME}, or --annotator NAME"),
        (left not in ("", "1", "2"), "left_response", "1, 2 or nothing"),
        (unblinded is None, "unblinded", "true, false or nothing"),
    ]
    problems = [
        _problem(record, column, expected, text(column)) for wrong, column, expected in faults
        if wrong
    ]  # fmt: skip
    seconds, at = _number(text("active_seconds")), text("submitted_at")
    moment = _moment(at)
    if text("active_seconds") and seconds is None:
        expected = f"seconds, 0 to {LONGEST_SECONDS}"
        problems.append(_problem(record, "active_seconds", expected, text("active_seconds")))
    if at and moment is None:
        problems.append(_problem(record, "submitted_at", "a date and time in ISO 8601", at))
    if problems or example is None or label is None:
        yield Refused(tuple(problems), record.raw)
        return
    yield VoteRow(
        line=record.line,
        example=example,
        annotator=annotator,
        label=label,
        left_response=int(left) if left else None,
        comment=text("comment"),
        active_seconds=seconds,
        submitted_at=moment,
        answer={"overall": text("raw_answer")} if text("raw_answer") else None,
        unblinded=bool(unblinded),
    )


def _pandalm(
    record: Record, reading: VotesRead, by_id: Mapping[str, KnownExample]
) -> Iterator[VoteRow | Refused]:
    """One item with the columns annotator1, annotator2, …: 0 a tie, 1 and 2 the better response."""
    example = by_id.get(str(record.values.get("idx", "")))
    if example is None:
        found = str(record.values.get("idx", ""))
        yield Refused((_problem(record, "idx", "the id of an example", found),), record.raw)
        return
    people = [name for name in record.values if plain(name).startswith("annotator")]
    if not people:
        expected = "annotator1 and so on"
        found = listed(record.values)
        yield Refused((_problem(record, "annotator1", expected, found),), record.raw)
    for name in people:
        if not is_name(name):
            yield Refused((_problem(record, "annotator", A_NAME, name),), record.raw)
            continue
        label = _PANDALM.get(str(record.values[name]))
        if label is None:
            found = str(record.values[name])
            yield Refused((_problem(record, name, "0, 1 or 2", found),), record.raw)
            continue
        yield VoteRow(record.line, example, name, label)


def _faireval(path: Path, reading: VotesRead) -> Iterator[VoteRow | Refused]:
    """One label a line, in the order of the questions."""
    with open_text(path, newline="\n") as stream:
        lines = [line.strip() for line in stream]
    while lines and not lines[-1]:
        lines.pop()
    asked = _of_named_models(reading)
    if len(lines) != len(asked):
        raise UserError(
            f"{path.name} has {len(lines)} labels, but the project has {len(asked)} examples to "
            "put them on, one a line in import order. Nothing was imported."
        )
    annotator = reading.annotator or path.stem[:200]
    for number, (text, example) in enumerate(zip(lines, asked, strict=True), start=1):
        label = reading.label(text, example)
        if label is None:
            expected = f"TIE, or {example.model_1} or {example.model_2} (see --map)"
            record = Record(str(path), number, {}, text)
            yield Refused((_problem(record, "label", expected, text),), text)
            continue
        yield VoteRow(number, example, annotator, label)


def _of_named_models(reading: VotesRead) -> Sequence[KnownExample]:
    """Where --map names the two models, only their pairs are what the file is about; where it
    names one, the pairs that it is in."""
    named = {plain(model) for model in reading.names.values()}
    fewest = min(len(named), 2)
    return [
        example
        for example in reading.examples
        if len(named & {plain(example.model_1), plain(example.model_2)}) >= fewest
    ]


def _unstorable(record: Record) -> Refused | None:
    for column, value in record.values.items():
        found = unstorable(column) or (unstorable(value) if isinstance(value, str) else None)
        if found:
            name = plain(column)
            problem = Problem(
                record.file, record.line, name, "text", found, f"{name} holds {found}."
            )
            return Refused((problem,), record.raw)
    return None


def _problem(record: Record, column: str, expected: str, found: str) -> Problem:
    shown = quoted(found) if found else "nothing"
    sentence = f"{column} should be {expected}, found {shown}."
    return Problem(record.file, record.line, column, expected, shown, sentence)


def _number(text: str) -> float | None:
    return _read(text, float, lambda value: 0 <= value <= LONGEST_SECONDS)


def _moment(text: str) -> datetime | None:
    moment = _read(text, parse_datetime, lambda moment: moment.tzinfo is not None)
    try:
        return moment and moment.astimezone(UTC)
    except OverflowError:
        # The first and the last day of the calendar have no UTC in some zones.
        return None


def _read(text: str, parse: Callable[[str], Any], fits: Callable[[Any], bool]) -> Any:
    try:
        value = parse(text) if text else None
    except ValueError:
        return None
    return value if value is not None and fits(value) else None
