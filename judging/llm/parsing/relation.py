"""Which response is better: a mark like [[A]] (PORTIA, Table 13) or words (FairEval, Table 5)."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from judging.llm.parsing.answer import BLANK, Answer, Parsed, Preferred, Status
from judging.llm.parsing.numbers import REVISION, announced
from judging.llm.prompts.marks import VERDICT_MARK

_SENTENCE_END = re.compile(r"[.!?](?=[\s\"')*\]]|$)|[\u3002\uff01\uff1f\n]")


_BEGUN_MARK = re.compile(r"\[\[?[ \t*_`]*+[abc]?[ \t*_`]*+\]?$")


_NEGATED = re.compile(
    r"(?:\bnot|n['\u2019]t|\bneither|\bnor|\bnever)"
    r"(?:[ \t*_`\"']|\b(?:be|say|give|write|choose|pick|select|prefer|call[ \t]+it"
    r"|go[ \t]+(?:with|for)|vote[ \t]+for|answer|output)\b){0,10}$"
)


# "x[[b]]" is code.
_INDEXED = re.compile(r"[a-z0-9_]$")


# "Final verdict: B", "Verdict (B)", "\\boxed{B}". A letter that doesn't exist is a verdict too, and
# so is another mark or one word where the letter should be.
_LETTER = r"(?:assistant[ \t]+|response[ \t]+|answer[ \t]+)?(?P<letter>[a-z])"


_STATED_LETTER = re.compile(
    r"(?:(?:^|(?<=[.!?;:,)])[ \t]|\n)[ \t*_`#>-]*"
    r"(?:(?:so|thus|therefore|hence|in[ \t]+conclusion|overall)\b[ \t,]*)?(?:(?:my|the|our)[ \t]+)?"
    r"(?:(?:final|overall)[ \t]+)?(?P<label>verdict|judge?ment|decision|winner"
    r"|(?<=final )(?:answer|choice))"
    r"(?:[ \t]+is\b)?(?:[ \t*_`]*+(?P<colon>[:=]|[\u2013\u2014-](?=[ \t])))?"
    r"[ \t*_`\n]{0,200}|(?P<box>\\boxed\{(?:\\text[a-z]*\{)?))"
    rf"(?:(?P<open>[\[(<\"'*_`$]{{0,20}}(?:\\boxed\{{(?:\\text[a-z]*\{{)?)?){_LETTER}(?P<close>[\])>\"'*_`$}}\\]*)"
    r"(?:(?=[ \t]*(?:$|[.,;:!?\n(\u2013\u2014]|-[ \t]))|(?=[ \t]+(?:is|wins|because|since|as)\b))"
    r"|(?P<other>(?!\[)[^\s\[]{2,20})(?=[ \t.*_]*(?:$|\n)))"
)


_ANY_MARK = re.compile(r"\[\\?\[(?=[^\[\]\n]{0,20}[a-z])[^\[\]\n]{1,20}\\?\]\\?\]")


_OF_LETTER = {"a": Preferred.FIRST, "b": Preferred.SECOND, "c": Preferred.TIE}


_OF = r"(?:answer|response)[ \t]+(?:of[ \t]+|from[ \t]+)?"


_OTHER = (
    rf"[ \t]+than[ \t]+(?:the[ \t]+{_OF}|that[ \t]+of[ \t]+)?assistant[ \t]*#?(?!(?P=side))[12]"
    r"(?:'s(?:[ \t]+(?:answer|response))?)?"
)


_LABELS = r"my|final|better|answer|verdict|judge?ment|decision|output|result|choice|winner"


_SIDE = re.compile(
    rf"(?P<label>(?:the[ \t]+)?(?:(?:{_LABELS})[ \t]*+){{1,4}}(?:is[ \t]*+)?[:=-]?[ \t*_`\"]*+"
    rf"|{REVISION}[ \t]*+[:,-]?[ \t*_`\"]*+)?(?:the[ \t]+)?(?:{_OF})?"
    r"(?:(?:the[ \t]+)?assistant[ \t]*#?(?P<side>[12])(?:'s[ \t]+(?:answer|response))?"
    rf"(?:[ \t]+is[ \t]+better(?:{_OTHER})?)?|(?P<tie>same|tie))"
)


_AROUND_VERDICT = " \t*_`#\"'<>[](){}$."


_WRAPPED = re.compile(r"</?[a-z]{1,10}>|\\(?:boxed|text[a-z]{0,2}|math[a-z]{2})(?=\{)")


# A longer line has more than a verdict.
LONGEST_VERDICT_LINE = 120


@dataclass(frozen=True, slots=True)
class _Mark:
    """A verdict by a letter; None if it is not one of the three."""

    start: int
    end: int
    verdict: Preferred | None
    closed: bool = True


def parse_verdict_mark(answer: Answer, *, cut: bool = False) -> Parsed | None:
    """Read the marks of the last sentence that has any. If two of them differ, there is no verdict.

    "Final verdict: B" counts as a mark. A reply that was cut off within another mark had more to
    say, so it has no verdict either.
    """
    text = answer.own
    marks = sorted(_marks(text), key=lambda mark: mark.start)
    if not marks:
        return None
    last = marks[-1]
    if cut and _BEGUN_MARK.search(text, last.end):
        return None
    # The letter may be the beginning of a word that was cut off.
    if cut and not last.closed and not text[last.end :].strip():
        return None
    start = 0
    for end in _SENTENCE_END.finditer(text, 0, last.start):
        start = end.end()
    binding = [mark for mark in marks if mark.start >= start]
    verdicts = {mark.verdict for mark in binding}
    if len(verdicts) > 1 or any(
        _NEGATED.search(text, max(0, mark.start - 40), mark.start) for mark in binding
    ):
        return Parsed(Status.UNPARSED)
    verdict = verdicts.pop()
    if verdict is None:
        return Parsed(Status.UNPARSED)
    return _valid(verdict, answer.written[: last.start])


def _marks(text: str) -> Iterator[_Mark]:
    for mark in _ANY_MARK.finditer(text):
        if not _INDEXED.search(text, mark.start() - 1, mark.start()):
            valid = VERDICT_MARK.fullmatch(text, *mark.span())
            verdict = _OF_LETTER[valid[1]] if valid else None
            yield _Mark(mark.start(), mark.end(), verdict)
    for match in _STATED_LETTER.finditer(text):
        letter = match["letter"]
        if letter is not None:
            closed = bool(match["close"])
            yield _Mark(match.start("letter"), match.end(), _OF_LETTER.get(letter), closed)
        elif match["colon"] and BLANK not in match["other"]:
            other = match["other"].strip(_AROUND_VERDICT + ",;:")
            verdict = Preferred.TIE if other in ("tie", "same") else None
            yield _Mark(match.start("other"), match.end(), verdict, closed=False)


def parse_verdict_line(answer: Answer) -> Parsed | None:
    """Read the first line, as the template asks, unless a later line calls itself the verdict.

    If the first line has no verdict, all lines that are nothing but a verdict must agree, since
    they may be headings.
    """
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    sides = {index: side for index in filled if (side := _side(lines[index]))}
    labelled = [index for index in sides if sides[index]["label"]]
    labelled += [
        index
        for above, index in itertools.pairwise(filled)
        if index in sides and announced(lines[above]).revision
    ]
    last = max(labelled, default=-1)
    # A later verdict that can't be read is the judge's last word, so an earlier one must not count.
    if any(index > last and _names_no_side(lines[index]) for index in filled):
        return Parsed(Status.UNPARSED)
    if labelled:
        chosen = last
    elif filled and filled[0] in sides:
        chosen = filled[0]
    elif len({_preferred(side) for side in sides.values()}) == 1:
        chosen = max(sides)
    else:
        return None
    written = answer.written.split("\n")
    evidence = "\n".join(written[:chosen] + written[chosen + 1 :])
    return _valid(_preferred(sides[chosen]), evidence)


_NO_SIDE = re.compile(
    r"(?:(?:so|therefore),?[ \t]+)?(?:(?:my|the)[ \t]+)?(?:final[ \t]+(?:verdict|answer|decision|"
    r"judge?ment|choice)|verdict|winner|better[ \t]+answer)[ \t*_`]*(?:[:=]|\bis\b)[ \t*_`\"\[(]*"
    r"(?:assistant[ \t]+)?[^\s\x00]{1,12}"
)


def _names_no_side(line: str) -> bool:
    """Return True for a final verdict that is none: "Final verdict: Assistant 3"."""
    bare = _WRAPPED.sub("", line).strip(_AROUND_VERDICT)
    return len(bare) <= LONGEST_VERDICT_LINE and bool(_NO_SIDE.fullmatch(bare) and not _side(line))


def _side(line: str) -> re.Match[str] | None:
    if len(line) > LONGEST_VERDICT_LINE:
        return None
    return _SIDE.fullmatch(_WRAPPED.sub("", line).strip(_AROUND_VERDICT))


def _preferred(side: re.Match[str]) -> Preferred:
    if side["tie"]:
        return Preferred.TIE
    return Preferred.FIRST if side["side"] == "1" else Preferred.SECOND


def _valid(verdict: Preferred, evidence: str) -> Parsed:
    return Parsed(Status.VALID, evidence.strip(" \t\r\n`"), verdict=verdict)
