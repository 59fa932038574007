"""Marking the words in which two texts differ, by their longest common subsequence."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from django.utils.safestring import SafeString

from annotation.rendering import gate
from annotation.rendering.gate import balance

_WORD = re.compile(r"(?:\w+|[^\w\s])\s*|\s+")
_LINE = re.compile(r"[^\n]*\n?")
# Pairs of equal words in the two texts. The time grows with them: half a second for this many.
PAIRS = 500_000


class Differences(NamedTuple):
    """The two texts as HTML, with what the other text lacks within `<mark>`."""

    left: SafeString
    right: SafeString


def differences(left: str, right: str) -> Differences:
    """Mark what each text has that the other lacks, by words, or by lines if they are too long."""
    left, right = balance(left), balance(right)
    words = _WORD.findall(left), _WORD.findall(right)
    if _equal_pairs(*words) <= PAIRS:
        pieces = words
        # Among equally long subsequences the same one is marked, whichever text is on the left.
        common = _common(*words) if left <= right else _common(*words[::-1])[::-1]
    else:
        pieces = _LINE.findall(left), _LINE.findall(right)
        common = _counterparts(pieces[0], pieces[1]), _counterparts(pieces[1], pieces[0])
    return Differences(_marked(pieces[0], common[0]), _marked(pieces[1], common[1]))


def _equal_pairs(left: Sequence[str], right: Sequence[str]) -> int:
    counts = Counter(map(str.rstrip, right))
    return sum(counts[piece.rstrip()] for piece in left)


def _common(left: Sequence[str], right: Sequence[str]) -> tuple[set[int], set[int]]:
    """Return the places of the longest common subsequence in each (Hunt and Szymanski, 1977)."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, piece in enumerate(right):
        places[piece.rstrip()].append(place)
    ends: list[int] = []
    chains: list[tuple[int, int, tuple | None]] = []
    for here, piece in enumerate(left):
        for there in reversed(places.get(piece.rstrip(), ())):
            length = bisect_left(ends, there)
            chain = (here, there, chains[length - 1] if length else None)
            ends[length : length + 1] = [there]
            chains[length : length + 1] = [chain]
    matched: tuple[set[int], set[int]] = (set(), set())
    chain = chains[-1] if chains else None
    while chain is not None:
        matched[0].add(chain[0])
        matched[1].add(chain[1])
        chain = chain[2]
    return matched


def _counterparts(lines: Sequence[str], others: Sequence[str]) -> set[int]:
    left_over = Counter(line.strip() for line in others)
    common = set()
    for place, line in enumerate(lines):
        if left_over[line.strip()] > 0:
            left_over[line.strip()] -= 1
            common.add(place)
    return common


def _marked(pieces: Sequence[str], common: set[int]) -> SafeString:
    html = []
    for is_common, run in groupby(range(len(pieces)), common.__contains__):
        text = escape("".join(pieces[place] for place in run), quote=False)
        words = text.rstrip()
        marked = text if is_common or not words else f"<mark>{words}</mark>{text[len(words) :]}"
        html.append(marked)
    return gate.sanitise(f'<div class="plain" dir="auto">{"".join(html)}</div>')
