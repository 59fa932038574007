"""Two responses cut into k parts each, by length or by what the parts share (PORTIA §3.2)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from judging.methods.portia.optimum import best_cuts
from judging.methods.portia.similarity import NAMED, Similarity

MAX_SENTENCES = 100


@dataclass(frozen=True, slots=True)
class Alignment:
    """k parts of each response; part i of one is shown beside part i of the other.

    cuts_1, cuts_2: the k-1 character offsets at which each text is cut, ascending.
    similarity: the sum over the k pairs of parts, between 0 and k; None where it played no role.
    """

    parts_1: tuple[str, ...]
    parts_2: tuple[str, ...]
    cuts_1: tuple[int, ...]
    cuts_2: tuple[int, ...]
    similarity: float | None = None


def length_aligned(
    text_1: str, boundaries_1: Sequence[int], text_2: str, boundaries_2: Sequence[int], k: int
) -> Alignment | None:
    """The cuts nearest to the k-1 points that divide each text equally by characters.

    boundaries_1, boundaries_2: where a cut may be, ascending, never 0 or the text's length.
    Distinct cuts: where two points are nearest to the same boundary, the second takes the next.
    None where a text has fewer than k-1 boundaries: it is too short to split.
    """
    _check(text_1, boundaries_1, k)
    _check(text_2, boundaries_2, k)
    if min(len(boundaries_1), len(boundaries_2)) < k - 1:
        return None
    cuts_1 = equidistant(boundaries_1, len(text_1), k)
    cuts_2 = equidistant(boundaries_2, len(text_2), k)
    return Alignment(_parts(text_1, cuts_1), _parts(text_2, cuts_2), cuts_1, cuts_2)


def semantically_aligned(
    text_1: str,
    boundaries_1: Sequence[int],
    text_2: str,
    boundaries_2: Sequence[int],
    k: int,
    tokens: str | Similarity = "word",
) -> Alignment | None:
    """The cuts of greatest cumulative similarity of the k pairs of parts (Algorithm 1, step 3).

    tokens: `word`, `split`, or another `Similarity`.
    The same first maximum as an exhaustive search over the cuts of text 1 and, within, of text 2,
    each in lexicographic order.  None where a text is too short to split, and where every
    similarity is 0.  More than 100 sentences a text raise ValueError; `boundaries` gives no more.
    """
    _check(text_1, boundaries_1, k)
    _check(text_2, boundaries_2, k)
    if max(len(boundaries_1), len(boundaries_2)) >= MAX_SENTENCES:
        raise ValueError(f"a text is cut at {MAX_SENTENCES} sentences at most; merge neighbours")
    if min(len(boundaries_1), len(boundaries_2)) < k - 1:
        return None
    similarity = NAMED[tokens] if isinstance(tokens, str) else tokens
    pairs = similarity(_parts(text_1, boundaries_1), _parts(text_2, boundaries_2))
    best = best_cuts(pairs, k)
    if best is None:
        return None
    cuts_1 = tuple(boundaries_1[i - 1] for i in best.cuts_1)
    cuts_2 = tuple(boundaries_2[i - 1] for i in best.cuts_2)
    return Alignment(
        _parts(text_1, cuts_1), _parts(text_2, cuts_2), cuts_1, cuts_2, best.similarity
    )


def equidistant(boundaries: Sequence[int], length: int, k: int) -> tuple[int, ...]:
    """For each of k-1 equidistant points, in order, the nearest boundary that is still free.

    Free: behind the cut before, with a boundary left for each point to come.  Of two equally
    near ones the first.  Distances are compared as integers, k times what they are.
    """
    cuts: list[int] = []
    start = 0
    for point in range(1, k):
        stop = len(boundaries) - (k - 1 - point)
        target = point * length
        after = bisect_left(boundaries, target, start, stop, key=lambda b: k * b)
        near = range(max(after - 1, start), min(after + 1, stop))
        nearest = min(near, key=lambda i: abs(k * boundaries[i] - target))
        cuts.append(boundaries[nearest])
        start = nearest + 1
    return tuple(cuts)


def _parts(text: str, cuts: Sequence[int]) -> tuple[str, ...]:
    return tuple(text[start:stop] for start, stop in pairwise((0, *cuts, len(text))))


def _check(text: str, boundaries: Sequence[int], k: int) -> None:
    if k < 2:
        raise ValueError(f"a response is split into 2 parts or more, not {k}")
    if any(start >= stop for start, stop in pairwise((0, *boundaries, len(text)))) and boundaries:
        raise ValueError("boundaries ascend and lie inside the text")
