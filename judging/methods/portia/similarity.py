"""How alike two segments are: the share of their tokens, or the angle of their embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import or_
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Indices = NDArray[np.intp]
Tokenizer = Callable[[str], set[str]]

# Up to so many 64 shared tokens, comparing them all is faster than finding what is new.
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


class Similarities(Protocol):
    """The segments of two texts, each a run of neighbouring sentences, to be compared.

    n_1, n_2: sentences of each text.  Segments stand in the order of their first sentence, then
    of their last, as in `segment_bounds`: n (n + 1) / 2 of them.
    """

    n_1: int
    n_2: int

    def rows(self, segments: slice | Indices) -> Values:
        """Of these segments of text 1 with each of text 2: (segments, n_2 (n_2 + 1) / 2)."""
        ...


class Similarity(Protocol):
    """How alike segments of two texts are: 0 or more, 1 where they are the same."""

    def __call__(self, sentences_1: Sequence[str], sentences_2: Sequence[str]) -> Similarities: ...


@lru_cache(maxsize=64)
def segment_bounds(n: int) -> tuple[Indices, Indices]:
    """First sentence of each segment of n sentences, and the one behind its last."""
    starts, stops = np.triu_indices(n)
    return starts, stops + 1


def word_tokens(text: str) -> set[str]:
    """Runs of letters and digits in lower case; of Chinese and Japanese, the characters."""
    if text.isascii():
        return set(text.translate(_ASCII_WORDS).split())
    return set(_WORD.findall(text.lower()))


def split_tokens(text: str) -> set[str]:
    """What stands between white space, as it is."""
    return set(text.split())


class TokenSimilarity:
    """|A and B| / max(|A|, |B|) of the token sets; 0 when both are empty (PORTIA §3.2).

    A segment's set is the union of its sentences' sets.
    """

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
        numbers = _numbers([*sets_1, *sets_2], [*shared, *(all_1 ^ all_2)])
        unions_1, unions_2 = _unions(numbers[: self.n_1]), _unions(numbers[self.n_1 :])
        self._words_1 = _words(unions_1, len(shared))
        self._starts_1 = segment_bounds(self.n_1)[0]
        self._words_2 = _words(unions_2, len(shared))
        self._sizes_1 = _sizes(unions_1)[:, None]
        self._sizes_2 = _sizes(unions_2)

    def rows(self, segments: slice | Indices) -> Values:
        similarity: Values = np.maximum(self._sizes_1[segments], self._sizes_2)
        np.divide(self._common(segments), similarity, out=similarity)
        return similarity

    def _common(self, segments: slice | Indices) -> NDArray[np.uint16]:
        """Shared tokens of these segments of text 1 with each of text 2."""
        words = self._words_1[:, segments]
        common = np.zeros((words.shape[1], self._words_2.shape[1]), dtype=np.uint16)
        starts = self._starts_1[segments]
        if len(words) <= _FEW_WORDS or not isinstance(segments, slice) or starts[0] < starts[-1]:
            both = np.empty(common.shape, dtype=np.uint64)
            for one, two in zip(words, self._words_2, strict=True):
                np.bitwise_and(one[:, None], two, out=both)
                common += np.bitwise_count(both)
            return common
        # Segments of one start grow by a sentence each: what is new touches few words.
        new = words.copy()
        new[:, 1:] &= ~words[:, :-1]
        for one, two in zip(new, self._words_2, strict=True):
            rows = np.flatnonzero(one)
            common[rows] += np.bitwise_count(one[rows, None] & two)
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


def _sizes(unions: Sequence[int]) -> Values:
    """Tokens of each segment, at least 1, so that two empty segments have similarity 0."""
    return np.maximum(np.array(list(map(int.bit_count, unions)), dtype=np.float64), 1)


NAMED: Mapping[str, Similarity] = {
    "word": TokenSimilarity(word_tokens),
    "split": TokenSimilarity(split_tokens),
}
