"""Which of two is better: by a mark such as [[A]] (PORTIA, Table 13), or in a line of its own
(FairEval v1, Table 5)."""

import re

from judging.llm.marks import VERDICT_MARK
from judging.llm.parsing.answer import Answer
from judging.llm.parsing.parsed import Parsed, Preferred, Status

_SENTENCE_END = re.compile(r"[.!?](?=[\s\"')*\]]|$)|[\u3002\uff01\uff1f\n]")
_BEGUN_MARK = re.compile(r"\[\[?[ \t*_`]*[abc]?[ \t*_`]*\]?$")
_OF_LETTER = {"a": Preferred.FIRST, "b": Preferred.SECOND, "c": Preferred.TIE}

_SIDE = re.compile(
    r"(?P<label>(?:the[ \t]+)?(?:(?:my|final|better|answer|verdict|judge?ment|decision)[ \t]*){1,4}"
    r"(?:is[ \t]*)?[:=-]?[ \t]*)?(?:(?:answer|response)[ \t]+(?:of[ \t]+|from[ \t]+)?)?"
    r"(?:(?:the[ \t]+)?assistant[ \t]*#?(?P<side>[12])(?:'s[ \t]+(?:answer|response))?"
    r"(?:[ \t]+is[ \t]+better)?|(?P<tie>same|tie))",
)
_MARKUP = " \t*_`#\"'<>[]()."
# A longer line holds more than a verdict.
LONGEST_LINE = 120


def parse_verdict_mark(answer: Answer, *, cut: bool = False) -> Parsed | None:
    """The last sentence that holds a mark binds; two different marks in it are no verdict.

    A reply that was cut off within another mark has not said its last.
    """
    text = answer.own
    marks = list(VERDICT_MARK.finditer(text))
    if not marks:
        return None
    last = marks[-1]
    if cut and _BEGUN_MARK.search(text, last.end()):
        return None
    start = 0
    for end in _SENTENCE_END.finditer(text, 0, last.start()):
        start = end.end()
    letters = {mark[1] for mark in marks if mark.start() >= start}
    if len(letters) > 1:
        return Parsed(Status.UNPARSED)
    return _valid(_OF_LETTER[letters.pop()], answer.written[: last.start()])


def parse_verdict_line(answer: Answer) -> Parsed | None:
    """The first line, as the template asks, unless a later line says that it is the verdict.

    Where the first line holds none, the lines that hold nothing but a verdict must agree: they
    may be headings.
    """
    lines = answer.own.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    found = {index: side for index in filled if (side := _side(lines[index]))}
    labelled = [index for index in found if found[index]["label"]]
    if labelled:
        chosen = labelled[-1]
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
    return _SIDE.fullmatch(line.strip(_MARKUP)) if len(line) <= LONGEST_LINE else None


def _preferred(side: re.Match[str]) -> Preferred:
    if side["tie"]:
        return Preferred.TIE
    return Preferred.FIRST if side["side"] == "1" else Preferred.SECOND


def _valid(verdict: Preferred, evidence: str) -> Parsed:
    return Parsed(Status.VALID, evidence.strip(" \t\r\n`"), verdict=verdict)
