"""Which of two is better: by a mark such as [[A]] (PORTIA, Table 13), or in a line of its own
(FairEval v1, Table 5)."""

import itertools
import re

from judging.llm.parsing.answer import Answer
from judging.llm.parsing.numbers import REVISION, announced
from judging.llm.parsing.parsed import Parsed, Preferred, Status
from judging.llm.prompts.marks import VERDICT_MARK

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
_MARKUP = " \t*_`#\"'<>[](){}$."
_WRAPPED = re.compile(r"</?[a-z]{1,10}>|\\(?:boxed|text[a-z]{0,2}|math[a-z]{2})(?=\{)")
# A longer line holds more than a verdict.
LONGEST_LINE = 120


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
    if len(line) > LONGEST_LINE:
        return None
    return _SIDE.fullmatch(_WRAPPED.sub("", line).strip(_MARKUP))


def _preferred(side: re.Match[str]) -> Preferred:
    if side["tie"]:
        return Preferred.TIE
    return Preferred.FIRST if side["side"] == "1" else Preferred.SECOND


def _valid(verdict: Preferred, evidence: str) -> Parsed:
    return Parsed(Status.VALID, evidence.strip(" \t\r\n`"), verdict=verdict)
