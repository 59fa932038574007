"""Questions about a person of a panel, asked before their first pair, and who they screen out.

An owner writes one question a line: its kind, its text, and what may be answered.

    text: What do you work as?
    text?: Is there anything we should know?
    choice: Do you read English every day? | yes | sometimes | no!
    number: How old are you? | 18 | 99

A question mark after the kind makes the question optional. An answer with an exclamation mark, or a
number outside the two bounds, screens a person out, without telling them why.

In another language the same lines are written again with other words. Answers are stored as the
original has them, so nothing that is counted depends on a language.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from judging.core.errors import UserError

TEXT, CHOICE, NUMBER = KINDS = ("text", "choice", "number")
MOST, LONGEST = 20, 300
_LINE = re.compile(r"(\w+)(\??)\s*:\s*(.+)", re.DOTALL)
_FORM = "Write it like this: choice: Do you read English every day? | yes | no!"


@dataclass(frozen=True)
class Question:
    """One question. refused: the choices that screen out; low, high: the numbers that don't."""

    kind: str
    text: str
    optional: bool = False
    choices: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    low: str = ""
    high: str = ""

    def __str__(self) -> str:
        parts = [f"{self.kind}{'?' * self.optional}: {self.text}"]
        parts += [f"{choice}{'!' * (choice in self.refused)}" for choice in self.choices]
        parts += [self.low, self.high] if self.low or self.high else []
        return " | ".join(parts)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return what a translation keeps: all but the words."""
        # By place and not by words: the words are what a translation changes.
        refused = [choice in self.refused for choice in self.choices]
        return self.kind, self.optional, refused, self.low, self.high

    def screens_out(self, answer: str) -> bool:
        # Only an optional question may stay empty, and leaving it empty screens nobody out.
        if not answer:
            return False
        if self.kind == NUMBER:
            number = Decimal(answer)
            below = self.low != "" and number < Decimal(self.low)
            return below or (self.high != "" and number > Decimal(self.high))
        return answer in self.refused


def questions_of(stored: list[dict[str, Any]]) -> list[Question]:
    """Return the questions that a link stores."""
    sequences = ("choices", "refused")
    return [
        Question(
            **{
                key: tuple(value) if key in sequences else value
                for key, value in stored_question.items()
            }
        )
        for stored_question in stored
    ]


def written(questions: list[Question]) -> list[dict[str, Any]]:
    """Return the questions as a link stores them."""
    return [asdict(question) for question in questions]


def read_questions(text: str) -> list[Question]:
    """Read one question a line. Raises UserError that names the line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MOST:
        raise UserError(f"Ask at most {MOST} questions. These are {len(lines)}.")
    questions = [_read(line) for line in lines]
    texts = [question.text for question in questions]
    for asked in texts:
        # Answers are stored by the question's text, so two equal ones would share an answer.
        if texts.count(asked) > 1:
            raise UserError(f"“{asked}” is asked twice. Ask each question once.")
    return questions


def read_translation(text: str, questions: list[Question]) -> list[Question]:
    """Read the same questions in other words. Raises UserError that names what differs."""
    read = read_questions(text)
    if len(read) != len(questions):
        raise UserError(f"There are {len(questions)} questions above, and {len(read)} here.")
    # Questions are paired by their order, since their words differ.
    for shown, question in zip(read, questions, strict=True):
        if shown.shape != question.shape:
            raise UserError(
                f"“{shown.text[:60]}” differs from “{question.text[:60]}” in more than its words. "
                "Keep the kind, the number of answers, exclamation marks and bounds."
            )
    return read


def in_lines(stored: list[dict[str, Any]]) -> str:
    """Return stored questions as an owner writes them, one a line."""
    return "\n".join(map(str, questions_of(stored)))


def _read(line: str) -> Question:
    match = _LINE.fullmatch(line)
    if match is None or match[1] not in KINDS:
        raise UserError(f"“{line[:60]}” doesn't begin with a kind: text, choice or number. {_FORM}")
    kind, optional = match[1], bool(match[2])
    text, *rest = (part.strip() for part in match[3].split("|"))
    if not 0 < len(text) <= LONGEST or any(len(part) > LONGEST for part in rest):
        raise UserError(f"A question and its answers have 1 to {LONGEST} characters each. {_FORM}")
    if kind == TEXT:
        if rest:
            raise UserError(f"“{text}” is answered in words, so it takes no “|”. {_FORM}")
        return Question(TEXT, text, optional)
    if kind == CHOICE:
        choices = tuple(part.removesuffix("!").strip() for part in rest)
        if len(choices) < 2 or not all(choices) or len(set(choices)) < len(choices):
            raise UserError(f"“{text}” needs two different answers at least. {_FORM}")
        refused = tuple(part.removesuffix("!").strip() for part in rest if part.endswith("!"))
        if len(refused) == len(choices):
            raise UserError(f"“{text}” would screen everybody out. {_FORM}")
        return Question(CHOICE, text, optional, choices, refused)
    return Question(NUMBER, text, optional, **_bounds(text, rest))


def _bounds(text: str, parts: list[str]) -> dict[str, str]:
    low, high = [*parts, "", ""][:2]
    try:
        numbers = [Decimal(part) for part in (low, high) if part]
    except InvalidOperation:
        numbers = [Decimal("NaN")]
    # Decimal also reads “NaN” and “Infinity”, which are no bounds.
    in_order = all(number.is_finite() for number in numbers) and numbers == sorted(numbers)
    if len(parts) > 2 or not in_order:
        raise UserError(
            f"“{text}” takes a lowest and a highest number: number: How old are you? | 18 | 99"
        )
    return {"low": low, "high": high}


def are_screened_out(questions: list[Question], answers: Mapping[str, str]) -> bool:
    """Return True if one of the answers screens the person out."""
    return any(question.screens_out(answers.get(question.text, "")) for question in questions)
