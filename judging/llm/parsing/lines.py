"""Numbers in a line of their own, usually the first: two scores (FairEval, Table 1) or one rating
(PORTIA, Table 15; Ohi et al.)."""

import re
from collections.abc import Sequence
from decimal import Decimal

from judging.llm.parsing.answer import Answer
from judging.llm.parsing.numbers import NUMBER, number, number_at
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.parsing.score_lines import may_go_on, parse_score_lines
from judging.llm.templating import Scale

_NUMBER = re.compile(NUMBER)
_LABEL = re.compile(
    r"(?P<final>(?:my[ \t]+)?(?:final|revised|corrected)\b)?"
    r"(?P<name>[a-z \t]{0,60}(?:[1A][ \t]+and[ \t]+[2B][ \t]*)?)[*_]{0,2}[:=]",
    re.IGNORECASE,
)
_ONE_SIDE = re.compile(r"assistant|response|answer", re.IGNORECASE)
_BOTH_SIDES = re.compile(r"\band\b|\bbetween\b", re.IGNORECASE)
_BULLET = re.compile(r"[ \t]*[-\u2022*][ \t]+")
_BETWEEN = re.compile(r"[ \t*_`,;/|&]*(?:and\b|vs\b\.?)?[ \t*_`,;|&-]*", re.IGNORECASE)
_COMMA_PAIR = re.compile(r"([0-9]{1,2}),([0-9]{1,2})")
_MARKUP = " \t*_`#\"'<>[](){}|\\$"
_REASON = re.compile(r"[ \t*_`]*(?:[:;(|\u2013\u2014]|-[ \t])[ \t]*[^\s0-9]")


def parse_score_pair(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """The first line that holds anything, else the last line of numbers alone; a line that calls
    itself final comes before both. Scores in sentences ("Assistant 1: 8") are read too."""
    lines = answer.own.split("\n")
    found = _lines_of_numbers(lines, scale, wanted=2)
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if len(filled) > 1 and all(len(found.get(index, ([], False))[0]) == 1 for index in filled[:2]):
        first, second = (found[index][0][0] for index in filled[:2])
        if not (cut and len(filled) == 2 and may_go_on(answer.own, lines[filled[1]].strip())):
            return _scored([first, second], answer, filled[:2])
    chosen = _chosen(found, filled)
    if chosen is None:
        return parse_score_lines(answer, scale, cut=cut)
    numbers = found[chosen][0]
    if cut and chosen == filled[-1] and (len(numbers) < 2 or _ends_in_1(lines[chosen])):
        return None
    return _scored(numbers, answer, [chosen])


def parse_rating_line(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """One number, in the first line or else in the last line that holds nothing else."""
    lines = answer.own.split("\n")
    found = _lines_of_numbers(lines, scale, wanted=1)
    filled = [index for index, line in enumerate(lines) if line.strip()]
    chosen = _chosen(found, filled)
    if chosen is None:
        return None
    numbers = found[chosen][0]
    if cut and chosen == filled[-1] and scale.high >= 10 and _ends_in_1(lines[chosen]):
        return None
    if len(numbers) != 1 or numbers[0] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, _without(answer, [chosen]), rating=numbers[0])


Found = dict[int, tuple[list[Decimal | None], bool]]


def _chosen(found: Found, filled: Sequence[int]) -> int | None:
    final = [index for index, (_, says_final) in found.items() if says_final]
    if final:
        return final[-1]
    if filled and filled[0] in found:
        return filled[0]
    return max(found, default=None)


def _lines_of_numbers(lines: Sequence[str], scale: Scale, wanted: int) -> Found:
    """By line: its numbers, None for each that is not on the scale, and whether it says final.

    A reason may follow the numbers of the first line, and of one that says final.
    """
    found: Found = {}
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    for index, line in enumerate(lines):
        text = _BULLET.sub("", line, count=1).strip(_MARKUP)
        label = _LABEL.match(text)
        if label is not None:
            if _ONE_SIDE.search(label["name"]) and not _BOTH_SIDES.search(label["name"]):
                continue
            text = text[label.end() :].strip(_MARKUP)
        says_final = label is not None and label["final"] is not None
        numbers = _numbers(text, scale, wanted, reason=says_final or index == first)
        if numbers:
            found[index] = numbers, says_final
    return found


def _numbers(text: str, scale: Scale, wanted: int, *, reason: bool) -> list[Decimal | None]:
    """The numbers of a line that holds nothing else; none where it holds anything else."""
    if wanted == 2 and (pair := _COMMA_PAIR.fullmatch(text)):
        return [_on_scale(number(pair[1]), scale), _on_scale(number(pair[2]), scale)]
    numbers: list[Decimal | None] = []
    at = 0
    while match := _NUMBER.match(text, at):
        value, end = number_at(text, match.start(), match.end(), scale.high)
        numbers.append(_on_scale(value, scale))
        if reason and len(numbers) == wanted and _REASON.match(text, end):
            return numbers
        between = _BETWEEN.match(text, end)
        at = between.end() if between else end
    return [] if text[at:].strip(_MARKUP + ".") else numbers


def _on_scale(value: Decimal | None, scale: Scale) -> Decimal | None:
    return value if value is not None and value in scale else None


def _ends_in_1(line: str) -> bool:
    return bool(re.search(r"(?<![0-9.,])1$", line))


def _scored(numbers: list[Decimal | None], answer: Answer, lines: Sequence[int]) -> Parsed:
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, _without(answer, lines), first=numbers[0], second=numbers[1])


def _without(answer: Answer, lines: Sequence[int]) -> str:
    written = answer.written.split("\n")
    return "\n".join(line for index, line in enumerate(written) if index not in lines).strip()
