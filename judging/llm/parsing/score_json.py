"""Scores in a JSON object: {"evidence": "...", "score_1": 8, "score_2": 7}.

Scores on criteria are read more strictly: nothing but documents of exactly the shape that was asked
for, {"evidence": "...", "scores": {"tone": {"score_1": 8, "score_2": 7}}}.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from judging.llm.parsing.answer import PREFERRED, TAKES_BACK, Answer, Parsed, Preferred, Status
from judging.llm.parsing.numbers import NUMBER, number_at
from judging.llm.prompts.marks import JSON_SCORE_KEY, SCORE_KEY, fold
from judging.llm.prompts.templates import VERDICT_WORDS, ReplyFormat, Scale, Template
from judging.methods.verdicts.verdicts import CriteriaRule

_KEY = re.compile(SCORE_KEY)
_EVIDENCE_KEYS = ("evidence", "evaluation_evidence", "evaluation evidence", "explanation", "reason")
_OBJECT = re.compile(r"\{\s*[\"']")
# A string that is never closed reaches to the end. Python writes strings with either mark.
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{},]', re.DOTALL)
_IN_PYTHON = re.compile(
    r"""'(?:[^'\\]|\\.)*(?:'|\\?\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{},]""", re.DOTALL
)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*\})', re.DOTALL)
_SINGLE = re.compile(r"\{\s*'")
_NUMBER = re.compile(rf"\s*({NUMBER})")

_PYTHON_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PYTHON_PAIR = re.compile(
    rf"\s*(?P<key>{_PYTHON_STRING})\s*:\s*(?P<value>{_PYTHON_STRING}|[0-9.+-]+|None)"
    r"\s*(?:,|(?=\}))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

# Only the last objects are tried, so that the time stays linear.
MOST_OBJECTS = 64

Pairs = list[tuple[str, object]]
Values = tuple[set[str], set[str]]


class _Object(list[tuple[str, object]]):
    """A JSON object as its pairs, so that a repeated key shows."""


@dataclass(frozen=True, slots=True)
class _Complete:
    """An object that names both scores. `pairs` is None if it can't be decoded."""

    start: int
    end: int
    pairs: Pairs | None
    values: Values | None
    cut: bool = False

    def holds(self, other: "_Complete") -> bool:
        return self.start <= other.start and other.end <= self.end


def parse_score_json(answer: Answer, scale: Scale, *, cut: bool = False) -> Parsed | None:
    """Read the last complete object that has both scores, or return None if there is none.

    If it is within another object, that one's own scores are the verdict. If that one has none,
    its parts must not differ. Within an object that can't be decoded, the scores may be quoted.
    After one, no earlier scores count. An object that was cut off counts up to its last comma.
    """
    objects = [*_complete(answer.folded, answer.written, cut=cut)]
    last = next((entry for entry in reversed(objects) if entry.values), None)
    if last is None or last.values is None:
        return None
    broken = any(e.start >= last.end and e.pairs is None and not e.cut for e in objects)
    if broken or TAKES_BACK.search(answer.folded, last.end):
        return Parsed(Status.UNPARSED)
    around = [entry for entry in objects if entry.holds(last)]
    if last.cut and any(entry.pairs is None for entry in around):
        return None
    for outer in around:
        outside = answer.folded[outer.start : last.start] + answer.folded[last.end : outer.end]
        if outer.pairs is None and _names_both(outside):
            return Parsed(Status.UNPARSED)
    whole = next(entry for entry in around if entry.pairs is not None)
    verdict = whole if whole.values else last
    if not whole.values and any(
        part.values not in (None, last.values) for part in objects if whole.holds(part)
    ):
        return Parsed(Status.UNPARSED)
    evidence = _evidence(verdict.pairs or []) or _evidence(whole.pairs or [])
    return _judged(whole.values or last.values, evidence, scale)


def _complete(folded: str, written: str, *, cut: bool) -> Iterator[_Complete]:
    starts = [match.start() for match in _OBJECT.finditer(folded)]
    for start in starts[-MOST_OBJECTS:]:
        end, comma = _end_of_object(folded, start)
        if end is not None and _names_both(folded[start:end]):
            pairs = _decode(written[start:end])
            yield _Complete(start, end, pairs, None if pairs is None else _score_values(pairs))
        elif end is None and cut:
            pairs = _decode(written[start:comma] + "}") if comma else None
            values = None if pairs is None else _score_values(pairs)
            yield _Complete(start, len(folded), pairs, values, cut=True)


def _end_of_object(text: str, start: int) -> tuple[int | None, int | None]:
    """Return the end of the object, None if it has none, and its last comma outside of parts.

    White space at the end completes a value as well as a comma does.
    """
    depth, comma = 0, None
    parts = _IN_PYTHON if _SINGLE.match(text, start) else _STRING_OR_BRACE
    match = None
    for match in parts.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.end(), comma
        elif match[0] == "," and depth == 1:
            comma = match.start()
    in_string = match is not None and match.end() == len(text) and match[0] not in "{},"
    if depth == 1 and text[-1].isspace() and not in_string:
        comma = len(text)
    return None, comma


def _names_both(text: str) -> bool:
    """Return True if both keys are written out.

    A key in escapes could come from a response, as only keys that are written out are disarmed.
    """
    return len({match[1] or match[2] for match in JSON_SCORE_KEY.finditer(text)}) == 2


def _decode(text: str) -> Pairs | None:
    """Decode with numbers as written. Line breaks in strings and a last comma are accepted."""
    if _SINGLE.match(text):
        return _decode_python(text)
    return _loaded(_TRAILING_COMMA.sub(lambda match: match[1] or "", text))


# A backslash before a sign that JSON doesn't escape is itself, as in LaTeX.
_BACKSLASH = re.compile(r"""(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\""")


def _loaded(text: str) -> Pairs | None:
    decoded = _load(text)
    if decoded is None and "\\" in text:
        decoded = _load(_BACKSLASH.sub(lambda match: match[1] or r"\\", text))
    return decoded


def _load(text: str) -> Pairs | None:
    try:
        decoded = json.loads(
            text,
            strict=False,
            # Numbers stay as written, so that they become exact decimals and not floats.
            parse_int=str,
            parse_float=str,
            parse_constant=str,
            object_pairs_hook=_Object,
        )
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, _Object) else None


def _decode_python(text: str) -> Pairs | None:
    """Decode an object as Python prints it, with strings and numbers. Nothing is evaluated."""
    pairs: Pairs = []
    at = 1
    while match := _PYTHON_PAIR.match(text, at):
        pairs.append((_plain(match["key"]), _plain(match["value"])))
        at = match.end()
    return pairs if not text[at:].strip(" \t\r\n}") else None


def _plain(written: str) -> str:
    return _ESCAPE.sub(r"\1", written[1:-1]) if written[0] in "'\"" else written


def _score_values(pairs: Pairs) -> Values | None:
    """Return the values under each score's keys. Neither number nor text is "not a score"."""
    values: dict[str, set[str]] = {"1": set(), "2": set()}
    for key, value in pairs:
        if match := _KEY.fullmatch(key.strip().lower()):
            values[match[1] or match[2]].add(value if isinstance(value, str) else "not a score")
    return (values["1"], values["2"]) if all(values.values()) else None


def _judged(values: Values, evidence: str, scale: Scale) -> Parsed:
    scores = [_score(texts, scale) for texts in values]
    if scores[0] is None or scores[1] is None:
        return Parsed(Status.UNPARSED)
    return Parsed(Status.VALID, evidence, first=scores[0], second=scores[1])


def _score(texts: set[str], scale: Scale) -> Decimal | None:
    """Return the score, or None if it is given twice with different values."""
    if len(texts) != 1:
        return None
    text = fold(texts.pop()).strip()
    match = _NUMBER.match(text)
    if match is None:
        return None
    value, end = number_at(text, match.start(1), match.end(1), scale.high)
    return value if value is not None and value in scale and not text[end:].strip() else None


def _evidence(pairs: Pairs) -> str:
    by_key: Iterator[str] = (
        value for key, value in pairs if key.lower() in _EVIDENCE_KEYS and isinstance(value, str)
    )
    return next(by_key, "").strip()


# What may stand around a document: white space, the fence of a code block, and a sign of the
# model's own around its answer, which is read as asterisks.
_AROUND_DOCUMENT = re.compile(r"(?:[\s\ufeff]|```[a-z]*(?=\s|$)|\*{8,})*")
_OVERALL_PLACES = Decimal("1e-10")


def parse_criteria_json(
    answer: Answer, scale: Scale, criteria: Sequence[str], rule: CriteriaRule | None = None
) -> Parsed | None:
    """Read the scores on every criterion from the last document of the reply.

    Where it isn't exactly what was asked for, the reply is unparsed whatever came before, and `why`
    says what is wrong with it. A rule decides by which response has the higher score on each
    criterion, and leaves no overall scores. Without one, these are the means over the criteria.

    Returns: None if the reply has no document."""
    documents, extra = [], False
    at = 0
    while (at := _skipped(answer.folded, at)) < len(answer.folded):
        if answer.folded[at] != "{":
            extra, at = True, answer.folded.find("{", at)
            if at < 0:
                break
            continue
        end, _ = _end_of_object(answer.folded, at)
        if end is None:
            return _unread("the JSON document has no end")
        documents.append(answer.written[at:end])
        at = end
    if not documents:
        return None
    if extra:
        return _unread("there is text outside the JSON document")
    pairs = _loaded(documents[-1])
    if pairs is None:
        return _unread("it is no JSON document")
    return _on_criteria(pairs, scale, criteria, rule)


def parse_document(answer: Answer, template: Template) -> Parsed | None:
    """Read a reply that a schema held to JSON although the template asks for another form.

    The reply is one document of exactly the schema's shape, or unparsed.

    Returns: None if the reply doesn't begin as a document does."""
    text = answer.folded
    start = _skipped(text, 0)
    if not text.startswith("{", start):
        return None
    end, _ = _end_of_object(text, start)
    if end is None:
        return _unread("the JSON document has no end")
    if _skipped(text, end) < len(text):
        return _unread("there is text outside the JSON document")
    pairs = _loaded(answer.written[start:end])
    if pairs is None:
        return _unread("it is no JSON document")
    words = VERDICT_WORDS.get(template.reply)
    rated = template.reply is ReplyFormat.RATING_LINE
    keys = ["verdict"] if words else ["rating"] if rated else ["score_1", "score_2"]
    # Sorted pairs instead of a dictionary, so that a key that comes twice is refused.
    if sorted(key for key, _ in pairs) != ["evidence", *keys]:
        return _unread(f"it must have evidence and {' and '.join(keys)} once, and nothing else")
    document = dict(pairs)
    evidence = document["evidence"]
    parsed = Parsed(
        Status.VALID, evidence.strip() if isinstance(evidence, str) else "", in_json=True
    )
    if words:
        if document["verdict"] not in words:
            return _unread("verdict is none of the words that were asked for")
        preferred = (Preferred.FIRST, Preferred.SECOND, Preferred.TIE)
        return replace(parsed, verdict=preferred[words.index(str(document["verdict"]))])
    values = [document[key] for key in keys]
    numbers = [_score({v}, template.scale) if isinstance(v, str) else None for v in values]
    if None in numbers:
        return _unread("a number is not on the scale")
    if rated:
        return replace(parsed, rating=numbers[0])
    return replace(parsed, first=numbers[0], second=numbers[1])


def _skipped(text: str, at: int) -> int:
    around = _AROUND_DOCUMENT.match(text, at)
    return around.end() if around else at


def _unread(why: str) -> Parsed:
    return Parsed(Status.UNPARSED, why=why)


def _on_criteria(
    pairs: Pairs, scale: Scale, criteria: Sequence[str], rule: CriteriaRule | None
) -> Parsed:
    keys = [key for key, _ in pairs]
    if sorted(keys) not in (["evidence", "scores"], ["scores"]):
        return _unread("it must have the keys evidence and scores once, and no other")
    document = dict(pairs)
    scored = document["scores"]
    if not isinstance(scored, _Object):
        return _unread("scores must be an object")
    by_name: dict[str, object] = {}
    for name, value in scored:
        asked = next(
            (criterion for criterion in criteria if fold(criterion) == fold(name.strip())), None
        )
        if asked is None:
            return _unread(f"it scores “{name[:60]}”, which was not asked")
        if asked in by_name:
            return _unread(f"it scores “{asked}” twice")
        by_name[asked] = value
    read = []
    for name in criteria:
        if name not in by_name:
            return _unread(f"“{name}” is missing")
        both = by_name[name]
        if not isinstance(both, _Object) or sorted(key for key, _ in both) != [
            "score_1",
            "score_2",
        ]:
            return _unread(f"“{name}” must have score_1 and score_2, and nothing else")
        scores = [dict(both)[key] for key in ("score_1", "score_2")]
        first, second = (
            _score({written}, scale) if isinstance(written, str) else None for written in scores
        )
        if first is None or second is None:
            return _unread(f"a score on “{name}” is not on the scale")
        read.append((name, first, second))
    explained = document.get("evidence", "")
    evidence = explained.strip() if isinstance(explained, str) else ""
    if rule is not None:
        verdict = rule.overall(
            {name: (first > second) - (first < second) for name, first, second in read}
        )
        preferred = PREFERRED[verdict]
        return Parsed(Status.VALID, evidence, verdict=preferred, criteria=tuple(read))
    overall = [
        (sum(scores, Decimal(0)) / len(read)).quantize(_OVERALL_PLACES)
        for scores in zip(*(row[1:] for row in read), strict=True)
    ]
    return Parsed(Status.VALID, evidence, first=overall[0], second=overall[1], criteria=tuple(read))
