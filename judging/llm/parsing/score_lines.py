"""Scores in lines of their own: "The score of Assistant 1: 8" (FairEval, Table 3)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.folding import fold
from judging.llm.marks import ASIDE, EVIDENCE_LABEL, STRONG_LABEL, WEAK_LABEL
from judging.llm.parsing.announced import NOTHING, Announced, announced
from judging.llm.parsing.answer import Answer
from judging.llm.parsing.markup import unwrapped
from judging.llm.parsing.numbers import NUMBER, OVER, may_go_on, number_at
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.templating import Scale

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
