"""Scores in a JSON object: {"evidence": "...", "score_1": 8, "score_2": 7}."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal

from judging.llm.folding import fold
from judging.llm.marks import JSON_SCORE_KEY, SCORE_KEY
from judging.llm.parsing.answer import Answer
from judging.llm.parsing.numbers import NUMBER, number_at
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.templating import Scale

_KEY = re.compile(SCORE_KEY)
_EVIDENCE_KEYS = ("evidence", "evaluation_evidence", "evaluation evidence", "explanation", "reason")
_OBJECT = re.compile(r'\{\s*"')
# A string that is never closed reaches to the end.
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}]', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*\})', re.DOTALL)
_NUMBER = re.compile(rf"\s*({NUMBER})")

# Objects are tried from the last; so many are enough, and keep the time linear.
MOST_OBJECTS = 64

Pairs = list[tuple[str, object]]


class _Object(list[tuple[str, object]]):
    """A JSON object as its pairs, so that a repeated key shows."""


def parse_score_json(answer: Answer, scale: Scale) -> Parsed | None:
    """The last complete object that has both scores; None where there is none."""
    starts = [match.start() for match in _OBJECT.finditer(answer.folded)]
    for start in reversed(starts[-MOST_OBJECTS:]):
        end = _end_of_object(answer.folded, start)
        if end is None or not _names_both(answer.folded[start:end]):
            continue
        pairs = _decode(answer.written[start:end])
        if pairs is not None and (values := _score_values(pairs)) is not None:
            return _judged(values, _evidence(pairs), scale)
    return None


def _end_of_object(text: str, start: int) -> int | None:
    depth = 0
    for match in _STRING_OR_BRACE.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


def _names_both(text: str) -> bool:
    """Written out: a key in escapes could come from a response, whose keys are disarmed."""
    return len({match[1] or match[2] for match in JSON_SCORE_KEY.finditer(text)}) == 2


def _decode(text: str) -> Pairs | None:
    """Numbers as written; line breaks in strings and a comma before the end are forgiven."""
    text = _TRAILING_COMMA.sub(lambda match: match[1] or "", text)
    try:
        found = json.loads(
            text,
            strict=False,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
            object_pairs_hook=_Object,
        )
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, _Object) else None


def _score_values(pairs: Pairs) -> tuple[set[str], set[str]] | None:
    """What stands under each score's keys; a value that is no number or text is "not a score"."""
    values: dict[str, set[str]] = {"1": set(), "2": set()}
    for key, value in pairs:
        if match := _KEY.fullmatch(key.strip().lower()):
            values[match[1] or match[2]].add(value if isinstance(value, str) else "not a score")
    return (values["1"], values["2"]) if all(values.values()) else None


def _judged(values: tuple[set[str], set[str]], evidence: str, scale: Scale) -> Parsed:
    scores = [_score(found, scale) for found in values]
    if scores[0] is None or scores[1] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, evidence, first=scores[0], second=scores[1])


def _score(found: set[str], scale: Scale) -> Decimal | None:
    """Two values that differ are none."""
    if len(found) != 1:
        return None
    text = fold(found.pop()).strip()
    match = _NUMBER.match(text)
    if match is None:
        return None
    value, end = number_at(text, match.start(1), match.end(1), scale.high)
    return value if value is not None and value in scale and not text[end:].strip() else None


def _evidence(pairs: Pairs) -> str:
    by_key: Iterator[str] = (
        value for key, value in pairs if key.lower() in _EVIDENCE_KEYS and isinstance(value, str)
    )
    return next(by_key, "").strip()
