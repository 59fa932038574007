"""Which response stands left: drawn for each annotator and item, balanced within the annotator."""

import hashlib
from itertools import permutations

_BLOCK = 4
# The six orders of two lefts and two rights: after every fourth item the sides are even.
_ARRANGEMENTS = sorted(set(permutations((1, 1, 2, 2))))


def left_response(seed: int, annotator_id: int, n_shown: int) -> int:
    """1 or 2 for the annotator's item number `n_shown` (from 0), repeatable from the round's seed.

    Blocks of four with two lefts each: over any prefix the sides differ by at most two.
    """
    block, place = divmod(n_shown, _BLOCK)
    digest = hashlib.sha256(f"{seed}:{annotator_id}:{block}".encode()).digest()
    arrangement = _ARRANGEMENTS[int.from_bytes(digest[:8]) % len(_ARRANGEMENTS)]
    return arrangement[place]
