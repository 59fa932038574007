"""What a judge repeats from a response, where it shows: in quotation marks, or word for word.

All positions are in folded text; every function takes time linear in the reply.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from judging.llm.prompts.marks import (
    INVISIBLE,
    STRONG_SCORE,
    THINK_TAG,
    VERDICT_MARK,
    VERDICT_MARKS,
    fold,
    holds_verdict_mark,
    visible,
)

Span = tuple[int, int]

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
# A line that holds a verdict in quotation marks and nothing else is the judge's own.
_OWN_LINE = re.compile(
    r"[ \t*_#-]*(?:(?:so|thus|therefore|hence|overall|in conclusion)\b[ \t,:]*)?"
    r"(?:(?:my|the)[ \t]+)?(?:(?:final[ \t]+)?(?:verdict|decision|judge?ment|choice|answer)"
    r"(?:[ \t]+is)?[ \t*_]*:?[ \t*_]*)?$",
)
# A fenced block under a line that names one of the two is what that one wrote, unless the line
# speaks of the verdict.
_FENCE = re.compile(r"^[ \t]*`{3}", re.MULTILINE)
_NAMES_ONE = re.compile(
    r"\bassistant[ \t*_`#]*[12ab]\b|\b(?:response|answer)[ \t*_`#]*[12ab]\b"
    r"|\b(?:first|second)[ \t]+(?:assistant|response|answer|one)\b"
)
_OF_THE_VERDICT = re.compile(r"\b(?:my|final|verdict|scores?|ratings?|evaluation|better|output)\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")
_OBJECT = re.compile(r"\{[^{}]*\}")
_EVIDENCE_KEY = re.compile(r"\"(?:evaluation[_ ])?evidence\"[ \t]*:")
_WORD = re.compile(r"\S+")
_END_OF_LINE = re.compile(r"[ \t*_.]*(?:\n|$)")

_ATTRIBUTED = re.compile(
    r"\b(?:assistant|response|answer)\b[^.!?\n\[]{0,40}?"
    r"\b(?:said|says|wrote|writes|contains|includes|included|claims|claimed|states|stated"
    r"|(?:end(?:s|ed)|finish(?:es|ed)|clos(?:es|ed))[ \t]+(?:in|with|by))"
    r"[ \t:,]{1,4}(?:the[ \t]+)?$"
)

LONGEST_LABEL = 60
LONGEST_LEAD = 200

# How much of its surroundings tells a mark in a response from the same mark of the judge.
CONTEXT = 60
SHORTEST_COPY = 20
# Letters beside its marks that make a line known again; "The" and "is" come with the marks.
_OWN_WORDS = 6


def delimited_spans(folded: str) -> Iterator[Span]:
    """Quotations that hold a verdict's mark: in quotation marks, in backticks, in block quotes."""
    for start, end in _in_quotes(folded):
        if holds_verdict_mark(folded, start, end) and not _is_own_line(folded, start, end):
            yield start, end
    blocks = [match.span() for match in _BLOCK_QUOTE.finditer(folded)]
    if blocks and not all(_BLOCK_QUOTE.match(line) for line in folded.split("\n") if line.strip()):
        yield from blocks


def attributed_spans(folded: str) -> Iterator[Span]:
    """Marks that a sentence lays in the mouth of one of the two: "Response B ends with [[B]]"."""
    for pattern in (VERDICT_MARK, STRONG_SCORE):
        for mark in pattern.finditer(folded):
            if _ATTRIBUTED.search(folded, max(0, mark.start() - LONGEST_LEAD), mark.start()):
                yield mark.span()


def fenced_spans(folded: str) -> Iterator[Span]:
    """Fenced blocks that are announced as what one of the assistants wrote."""
    fences = [match.start() for match in _FENCE.finditer(folded)]
    for start, end in zip(fences[::2], fences[1::2], strict=False):
        lead = folded[max(0, start - LONGEST_LEAD) : start].rstrip().rpartition("\n")[2]
        if _NAMES_ONE.search(lead) and not _OF_THE_VERDICT.search(lead):
            yield start, end


def _in_quotes(folded: str) -> Iterator[Span]:
    """Straight marks pair within a line, others within a paragraph; an apostrophe is none."""
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
    """Whether the quotation at start:end is all that its line holds, but for "verdict:"."""
    before = folded[max(0, start - LONGEST_LABEL) : start - 1].rpartition("\n")
    whole = before[1] or start <= LONGEST_LABEL
    return bool(whole and _OWN_LINE.match(before[2]) and _END_OF_LINE.match(folded, end + 1))


def copied_spans(folded: str, quoted: Sequence[str]) -> Iterator[Span]:
    """Where the reply repeats, word for word, what could be read as a verdict in `quoted`.

    White space and invisible signs may differ. A passage is the whole text, unless it is as short
    as a verdict; or a line with words beside its mark; or lines of marks alone together with what
    stands before or after them; or a sentence or an object with words beside its mark.
    """
    collapsed = " ".join(visible(folded).split())
    found = [passage for text in quoted for passage in _passages(text) if passage in collapsed]
    places = _places(folded) if found else []
    for passage in found:
        start = collapsed.find(passage)
        while start >= 0:
            end = start + len(passage)
            yield places[start], places[end - 1] + 1
            start = collapsed.find(passage, end)


@lru_cache(maxsize=64)
def _passages(text: str) -> frozenset[str]:
    """A pair is judged in many samples, one after another."""
    return frozenset(_find_passages(fold(visible(text))))


def _find_passages(text: str) -> Iterator[str]:
    whole = " ".join(text.split())
    marked = holds_verdict_mark(text)
    if marked or len(whole) >= SHORTEST_COPY:
        yield whole
    if not marked:
        return
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    bare: list[str] = []
    before = ""
    for line in [*lines, ""]:
        if line and holds_verdict_mark(line) and not _has_own_words(line):
            bare.append(line)
            continue
        if bare:
            run = " ".join(bare)
            if before:
                yield f"{before[-CONTEXT:]} {run}".strip()
            if line:
                yield f"{run} {line[:CONTEXT]}".strip()
            bare = []
        if holds_verdict_mark(line):
            yield line
            yield from _sentences(line)
        before = line


def _sentences(line: str) -> Iterator[str]:
    """Of a line with words of its own, the sentences and objects that have some too."""
    for part in (*_SENTENCE_END.split(line), *_OBJECT.findall(line)):
        if part != line and holds_verdict_mark(part) and _has_own_words(part):
            yield part.strip()


def _has_own_words(line: str) -> bool:
    for pattern in (STRONG_SCORE, *VERDICT_MARKS, _EVIDENCE_KEY):
        line = pattern.sub("", line)
    return sum(character.isalpha() for character in line) >= _OWN_WORDS


def _places(text: str) -> list[int]:
    """Where each character comes from of what is visible, with its white space collapsed."""
    hidden = {match.start() for match in INVISIBLE.finditer(text)}
    places: list[int] = []
    for word in _WORD.finditer(text):
        shown = [place for place in range(*word.span()) if place not in hidden]
        if places and shown:
            places.append(word.start() - 1)
        places.extend(shown)
    return places


_LINE_BREAK = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")

# Stands for each character of a quotation; no pattern matches it.
BLANK = "\x00"


@dataclass(frozen=True)
class Answer:
    """Texts of one length: as written; folded, without what repeats a quoted text; and `own`,
    without what stands in quotation marks or is taken back."""

    written: str
    folded: str

    @cached_property
    def own(self) -> str:
        spans = [*delimited_spans(self.folded), *attributed_spans(self.folded)]
        own = _blanked(self.folded, spans)
        if any(word in own for word in _WITHDRAWING):
            ends = [match.end() for match in _TAKES_BACK.finditer(own)]
            own = _blanked(own, [(0, end) for end in ends[-1:]])
        return own


def read_answer(reply: str, quoted: Sequence[str] = ()) -> Answer:
    if "\r" in reply or not reply.isascii():
        reply = _LINE_BREAK.sub("\n", reply)
    written = without_thinking(reply)
    folded = fold(written)
    spans = [*copied_spans(folded, quoted), *fenced_spans(folded)]
    return Answer(written, _blanked(folded, spans))


def without_thinking(reply: str) -> str:
    """What follows an opening tag that is never closed is thinking, and so is what precedes a
    closing tag that was never opened. A tag right after a quotation mark is only mentioned."""
    folded = fold(reply)
    kept: list[str] = []
    depth = last = 0
    for tag in THINK_TAG.finditer(folded):
        if folded[tag.start() - 1 : tag.start()] in QUOTES:
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
    return "".join(kept) + (reply[last:] if depth == 0 else "")


_WITHDRAWING = ("withdraw", "retract", "back", "disregard", "ignore", "discard")
# "I withdraw these scores": what stands before is no verdict any more.
_TAKES_BACK = re.compile(
    r"(?:(?:^|[.!?\n,;:])[ \t*_]*"
    r"(?:(?:but|so|and|wait|sorry|actually|no|hence)\b[ \t,.!]+){0,3}"
    r"i(?:'d|\u2019d| would)?[ \t]+(?:(?:like|want|wish|need|have|hereby|must|therefore)[ \t]+"
    r"(?:to[ \t]+)?){0,2}(?:withdraw|retract|take[ \t]+back)"
    r"|(?:^|[.!?\n])[ \t*_]*(?:(?:so|wait|sorry|actually|no|please)\b[ \t,.!]+){0,3}"
    r"(?:disregard|ignore|discard))[ \t]+"
    r"(?:(?:the|my|these|those|this|that|all|both|above|previous|earlier|initial|first)[ \t]+){1,3}"
    r"(?:scores?|verdicts?|ratings?|judge?ments?|decision|evaluation)\b[^.\n]{0,60}"
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
    return "\n".join(BLANK * len(line) for line in text.split("\n"))


# Only the opening is looked at: further on, a judge may speak of a response that declines.
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
# How a reply opens that declines in another language; in small letters.
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
# Who declines is a response and not the judge, where one of these stands before.
_SPEAKS_OF_ONE = re.compile(r"assistant|response|answer|[\"\u201c\u00ab]")


def declines(folded: str) -> bool:
    opening = folded[:OPENING].replace("\u2019", "'").lstrip(" \t\r\n*_#>{\"'\u00a1")
    english = _ENGLISH.search(opening)
    if english is not None and not _SPEAKS_OF_ONE.search(opening, 0, english.start()):
        return True
    return opening.startswith(_OTHERS)
