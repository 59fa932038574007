"""Scores in lines of their own: "The score of Assistant 1: 8" (FairEval, Table 3)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.folding import fold
from judging.llm.marks import EVIDENCE_LABEL, STRONG_LABEL, WEAK_LABEL
from judging.llm.parsing.answer import Answer
from judging.llm.parsing.numbers import NUMBER, may_go_on, number_at
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.templating import Scale

_EMPHASIS = r"[ \t*_`]*"
_STATEMENT = re.compile(
    rf"(?:(?P<strong>{STRONG_LABEL})|(?P<weak>{WEAK_LABEL}))"
    rf"{_EMPHASIS}(?:[:=|\u2013\u2014]|-(?=[ \t])|(?P<is>\bis\b)){_EMPHASIS}"
    rf"(?:[ \t]*\n\s*(?=[*_<(\[`]*[0-9]))?"
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

# What a line of scores leaves of its beginning.
_THE = re.compile(r"(?:^|[\s*_`])the", re.IGNORECASE)
_MARKUP = " \t\r\n*_`#|>-"


@dataclass(frozen=True, slots=True)
class _Score:
    """One assistant's score as stated; `value` is None where it is no score on the scale."""

    position: int
    value: Decimal | None
    start: int
    end: int


def parse_score_lines(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """The last two scores that belong together; None where there are no two."""
    text = answer.own
    statements = [*_STATEMENT.finditer(text)]
    for kind in ("strong", "weak"):
        scores = _scores(text, [match for match in statements if match[kind]], scale, cut)
        pair = _last_pair([*scores], text)
        if pair is not None:
            first, second = sorted(pair, key=lambda score: score.position)
            if first.value is None or second.value is None:
                return Parsed(Status.UNPARSED)
            evidence = _evidence(answer, min(s.start for s in pair), max(s.end for s in pair))
            return Parsed(Status.VALID, evidence, first=first.value, second=second.value)
    return None


def _scores(
    text: str, statements: Iterable[re.Match[str]], scale: Scale, cut: bool
) -> Iterator[_Score]:
    for match in statements:
        bare = match["strong"] is None or match["is"] is not None
        value: Decimal | None = None
        end = match.end()
        if match["number"] is not None:
            value, end = number_at(text, match.start("number"), match.end("number"), scale.high)
            if bare and not _END_OF_STATEMENT.match(text, end):
                continue
            if cut and end == len(text) and (value is None or may_go_on(text, scale)):
                continue
        elif bare or _PLACEHOLDER.match(text, match.start("other")):
            continue
        if value is not None and (value not in scale or _ANOTHER_NUMBER.match(text, end)):
            value = None
        assistant = match[2] or match[4]
        yield _Score(1 if assistant in "1a" else 2, value, match.start(), end)


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
