"""The layout of FairEval and FastChat: a question file and two files of answers, joined by id.

The texts of the two answer files are held in memory while the questions are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from judging.errors import UserError
from judging.imports import jsonrecords
from judging.imports.problems import Problem, Refused, quoted
from judging.imports.records import Record

Answers = dict[str, tuple[int, Any]]


def records(paths: Sequence[Path]) -> Iterator[Record | Refused]:
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
