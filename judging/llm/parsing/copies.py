"""What a reply repeats from the texts that the judge was shown.

Everything is compared by its words: case, markup, bullets, quotation marks, punctuation, white
space and invisible characters may differ. A copy is

- a passage with a verdict's mark and words of its own, wherever it is repeated;
- a line or sentence with a number or letter and words of its own, also if it is slightly reworded;
- lines that are only a verdict, as the judge would write it itself. They are kept apart, since
  nothing but another verdict in the same reply tells that they are not the judge's own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

from judging.llm.prompts.marks import (
    INVISIBLE,
    JSON_SCORE_KEY,
    STRONG_SCORE,
    VERDICT_MARK,
    VERDICT_MARKS,
    fold,
    holds_verdict_mark,
    visible,
)

Span = tuple[int, int]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"{VERDICT_MARK.pattern}|[{_CJK}]|[^\W_{_CJK}]+")
_WORD_ALONE = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
# A line without any of these is no verdict.
_VERDICT_SIGN = re.compile(r"[0-9]|\b[abc]\b|same|tie")
# What tells one verdict from another. "a" is also a word.
_VERDICT_WORD = re.compile(r"(?<!\S)(?:[0-9]+|\[\[[abc]\]\]|[bc]|a(?=$)|same|tie)(?!\S)")
# How a verdict is written doesn't tell it from another: "[[B]]", "(B)", "\\boxed{B}".
_MARKUP = re.compile(r"\[\[|\]\]|\b(?:boxed|text[a-z]{0,2}|math[a-z]{2}) ")
# "The score of Assistant 1 is 10 and the score of Assistant 2 is 1."
_JOINT = re.compile(r"(?<=[0-9]) (?:and )?(?=(?:the )?score|assistant)")
_SCORE_IN_JSON = re.compile(JSON_SCORE_KEY.pattern + r"""[ \t\n]*["']?([0-9.]+)""")
_ENUMERATED = re.compile(r"^[ \t]*[0-9]{1,2}[.)][ \t]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")
_OBJECT = re.compile(r"\{[^{}]*\}")
_EVIDENCE_KEY = re.compile(r"\"(?:evaluation[_ ])?evidence\"[ \t]*:")
_SCORE_WORD = re.compile(r"(?<!final )(?<!overall )\b(?:scores?|ratings?)\b")
_JOINING_WORD = re.compile(r"\b(?:and|is|the)\b")
_OPENS_OBJECT = re.compile(r"\{[ \t\n]*[\"']?$")
_CLOSES_OBJECT = re.compile(r"[\"']?[ \t\n]*\}")

SHORTEST_COPY = 20
# The fewest letters besides its marks that identify a line. "The" and "is" come with the marks.
_OWN_WORDS = 6
# This many words around a mark tell a response's mark from the same mark of the judge.
CONTEXT = 10
LONGEST_UNIT = 200
# Longer lines are not kept in memory.
LONGEST_LINE = 400
# Two units with the same verdict are the same if they are this similar, or if one has the other
# and only a few words more.
SIMILAR = 0.8
FEW_WORDS = 4
# The time stays linear: of units with the same verdict, at most this many are compared.
MOST_ALIKE = 8
MOST_COMPARED = 400


@dataclass(frozen=True, slots=True)
class Copies:
    """`certain` are never the judge's own words; `bare` only if it has another verdict."""

    certain: tuple[Span, ...] = ()
    bare: tuple[Span, ...] = ()


def find_copies(folded: str, quoted: Sequence[str]) -> Copies:
    sources = [_source(text) for text in quoted]
    if not any(source.passages or source.units for source in sources):
        return Copies()
    passages = [*_passages(folded, sources)]
    units = [*_units(folded, sources)]
    return Copies((*passages, *units), (*_bare_runs(folded, sources),))


def _words(folded: str) -> Iterator[tuple[str, int, int]]:
    """Yield each word with where it starts and ends, invisible characters left out."""
    if folded.isascii() or not INVISIBLE.search(folded):
        for match in _WORD.finditer(folded):
            yield _word(match), match.start(), match.end()
        return
    hidden = {match.start() for match in INVISIBLE.finditer(folded)}
    places = [place for place in range(len(folded)) if place not in hidden]
    for match in _WORD.finditer("".join(folded[place] for place in places)):
        yield _word(match), places[match.start()], places[match.end() - 1] + 1


def _word(match: re.Match[str]) -> str:
    return f"[[{match[1]}]]" if match[1] else match[0]


def _plain(folded: str) -> str:
    return _plain_line(folded) if len(folded) <= LONGEST_LINE else _plain_line.__wrapped__(folded)


# A reply's lines are looked at several times, and its samples have many lines in common.
@lru_cache(maxsize=2048)
def _plain_line(folded: str) -> str:
    shown = visible(folded)
    if "[" in shown:
        return " ".join(_word(match) for match in _WORD.finditer(shown))
    return " ".join(_WORD_ALONE.findall(shown))


def _verdict_in(plain: str) -> tuple[str, ...]:
    return tuple(word.strip("[]") for word in _VERDICT_WORD.findall(plain))


def _scores_in(json: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key[0] or key[1], key[2]) for key in _SCORE_IN_JSON.findall(json)))


def _says_something(plain: str) -> bool:
    return _VERDICT_WORD.search(plain) is not None or "a" in plain.split()


def has_own_words(line: str) -> bool:
    if len(line) > LONGEST_LINE:
        return _has_own_words.__wrapped__(line)
    return _has_own_words(line)


@lru_cache(maxsize=2048)
def _has_own_words(line: str) -> bool:
    for pattern in (STRONG_SCORE, *VERDICT_MARKS, _EVIDENCE_KEY, _SCORE_WORD, _JOINING_WORD):
        line = pattern.sub("", line)
    return sum(map(str.isalpha, line)) >= _OWN_WORDS


@dataclass(frozen=True)
class _Source:
    """A text that was shown.

    `passages` are found anywhere. `units` are lines and sentences with words of their own, and
    `bare` lines that are only a verdict. `objects` are the scores of each JSON object.
    """

    passages: frozenset[str]
    units: frozenset[str]
    bare: frozenset[str]
    objects: frozenset[tuple[tuple[str, str], ...]]

    @cached_property
    def alike(self) -> dict[tuple[str, ...], list[str]]:
        by_verdict: dict[tuple[str, ...], list[str]] = {}
        for unit in sorted(self.units | self.bare):
            if len(unit) <= LONGEST_UNIT:
                by_verdict.setdefault(_verdict_in(unit), []).append(unit)
        return {verdict: units[-MOST_ALIKE:] for verdict, units in by_verdict.items() if verdict}


# Cached, since a pair is judged in many samples one after the other.
@lru_cache(maxsize=64)
def _source(text: str) -> _Source:
    folded = fold(text)
    units: set[str] = set()
    bare: set[str] = set()
    lines = [line for line in folded.splitlines() if line.strip()]
    for line in lines:
        for unit in (line, *_SENTENCE_END.split(line)):
            plain = _plain(_ENUMERATED.sub("", unit))
            if _says_something(plain):
                (units if has_own_words(unit) else bare).add(plain)
    bare.update(
        _plain(written) for written in _OBJECT.findall(folded) if not has_own_words(written)
    )
    passages = frozenset(filter(None, map(_plain, _find_passages(folded, lines))))
    objects = frozenset(filter(None, map(_scores_in, _OBJECT.findall(folded))))
    return _Source(passages, frozenset(units), frozenset(bare), objects)


def _find_passages(folded: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield the whole text, unless it is as short as a verdict, and what has a mark in it.

    Lines that are only a verdict count together with what is before or after them.
    """
    marked = holds_verdict_mark(folded)
    if marked or len(" ".join(folded.split())) >= SHORTEST_COPY:
        yield folded
    run: list[str] = []
    before = ""
    for line in [*lines, ""]:
        if line and not has_own_words(line) and (_says_something(_plain(line))):
            run.append(line)
            continue
        if run:
            together = " ".join(run)
            if before:
                yield f"{' '.join(_plain(before).split()[-CONTEXT:])} {together}"
            if line:
                yield f"{together} {' '.join(_plain(line).split()[:CONTEXT])}"
            run = []
        if line and holds_verdict_mark(line):
            yield line
            for part in (*_SENTENCE_END.split(line), *_OBJECT.findall(line)):
                if part != line and holds_verdict_mark(part) and has_own_words(part):
                    yield part
        before = line


def _passages(folded: str, sources: Sequence[_Source]) -> Iterator[Span]:
    reply = f" {_plain(folded)} "
    copied = {f" {own} " for source in sources for own in source.passages if f" {own} " in reply}
    if not copied:
        return
    words = [*_words(folded)]
    at: dict[int, int] = {}
    place = 0
    for index, (word, _, _) in enumerate(words):
        at[place] = index
        place += len(word) + 1
    for passage in copied:
        start = reply.find(passage)
        while start >= 0:
            first = at[start]
            last = first + passage.count(" ") - 2
            yield _with_braces(folded, words[first][1], words[last][2])
            start = reply.find(passage, start + len(passage) - 1)


def _with_braces(folded: str, start: int, end: int) -> Span:
    opens = _OPENS_OBJECT.search(folded, max(0, start - 10), start)
    closes = _CLOSES_OBJECT.match(folded, end)
    return opens.start() if opens else start, closes.end() if closes else end


def _lines(folded: str) -> Iterator[Span]:
    start = 0
    for line in folded.split("\n"):
        if line.strip():
            yield start, start + len(line)
        start += len(line) + 1


def _units(folded: str, sources: Sequence[_Source]) -> Iterator[Span]:
    """Yield the lines and sentences that are in a source, and two lines that are one there."""
    compared = 0
    previous: tuple[int, str] | None = None
    for start, end in _lines(folded):
        line = folded[start:end]
        plain = _plain(_ENUMERATED.sub("", line))
        if previous and any(f"{previous[1]} {plain}" in source.units for source in sources):
            yield previous[0], end
        previous = start, plain
        for unit_start, unit_end in _sentences(line):
            unit = folded[start + unit_start : start + unit_end]
            written = _plain(_ENUMERATED.sub("", unit))
            if not _says_something(written) or not has_own_words(unit):
                continue
            is_copied = any(written in source.units for source in sources)
            if not is_copied and len(written) <= LONGEST_UNIT and compared < MOST_COMPARED:
                near = [
                    alike
                    for source in sources
                    for alike in source.alike.get(_verdict_in(written), ())
                ]
                compared += len(near)
                is_copied = any(_reworded(written, shown) for shown in near)
            if is_copied:
                yield start + unit_start, start + unit_end


def _sentences(line: str) -> Iterator[Span]:
    yield 0, len(line)
    last = 0
    ends = [*_SENTENCE_END.finditer(line)]
    for match in ends:
        yield last, match.start()
        last = match.end()
    if ends:
        yield last, len(line)


def _reworded(written: str, shown: str) -> bool:
    written, shown = _MARKUP.sub("", written), _MARKUP.sub("", shown)
    short, long = sorted((written, shown), key=len)
    within = f" {short} " in f" {long} " and long.count(" ") - short.count(" ") <= FEW_WORDS
    if not within and 2 * len(short) < SIMILAR * (len(short) + len(long)):
        return False
    if within or not has_own_words(short):
        return has_own_words(short)
    match = SequenceMatcher(None, written, shown, autojunk=False)
    return match.real_quick_ratio() >= SIMILAR <= match.quick_ratio() and match.ratio() >= SIMILAR


def _bare_runs(folded: str, sources: Sequence[_Source]) -> Iterator[Span]:
    """Yield objects, and neighbouring lines, that are only a verdict if a source has them all.

    Of lines that follow others, these count if they are a verdict by themselves.
    """
    for match in _OBJECT.finditer(folded):
        text, scores = _plain(match[0]), _scores_in(match[0])
        if text and any(text in source.bare or scores in source.objects for source in sources):
            yield match.span()
    run: list[tuple[Span, str]] = []
    for span in (*_lines(folded), None):
        line = "" if span is None else folded[slice(*span)]
        bare = _ENUMERATED.sub("", line) if any(map(str.isalpha, line)) else line
        plain = _plain(bare) if _VERDICT_SIGN.search(line) else ""
        if span and plain and not has_own_words(line) and _says_something(plain):
            run.append((span, plain))
            continue
        for source in sources if run else ():
            copied: list[tuple[Span, str]] = []
            for place, text in (*run, (None, "")):
                if place and all(_is_bare_in(source, part) for part in _JOINT.split(text)):
                    copied.append((place, text))
                    continue
                if len(copied) == len(run) or _is_whole([text for _, text in copied]):
                    yield from (place for place, _ in copied)
                copied = []
        run = []


def _is_whole(lines: Sequence[str]) -> bool:
    """Return True for two scores or more, a mark, or numbers in one line."""
    (line,) = lines if len(lines) == 1 else ("",)
    return len(lines) > 1 or "[[" in line or bool(re.fullmatch(r"[0-9]+(?: [0-9]+)+", line))


def _is_bare_in(source: _Source, written: str) -> bool:
    if written in source.bare:
        return True
    if len(written) > LONGEST_UNIT:
        return False
    near = source.alike.get(_verdict_in(written), ())
    return any(SequenceMatcher(None, written, shown).ratio() >= SIMILAR for shown in near)
