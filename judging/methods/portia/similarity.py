"""How alike two segments are: the share of their tokens, or the angle of their embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Indices = NDArray[np.intp]
Tokenizer = Callable[[str], set[str]]

# Scripts written without spaces, in which \w+ takes a whole run for one word: Han, kana, bopomofo.
UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


class Features(Protocol):
    """The segments of one text as vectors."""

    n_sentences: int

    def of(self, starts: Indices, stops: Indices) -> tuple[Floats, Floats]:
        """Vectors (n, D) and sizes (n,) of the segments that hold sentences start to stop-1.

        The similarity of two segments is the product of their vectors, or 0 where that is
        negative, over the larger of their sizes.
        """
        ...


class Similarity(Protocol):
    """Turns the sentences of two texts into features that can be compared."""

    def __call__(
        self, sentences_1: Sequence[str], sentences_2: Sequence[str]
    ) -> tuple[Features, Features]: ...


def word_tokens(text: str) -> set[str]:
    """Runs of letters and digits in lower case; of Chinese and Japanese, the characters."""
    return set(_WORD.findall(text.lower()))


def split_tokens(text: str) -> set[str]:
    """What stands between white space, as it is."""
    return set(text.split())


class TokenFeatures:
    """Which of the shared tokens a segment holds, and how many tokens in all.

    A segment's set is the union of its sentences' sets.
    """

    def __init__(self, sentences: Sequence[set[str]], shared: Sequence[str]) -> None:
        self.n_sentences = len(sentences)
        others = sorted(set().union(*sentences).difference(shared))
        column = {token: i for i, token in enumerate((*shared, *others))}
        self._n_shared = len(shared)
        held = np.zeros((len(sentences) + 1, len(column)), dtype=np.int32)
        for row, tokens in enumerate(sentences, start=1):
            held[row, [column[token] for token in tokens]] = 1
        self._so_far = held.cumsum(axis=0)

    def of(self, starts: Indices, stops: Indices) -> tuple[Floats, Floats]:
        held = self._so_far[stops] > self._so_far[starts]
        size = np.maximum(held.sum(axis=1), 1).astype(np.float64)
        return held[:, : self._n_shared].astype(np.float32), size


class TokenSimilarity:
    """|A and B| / max(|A|, |B|) of the token sets; 0 when both are empty (PORTIA §3.2)."""

    def __init__(self, tokenize: Tokenizer) -> None:
        self._tokenize = tokenize

    def __call__(
        self, sentences_1: Sequence[str], sentences_2: Sequence[str]
    ) -> tuple[TokenFeatures, TokenFeatures]:
        sets_1 = [self._tokenize(sentence) for sentence in sentences_1]
        sets_2 = [self._tokenize(sentence) for sentence in sentences_2]
        shared = sorted(set().union(*sets_1) & set().union(*sets_2))
        return TokenFeatures(sets_1, shared), TokenFeatures(sets_2, shared)


NAMED: Mapping[str, Similarity] = {
    "word": TokenSimilarity(word_tokens),
    "split": TokenSimilarity(split_tokens),
}
