"""A judge's probability over the scores of a scale."""

import math
from decimal import Decimal

import pytest

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.choice import score_probabilities
from judging.llm.prompts.templates import Scale

FIVE = Scale(Decimal(1), Decimal(5))
TEN = Scale(Decimal(1), Decimal(10))
HUNDRED = Scale(Decimal(0), Decimal(100))


def token(sampled, top):
    pairs = tuple((text, math.log(p)) for text, p in top.items())
    return TokenLogprobs(sampled, -1.0, pairs)


def test_each_score_has_the_share_of_its_variants():
    first = token("4", {"4": 0.5, " 4": 0.1, "５": 0.2, "5.": 0.1, "9": 0.05, "I": 0.05})
    found = score_probabilities([first], FIVE)
    assert found.probabilities == pytest.approx({4: 0.6, 5: 0.3})
    assert found.mass == pytest.approx(0.9)
    assert found.whole


def test_white_space_before_the_score_is_passed_over():
    tokens = [token("\n", {"\n": 0.9, "3": 0.1}), token("4", {"4": 1.0})]
    assert score_probabilities(tokens, FIVE).probabilities == pytest.approx({4: 1.0})


def test_ten_as_one_token_is_a_score_like_any_other():
    found = score_probabilities([token("10", {"10": 0.5, "1": 0.1, "9": 0.4})], TEN)
    assert found.probabilities == pytest.approx({10: 0.5, 1: 0.1, 9: 0.4})
    assert found.whole


def test_ten_as_two_tokens_takes_its_share_of_the_first_digit():
    tokens = [token("1", {"1": 0.6, "9": 0.4}), token("0", {"0": 0.75, "\n": 0.25})]
    found = score_probabilities(tokens, TEN)
    assert found.probabilities == pytest.approx({1: 0.15, 10: 0.45, 9: 0.4})
    assert found.whole


def test_a_first_digit_that_was_not_sampled_is_not_told_apart():
    tokens = [token("9", {"1": 0.3, "9": 0.7}), token("\n", {"\n": 1.0})]
    found = score_probabilities(tokens, TEN)
    assert found.probabilities == pytest.approx({1: 0.3, 9: 0.7})
    assert not found.whole


def test_a_negligible_first_digit_leaves_the_rest_whole():
    assert score_probabilities([token("9", {"1": 0.0005, "9": 0.9})], TEN).whole


def test_on_a_long_scale_no_digit_alone_is_a_score_that_is_known_for_sure():
    found = score_probabilities([token("8", {"8": 0.5, "7": 0.5})], HUNDRED)
    assert not found.whole


@pytest.mark.parametrize("tokens", [None, [], [token("The", {"The": 0.9, "6": 0.1})]])
def test_no_score_among_the_likeliest_is_none(tokens):
    assert score_probabilities(tokens, FIVE) is None


def test_a_score_behind_a_word_is_read_where_it_was_sampled():
    tokens = [
        token("Score", {"Score": 0.9, "3": 0.02}),
        token(":", {":": 1.0}),
        token(" 4", {" 4": 0.75, " 3": 0.25}),
    ]
    assert score_probabilities(tokens, FIVE).probabilities == pytest.approx({3: 0.02})
    found = score_probabilities(tokens, FIVE, place=7)
    assert found.probabilities == pytest.approx({4: 0.75, 3: 0.25})
