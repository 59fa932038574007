import hashlib
import re
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.methods.portia import alignment
from judging.methods.portia.alignment import (
    MAX_SENTENCES,
    equidistant,
    length_aligned,
    semantically_aligned,
    split_tokens,
    word_tokens,
)

TOKENIZERS = {"word": word_tokens, "split": split_tokens}


def parts(text, cuts):
    return tuple(text[start:stop] for start, stop in pairwise((0, *cuts, len(text))))


def assert_reference(given_texts, k, length, semantic):
    """Both alignments of one pair, with the values of the reference file."""
    found = length_aligned(*given_texts, k)
    if None in length:
        assert found is None
    else:
        assert [list(found.cuts_1), list(found.cuts_2)] == length
    for tokens, expected in semantic.items():
        found = semantically_aligned(*given_texts, k, tokens)
        if expected is None or expected["pos1"] is None:
            assert found is None
        else:
            assert (list(found.cuts_1), list(found.cuts_2)) == (expected["pos1"], expected["pos2"])
            assert found.similarity == pytest.approx(expected["score"], abs=1e-12)
            assert "".join(found.parts_1) == given_texts[0]
            assert found.parts_2 == parts(given_texts[2], found.cuts_2)


def test_the_hand_made_reference_cases_come_out(reference):
    for case in reference("portia_cases.json"):
        texts = (case["text1"], case["positions1"], case["text2"], case["positions2"])
        for k, expected in case["expected"].items():
            assert_reference(texts, int(k), expected["equal_distinct"], expected["semantic"])


def test_the_reference_alignments_of_real_answers_come_out(reference, answers):
    for question, case in reference("portia_vicuna_pairs.json").items():
        texts = answers["gpt35"][question], answers["vicuna-13b"][question]
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        assert hashes == [case["gpt35_sha256"], case["vicuna_sha256"]]
        for k, length in case["equal_distinct"].items():
            semantic = {tokens: case["semantic"][tokens][k] for tokens in TOKENIZERS}
            given_texts = (texts[0], case["positions"][0], texts[1], case["positions"][1])
            assert_reference(given_texts, int(k), length, semantic)


def exhaustive(sentences_1, sentences_2, k):
    """First maximum over all choices of cuts in lexicographic order, in exact fractions."""

    def segments(sentences, cuts):
        return [set().union(*sentences[a:b]) for a, b in pairwise((0, *cuts, len(sentences)))]

    best, chosen = Fraction(0), None
    for cuts_1 in combinations(range(1, len(sentences_1)), k - 1):
        for cuts_2 in combinations(range(1, len(sentences_2)), k - 1):
            pairs = zip(segments(sentences_1, cuts_1), segments(sentences_2, cuts_2), strict=True)
            value = sum(
                (Fraction(len(a & b), max(len(a), len(b), 1)) for a, b in pairs), Fraction(0)
            )
            if value > best:
                best, chosen = value, (cuts_1, cuts_2)
    return best, chosen


# Few distinct tokens make many ties; up to six sentences let every k have something to choose.
SENTENCES = st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), min_size=1, max_size=6)


# Blocks of one start each and all starts in one block: a long pair has both.
BLOCKS = st.sampled_from([1, alignment.BLOCK])


@settings(max_examples=300)
@given(SENTENCES, SENTENCES, st.integers(2, 5), BLOCKS)
def test_the_optimum_and_its_first_cuts_are_those_of_an_exhaustive_search(one, two, k, block):
    texts = []
    for sentences in (one, two):
        written = ["".join(f"{token} " for token in sentence) + ". " for sentence in sentences]
        ends = [len("".join(written[:i])) for i in range(1, len(written))]
        texts += ["".join(written), ends]
    best, chosen = exhaustive(
        [{*sentence, "."} for sentence in one], [{*sentence, "."} for sentence in two], k
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "BLOCK", block)
        patch.setattr(alignment, "_FEW_WORDS", 0 if block == 1 else 4)
        found = semantically_aligned(*texts, k, "split")
    if chosen is None:
        assert found is None
        return
    assert found.similarity == pytest.approx(float(best), abs=1e-12)
    indices = tuple(
        tuple(ends.index(cut) + 1 for cut in cuts)
        for ends, cuts in ((texts[1], found.cuts_1), (texts[3], found.cuts_2))
    )
    assert indices == chosen


@given(st.lists(st.integers(1, 500), min_size=1, max_size=30, unique=True), st.integers(2, 6))
def test_length_alignment_takes_distinct_boundaries_in_order(boundaries, k):
    boundaries.sort()
    if len(boundaries) < k - 1:
        return
    cuts = equidistant(boundaries, 501, k)
    assert len(cuts) == k - 1
    assert set(cuts) <= set(boundaries)
    assert list(cuts) == sorted(set(cuts))
    # The first takes the nearest of those that leave room for the others.
    room = boundaries[: len(boundaries) - (k - 2)]
    assert abs(k * cuts[0] - 501) == min(abs(k * b - 501) for b in room)


def test_two_points_nearest_to_one_boundary_take_two():
    assert equidistant([50, 98, 99], 100, 3) == (50, 98)


def test_equally_near_boundaries_give_the_first():
    assert equidistant([40, 60], 100, 2) == (40,)


def test_too_few_boundaries_leave_a_response_whole():
    assert length_aligned("A. B.", [3], "A. B. C.", [3, 6], 3) is None
    assert semantically_aligned("A. B.", [3], "A. B. C.", [3, 6], 3) is None


def test_nothing_in_common_aligns_nothing():
    assert semantically_aligned("a. b.", [3], "c. d.", [3], 2, "split") is None


@pytest.mark.parametrize("boundaries", [[0], [6], [3, 3], [4, 2], [9]])
def test_boundaries_outside_the_text_or_out_of_order_are_refused(boundaries):
    with pytest.raises(ValueError, match="ascend"):
        length_aligned("a. b. ", boundaries, "a. b. ", [3], 2)


def test_one_part_is_no_split():
    with pytest.raises(ValueError, match="2 parts"):
        length_aligned("a. b.", [3], "a. b.", [3], 1)


def test_more_sentences_than_the_cap_are_refused_rather_than_searched_for_ever():
    text = "a " * (MAX_SENTENCES + 1)
    boundaries = range(2, len(text), 2)
    with pytest.raises(ValueError, match="merge neighbours"):
        semantically_aligned(text, boundaries, text, boundaries, 3)


def test_chinese_and_japanese_are_compared_by_character():
    assert word_tokens("猫がいる。Cat's") == {"猫", "が", "い", "る", "cat", "s"}
    assert word_tokens("한국어 문장") == {"한국어", "문장"}
    assert split_tokens("The cat. the") == {"The", "cat.", "the"}


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_are_those_of_any_text(text):
    assert word_tokens(text) == set(re.findall(r"\w+", text.lower()))
    assert word_tokens(text + " é") == word_tokens(text) | {"é"}
