"""Scores in lines of their own: "The score of Assistant 1: 8" (FairEval, Table 3)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.parsing.answer import Answer
from judging.llm.parsing.numbers import (
    NOTHING,
    NUMBER,
    OVER,
    REVISION,
    Announced,
    announced,
    may_go_on,
    names_one,
    names_second_first,
    number,
    number_at,
    sided_pair,
    unwrapped,
)
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.prompts.marks import ASIDE, EVIDENCE_LABEL, STRONG_LABEL, WEAK_LABEL, fold
from judging.llm.prompts.templates import Scale

_EMPHASIS = r"[ \t*_`\u200b-\u200f\u2060\ufeff]*"
_STATEMENT = re.compile(
    rf"(?:(?P<strong>{STRONG_LABEL})|(?P<weak>{WEAK_LABEL})){ASIDE}"
    rf"{_EMPHASIS}(?:[:=|\u2013\u2014]|-(?=[ \t])|(?P<is>\bis\b)){_EMPHASIS}"
    rf"(?P<below>[ \t]*\n\s*(?=[*_<(\[`]*[0-9]))?"
    rf"""(?P<open>(?:\\boxed\{{|[<(\[{{*_`"'$])*)(?:(?P<number>{NUMBER})|(?P<other>[^\s,;|]{{1,40}}))""",
)
_PLACEHOLDER = re.compile(r"[a-z _]*[>)\]}]|_+$|[x?\u2026]$|\.\.\.|your[ _]score")
# After a score without "the score of" the statement must be over: it may be a list of points.
_END_OF_STATEMENT = re.compile(
    r"""[ \t*_`>)\]}."'$]*(?:$|\n|[(|\u2013\u2014-]|[,;]?[ \t]*(?:and[ \t]+)?"""
    r"(?:the[ \t]+)?(?:score|assistant))",
)
# "1 0" is a broken 10, or two numbers, as in a table with a column for each criterion: which of
# them is the score can't be told.
_ANOTHER_NUMBER = re.compile(
    rf"[ \t]+[0-9]|{_EMPHASIS}(?:[|,;&+]|\band\b){_EMPHASIS}{NUMBER}(?:/[0-9]+)?"
    rf"{_EMPHASIS}\.?(?:$|[\n|,;&])"
)

# Another number that ends the statement, a few words on: "4 sur 5", "8 in 10", "8. 5".
_JOINT = r"""[ \t*_`"'$}\])>\\,./|-]"""
_RELATED = re.compile(
    rf"(?P<words>{_JOINT}{{1,20}}(?:[^\W\d_]{{1,12}}{_JOINT}{{1,20}}){{0,2}})(?P<number>[0-9]+(?:\.0)?)"
    rf"(?![0-9]){OVER}"
)
_OF_A_SCORE = re.compile(r"assistant|response|answer|score")
_LISTED = re.compile(r"[.)][ \t]+[^\W\d_]")

Statements = Sequence[tuple[re.Match[str], Announced]]

# What a line of scores leaves of its beginning.
_THE = re.compile(r"(?:^|[\s*_`])the", re.IGNORECASE)
_MARKUP = " \t\r\n*_`#|>-"


@dataclass(frozen=True, slots=True)
class _Score:
    """One assistant's score as stated; `value` is None where it is no score on the scale.

    `revises` is true where it calls itself a correction.
    """

    position: int
    value: Decimal | None
    start: int
    end: int
    revises: bool = False


def parse_score_lines(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """The last two scores that belong together; None where there are no two.

    A score for a single criterion counts for none, and one that calls itself final or overall like
    one that is named in full.
    """
    text = unwrapped(answer.own)
    statements = [
        (match, said)
        for match, said in _announced(text, [*_STATEMENT.finditer(text)])
        if not said.criterion
    ]
    for strong in (True, False):
        kind = [
            (match, said)
            for match, said in statements
            if (match["strong"] is not None or said.final) or not strong
        ]
        scores = [*_scores(text, kind, scale, cut)]
        pair = _last_pair(scores, text)
        if pair is None:
            continue
        # A correction that was cut off may not be all: the last complete verdict binds.
        corrected = pair if cut else _corrected(pair, scores)
        first, second = sorted(corrected, key=lambda score: score.position)
        if first.value is None or second.value is None:
            return Parsed(Status.UNPARSED)
        evidence = _evidence(answer, min(s.start for s in pair), max(s.end for s in pair))
        return Parsed(Status.VALID, evidence, first=first.value, second=second.value)
    return None


def _announced(
    text: str, statements: Iterable[re.Match[str]]
) -> Iterator[tuple[re.Match[str], Announced]]:
    """Each statement with what its line says of it before it, or else the line above.

    What is said of one holds for those that follow on the same line and on the next ones.
    """
    said, last = NOTHING, 0
    for match in statements:
        above, newline, lead = text[last : match.start()].rpartition("\n")
        own = announced(lead)
        if own != NOTHING:
            said = own
        elif newline and (not last or above.partition("\n")[2].strip()):
            said = announced(above.rstrip().rpartition("\n")[2])
        last = match.end()
        yield match, said


def _scores(text: str, statements: Statements, scale: Scale, cut: bool) -> Iterator[_Score]:
    last_line = text.rfind("\n")
    for match, said in statements:
        bare = match["strong"] is None or match["is"] is not None
        value: Decimal | None = None
        end = match.end()
        if match["number"] is not None:
            value, end = number_at(text, match.start("number"), match.end("number"), scale.high)
            if bare and not _END_OF_STATEMENT.match(text, end):
                continue
            if match["below"] is not None and _LISTED.match(text, end):
                continue
            if cut and end > last_line and (value is None or may_go_on(text, scale)):
                continue
        elif bare or (cut and end > last_line) or _PLACEHOLDER.match(text, match.start("other")):
            continue
        if value is not None and not _stands_alone(text, end, value, scale):
            value = None
        assistant = match[2] or match[4]
        yield _Score(1 if assistant in "1a" else 2, value, match.start(), end, said.revision)


def _stands_alone(text: str, end: int, value: Decimal, scale: Scale) -> bool:
    if value not in scale or _ANOTHER_NUMBER.match(text, end):
        return False
    related = _RELATED.match(text, end)
    if related is None or _OF_A_SCORE.search(related["words"]):
        return True
    return Decimal(related["number"]) == scale.high


def _last_pair(scores: list[_Score], text: str) -> tuple[_Score, _Score] | None:
    """The last two neighbours on different assistants.

    Where three overlap (1 2 1), the two that stand together are a pair before two that don't,
    and 1 2 before 2 1: the third is a remark about one of them.
    """
    for i in range(len(scores) - 1, 0, -1):
        pair = scores[i - 1], scores[i]
        if pair[0].position == pair[1].position:
            continue
        earlier = (scores[i - 2], scores[i - 1]) if i > 1 else None
        if earlier and earlier[0].position != earlier[1].position:
            return max(earlier, pair, key=lambda two: (_closeness(two, text), two is pair))
        return pair
    return None


def _corrected(pair: tuple[_Score, _Score], scores: Iterable[_Score]) -> list[_Score]:
    """The pair, each score replaced by the last correction of it that follows."""
    latest = {score.position: score for score in pair}
    for score in scores:
        if score.revises and score.start > max(one.end for one in pair):
            latest[score.position] = score
    return [latest[1], latest[2]]


def _closeness(pair: tuple[_Score, _Score], text: str) -> tuple[bool, bool]:
    """Whether nothing but the end of a line stands between the two, and whether 1 precedes 2."""
    one, other = pair
    _, *lines = text[one.end : other.start].split("\n")
    words = "".join(filter(str.isalpha, "".join(lines)))
    return words in ("", "the"), one.position < other.position


def _evidence(answer: Answer, start: int, end: int) -> str:
    """The explanation: what precedes the scores or, where nothing does, what follows them."""
    before, after = answer.written[:start].rstrip(_MARKUP), answer.written[end:]
    if _THE.fullmatch(before[-4:]):
        before = before[:-3].rstrip(_MARKUP)
    evidence = before or after
    labels = [*EVIDENCE_LABEL.finditer(fold(evidence))]
    if labels:
        evidence = evidence[labels[-1].end() :]
    return evidence.rstrip(_MARKUP).lstrip(" \t\r\n*`")


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
_LINES_MARKUP = " \t*_`#\"'<>[](){}|\\$\u200b\u200e\u200f\u2060\ufe0f\ufeff"
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
        text = _BULLET.sub("", text, count=1).strip(_LINES_MARKUP)
        label = _LABEL.match(text)
        if label is not None:
            if _of_one(label["name"]) or _ABOUT_ITSELF.search(label["name"]):
                continue
            text = text[label.end() :].strip(_LINES_MARKUP)
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
    first = lines[filled[0]].rstrip(_LINES_MARKUP)
    announces = first.endswith((":", "!")) and not _about_one_side(first)
    return filled[:2] if announces or _NUMBER.match(first.lstrip(_LINES_MARKUP)) else filled[:1]


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
    return [] if text[at:].strip(_LINES_MARKUP + ".") else numbers


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
