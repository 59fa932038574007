"""Similarity of segments by sentence embeddings, in place of shared tokens (PORTIA, Appendix I)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.portia.similarity import Indices, Similarities, Values, segment_bounds

Embed = Callable[[Sequence[str]], ArrayLike]


class EmbeddingSimilarity:
    """Cosine of the segments' vectors, or 0 where it is negative.

    A segment's vector is the sum of its sentences' vectors of length 1.  The paper embeds each
    segment anew; from the sentences it takes one vector a sentence instead of one a segment,
    which is what makes the exact optimum affordable.
    """

    def __init__(self, embed: Embed) -> None:
        """embed: n sentences to an array (n, D)."""
        self._embed = embed

    def __call__(self, sentences_1: Sequence[str], sentences_2: Sequence[str]) -> Similarities:
        vectors = np.asarray(self._embed([*sentences_1, *sentences_2]), dtype=np.float64)
        n = len(sentences_1) + len(sentences_2)
        if vectors.ndim != 2 or len(vectors) != n or not np.isfinite(vectors).all():
            raise ValueError(f"the sentence model gives no vector for each of {n} sentences")
        vectors = _unit(vectors)
        return _Cosines(vectors[: len(sentences_1)], vectors[len(sentences_1) :])


class _Cosines:
    def __init__(self, vectors_1: Values, vectors_2: Values) -> None:
        self.n_1, self.n_2 = len(vectors_1), len(vectors_2)
        self._segments_1 = _sums(vectors_1)
        self._segments_2 = _sums(vectors_2).T

    def rows(self, segments: slice | Indices) -> Values:
        cosines: Values = self._segments_1[segments] @ self._segments_2
        np.maximum(cosines, 0, out=cosines)
        return cosines


def _sums(vectors: Values) -> Values:
    so_far = np.vstack((np.zeros((1, vectors.shape[1])), vectors.cumsum(axis=0)))
    starts, stops = segment_bounds(len(vectors))
    return _unit(so_far[stops] - so_far[starts])


def _unit(vectors: Values) -> Values:
    """Vectors of length 1; one of length 0 stays, and is like nothing."""
    lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
