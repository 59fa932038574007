"""The layout of FairEval and FastChat: a question file and two files of answers, joined by id.

The texts of the two answer files are held in memory while the questions are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from judging.core.errors import UserError
from judging.core.text import open_text
from judging.dataset import delimited, jsonrecords
from judging.dataset.records import Problem, Record, Refused, quoted

Answers = dict[str, tuple[int, Any]]


def faireval_records(paths: Sequence[Path]) -> Iterator[Record | Refused]:
    """One record a question, with the answers in the order in which their files were named."""
    questions, first, second = _roles(paths)
    models = (model_name(first), model_name(second))
    answers: tuple[Answers, Answers] = ({}, {})
    for path, found in zip((first, second), answers, strict=True):
        yield from _read_answers(path, found)
    asked: set[str] = set()
    for record in jsonrecords.lines(questions):
        if isinstance(record, Refused):
            yield record
            continue
        number = str(record.values.get("question_id", ""))
        problems = _missing(record, number, asked, dict(zip(models, answers, strict=True)))
        asked.add(number)
        if problems:
            yield Refused(problems, record.raw)
            continue
        values = {
            "external_id": ":".join((number, *models)),
            "question": record.values.get("text"),
            "response_1": answers[0][number][1],
            "response_2": answers[1][number][1],
            "model_1": models[0],
            "model_2": models[1],
            "category": record.values.get("category"),
        }
        yield Record(record.file, record.line, values, record.raw)
    for path, found in zip((first, second), answers, strict=True):
        for number, (line, _) in found.items():
            if number not in asked:
                sentence = f"The answer is to question {number}, which {questions.name} lacks."
                yield Refused((_problem(str(path), line, "a known question", number, sentence),))


def model_name(path: Path) -> str:
    """A model is named by its file: `answer_vicuna-13b.jsonl` is vicuna-13b."""
    return path.stem.removeprefix("answer_")


def _roles(paths: Sequence[Path]) -> tuple[Path, Path, Path]:
    if len(paths) != 3:
        raise UserError(
            "The faireval format needs three files, a question file and two answer files; "
            f"{len(paths)} were named."
        )
    others = [path for path in paths if not path.stem.startswith("answer")]
    questions = others[0] if len(others) == 1 else paths[0]
    first, second = (path for path in paths if path is not questions)
    return questions, first, second


def _read_answers(path: Path, into: Answers) -> Iterator[Refused]:
    for record in jsonrecords.lines(path):
        if isinstance(record, Refused):
            yield record
            continue
        number = str(record.values.get("question_id", ""))
        if number in into:
            sentence = f"Question {number} is answered on line {into[number][0]} already."
            problem = _problem(str(path), record.line, "one answer", number, sentence)
            yield Refused((problem,), record.raw)
        else:
            into[number] = (record.line, record.values.get("text"))


def _missing(
    record: Record, number: str, asked: set[str], answers: dict[str, Answers]
) -> tuple[Problem, ...]:
    if not number:
        sentence = "question_id is missing."
        return (_problem(record.file, record.line, "a question's id", "nothing", sentence),)
    if number in asked:
        sentence = f"Question {number} stands in the file already."
        return (_problem(record.file, record.line, "a question once", number, sentence),)
    return tuple(
        _problem(
            record.file,
            record.line,
            "an answer by each model",
            "nothing",
            f"{model} has no answer to question {number}.",
        )
        for model, found in answers.items()
        if number not in found
    )


def _problem(file: str, line: int, expected: str, found: str, sentence: str) -> Problem:
    return Problem(file, line, "question_id", expected, quoted(found), sentence)


Records = Iterator[Record | Refused]

READERS: dict[str, Callable[[Path], Records]] = {
    "csv": delimited.records,
    "tsv": functools.partial(delimited.records, delimiter="\t"),
    "jsonl": jsonrecords.lines,
    "json": jsonrecords.array,
    "pandalm": jsonrecords.array,
    "llmbar": jsonrecords.array,
}
FORMATS = ("auto", *READERS, "faireval")
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
PACKED = {
    b"PK\x03\x04": "a spreadsheet or a ZIP archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"\x1f\x8b": "a compressed file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
}


def detect_format(paths: Sequence[Path]) -> str:
    """`faireval` for three files two of which are answers, else the format of the first file."""
    if len(paths) == 3 and sum(path.stem.startswith("answer") for path in paths) == 2:
        return "faireval"
    return format_of(paths[0])


def format_of(path: Path) -> str:
    """By its suffix, else by its first letter."""
    suffix = path.suffix.casefold()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    with open_text(path, newline="\n") as stream:
        start = stream.read(4096).lstrip()[:1]
    return {"[": "json", "{": "jsonl"}.get(start, "csv")


def refuse_unreadable(path: Path) -> None:
    """Raise UserError for what is no file, can't be read, or is of a kind that is no text."""
    try:
        if not path.is_file():
            raise UserError(f"There is no file {path}. Nothing was imported.")
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise UserError(f"{path} can't be read ({error.strerror}). Nothing was imported.") from None
    for magic, kind in PACKED.items():
        if head.startswith(magic):
            raise UserError(
                f"{path.name} is {kind}. Nothing was imported. Save it as CSV (UTF-8) or JSON."
            )


def records(paths: Sequence[Path], file_format: str = "auto") -> Records:
    """All records of the files, one file after the other. Nothing is written."""
    if not paths:
        raise UserError("No file was named.")
    if file_format not in FORMATS:
        raise UserError(f"There is no format {file_format!r}. Use one of {', '.join(FORMATS)}.")
    for path in paths:
        refuse_unreadable(path)
    if file_format == "auto" and detect_format(paths) == "faireval":
        file_format = "faireval"
    if file_format == "faireval":
        yield from faireval_records(paths)
        return
    for path in paths:
        yield from READERS[format_of(path) if file_format == "auto" else file_format](path)
