"""Keeps bidirectional control characters from reaching beyond the line that holds them.

They are legitimate in Arabic or Hebrew text and stay; but one that is opened and never closed, or
closed twice, would reorder what follows it (Unicode Standard Annex 9).
"""

import re
from collections.abc import Sequence

PDF, PDI = "\u202c", "\u2069"
EMBEDDINGS = frozenset("\u202a\u202b\u202d\u202e")
ISOLATES = frozenset("\u2066\u2067\u2068")
_CONTROL = re.compile(f"([{''.join(EMBEDDINGS | ISOLATES)}{PDF}{PDI}])")
# Browsers ignore what is nested deeper than 125; nobody writes more than a few.
_DEEPEST = 60
_SEAM = "\x00"


def balance(text: str) -> str:
    """The text with every control closed within its line, and closers of nothing left out."""
    if not _CONTROL.search(text):
        return text
    return "\n".join(_balance_line(line) for line in text.split("\n"))


def balance_parts(parts: Sequence[str]) -> list[str]:
    """The same for one line that comes in parts, such as plain and bold words."""
    if not any(_CONTROL.search(part) for part in parts):
        return list(parts)
    return _balance_line(_SEAM.join(part.replace(_SEAM, "\ufffd") for part in parts)).split(_SEAM)


def _balance_line(line: str) -> str:
    opened: list[str] = []
    kept = []
    for piece in _CONTROL.split(line):
        if piece in EMBEDDINGS or piece in ISOLATES:
            if len(opened) == _DEEPEST:
                continue
            opened.append(piece)
        elif piece == PDF:
            if not opened or opened[-1] in ISOLATES:
                continue
            opened.pop()
        elif piece == PDI:
            if ISOLATES.isdisjoint(opened):
                continue
            # Closing an isolate also closes the embeddings begun within it.
            while opened.pop() not in ISOLATES:
                kept.append(PDF)
        kept.append(piece)
    kept.extend(PDF if control in EMBEDDINGS else PDI for control in reversed(opened))
    return "".join(kept)
