"""A judge's reply before and after it is read.

- `Parsed` is what was read in a reply, by position, and `turn_back` is the one place that turns it
  back to responses 1 and 2. Failure is a status and never a value.
- `read_answer` returns the part of a reply that can hold a verdict: without thinking, and with
  quotations blanked. A judge may repeat a verdict that a response contains.
- `declines` recognises a refusal, in the languages that judges reply in.

All positions are in folded text, and every function takes time linear in the reply.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache

from judging.core.enums import LabelledEnum
from judging.llm.parsing.copies import Span, find_copies, has_own_words
from judging.llm.prompts.marks import (
    BOX,
    END_OF_TURN,
    MENTION_AFTER,
    MENTION_BEFORE,
    RESTART_MARK,
    STRONG_SCORE,
    THINK_TAG,
    VERDICT_MARK,
    fold,
    holds_verdict_mark,
)
from judging.llm.prompts.templates import SLOT, JudgeForm, PromptVariant, Template
from judging.methods.verdicts.verdicts import (
    Label,
    outcome_of,
    score_pair_from_probability,
    score_pair_from_scores,
)


class Status(LabelledEnum):
    """How a sample ended. All but the first are failures, which have no value."""

    VALID = "valid"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"
    TOO_LONG = "too_long"
    ERROR = "error"


class Preferred(StrEnum):
    """The better response, by position."""

    FIRST = "first"
    SECOND = "second"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read in a reply, by position as the judge saw it. The form decides what is set.

    Attributes:
        p_first: The probability of the response shown first.
        mass: The probability of both option IDs together, or of all scores on the scale.
        bounded: True if the likeliest tokens left out an ID, so that `p_first` is only a bound, or
            didn't tell two scores apart, so that `rating` is the sampled score.
        criteria: The name of each criterion with its two scores.
        why: Why a reply in JSON is unparsed, in words.
        in_json: A schema held the reply to JSON, although the template asks for another form.
    """

    status: Status
    evidence: str = ""
    first: Decimal | None = None
    second: Decimal | None = None
    verdict: Preferred | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    bounded: bool = False
    criteria: tuple[tuple[str, Decimal, Decimal], ...] = ()
    why: str = ""
    in_json: bool = False


@dataclass(frozen=True, slots=True)
class JudgeReading:
    """What was read in a reply, turned back to responses 1 and 2.

    Only `p_first` stays with the position.
    """

    status: Status
    evidence: str = ""
    score_1: Decimal | None = None
    score_2: Decimal | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    outcome: Label | None = None
    criteria: tuple[tuple[str, Decimal, Decimal], ...] = ()
    why: str = ""


_LABELS = {Preferred.FIRST: Label.WIN, Preferred.SECOND: Label.LOSE, Preferred.TIE: Label.TIE}
PREFERRED = {label: preferred for preferred, label in _LABELS.items()}


def turn_back(parsed: Parsed, template: Template, part: str) -> JudgeReading:
    """Return what was read by position as values of responses 1 and 2."""
    if template.form is JudgeForm.POINTWISE:
        return JudgeReading(parsed.status, parsed.evidence, rating=parsed.rating, mass=parsed.mass)
    variant = PromptVariant.parse(part)
    rating, outcome = parsed.rating, _outcome(parsed, template)
    if variant.swapped:
        rating = None if rating is None else template.scale.turned(rating)
        outcome = outcome and outcome.turned
    score_1, score_2 = variant.shown(parsed.first, parsed.second)
    return JudgeReading(
        parsed.status,
        parsed.evidence,
        score_1=score_1,
        score_2=score_2,
        rating=rating,
        p_first=parsed.p_first,
        mass=parsed.mass,
        outcome=outcome,
        criteria=tuple((name, *variant.shown(*scores)) for name, *scores in parsed.criteria),
        why=parsed.why,
    )


def _outcome(parsed: Parsed, template: Template) -> Label | None:
    """Return the outcome as if the response shown first were response 1."""
    if parsed.verdict is not None:
        return _LABELS[parsed.verdict]
    if parsed.first is not None and parsed.second is not None:
        return _label_of_scores(parsed.first, parsed.second)
    if parsed.p_first is not None:
        pair = score_pair_from_probability(Fraction(parsed.p_first))
        return outcome_of(pair, 2 * template.band)
    if parsed.rating is not None:
        rating = parsed.rating
        return outcome_of(score_pair_from_scores(rating, template.scale.turned(rating)))
    return None


# A scale has few scores, and comparing two exactly takes as long as finding them in a reply.
@lru_cache(maxsize=1000)
def _label_of_scores(first: Decimal, second: Decimal) -> Label:
    return outcome_of(score_pair_from_scores(first, second))


_LINE_BREAK = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")

# Replaces each character of a quotation. No pattern matches it.
BLANK = "\x00"


@dataclass(frozen=True)
class Answer:
    """What a judge wrote up to the end of its turn, without its thinking, in texts of one length.

    `written` is as it came. `folded` is folded, and what repeats a quoted text is blank. In `own`,
    what is in quotation marks or was taken back is blank too. `ended` is true if the judge wrote
    the end of its turn, so that a cut came after the reply. `offset` is where `written` begins in
    the reply, None if it is not one piece of it.
    """

    written: str
    folded: str
    ended: bool = False
    offset: int | None = 0
    bare: tuple[Span, ...] = ()
    in_blocks: bool = False

    @cached_property
    def own(self) -> str:
        spans = [*_in_quotation_marks(self.folded), *attributed_spans(self.folded)]
        for start, end in block_quotes(self.folded):
            if not (self.in_blocks and _is_own_block(self.folded, start, end)):
                spans.append((start, end))
        own = _blanked(self.folded, spans)
        if any(word in own for word in _WITHDRAWING):
            ends = [match.end() for match in TAKES_BACK.finditer(own)]
            own = _blanked(own, [(0, end) for end in ends[-1:]])
        return own

    def views(self) -> Iterator["Answer"]:
        """Yield what may hold the verdict, the likeliest first.

        A block quote counts if nothing else does and no response holds it. A line that is only a
        verdict, and is also in a response, counts if the reply has no other verdict. Where the
        model may have begun its prompt again, a verdict before that place is its last word.
        """
        if again := _OWN_WORDS.search(self.folded):
            shown = _blanked(self.folded, self.bare)[: again.start()]
            yield replace(self, written=self.written[: again.start()], folded=shown, ended=True)
        strict = replace(self, folded=_blanked(self.folded, self.bare))
        yield strict
        if any(block_quotes(strict.folded)):
            yield replace(strict, in_blocks=True)
        if self.bare:
            yield self


def read_answer(reply: str, quoted: Sequence[str] = (), template: str = "") -> Answer:
    """Return the part of a reply that can hold a verdict.

    Args:
        quoted: Texts that the reply may repeat.
        template: The text of the template. The reply ends where a model begins it again.
    """
    length = len(reply)
    if "\r" in reply or not reply.isascii():
        reply = _LINE_BREAK.sub("\n", reply)
    written, turn = _turn(reply)
    ended = turn < len(reply)
    # Log-probabilities find a score by its place in the reply, which is known only of an unchanged
    # piece.
    whole = len(reply) == length and reply.endswith(written, 0, turn)
    offset = turn - len(written) if whole else None
    folded = fold(written)
    if "|>" in folded:
        folded = BOX.sub(lambda match: re.sub(r"\S", "*", match[0]), folded)
    copies = find_copies(folded, quoted)
    folded = _blanked(folded, [*copies.certain, *fenced_spans(folded)])
    end = _restart(folded, template, quoted)
    if end is not None:
        written, folded, ended = written[:end], folded[:end], True
    return Answer(written, folded, ended, offset, copies.bare)


@lru_cache(maxsize=64)
def _openings(template: str) -> re.Pattern[str] | None:
    """Return what begins the template again: its lines before the last response, and the label
    of its first slot."""
    folded = fold(template)
    slots = [*SLOT.finditer(template)]
    if not slots:
        return None
    before = folded[: slots[-1].start()].split("\n")
    lines = [re.escape(line.strip()) + r"[ \t]*$" for line in before if len(line) >= LONG_LINE]
    label = folded[: slots[0].start()].rpartition("\n")[2].strip()
    if label.endswith(":") and sum(map(str.isalpha, label)) >= LEAST_LABEL:
        lines.append(re.escape(label))
    lines = [line for line in lines if "{" not in line]
    return re.compile(rf"^[ \t]*(?:{'|'.join(lines)})", re.MULTILINE) if lines else None


LONG_LINE = 40
LEAST_LABEL = 5


# A model without a chat template goes on with the user's next turn and an answer to it.
_NEXT_TURN = re.compile(
    r"^[ \t*_]*(?:(?:user|human|<human>)[ \t*_]*:"
    r"(?=.{0,2000}?\n[ \t*_]*(?:assistant|<bot>)[ \t*_]*:)"
    r"|q[ \t*_]*:(?=.{0,2000}?\n[ \t*_]*a[ \t*_]*:))[^\n]*",
    re.MULTILINE | re.DOTALL,
)


# A model without a chat template may begin its prompt again in words of its own. A judge may also
# write so of the question and the answers that it compares, before its verdict.
_OWN_WORDS = re.compile(
    r"^[ \t*_#]*+(?:next[ \t]++|new[ \t]++)?(?:question|prompt|task|input)[ \t*_]*+#?[0-9]{0,3}"
    r"[ \t*_]*+(?::|$)(?=.{0,2000}?\n[ \t*_#]*+(?:assistant|response|answer|output)[ \t*_#]*+"
    r"(?:[12ab]\b)?(?:'s[ \t]++(?:answer|response))?[ \t*_]*+(?::|$))",
    re.MULTILINE | re.DOTALL,
)


def _restart(folded: str, template: str, quoted: Sequence[str]) -> int | None:
    """Return where the model begins the template or the conversation again."""
    patterns = [RESTART_MARK, _openings(template)]
    starts = [
        match.start() for pattern in patterns if pattern and (match := pattern.search(folded))
    ]
    # A response may hold such a conversation too, and the judge may repeat it.
    for turn in _NEXT_TURN.finditer(folded):
        line = turn[0].strip(" \t*_")
        if folded[: turn.start()].strip() and not any(line in fold(text) for text in quoted):
            starts.append(turn.start())
            break
    return min(starts, default=None)


def without_thinking(reply: str) -> str:
    return _turn(reply)[0]


def _turn(reply: str) -> tuple[str, int]:
    """Return the reply without what is between the tags of thinking, up to the end of its turn.

    Everything after an opening tag without an end is thinking, and so is everything before a
    closing tag without a beginning. A tag right after a quotation mark is only mentioned, and so
    is the end of a turn within a sentence. The second value is where the turn ended.
    """
    folded = fold(reply)
    kept: list[str] = []
    depth = last = 0
    tags = sorted(
        [*THINK_TAG.finditer(folded), *END_OF_TURN.finditer(folded)], key=lambda tag: tag.start()
    )
    for tag in tags:
        if folded[tag.start() - 1 : tag.start()] in QUOTES:
            continue
        if tag.re is END_OF_TURN:
            if depth == 0 and _ends_turn(folded, tag):
                return "".join(kept) + reply[last : tag.start()], tag.start()
            continue
        if tag["open"] is not None:
            if depth == 0:
                kept.append(reply[last : tag.start()])
            depth += 1
        elif depth > 0:
            depth = 0 if tag["final"] else depth - 1
        else:
            kept.clear()
        last = tag.end()
    return "".join(kept) + (reply[last:] if depth == 0 else ""), len(reply)


def _ends_turn(folded: str, tag: re.Match[str]) -> bool:
    """Return False if something must come first, or if the sign is only mentioned.

    The final channel of a model with channels follows the end of its thoughts.
    """
    line = folded[max(0, tag.start() - LONGEST_LEAD) : tag.start()].rpartition("\n")[2]
    if tag[0] == "</s>" and "<s>" in line:
        return False
    if _HARMONY.match(folded, tag.start()) or not _NOT_SPACE.search(folded, 0, tag.start()):
        return False
    before = folded[max(0, tag.start() - 10) : tag.start()]
    return not (MENTION_BEFORE.search(before) and MENTION_AFTER.match(folded, tag.end()))


_NOT_SPACE = re.compile(r"\S")
_HARMONY = re.compile(
    r"(?:<\|end\|>\s*)?<\|start\|>assistant[^<>]{0,40}<\|channel\|>(?:final|analysis|commentary)"
)

_WITHDRAWING = ("withdraw", "retract", "back", "disregard", "ignore", "discard", "final")
# "I withdraw these scores", "Final verdict: I can't decide": what comes before is no verdict.
TAKES_BACK = re.compile(
    r"(?:(?:^|[.!?\n,;:])[ \t*_]*"
    r"(?:(?:but|so|and|wait|sorry|actually|no|hence)\b[ \t,.!]+){0,3}"
    r"i(?:'d|\u2019d| would)?[ \t]+(?:(?:like|want|wish|need|have|hereby|must|therefore)[ \t]+"
    r"(?:to[ \t]+)?){0,2}(?:withdraw|retract|take[ \t]+back)"
    r"|(?:^|[.!?\n])[ \t*_]*(?:(?:so|wait|sorry|actually|no|please)\b[ \t,.!]+){0,3}"
    r"(?:disregard|ignore|discard))[ \t]+"
    r"(?:(?:the|my|these|those|this|that|all|both|above|previous|earlier|initial|first)[ \t]+){1,3}"
    r"(?:scores?|verdicts?|ratings?|judge?ments?|decision|evaluation)\b[^.\n]{0,60}"
    r"|(?:^|[.!?\n])[ \t*_`#>-]*(?:(?:so|thus|therefore|overall)\b[ \t,]*)?"
    r"(?:(?:my|the|our)[ \t]+)?final[ \t]+"
    r"(?:verdict|answer|decision|judge?ment|choice|scores?|ratings?)[ \t*_`]*"
    r"(?:[:=]|\b(?:is|are)\b)[ \t*_`]*"
    r"(?:(?:that|i|we|it(?:['\u2019]s|[ \t]+is)?|there(?:['\u2019]s|[ \t]+is)?|am|still|simply"
    r"|just)\b[ \t]*)*"
    r"(?:can(?:not|['\u2019]t|[ \t]+not)|unable|undecided|undetermined|none|withheld|impossible"
    r"|(?:do|will|would)(?:n['\u2019]t|[ \t]+not)|won['\u2019]t|refuse|decline"
    r"|no(?:t)?[ \t]+(?:verdict|decision|scores?|ratings?|possible|able|given|applicable))\b"
)

QUOTES = frozenset("\"'`\u201c\u2018\u00ab\u201e\u300c")


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, last = [], 0
    for start, end in sorted(spans):
        start = max(start, last)
        if start >= end:
            continue
        pieces += [text[last:start], _blank(text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def _blank(text: str) -> str:
    # Line breaks stay and lengths too, so that places and lines are those of the written text.
    return "\n".join(BLANK * len(line) for line in text.split("\n"))


# Only the opening counts: later, a judge may describe a response that declines.
OPENING = 250

_ENGLISH = re.compile(
    r"\b(?:i(?:'m| am)? (?:(?:really |very |truly |so )?sorry|apologi[sz]e)\b.{0,80}?"
    r"\b(?:can(?:'t|not)|unable|won't|not able|not comfortable)"
    r"|(?:sorry|apologies)[,.!]? (?:but )?i (?:can(?:'t|not)|won't|am unable|am not able)"
    r"|i (?:can(?:'t|not| not)|won't|will not|must decline|decline|refuse)"
    r"(?: to)? (?:(?:in good conscience |provide |offer |give |help|assist|rate|evaluate|judge|"
    r"compare|engage|comply|fulfil|complete|do |answer|discuss|continue|participate|assess|score|"
    r"respond|generate|create|process|review))"
    r"|i(?:'m| am) (?:unable|not able|not comfortable|not willing)"
    r"|as an ai\b.{0,80}?\bi (?:can(?:'t|not)|am unable|won't|do not|don't))",
    re.DOTALL,
)
# Openings of replies that decline in other languages, in small letters.
_OTHERS = (
    *("lo siento", "lamento", "no puedo", "desculp", "sinto muito", "não posso"),
    *("je suis désol", "désolé", "je ne peux pas", "mi dispiace", "non posso", "îmi pare rău"),
    *("es tut mir leid", "tut mir leid", "entschuldigung", "leider kann ich", "ich kann das"),
    *("ich kann diese", "ich kann dabei", "ich kann hier", "het spijt me", "helaas kan ik"),
    *("jag är ledsen", "tyvärr", "beklager", "undskyld", "olen pahoillani", "valitettavasti"),
    *("przepraszam", "przykro mi", "nie mogę", "omlouvám se", "je mi líto", "bohužel"),
    *("извините", "простите", "к сожалению", "я не могу", "вибачте", "на жаль"),
    *("sajnálom", "λυπάμαι", "üzgünüm", "maalesef", "xin lỗi", "tôi không thể"),
    *("maaf", "saya tidak bisa", "saya tidak dapat", "ขออภัย", "ขอโทษ"),
    *("抱歉", "很抱歉", "非常抱歉", "对不起", "對不起", "我无法", "我無法", "我不能"),
    *("申し訳", "すみません", "ごめん", "죄송", "미안"),
    *("آسف", "أعتذر", "عذرا", "لا أستطيع", "متأسف", "מצטער", "क्षमा", "माफ", "मुझे खेद"),
)
# After one of these words, it is a response that declines and not the judge.
_SPEAKS_OF_ONE = re.compile(r"assistant|response|answer|[\"\u201c\u00ab]")


def declines(folded: str) -> bool:
    """Return True if a reply without a verdict declines to judge."""
    opening = folded[:OPENING].replace("\u2019", "'").lstrip(" \t\r\n*_#>{\"'\u00a1")
    english = _ENGLISH.search(opening)
    if english is not None and not _SPEAKS_OF_ONE.search(opening, 0, english.start()):
        return True
    return opening.startswith(_OTHERS)


_CLOSERS = {
    "\u201c": "\u201d",
    "\u201e": "\u201c",
    "\u2018": "\u2019",
    "\u00ab": "\u00bb",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}
_STRAIGHT = "\"'`"
_QUOTE = re.compile("\n\n|[\n" + _STRAIGHT + "".join({*_CLOSERS, *_CLOSERS.values()}) + "]")
_BLOCK_QUOTE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
# A line that is nothing but a verdict in quotation marks is the judge's own.
_OWN_LINE = re.compile(
    r"[ \t*_#-]*(?:(?:so|thus|therefore|hence|overall|in conclusion)\b[ \t,:]*)?"
    r"(?:(?:my|the)[ \t]+)?(?:(?:final[ \t]+)?(?:verdict|decision|judge?ment|choice|answer)"
    r"(?:[ \t]+is)?[ \t*_]*:?[ \t*_]*)?$"
)
# A fenced block under a line that names one response quotes it, unless the line is about a verdict.
_FENCE = re.compile(r"^[ \t]*`{3}", re.MULTILINE)
_NAMES_ONE = re.compile(
    r"\bassistant[ \t*_`#]*[12ab]\b|\b(?:response|answer)[ \t*_`#]*[12ab]\b"
    r"|\b(?:first|second)[ \t]+(?:assistant|response|answer|one)\b"
)
_OF_THE_VERDICT = re.compile(r"\b(?:my|final|verdict|scores?|ratings?|evaluation|better|output)\b")
_BEGINS = re.compile(r"\n|[.!?][*_]*[ \t]+")
_END_OF_LINE = re.compile(r"[ \t*_.]*(?:\n|$)")

_ATTRIBUTED = re.compile(
    r"\b(?:assistant|response|answer|it)\b[^.!?\n\[]{0,40}?"
    r"\b(?:said|says|wrote|writes|contains|includes|included|claims|claimed|states|stated"
    r"|(?:end(?:s|ed)|finish(?:es|ed)|clos(?:es|ed))[ \t]+(?:in|with|by))"
    r"(?:[ \t:,]{1,4}(?:that|the|its|their|own|final|verdict|is)\b){0,6}[ \t:,]{1,4}$"
)

LONGEST_LABEL = 60
LONGEST_LEAD = 200


def _in_quotation_marks(folded: str) -> Iterator[Span]:
    """Yield quotations of a verdict's mark in quotation marks or backticks."""
    for start, end in _in_quotes(folded):
        if holds_verdict_mark(folded, start, end) and not _is_own_line(folded, start, end):
            yield start, end


def block_quotes(folded: str) -> Iterator[Span]:
    """Yield block quotes, unless the whole reply is one."""
    blocks = [match.span() for match in _BLOCK_QUOTE.finditer(folded)]
    if blocks and not all(_BLOCK_QUOTE.match(line) for line in folded.split("\n") if line.strip()):
        yield from blocks


def _is_own_block(folded: str, start: int, end: int) -> bool:
    """Return True for a line that is only a verdict or about one, and quoted from nobody."""
    line = folded[start:end]
    if has_own_words(line) and not _OF_THE_VERDICT.search(line):
        return False
    above = folded[max(0, start - LONGEST_LEAD) : start].rstrip().split("\n")
    lead = next((line for line in reversed(above) if line.strip(" \t>")), "")
    return _BLOCK_QUOTE.match(lead) is not None or not _quotes_one(lead)


def _quotes_one(lead: str) -> bool:
    return bool(_NAMES_ONE.search(lead) and not _OF_THE_VERDICT.search(lead))


def attributed_spans(folded: str) -> Iterator[Span]:
    """Yield marks that a sentence attributes to a response: "Response B ends with [[B]]"."""
    for pattern in (VERDICT_MARK, STRONG_SCORE):
        for mark in pattern.finditer(folded):
            if _ATTRIBUTED.search(folded, max(0, mark.start() - LONGEST_LEAD), mark.start()):
                yield mark.span()


def fenced_spans(folded: str) -> Iterator[Span]:
    """Yield fenced blocks that are introduced as what one of the responses says."""
    fences = [match.start() for match in _FENCE.finditer(folded)]
    for start, end in zip(fences[::2], fences[1::2], strict=False):
        lead = folded[max(0, start - LONGEST_LEAD) : start].rstrip().rpartition("\n")[2]
        if _quotes_one(lead):
            yield start, end


def _in_quotes(folded: str) -> Iterator[Span]:
    """Yield what is in quotation marks. Apostrophes don't count.

    Straight marks pair within a line, others within a paragraph.
    """
    opened, closer = None, ""
    for match in _QUOTE.finditer(folded):
        mark, start, end = match[0], match.start(), match.end()
        if mark[0] == "\n":
            if mark == "\n\n" or closer in _STRAIGHT:
                opened = None
        elif opened is not None:
            if mark == closer and not folded[end : end + 1].isalnum():
                yield opened, start
                opened = None
        elif mark in _CLOSERS:
            opened, closer = end, _CLOSERS[mark]
        elif mark in _STRAIGHT and not folded[start - 1 : start].isalnum():
            opened, closer = end, mark


def _is_own_line(folded: str, start: int, end: int) -> bool:
    """Return True if the line has only the quotation at start:end, or "verdict:" before it.

    A line's last sentence counts like a line."""
    lead = folded[max(0, start - LONGEST_LABEL) : start - 1]
    before = _BEGINS.split(lead)
    whole = len(before) > 1 or start <= LONGEST_LABEL
    return bool(whole and _OWN_LINE.match(before[-1]) and _END_OF_LINE.match(folded, end + 1))
