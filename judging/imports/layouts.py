"""The layouts that files of pairs come in, and which of them a set of files has.

PandaLM and LLMBar are JSON whose columns are recognised by name; FairEval is three files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from judging.errors import UserError
from judging.imports import delimited, faireval, jsonrecords
from judging.imports.encodings import open_text
from judging.imports.problems import Refused
from judging.imports.records import Record

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
        yield from faireval.records(paths)
        return
    for path in paths:
        yield from READERS[format_of(path) if file_format == "auto" else file_format](path)
