"""How a judge's reply is read: one parser for each reply format, and one rule for what binds.

The last complete verdict outside thinking and outside quotations binds. It is validated after it
has been matched: if it is invalid, the reply is `unparsed`, whatever came before it.

`parse` chooses the parser. Below it are the formats in lines: scores with their names (FairEval,
Table 3) and numbers alone (FairEval, Table 1; PORTIA, Table 15; Ohi et al.). The better response
by a mark or in words, scores in JSON and probabilities of tokens have modules of their own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.answer import (
    Answer,
    JudgeReading,
    Parsed,
    Preferred,
    Status,
    declines,
    read_answer,
    turn_back,
)
from judging.llm.parsing.choice import (
    is_answered,
    is_left_over,
    is_spelled,
    parse_choice,
    parse_point,
    score_probabilities,
    spelled_from,
)
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
from judging.llm.parsing.relation import parse_verdict_line, parse_verdict_mark
from judging.llm.parsing.score_json import parse_criteria_json, parse_document, parse_score_json
from judging.llm.prompts.marks import ASIDE, EVIDENCE_LABEL, STRONG_LABEL, WEAK_LABEL, fold
from judging.llm.prompts.templates import (
    IN_JSON,
    LEAST_MASS,
    JudgeForm,
    PromptVariant,
    ReplyFormat,
    Scale,
    Template,
)

__all__ = ["PARSER_VERSION", "JudgeReading", "Parsed", "Preferred", "Status", "parse", "turn_back"]

# The sum of probabilities such as .35 and .15 may be a little less than ½.
ROUNDING = 1e-9

# Raise it whenever any reply would be read differently: stored replies are then parsed again.
PARSER_VERSION = 9

CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
FILTERED = frozenset(
    "content_filter safety recitation blocklist prohibited_content spii sensitive".split()
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
    """Read one reply, by position.

    Args:
        quoted: The texts that the judge was shown, before they were disarmed. A verdict in one of
            them is not the judge's.
        refusal: The refusal that an endpoint returns apart from the text.
    """
    reason = (finish_reason or "").lower()
    if reason in FILTERED:
        return Parsed(Status.FILTERED)
    answer = read_answer(text or "", quoted, template.text)
    declined = reason in REFUSED or bool(refusal) or declines(answer.folded)
    cut = reason in CUT and not answer.ended
    mass: float | None = None
    if template.reply is ReplyFormat.CHOICE_TOKEN:
        ids = PromptVariant.parse(part).shown_ids(template.ids)
        parsed = _choice(template, logprobs, ids, text or "", declined=declined)
        # A choice is asked for in so few tokens that every answer is cut off.
        cut = cut and not is_answered(logprobs, ids)
    else:
        views = (_read(template, view, cut=cut and not view.ended) for view in answer.views())
        parsed = next((parsed for parsed in views if parsed is not None), None)
    if template.form is JudgeForm.POINTWISE:
        parsed = _point(template, logprobs, parsed, answer, text or "", cut=cut)
    if parsed is not None:
        mass = parsed.mass
        if parsed.why and (cut or declined):
            return Parsed(_failure(reason, cut=cut, declined=declined))
        if mass is None or (
            parsed.status is Status.VALID and mass > template.least_mass - ROUNDING
        ):
            return parsed
    return Parsed(_failure(reason, cut=cut, declined=declined), mass=mass)


def _failure(reason: str, *, cut: bool, declined: bool) -> Status:
    if cut:
        return Status.TRUNCATED
    if reason in FAILED:
        return Status.ERROR
    return Status.REFUSED if declined else Status.UNPARSED


def _choice(
    template: Template,
    logprobs: Sequence[TokenLogprobs] | None,
    ids: tuple[str, str],
    text: str,
    *,
    declined: bool,
) -> Parsed | None:
    # Without a text, the tokens are those of the thinking that the server keeps apart.
    if not logprobs or not text.strip() or not is_spelled(logprobs, text):
        return None
    parsed = parse_choice(logprobs, ids)
    mass = None if parsed is None else parsed.mass
    if mass is not None and is_left_over(
        logprobs, ids, mass, template.least_mass or LEAST_MASS, declined=declined
    ):
        return Parsed(Status.UNPARSED, mass=mass)
    return parsed


def _point(
    template: Template,
    logprobs: Sequence[TokenLogprobs] | None,
    sampled: Parsed | None,
    answer: Answer,
    text: str,
    *,
    cut: bool,
) -> Parsed | None:
    if sampled is None or sampled.status is not Status.VALID:
        told = score_probabilities(logprobs, template.scale)
        return sampled if told is None else Parsed(Status.UNPARSED, mass=min(told.mass, 1.0))
    start = spelled_from(logprobs or (), text)
    places = (
        rating_place(view, template.scale, cut=cut and not view.ended) for view in answer.views()
    )
    place = next((place for place in places if place is not None), None)
    if start is None or place is None or answer.offset is None:
        return parse_point(logprobs, template.scale, sampled, None)
    return parse_point(logprobs, template.scale, sampled, start + answer.offset + place)


def _read(template: Template, answer: Answer, *, cut: bool) -> Parsed | None:
    # A schema held the reply to JSON, unless the endpoint takes none: then it is in the text's
    # form.
    held = template.enforced and template.reply not in IN_JSON
    if held and (document := parse_document(answer, template)) is not None:
        return document
    match template.reply:
        case ReplyFormat.SCORE_LINES:
            parsed = parse_score_lines(answer, template.scale, cut=cut)
            return parsed or parse_score_json(answer, template.scale, cut=cut)
        case ReplyFormat.SCORE_JSON:
            parsed = parse_score_json(answer, template.scale, cut=cut)
            if parsed is None and "{" not in answer.folded:
                parsed = parse_score_lines(answer, template.scale, cut=cut)
            return parsed
        case ReplyFormat.CRITERIA_JSON:
            return parse_criteria_json(answer, template.scale, template.criteria, template.rule)
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


_EMPHASIS = r"[ \t*_`\u200b-\u200f\u2060\ufeff]*"
_STATEMENT = re.compile(
    rf"(?:(?P<strong>{STRONG_LABEL})|(?P<weak>{WEAK_LABEL})){ASIDE}"
    rf"{_EMPHASIS}(?:[:=|\u2013\u2014]|-(?=[ \t])|(?P<is>\bis\b)){_EMPHASIS}"
    rf"(?P<below>\n\s*(?=[*_<(\[`]*[0-9]))?"
    rf"""(?P<open>(?:\\boxed\{{|[<(\[{{*_`"'$])*)(?:(?P<number>{NUMBER})|(?P<other>[^\s,;|]{{1,40}}))"""
)
_PLACEHOLDER = re.compile(r"[a-z _]*[>)\]}]|_+$|[x?\u2026]$|\.\.\.|your[ _]score")
# A score without "the score of" must end its statement: it could be an item in a list of points.
_END_OF_STATEMENT = re.compile(
    r"""[ \t*_`>)\]}."'$]*(?:$|\n|[(|\u2013\u2014-]|(?:[,;][ \t]*)?(?:and[ \t]+)?"""
    r"(?:the[ \t]+)?(?:score|assistant))"
)
# "1 0" is a broken 10, or two numbers as in a table with a column for each criterion. Nothing tells
# which of them is the score.
_ANOTHER_NUMBER = re.compile(
    rf"[ \t]+[0-9]|{_EMPHASIS}(?:[|,;&+]|\band\b){_EMPHASIS}{NUMBER}(?:/[0-9]+)?"
    rf"{_EMPHASIS}\.?(?:$|[\n|,;&])"
)

# Another number a few words later that ends the statement: "4 sur 5", "8 in 10", "8. 5".
_JOINT = r"""[ \t*_`"'$}\])>\\,./|-]"""
_RELATED = re.compile(
    rf"(?P<words>{_JOINT}{{1,20}}(?:[^\W\d_]{{1,12}}{_JOINT}{{1,20}}){{0,2}})(?P<number>[0-9]+(?:\.0)?)"
    rf"(?![0-9]){OVER}"
)
_OF_A_SCORE = re.compile(r"assistant|response|answer|score")
_LISTED = re.compile(r"[.)][ \t]+[^\W\d_]")

Statements = Sequence[tuple[re.Match[str], Announced]]

# A line of scores leaves this word and these signs at the end of what precedes it.
_THE = re.compile(r"(?:^|[\s*_`])the", re.IGNORECASE)
_AROUND_EVIDENCE = " \t\r\n*_`#|>-"


@dataclass(frozen=True, slots=True)
class _Score:
    """One response's score as stated. `value` is None if it is not on the scale.

    `revises` is true if the statement calls itself a correction.
    """

    position: int
    value: Decimal | None
    start: int
    end: int
    revises: bool = False
    final: bool = False


def parse_score_lines(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """Return the last two scores that belong together, or None if there are no two.

    A score for a single criterion doesn't count. A score that calls itself final or overall counts
    like one that is named in full ("the score of Assistant 1").
    """
    text = unwrapped(answer.own)
    statements = [
        (match, lead)
        for match, lead in _announced(text, [*_STATEMENT.finditer(text)])
        if not lead.criterion
    ]
    for strong in (True, False):
        kind = [
            (match, lead)
            for match, lead in statements
            if (match["strong"] is not None or lead.final) or not strong
        ]
        scores = [*_scores(text, kind, scale, cut)]
        pair = _last_pair(scores, text)
        if pair is None:
            continue
        # A correction that was cut off may be incomplete, so the last complete verdict binds.
        corrected = pair if cut else _corrected(pair, scores)
        first, second = sorted(corrected, key=lambda score: score.position)
        later = [score for score in scores if score.final and score.start > pair[1].end]
        if any(score.value is None for score in later):
            return Parsed(Status.UNPARSED)
        if first.value is None or second.value is None:
            return Parsed(Status.UNPARSED)
        evidence = _evidence(answer, min(s.start for s in pair), max(s.end for s in pair))
        return Parsed(Status.VALID, evidence, first=first.value, second=second.value)
    return None


def _announced(
    text: str, statements: Iterable[re.Match[str]]
) -> Iterator[tuple[re.Match[str], Announced]]:
    """Yield each statement with what its line announces before it, or else the line above.

    An announcement also holds for the statements that follow on the same line and the next ones.
    """
    told, last = NOTHING, 0
    for match in statements:
        above, newline, lead = text[last : match.start()].rpartition("\n")
        own = announced(lead)
        if own != NOTHING:
            told = own
        elif newline and (not last or above.partition("\n")[2].strip()):
            told = announced(above.rstrip().rpartition("\n")[2])
        last = match.end()
        yield match, told


def _scores(text: str, statements: Statements, scale: Scale, cut: bool) -> Iterator[_Score]:
    last_line = text.rfind("\n")
    for match, lead in statements:
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
        if value is not None and not _is_unambiguous(text, end, value, scale):
            value = None
        assistant = match[2] or match[4]
        position = 1 if assistant in "1a" else 2
        yield _Score(position, value, match.start(), end, lead.revision, lead.final)


def _is_unambiguous(text: str, end: int, value: Decimal, scale: Scale) -> bool:
    if value not in scale or _ANOTHER_NUMBER.match(text, end):
        return False
    related = _RELATED.match(text, end)
    if related is None or _OF_A_SCORE.search(related["words"]):
        return True
    return Decimal(related["number"]) == scale.high


def _last_pair(scores: list[_Score], text: str) -> tuple[_Score, _Score] | None:
    """Return the last two neighbouring scores of different responses.

    Of three that overlap (1 2 1), two in neighbouring lines are a pair rather than two with words
    between them, and 1 2 rather than 2 1: the third is a remark about one of them.
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
    """Replace each score of the pair by the last correction of it that follows the pair."""
    latest = {score.position: score for score in pair}
    for score in scores:
        if score.revises and score.start > max(score_of_pair.end for score_of_pair in pair):
            latest[score.position] = score
    return [latest[1], latest[2]]


def _closeness(pair: tuple[_Score, _Score], text: str) -> tuple[bool, bool]:
    """Return whether only the end of a line separates the two, and whether 1 precedes 2."""
    before, after = pair
    _, *lines = text[before.end : after.start].split("\n")
    words = "".join(filter(str.isalpha, "".join(lines)))
    return words in ("", "the"), before.position < after.position


def _evidence(answer: Answer, start: int, end: int) -> str:
    """Return the explanation: what precedes the scores or, if nothing does, what follows them."""
    before, after = answer.written[:start].rstrip(_AROUND_EVIDENCE), answer.written[end:]
    if _THE.fullmatch(before[-4:]):
        before = before[:-3].rstrip(_AROUND_EVIDENCE)
    evidence = before or after
    labels = [*EVIDENCE_LABEL.finditer(fold(evidence))]
    if labels:
        evidence = evidence[labels[-1].end() :]
    return evidence.rstrip(_AROUND_EVIDENCE).lstrip(" \t\r\n*`")


_NUMBER = re.compile(NUMBER)
# "Actually, 6" is a label too. A comma ends no other label.
_LABEL = re.compile(
    r"(?=[^:=,]{0,120}(?:[:=,]|(?:score|ating)[ \t]+is\b|cores[ \t]+are\b))"
    rf"(?P<final>(?:my[ \t]+)?(?:final\b|{REVISION}))?"
    r"(?P<name>[^\W\d_]?(?:[^\W\d_]|[ \t]){0,60}(?:[1a][ \t]+and[ \t]+[2b][ \t]*)?)"
    r"(?:[*_]{0,2}[:=]|(?<=actually),|(?<=wait),|(?<=score|ating)[ \t]+is\b|(?<=cores)[ \t]+are\b)"
)
_SCORE_NAME = re.compile(r"scores?\b|ratings?\b|preference\b")
_ONE_SIDE = re.compile(r"assistant|response|answer")
_ABOUT_ITSELF = re.compile(r"confiden|certain")
_BOTH_SIDES = re.compile(r"\band\b|\bbetween\b")
# A grade of a rubric, or an item of a list. Two of them are no rating: "4: Good, 3: Fair".
_ITEM = re.compile(r"(?:^|[,;.])[ \t*_`#(]*[0-9]{1,2}[ \t*_`]*[:=)]", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*[-\u2022*][ \t]+")
_BETWEEN = re.compile(r"[ \t*_`$,;/|&]*(?:and\b|vs\b\.?)?[ \t*_`$,;|&-]*")
_COMMA_PAIR = re.compile(r"([0-9]{1,2}),([0-9]{1,2})")
_AROUND_NUMBERS = " \t*_`#\"'<>[](){}|\\$\u200b\u200e\u200f\u2060\ufe0f\ufeff"
_REASON = re.compile(r"[ \t*_`]*(?:[:;(|\u2013\u2014]|-[ \t])[ \t]*[^\s0-9]")

# Fences and rules don't count as lines of the reply.
_NO_WORDS = re.compile(r"[\s`]*`{3}\w*\s*|[^\w]*")

# A longer line has more than numbers.
LONGEST_LINE = 160


def parse_score_pair(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """Read two numbers in a line, or in two lines one after the other.

    A line that calls itself final counts first, then the line that opens the reply, then the last
    one. Without such a line, scores in sentences ("Assistant 1: 8") are read.
    """
    lines = _lines_of_numbers(answer, scale, wanted=2, cut=cut)
    chosen = _chosen(lines)
    if chosen is None and (sided := _sided(answer, scale, cut=cut)) is not None:
        return sided
    if chosen is None:
        return parse_score_lines(answer, scale, cut=cut)
    numbers = lines[chosen].numbers
    following = lines.get(chosen + 1)
    if len(numbers) == 1 and following is not None and len(following.numbers) == 1:
        return _scored([*numbers, *following.numbers], answer, (chosen, chosen + 1))
    if len(numbers) == 1 and cut and chosen + 1 >= answer.own.rstrip().count("\n"):
        return None
    return _scored(numbers, answer, (chosen,))


def rating_place(answer: Answer, scale: Scale, *, cut: bool) -> int | None:
    """Return where the number begins that `parse_rating_line` reads."""
    lines = _lines_of_numbers(answer, scale, wanted=1, cut=cut)
    chosen = _chosen(lines)
    if chosen is None:
        return None
    texts = answer.own.split("\n")
    begin = sum(len(line) + 1 for line in texts[:chosen])
    line = unwrapped(texts[chosen])
    label = _LABEL.search(_shortened(line))
    behind = label.end() if label else 0
    for match in _NUMBER.finditer(line, behind):
        if number(match[0]) in lines[chosen].numbers:
            return begin + match.start()
    return None


def parse_rating_line(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """Read one number in a line that calls itself final, opens the reply or ends it."""
    lines = _lines_of_numbers(answer, scale, wanted=1, cut=cut)
    chosen = _chosen(lines)
    if chosen is None:
        return None
    numbers = lines[chosen].numbers
    if len(numbers) != 1 or numbers[0] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, _without(answer, (chosen,)), rating=numbers[0])


@dataclass(frozen=True, slots=True)
class _Line:
    """The numbers of a line, None for each that is not on the scale, and why the line counts."""

    numbers: list[Decimal | None]
    opens: bool
    says_final: bool


def _chosen(lines: Mapping[int, _Line]) -> int | None:
    final = [index for index, line in lines.items() if line.says_final]
    opening = [index for index, line in lines.items() if line.opens]
    return final[-1] if final else opening[0] if opening else max(lines, default=None)


def _lines_of_numbers(answer: Answer, scale: Scale, *, wanted: int, cut: bool) -> dict[int, _Line]:
    """Return the lines that open or end the reply or call their numbers a score, by their index.

    In a line that opens the reply or calls itself final, a reason may follow the numbers. The last
    line of a reply that was cut off doesn't count if its number may not be complete.
    """
    counting: dict[int, _Line] = {}
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if not _NO_WORDS.fullmatch(line)]
    opening = _opening(lines, filled)
    for at, index in enumerate(filled):
        opens = index in opening
        if len(lines[index]) > LONGEST_LINE and not opens:
            continue
        above = lines[filled[at - 1]] if at else ""
        text = unwrapped(_shortened(lines[index]))
        text = _BULLET.sub("", text, count=1).strip(_AROUND_NUMBERS)
        label = _LABEL.match(text)
        if label is not None:
            name = label["name"]
            if _about_one_side(name) or names_one(name) or _ABOUT_ITSELF.search(name):
                continue
            text = text[label.end() :].strip(_AROUND_NUMBERS)
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
        if not numbers and label is not None and label["final"]:
            numbers = _otherwise_final(text, label["name"], scale, wanted)
        last = cut and index == len(lines) - 1
        if numbers and not (last and (None in numbers or may_go_on(answer.own, scale))):
            counting[index] = _Line(numbers, opens, says_final)
    return counting


# One word, or a range.
_NO_SCORES = re.compile(
    r"[^\s\x00]{1,20}"
    r"|(?:(?:from|between|about|around|to|or|[0-9.,/]++|[-~\u2013\u2014])[ \t]*){2,9}"
)


def _otherwise_final(text: str, name: str, scale: Scale, wanted: int) -> list[Decimal | None]:
    """Return final scores that name their sides, or None for what is no score."""
    if wanted == 2 and (pair := sided_pair(text, scale)) is not None:
        return [*pair]
    return [None] if _SCORE_NAME.search(name) and _NO_SCORES.fullmatch(text) else []


def _sided(answer: Answer, scale: Scale, *, cut: bool) -> Parsed | None:
    """Read scores that each name their side, in the first line of the reply or the first two."""
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if not _NO_WORDS.fullmatch(line)]
    for opening in (filled[:1], filled[:2]):
        text = "\n".join(unwrapped(_shortened(lines[index])) for index in opening)
        numbers = sided_pair(text, scale)
        if numbers is not None and not (cut and len(filled) == len(opening)):
            return _scored([*numbers], answer, opening)
    return None


def _is_item(text: str, around: Sequence[str]) -> bool:
    """Return True if a line belongs to a list: it has another item, or one above or below."""
    if not _ITEM.match(text):
        return False
    return _ITEM.search(text, 2) is not None or any(_ITEM.match(line) for line in around)


def _shortened(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}\u2026"


def _opening(lines: Sequence[str], filled: Sequence[int]) -> Sequence[int]:
    """Return the first line, and the second one if the first only introduces it or is a number.

    A line such as "Sure! Here are the scores:" introduces; two scores may have a line each.
    """
    if len(filled) < 2:
        return filled
    first = lines[filled[0]].rstrip(_AROUND_NUMBERS)
    announces = first.endswith((":", "!")) and not _about_one_side(first)
    return filled[:2] if announces or _NUMBER.match(first.lstrip(_AROUND_NUMBERS)) else filled[:1]


def _about_one_side(words: str) -> bool:
    return bool(_ONE_SIDE.search(words) and not _BOTH_SIDES.search(words))


def _numbers(text: str, scale: Scale, wanted: int, *, reason: bool) -> list[Decimal | None]:
    """Return the numbers of a line, or none if it has anything else."""
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
    return [] if text[at:].strip(_AROUND_NUMBERS + ".") else numbers


def _on_scale(value: Decimal | None, scale: Scale) -> Decimal | None:
    return value if value is not None and value in scale else None


def _scored(numbers: list[Decimal | None], answer: Answer, lines: Sequence[int]) -> Parsed:
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, _without(answer, lines), first=numbers[0], second=numbers[1])


def _without(answer: Answer, lines: Sequence[int]) -> str:
    written = answer.written.split("\n")
    return "\n".join(line for index, line in enumerate(written) if index not in lines).strip()
