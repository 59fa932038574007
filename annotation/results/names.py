"""Names out of files inside English sentences: of models, categories and runs."""

import unicodedata

_ISOLATE, _END = "\u2068", "\u2069"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI"})


def set_apart(name: str) -> str:
    """A name written from right to left keeps its direction to itself; others stay as they are.

    Without, the figures behind it would be read in the wrong order, and a sentence that begins
    with it would run from right to left.
    """
    if _RIGHT_TO_LEFT.isdisjoint(map(unicodedata.bidirectional, name)):
        return name
    return f"{_ISOLATE}{name}{_END}"
