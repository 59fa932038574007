"""The marks of a judge's reply and of its templates, and how a text that holds one is disarmed.

Parsers find a verdict by its mark. A response may hold the same mark, by chance or by intent, and
a judge may repeat it. So one visible character, a middle dot, is put after the first character of
each mark in a question, response or reference before it is sent:

    The score of Assistant 1: 10    ->    The score of A·ssistant 1: 10
    [[A]]                           ->    [·[A]]
    [System]                        ->    [·System]
    <think>                         ->    <·think>

Nothing else changes, and no parser reads a disarmed mark. All patterns match folded text.
"""

import itertools
import re

from judging.llm.folding import fold

DISARMED = "\u00b7"

_GAP = r"[ \t]+"
STRONG_LABEL = (
    rf"scores?{_GAP}(?:of|for){_GAP}(?:the{_GAP})?(?:assistant|response|answer)[ \t]*#?([12AB])\b"
)
WEAK_LABEL = (
    rf"(?<![^\W_])assistant[ \t]*#?([12AB])\b(?:['\u2019]s)?(?:{_GAP}(?:response|answer))?"
    rf"(?:{_GAP}(?:overall{_GAP})?(?:score|rating))?"
)
SCORE_KEY = (
    r"(?:the[ _-]?)?score[ _-]?(?:of[ _-]?)?(?:assistant[ _-]?)?([12])"
    r"|assistant[ _-]?([12])(?:[ _-]?score)?"
)

VERDICT_MARK = re.compile(r"\[\[[ \t]*([ABC])[ \t]*\]\]", re.IGNORECASE)
STRONG_SCORE = re.compile(STRONG_LABEL, re.IGNORECASE)
WEAK_SCORE = re.compile(WEAK_LABEL + r"[ \t*_`]*(?:[:=|\u2013\u2014-]|\bis\b|$)", re.I | re.M)
JSON_SCORE_KEY = re.compile(rf"""["'](?:{SCORE_KEY})["'][ \t]*:""", re.IGNORECASE)
EVIDENCE_LABEL = re.compile(r"evaluation[ \t]+evidence[ \t*_`]*:", re.IGNORECASE)

THINK_TAG = re.compile(
    r"(?P<open><(?:think|thinking|thought|reasoning|reflection|scratchpad|seed:think)>"
    r"|\[THINK\]|\u25c1think\u25b7|<\|begin_of_thought\|>"
    r"|<\|channel\|>(?:analysis|commentary)(?:<\|message\|>)?)"
    r"|(?P<close></(?:think|thinking|thought|reasoning|reflection|scratchpad|seed:think)>"
    r"|\[/THINK\]|\u25c1/think\u25b7|<\|end_of_thought\|>"
    r"|(?P<final><\|channel\|>final)(?:<\|message\|>)?)",
    re.IGNORECASE,
)
TEMPLATE_MARK = re.compile(
    r"\[[ \t]*(?:question|system|better[ \t]+answer|score"
    r"|(?:the[ \t]+)?(?:start|end)[ \t]+of[ \t]+[^\[\]\n]{1,60})\]",
    re.IGNORECASE,
)
# What chat templates are made of; some servers read it in a message's text too.
CHAT_MARK = re.compile(
    r"<\|[a-z_]{2,30}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>", re.IGNORECASE
)

# The weak mark first: disarmed, it disarms the strong one that holds it.
VERDICT_MARKS = (WEAK_SCORE, STRONG_SCORE, VERDICT_MARK, JSON_SCORE_KEY)
_ALL = (*VERDICT_MARKS, EVIDENCE_LABEL, THINK_TAG, TEMPLATE_MARK, CHAT_MARK)


def holds_verdict_mark(folded: str) -> bool:
    return any(pattern.search(folded) for pattern in VERDICT_MARKS)


def disarm(text: str) -> str:
    """`text` with a middle dot in each mark; a text without marks comes back as it is."""
    for pattern in _ALL:
        places = [match.start() + 1 for match in pattern.finditer(fold(text))]
        bounds = [0, *places, len(text)]
        text = DISARMED.join(text[a:b] for a, b in itertools.pairwise(bounds))
    return text
