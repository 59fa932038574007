"""Cut two responses into k parts each so that part i of one resembles part i of the other.

PORTIA (arXiv:2310.01432, §3.2 and Algorithm 1): by length, or by the similarity of the parts, which
is the overlap of their tokens or the cosine of their embeddings."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import or_
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes, Floats

Tokenizer = Callable[[str], set[str]]

# Up to this many words of 64 shared tokens, comparing all is faster than finding new ones.
_FEW_WORDS = 4

# Scripts written without spaces, in which \w+ takes a whole run for one word: Han, kana, bopomofo.
UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
# The same for ASCII, several times as fast: lower case, and a space for all that is no word.
_ASCII_WORDS = "".join(
    character.lower() if character.isalnum() or character == "_" else " "
    for character in map(chr, range(128))
)
Embed = Callable[[Sequence[str]], ArrayLike]
# Sums of a few fractions in floats: equal ones differ by less, others by more.
TOLERANCE = 1e-12
# Similarities held at once: a few megabytes stay in the processor's cache.
BLOCK = 1 << 16
MAX_SENTENCES = 100


class Similarities(Protocol):
    """The segments of two texts, each a run of neighbouring sentences, to be compared.

    n_1, n_2: sentences of each text.  Segments stand in the order of their first sentence, then
    of their last, as in `_segment_bounds`: n (n + 1) / 2 of them."""

    n_1: int
    n_2: int

    def rows(self, segments: slice | Codes) -> Floats:
        """Compare these segments of text 1 with all of text 2: (segments, n_2 (n_2 + 1) / 2)."""
        ...


class Similarity(Protocol):
    """How alike segments of two texts are: 0 or more, 1 where they are the same."""

    def __call__(self, sentences_1: Sequence[str], sentences_2: Sequence[str]) -> Similarities: ...


@lru_cache(maxsize=64)
def _segment_bounds(n: int) -> tuple[Codes, Codes]:
    """First sentence of each segment of n sentences, and the one behind its last."""
    starts, stops = np.triu_indices(n)
    return starts, stops + 1


def word_tokens(text: str) -> set[str]:
    """Split a text into lower-case runs of letters and digits; Chinese and Japanese by character.

    Args: text: any text.
    Returns: the distinct tokens."""
    if text.isascii():
        return set(text.translate(_ASCII_WORDS).split())
    return set(_WORD.findall(text.lower()))


def split_tokens(text: str) -> set[str]:
    """Split a text at white space.

    Args: text: any text.
    Returns: the distinct tokens, as they are."""
    return set(text.split())


class TokenSimilarity:
    """|A and B| / max(|A|, |B|) of the token sets; 0 when both are empty (PORTIA §3.2).

    A segment's set is the union of its sentences' sets."""

    def __init__(self, tokenize: Tokenizer) -> None:
        self._tokenize = tokenize

    def __call__(self, sentences_1: Sequence[str], sentences_2: Sequence[str]) -> Similarities:
        sets_1 = [self._tokenize(sentence) for sentence in sentences_1]
        sets_2 = [self._tokenize(sentence) for sentence in sentences_2]
        return _TokenOverlaps(sets_1, sets_2)


class _TokenOverlaps:
    """Token sets of segments as bits, of which the shared tokens' are compared word by word."""

    def __init__(self, sets_1: Sequence[set[str]], sets_2: Sequence[set[str]]) -> None:
        self.n_1, self.n_2 = len(sets_1), len(sets_2)
        all_1, all_2 = set().union(*sets_1), set().union(*sets_2)
        shared = all_1 & all_2
        # Shared tokens have the lowest bits, as only these can be in common and are compared.
        numbers = _numbers([*sets_1, *sets_2], [*shared, *(all_1 ^ all_2)])
        unions_1, unions_2 = _unions(numbers[: self.n_1]), _unions(numbers[self.n_1 :])
        self._words_1 = _words(unions_1, len(shared))
        self._starts_1 = _segment_bounds(self.n_1)[0]
        self._words_2 = _words(unions_2, len(shared))
        self._sizes_1 = _sizes(unions_1)[:, None]
        self._sizes_2 = _sizes(unions_2)

    def rows(self, segments: slice | Codes) -> Floats:
        similarity: Floats = np.maximum(self._sizes_1[segments], self._sizes_2)
        np.divide(self._common(segments), similarity, out=similarity)
        return similarity

    def _common(self, segments: slice | Codes) -> NDArray[np.uint16]:
        """Shared tokens of these segments of text 1 with each of text 2."""
        words = self._words_1[:, segments]
        common = np.zeros((words.shape[1], self._words_2.shape[1]), dtype=np.uint16)
        starts = self._starts_1[segments]
        if len(words) <= _FEW_WORDS or not isinstance(segments, slice) or starts[0] < starts[-1]:
            both = np.empty(common.shape, dtype=np.uint64)
            for words_1, two in zip(words, self._words_2, strict=True):
                np.bitwise_and(words_1[:, None], two, out=both)
                common += np.bitwise_count(both)
            return common
        # Segments of one start grow by a sentence each: what is new touches few words.
        new = words.copy()
        new[:, 1:] &= ~words[:, :-1]
        for words_1, two in zip(new, self._words_2, strict=True):
            rows = np.flatnonzero(words_1)
            common[rows] += np.bitwise_count(words_1[rows, None] & two)
        return np.cumsum(common, axis=0, dtype=np.uint16, out=common)


def _numbers(sets: Sequence[set[str]], tokens: Sequence[str]) -> list[int]:
    """The tokens of each sentence as the bits of one number."""
    place = dict(zip(tokens, range(len(tokens)), strict=True))
    return [sum(map((1).__lshift__, map(place.__getitem__, held))) for held in sets]


def _unions(sentences: Sequence[int]) -> list[int]:
    """The tokens of each segment, from those of the sentences."""
    return [
        union for start in range(len(sentences)) for union in accumulate(sentences[start:], or_)
    ]


def _words(unions: Sequence[int], n_bits: int) -> NDArray[np.uint64]:
    """(words, segments): the first bits of each number, 64 to a word."""
    n_bytes = -(-n_bits // 64) * 8
    mask = (1 << n_bits) - 1
    packed = b"".join((union & mask).to_bytes(n_bytes, "little") for union in unions)
    words = np.frombuffer(packed, dtype="<u8").reshape(len(unions), -1)
    return np.ascontiguousarray(words.T)


def _sizes(unions: Sequence[int]) -> Floats:
    """Tokens of each segment, at least 1, so that two empty segments have similarity 0."""
    return np.maximum(np.array(list(map(int.bit_count, unions)), dtype=np.float64), 1)


NAMED: Mapping[str, Similarity] = {
    "word": TokenSimilarity(word_tokens),
    "split": TokenSimilarity(split_tokens),
}


class EmbeddingSimilarity:
    """Cosine of the segments' vectors, or 0 where it is negative.

    A segment's vector is the sum of its sentences' vectors of length 1.  The paper embeds each
    segment again; from the sentences it takes one vector a sentence instead of one a segment,
    which is what makes the exact optimum affordable."""

    def __init__(self, embed: Embed) -> None:
        """embed: n sentences to an array (n, D)."""
        self._embed = embed

    def __call__(self, sentences_1: Sequence[str], sentences_2: Sequence[str]) -> Similarities:
        vectors = np.asarray(self._embed([*sentences_1, *sentences_2]), dtype=np.float64)
        n = len(sentences_1) + len(sentences_2)
        if vectors.ndim != 2 or len(vectors) != n or not np.isfinite(vectors).all():
            raise ValueError(f"the sentence model gives no vector for each of {n} sentences")
        # Else a sentence with a long vector would decide its segment's direction alone.
        vectors = _unit(vectors)
        return _Cosines(vectors[: len(sentences_1)], vectors[len(sentences_1) :])


class _Cosines:
    def __init__(self, vectors_1: Floats, vectors_2: Floats) -> None:
        self.n_1, self.n_2 = len(vectors_1), len(vectors_2)
        self._segments_1 = _sums(vectors_1)
        self._segments_2 = _sums(vectors_2).T

    def rows(self, segments: slice | Codes) -> Floats:
        cosines: Floats = self._segments_1[segments] @ self._segments_2
        np.maximum(cosines, 0, out=cosines)
        return cosines


def _sums(vectors: Floats) -> Floats:
    # Sums from the beginning: a segment is a difference of two of them.
    so_far = np.vstack((np.zeros((1, vectors.shape[1])), vectors.cumsum(axis=0)))
    starts, stops = _segment_bounds(len(vectors))
    return _unit(so_far[stops] - so_far[starts])


def _unit(vectors: Floats) -> Floats:
    """Vectors of length 1; one of length 0 stays, and is like nothing."""
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))


@dataclass(frozen=True, slots=True)
class _BestCuts:
    """Each text is cut before these sentences, counted from 0."""

    cuts_1: tuple[int, ...]
    cuts_2: tuple[int, ...]
    similarity: float


def _best_cuts(pairs: Similarities, k: int) -> _BestCuts | None:
    """The first maximum in lexicographic order of (cuts_1, cuts_2); None where all is 0.

    Both texts have k sentences or more, and k is at least 2."""
    gains = _gains(pairs, k)
    cuts_1, best = _first_cuts_1(pairs, gains)
    if best <= 0:
        return None
    return _BestCuts(cuts_1, _first_cuts_2(pairs, cuts_1, best), best)


@lru_cache(maxsize=64)
def _order(n: int) -> tuple[Codes, Codes, Codes]:
    """Return where each start's segments begin, segments by stop, and where each stop's begin."""
    starts, stops = _segment_bounds(n)
    by_stop = np.argsort(stops, kind="stable")
    return (
        np.searchsorted(starts, np.arange(n)),
        by_stop,
        np.searchsorted(stops[by_stop], np.arange(1, n + 1)),
    )


def _gains(pairs: Similarities, k: int) -> list[Floats]:
    """G_1 to G_k-1, each (n1 + 1, n2 + 1), -inf where a part to come would be empty."""
    gains = [np.full((pairs.n_1 + 1, pairs.n_2 + 1), -np.inf) for _ in range(1, k)]
    first_2, by_stop_2, first_by_stop_2 = _order(pairs.n_2)
    _, by_stop_1, first_by_stop_1 = _order(pairs.n_1)
    ends = pairs.rows(by_stop_1[first_by_stop_1[-1] :])
    gains[0][:-1, :-1] = ends[:, by_stop_2[first_by_stop_2[-1] :]]
    if k > 2:
        stops_2 = _segment_bounds(pairs.n_2)[1]
        for rows, starts, by_start, stops in _blocks(pairs.n_1, len(stops_2)):
            own = pairs.rows(rows)
            for shorter, longer in pairwise(gains):
                value = shorter[stops].take(stops_2, axis=1)
                value += own
                # A long text comes start by start, and there max takes a fifth of the time.
                best = (
                    value.max(axis=0, keepdims=True)
                    if len(by_start) == 1
                    else np.maximum.reduceat(value, by_start, axis=0)
                )
                longer[starts, :-1] = np.maximum.reduceat(best, first_2, axis=1)
    return gains


def _blocks(n: int, n_columns: int) -> Iterator[tuple[slice, slice, Codes, Codes]]:
    """Rows of segments, their starts, where each start's rows begin, and the rows' stops.

    From late starts to early ones, since G_j[a] needs G_j-1[b] for each b > a, and down to 1."""
    first = _order(n)[0]
    stops = _segment_bounds(n)[1]
    high, end = n, len(stops)
    while high > 1:
        low = high - 1
        while low > 1 and (end - int(first[low - 1])) * n_columns <= BLOCK:
            low -= 1
        begin = int(first[low])
        yield slice(begin, end), slice(low, high), first[low:high] - begin, stops[begin:end]
        high, end = low, begin


def _first_cuts_1(pairs: Similarities, gains: list[Floats]) -> tuple[tuple[int, ...], float]:
    """The first cuts of text 1 with which the optimum is reached, whatever the cuts of text 2.

    Step j knows what parts 1 to j bring at most, for each cut of text 2, and G the rest."""
    first_1 = _order(pairs.n_1)[0]
    starts_2 = _segment_bounds(pairs.n_2)[0]
    _, by_stop, first_by_stop = _order(pairs.n_2)
    so_far = np.full(pairs.n_2 + 1, -np.inf)
    so_far[0] = 0.0
    best = -np.inf
    cuts = [0]
    for gain in reversed(gains):
        begin, start = int(first_1[cuts[-1]]), cuts[-1]
        # All segments from the last cut on, but for the one that takes all that is left.
        value = pairs.rows(slice(begin, begin + pairs.n_1 - start - 1))
        value += so_far[starts_2]
        reached = np.maximum.reduceat(value[:, by_stop], first_by_stop, axis=1)
        total = (reached + gain[start + 1 : -1, 1:]).max(axis=1)
        if start == 0:
            best = float(total.max())
        # The first of all maxima, as an exhaustive search would keep; rounding must not pick a
        # later one.
        chosen = int(np.argmax(total >= best - TOLERANCE))
        cuts.append(start + 1 + chosen)
        so_far[0] = -np.inf
        so_far[1:] = reached[chosen]
    return tuple(cuts[1:]), best


def _first_cuts_2(pairs: Similarities, cuts_1: tuple[int, ...], best: float) -> tuple[int, ...]:
    """The first cuts of text 2 that reach the optimum with these of text 1."""
    first_1 = _order(pairs.n_1)[0]
    rows = [int(first_1[a]) + b - a - 1 for a, b in pairwise((0, *cuts_1, pairs.n_1))]
    value = np.full((len(rows), pairs.n_2, pairs.n_2 + 1), -np.inf)
    starts, stops = _segment_bounds(pairs.n_2)
    value[:, starts, stops] = pairs.rows(np.array(rows))
    rest = [value[-1, :, pairs.n_2]]
    for part in value[-2:0:-1]:
        rest.append((part[:, :-1] + rest[-1]).max(axis=1))
    cuts = [0]
    reached = 0.0
    for part, gain in zip(value[:-1], reversed(rest), strict=True):
        here = reached + part[cuts[-1], :-1]
        chosen = int(np.argmax(here + gain >= best - TOLERANCE))
        cuts.append(chosen)
        reached = float(here[chosen])
    return tuple(cuts[1:])


@dataclass(frozen=True, slots=True)
class Alignment:
    """k parts of each response; part i of one is shown with part i of the other.

    cuts_1, cuts_2: the k-1 character offsets at which each text is cut, ascending.
    similarity: the sum over the k pairs of parts, between 0 and k; None where it played no role."""

    parts_1: tuple[str, ...]
    parts_2: tuple[str, ...]
    cuts_1: tuple[int, ...]
    cuts_2: tuple[int, ...]
    similarity: float | None = None


def length_aligned(
    text_1: str, boundaries_1: Sequence[int], text_2: str, boundaries_2: Sequence[int], k: int
) -> Alignment | None:
    """Cut both texts nearest to the k-1 points that divide them into equal lengths (PORTIA §3.2).

    If two points are nearest to the same boundary, the second takes the next one.

    Args:
        text_1, text_2: the responses.
        boundaries_1, boundaries_2: where a cut may be, ascending, never 0 or the text's length.
        k: number of parts, 2 or more.
    Returns: the parts, or None if a text has fewer than k-1 boundaries: it is too short to split.
    Raises: ValueError for a smaller k or boundaries out of order."""
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
    """Cut both texts so that the k pairs of parts are most similar together (Algorithm 1, step 3).

    The result is the first maximum of an exhaustive search over the cuts of text 1 and, within, of
    text 2, each in lexicographic order.

    Args:
        text_1, boundaries_1, text_2, boundaries_2, k: as in `length_aligned`.
        tokens: `word`, `split`, or another `Similarity`.
    Returns: the parts, or None if a text is too short to split or every similarity is 0.
    Raises: ValueError as `length_aligned`, and beyond 100 sentences (`boundaries` gives no more).
    """
    _check(text_1, boundaries_1, k)
    _check(text_2, boundaries_2, k)
    # Segments grow with the square of the sentences, and pairs of segments with the fourth power.
    if max(len(boundaries_1), len(boundaries_2)) >= MAX_SENTENCES:
        raise ValueError(f"a text is cut at {MAX_SENTENCES} sentences at most; merge neighbours")
    if min(len(boundaries_1), len(boundaries_2)) < k - 1:
        return None
    similarity = NAMED[tokens] if isinstance(tokens, str) else tokens
    pairs = similarity(_parts(text_1, boundaries_1), _parts(text_2, boundaries_2))
    best = _best_cuts(pairs, k)
    if best is None:
        return None
    cuts_1 = tuple(boundaries_1[i - 1] for i in best.cuts_1)
    cuts_2 = tuple(boundaries_2[i - 1] for i in best.cuts_2)
    return Alignment(
        _parts(text_1, cuts_1), _parts(text_2, cuts_2), cuts_1, cuts_2, best.similarity
    )


def equidistant(boundaries: Sequence[int], length: int, k: int) -> tuple[int, ...]:
    """Take the nearest boundary that is still free for each of k-1 equidistant points, in order.

    Free: after the previous cut, with a boundary left for each point to come. Of two equally
    near ones the first. Distances are compared as integers, k times what they are.

    Args: boundaries, length, k: ascending offsets, characters of the text, and number of parts.
    Returns: k-1 offsets."""
    cuts: list[int] = []
    start = 0
    for point in range(1, k):
        # Boundaries that the points to come need are not free.
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
