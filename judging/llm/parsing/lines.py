"""Numbers in a line of their own, usually the first: two scores (FairEval, Table 1) or one rating
(PORTIA, Table 15; Ohi et al.)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.parsing.announced import REVISION, announced
from judging.llm.parsing.answer import Answer
from judging.llm.parsing.markup import unwrapped
from judging.llm.parsing.numbers import NUMBER, may_go_on, number, number_at
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.parsing.score_lines import parse_score_lines
from judging.llm.parsing.sides import names_one, names_second_first, sided_pair
from judging.llm.templating import Scale

_NUMBER = re.compile(NUMBER)
# "Actually, 6" is one too, but a comma ends no other label.
_LABEL = re.compile(
    rf"(?P<final>(?:my[ \t]+)?(?:final\b|{REVISION}))?"
    r"(?P<name>[^\W\d_]?(?:[^\W\d_]|[ \t]){0,60}(?:[1a][ \t]+and[ \t]+[2b][ \t]*)?)"
    r"(?:[*_]{0,2}[:=]|(?<=actually),|(?<=wait),)",
)
_SCORE_NAME = re.compile(r"scores?\b|ratings?\b|preference\b")
_ONE_SIDE = re.compile(r"assistant|response|answer")
_ABOUT_ITSELF = re.compile(r"confiden|certain")
_BOTH_SIDES = re.compile(r"\band\b|\bbetween\b")
# One grade of a rubric, or one item of a list; two of them are no rating: "4: Good, 3: Fair".
_ITEM = re.compile(r"(?:^|[,;.])[ \t*_`#(]*[0-9]{1,2}[ \t*_`]*[:=)]", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*[-\u2022*][ \t]+")
_BETWEEN = re.compile(r"[ \t*_`,;/|&]*(?:and\b|vs\b\.?)?[ \t*_`,;|&-]*")
_COMMA_PAIR = re.compile(r"([0-9]{1,2}),([0-9]{1,2})")
_MARKUP = " \t*_`#\"'<>[](){}|\\$\u200b\u200e\u200f\u2060\ufe0f\ufeff"
_REASON = re.compile(r"[ \t*_`]*(?:[:;(|\u2013\u2014]|-[ \t])[ \t]*[^\s0-9]")

# Fences and rules are no lines of the reply.
_NO_WORDS = re.compile(r"[\s`]*`{3}\w*\s*|[^\w]*")

# A longer line holds more than numbers.
LONGEST_LINE = 160


def parse_score_pair(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """The line that opens the reply, else the last one that counts; one that calls itself final
    comes before both. Scores in sentences ("Assistant 1: 8") are read too."""
    found = _lines_of_numbers(answer, scale, wanted=2, cut=cut)
    chosen = _chosen(found)
    if chosen is None and (sided := _sided(answer, scale, cut=cut)) is not None:
        return sided
    if chosen is None:
        return parse_score_lines(answer, scale, cut=cut)
    numbers = found[chosen].numbers
    following = found.get(chosen + 1)
    if len(numbers) == 1 and following is not None and len(following.numbers) == 1:
        return _scored([*numbers, *following.numbers], answer, (chosen, chosen + 1))
    if len(numbers) == 1 and cut and chosen + 1 >= _last_line(answer):
        return None
    return _scored(numbers, answer, (chosen,))


def parse_rating_line(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """One number, in the line that opens the reply, or else in the last one that counts."""
    found = _lines_of_numbers(answer, scale, wanted=1, cut=cut)
    chosen = _chosen(found)
    if chosen is None:
        return None
    numbers = found[chosen].numbers
    if len(numbers) != 1 or numbers[0] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, _without(answer, (chosen,)), rating=numbers[0])


@dataclass(frozen=True, slots=True)
class _Line:
    """The numbers of a line, None for each that is not on the scale, and why they may count."""

    numbers: list[Decimal | None]
    opens: bool
    says_final: bool


def _chosen(found: Mapping[int, _Line]) -> int | None:
    final = [index for index, line in found.items() if line.says_final]
    opening = [index for index, line in found.items() if line.opens]
    return final[-1] if final else opening[0] if opening else max(found, default=None)


def _lines_of_numbers(answer: Answer, scale: Scale, *, wanted: int, cut: bool) -> dict[int, _Line]:
    """By line: those that open or end the reply, and those that call their numbers a score.

    A reason may follow the numbers of a line that opens, and of one that says final. The last line
    of a reply that was cut off is left out where its number may not be whole.
    """
    found: dict[int, _Line] = {}
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if not _NO_WORDS.fullmatch(line)]
    opening = _opening(lines, filled)
    for at, index in enumerate(filled):
        opens = index in opening
        if len(lines[index]) > LONGEST_LINE and not opens:
            continue
        above = lines[filled[at - 1]] if at else ""
        text = unwrapped(_shortened(lines[index]))
        text = _BULLET.sub("", text, count=1).strip(_MARKUP)
        label = _LABEL.match(text)
        if label is not None:
            if _of_one(label["name"]) or _ABOUT_ITSELF.search(label["name"]):
                continue
            text = text[label.end() :].strip(_MARKUP)
        if wanted == 2 and names_second_first(above + "\n" + lines[index]):
            continue
        around = [lines[filled[near]] for near in (at - 1, at + 1) if 0 <= near < len(filled)]
        if wanted == 1 and _is_item(text, around):
            continue
        says_final = announced(above).revision or (label is not None and bool(label["final"]))
        says_score = label is not None and _SCORE_NAME.search(label["name"]) is not None
        if not (opens or says_final or says_score or index == filled[-1]):
            continue
        numbers = _numbers(text, scale, wanted, reason=says_final or opens)
        last = cut and index == len(lines) - 1
        if numbers and not (last and (None in numbers or may_go_on(answer.own, scale))):
            found[index] = _Line(numbers, opens, says_final)
    return found


def _sided(answer: Answer, scale: Scale, *, cut: bool) -> Parsed | None:
    """Scores that each name their side, in the line that opens the reply or in two."""
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if not _NO_WORDS.fullmatch(line)]
    for opening in (filled[:1], filled[:2]):
        text = "\n".join(unwrapped(_shortened(lines[index])) for index in opening)
        numbers = sided_pair(text, scale)
        if numbers is not None and not (cut and len(filled) == len(opening)):
            return _scored([*numbers], answer, opening)
    return None


def _is_item(text: str, around: Sequence[str]) -> bool:
    """Whether a line is one of a list: another item is in it, above or below."""
    if not _ITEM.match(text):
        return False
    return _ITEM.search(text, 2) is not None or any(_ITEM.match(line) for line in around)


def _of_one(label: str) -> bool:
    return _about_one_side(label) or names_one(label)


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}\u2026"


def _opening(lines: Sequence[str], filled: Sequence[int]) -> Sequence[int]:
    """The first line; the next one too, after words such as "Sure! Here are the scores:", or as
    the second of two scores, each in a line of its own."""
    if len(filled) < 2:
        return filled
    first = lines[filled[0]].rstrip(_MARKUP)
    announces = first.endswith((":", "!")) and not _about_one_side(first)
    return filled[:2] if announces or _NUMBER.match(first.lstrip(_MARKUP)) else filled[:1]


def _about_one_side(words: str) -> bool:
    return bool(_ONE_SIDE.search(words) and not _BOTH_SIDES.search(words))


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


def _last_line(answer: Answer) -> int:
    return answer.own.rstrip().count("\n")


def _scored(numbers: list[Decimal | None], answer: Answer, lines: Sequence[int]) -> Parsed:
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, _without(answer, lines), first=numbers[0], second=numbers[1])


def _without(answer: Answer, lines: Sequence[int]) -> str:
    written = answer.written.split("\n")
    return "\n".join(line for index, line in enumerate(written) if index not in lines).strip()
