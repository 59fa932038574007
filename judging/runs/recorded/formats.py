"""The formats that recorded judgments come in, each as rows of samples with their lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging.errors import UserError
from judging.imports import layouts
from judging.imports.columns import recognise
from judging.imports.examples import to_example
from judging.imports.ids import Identities
from judging.imports.problems import Refused, listed
from judging.imports.records import Record
from judging.llm.storable import storable
from judging.runs.recorded.rows import BadRow, RecordedRow, sample_rows

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
    for record in layouts.records(paths, file_format):
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
