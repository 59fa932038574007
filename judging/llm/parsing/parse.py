"""Scores in lines of their own: "The score of Assistant 1: 8" (FairEval, Table 3)."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.answer import Answer, declines, read_answer
from judging.llm.parsing.choice import is_answered, parse_choice, parse_point
from judging.llm.parsing.parsed import (
    NOTHING,
    NUMBER,
    OVER,
    REVISION,
    Announced,
    Parsed,
    Preferred,
    Reading,
    Status,
    announced,
    may_go_on,
    names_one,
    names_second_first,
    number,
    number_at,
    sided_pair,
    turn_back,
    unwrapped,
)
from judging.llm.parsing.score_json import parse_score_json
from judging.llm.prompts.marks import (
    ASIDE,
    EVIDENCE_LABEL,
    STRONG_LABEL,
    VERDICT_MARK,
    WEAK_LABEL,
    fold,
)
from judging.llm.prompts.templates import JudgeForm, ReplyFormat, Scale, Template
from judging.llm.prompts.variants import PromptVariant

__all__ = [
    "PARSER_VERSION",
    "Parsed",
    "Preferred",
    "Reading",
    "Status",
    "parse",
    "turn_back",
]

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


_SENTENCE_END = re.compile(r"[.!?](?=[\s\"')*\]]|$)|[\u3002\uff01\uff1f\n]")
_BEGUN_MARK = re.compile(r"\[\[?[ \t*_`]*[abc]?[ \t*_`]*\]?$")
_NEGATED = re.compile(r"(?:\bnot|n['\u2019]t|\bneither|\bnor|\bnever)(?:[ \t*_`\"']|\bbe\b){0,10}$")
# x[[b]] is code.
_INDEXED = re.compile(r"[a-z0-9_]$")
_OF_LETTER = {"a": Preferred.FIRST, "b": Preferred.SECOND, "c": Preferred.TIE}

_OF = r"(?:answer|response)[ \t]+(?:of[ \t]+|from[ \t]+)?"
_OTHER = (
    rf"[ \t]+than[ \t]+(?:the[ \t]+{_OF}|that[ \t]+of[ \t]+)?assistant[ \t]*#?(?!(?P=side))[12]"
    r"(?:'s(?:[ \t]+(?:answer|response))?)?"
)
_LABELS = r"my|final|better|answer|verdict|judge?ment|decision|output|result|choice|winner"
_SIDE = re.compile(
    rf"(?P<label>(?:the[ \t]+)?(?:(?:{_LABELS})[ \t]*){{1,4}}(?:is[ \t]*)?[:=-]?[ \t*_`\"]*"
    rf"|{REVISION}[ \t]*[:,-]?[ \t*_`\"]*)?(?:the[ \t]+)?(?:{_OF})?"
    r"(?:(?:the[ \t]+)?assistant[ \t]*#?(?P<side>[12])(?:'s[ \t]+(?:answer|response))?"
    rf"(?:[ \t]+is[ \t]+better(?:{_OTHER})?)?|(?P<tie>same|tie))",
)
_RELATION_MARKUP = " \t*_`#\"'<>[](){}$."
_WRAPPED = re.compile(r"</?[a-z]{1,10}>|\\(?:boxed|text[a-z]{0,2}|math[a-z]{2})(?=\{)")
# A longer line holds more than a verdict.
LONGEST_VERDICT_LINE = 120


def parse_verdict_mark(answer: Answer, *, cut: bool = False) -> Parsed | None:
    """The last sentence that holds a mark binds; two different marks in it are no verdict.

    A reply that was cut off within another mark has not said its last.
    """
    text = answer.own
    marks = [
        mark
        for mark in VERDICT_MARK.finditer(text)
        if not _INDEXED.search(text, mark.start() - 1, mark.start())
    ]
    if not marks:
        return None
    last = marks[-1]
    if cut and _BEGUN_MARK.search(text, last.end()):
        return None
    start = 0
    for end in _SENTENCE_END.finditer(text, 0, last.start()):
        start = end.end()
    binding = [mark for mark in marks if mark.start() >= start]
    letters = {mark[1] for mark in binding}
    if len(letters) > 1 or any(_negated(text, mark.start()) for mark in binding):
        return Parsed(Status.UNPARSED)
    return _valid(_OF_LETTER[letters.pop()], answer.written[: last.start()])


def _negated(text: str, start: int) -> bool:
    return _NEGATED.search(text, max(0, start - 20), start) is not None


def parse_verdict_line(answer: Answer) -> Parsed | None:
    """The first line, as the template asks, unless a later line says that it is the verdict.

    Where the first line holds none, the lines that hold nothing but a verdict must agree: they
    may be headings.
    """
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    found = {index: side for index in filled if (side := _side(lines[index]))}
    labelled = [index for index in found if found[index]["label"]]
    labelled += [
        index
        for above, index in itertools.pairwise(filled)
        if index in found and announced(lines[above]).revision
    ]
    if labelled:
        chosen = max(labelled)
    elif filled and filled[0] in found:
        chosen = filled[0]
    elif len({_preferred(side) for side in found.values()}) == 1:
        chosen = max(found)
    else:
        return None
    written = answer.written.split("\n")
    evidence = "\n".join(written[:chosen] + written[chosen + 1 :])
    return _valid(_preferred(found[chosen]), evidence)


def _side(line: str) -> re.Match[str] | None:
    if len(line) > LONGEST_VERDICT_LINE:
        return None
    return _SIDE.fullmatch(_WRAPPED.sub("", line).strip(_RELATION_MARKUP))


def _preferred(side: re.Match[str]) -> Preferred:
    if side["tie"]:
        return Preferred.TIE
    return Preferred.FIRST if side["side"] == "1" else Preferred.SECOND


def _valid(verdict: Preferred, evidence: str) -> Parsed:
    return Parsed(Status.VALID, evidence.strip(" \t\r\n`"), verdict=verdict)


# Raised whenever any reply would be read differently: stored replies are then parsed again.
PARSER_VERSION = 4

CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
FILTERED = frozenset(
    {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"}
    | {"sensitive"}
)
# The model failed while it wrote, in the words of OpenRouter, Zhipu, DeepSeek and vLLM.
FAILED = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
REFUSED = frozenset({"refusal"})


def parse(
    template: Template,
    text: str | None,
    finish_reason: str | None,
    *,
    quoted: Sequence[str] = (),
    refusal: str = "",
    logprobs: Sequence[TokenLogprobs] | None = None,
    part: str = "original",
) -> Parsed:
    """One reply, by position. `quoted` are the texts that the judge was shown, as they were
    before they were disarmed; `refusal` is what an endpoint keeps apart."""
    reason = (finish_reason or "").lower()
    if reason in FILTERED:
        return Parsed(Status.FILTERED)
    if template.reply is ReplyFormat.CHOICE_TOKEN:
        ids = PromptVariant.parse(part).shown_ids(template.ids)
        found = parse_choice(logprobs, ids)
        if found is not None:
            return found
        # A choice is asked for in so few tokens that every answer is cut off.
        if reason in CUT and is_answered(logprobs, ids):
            reason = ""
    answer = read_answer(text or "", quoted)
    found = _read(template, answer, cut=reason in CUT)
    if template.form is JudgeForm.POINTWISE:
        found = parse_point(logprobs, template.scale, found)
    if found is not None:
        return found
    if reason in CUT:
        return Parsed(Status.TRUNCATED)
    if reason in FAILED:
        return Parsed(Status.ERROR)
    if reason in REFUSED or refusal or declines(answer.folded):
        return Parsed(Status.REFUSED)
    return Parsed(Status.UNPARSED)


def _read(template: Template, answer: Answer, *, cut: bool) -> Parsed | None:
    match template.reply:
        case ReplyFormat.SCORE_LINES:
            found = parse_score_lines(answer, template.scale, cut=cut)
            return found or parse_score_json(answer, template.scale)
        case ReplyFormat.SCORE_JSON:
            found = parse_score_json(answer, template.scale)
            if found is None and "{" not in answer.folded:
                found = parse_score_lines(answer, template.scale, cut=cut)
            return found
        case ReplyFormat.SCORE_PAIR:
            return parse_score_pair(answer, template.scale, cut=cut)
        case ReplyFormat.VERDICT_MARK:
            return parse_verdict_mark(answer, cut=cut)
        case ReplyFormat.VERDICT_LINE:
            return parse_verdict_line(answer)
        case ReplyFormat.RATING_LINE:
            return parse_rating_line(answer, template.scale, cut=cut)
        case ReplyFormat.CHOICE_TOKEN:
            return None
