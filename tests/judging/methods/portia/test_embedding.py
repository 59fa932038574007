import numpy as np
import pytest

from judging.methods.portia.alignment import EmbeddingSimilarity, semantically_aligned

MEANINGS = {"cat": (1, 0, 0), "feline": (0.9, 0.1, 0), "car": (0, 1, 0), "not": (0, 0, -1)}


def embed(sentences):
    return np.array([MEANINGS.get(sentence.strip(" ."), (0, 0, 0)) for sentence in sentences])


def test_sentences_of_one_meaning_are_aligned_without_a_shared_token():
    one, two = "cat. car. car. ", "feline. feline. car. "
    boundaries = ([5, 10], [8, 16])
    found = semantically_aligned(
        one, boundaries[0], two, boundaries[1], 2, EmbeddingSimilarity(embed)
    )
    assert found.parts_1 == ("cat. ", "car. car. ")
    assert found.parts_2 == ("feline. feline. ", "car. ")
    # cos((1, 0), (.9, .1)) + 1
    assert found.similarity == pytest.approx(0.9 / np.hypot(0.9, 0.1) + 1)
    assert semantically_aligned(one, boundaries[0], two, boundaries[1], 2) is not None


def test_opposite_and_empty_vectors_are_like_nothing():
    opposite = EmbeddingSimilarity(lambda sentences: np.array([[1.0]] * 2 + [[-1.0]] * 2))
    assert semantically_aligned("a. b.", [3], "c. d.", [3], 2, opposite) is None
    empty = EmbeddingSimilarity(lambda sentences: np.zeros((len(sentences), 3)))
    assert semantically_aligned("a. b.", [3], "c. d.", [3], 2, empty) is None


@pytest.mark.parametrize("bad", [np.ones(4), np.ones((3, 2)), np.full((4, 2), np.nan)])
def test_a_model_without_a_vector_for_each_sentence_is_refused(bad):
    with pytest.raises(ValueError, match="each of 4 sentences"):
        semantically_aligned("a. b.", [3], "c. d.", [3], 2, EmbeddingSimilarity(lambda _: bad))
