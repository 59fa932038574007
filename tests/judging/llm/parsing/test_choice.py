"""P of the option-ID tokens, from the log-probabilities of one token."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.choice import UnusableIds, check_ids, parse_choice
from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import template


def token(sampled, **top):
    return likely(sampled, top.items())


def likely(sampled, top):
    pairs = tuple((text, math.log(p)) for text, p in top)
    return TokenLogprobs(sampled, dict(pairs).get(sampled, -1.0), pairs)


def test_the_probability_is_renormalised_over_both_ids():
    parsed = parse_choice([token("A", A=0.6, B=0.2, C=0.1)], ("A", "B"))
    assert parsed.p_first == pytest.approx(0.75)
    assert parsed.mass == pytest.approx(0.8)
    assert not parsed.bounded


def test_variants_of_a_token_are_summed():
    top = [
        ("A", 0.2),
        (" A", 0.1),
        ("(A", 0.1),
        ("A.", 0.05),
        ("**A", 0.05),
        ("ĠA", 0.1),
        ("B", 0.2),
    ]
    parsed = parse_choice([likely("A", top)], ("A", "B"))
    assert parsed.p_first == pytest.approx(0.75)
    assert parsed.mass == pytest.approx(0.8)


def test_words_and_the_other_case_are_no_variants():
    top = [("A", 0.3), ("B", 0.1), ("a", 0.2), ("As", 0.2), ("Both", 0.1)]
    assert parse_choice([likely("A", top)], ("A", "B")).p_first == pytest.approx(0.75)
    assert parse_choice([likely("a", top)], ("a", "b")).mass == pytest.approx(0.2)


def test_a_missing_token_is_bounded_by_the_smallest_seen():
    parsed = parse_choice([token("A", A=0.9, The=0.06, I=0.03)], ("A", "B"))
    assert parsed.p_first == pytest.approx(0.9 / 0.93)
    assert parsed.mass == pytest.approx(0.9)
    assert parsed.bounded


def test_a_missing_token_has_no_more_than_all_others_leave():
    only = parse_choice([likely("A", [("A", 0.9)])], ("A", "B"))
    assert only.p_first == pytest.approx(0.9)
    assert only.bounded
    alone = parse_choice([TokenLogprobs("A", math.log(0.9), ())], ("A", "B"))
    assert alone.p_first == pytest.approx(0.9)
    # The sampled token is not among the likeliest: its own share says nothing about the other.
    beside = parse_choice(
        [TokenLogprobs("A", math.log(0.1), (("The", math.log(0.8)),))], ("A", "B")
    )
    assert beside.p_first == pytest.approx(0.5)


@pytest.mark.parametrize("logprob", [-9999.0, 0.0])
def test_log_probabilities_that_are_none_give_no_verdict(logprob):
    """Unknown ones are read as -9999; and two tokens can't both be certain."""
    top = (("A", logprob), ("B", logprob))
    assert parse_choice([TokenLogprobs("A", logprob, top)], ("A", "B")) is None


def test_certainty_is_no_bound():
    top = (("A", 0.0), ("B", -9999.0))
    parsed = parse_choice([TokenLogprobs("A", 0.0, top)], ("A", "B"))
    assert (parsed.p_first, parsed.bounded) == (1.0, False)


@pytest.mark.parametrize("sign", ["Ａ", "\u00a0A", "\u200bA", "\u2581A", " A."])
def test_a_letter_is_known_however_it_is_written(sign):
    parsed = parse_choice([likely(sign, [(sign, 0.6), ("B", 0.2)])], ("A", "B"))
    assert parsed.p_first == pytest.approx(0.75)


def test_thinking_is_passed_over():
    thought = [token("<think>", A=0.9, B=0.1), token("A", A=0.9, B=0.1), token("</think>", B=1.0)]
    answer = token("B", A=0.25, B=0.75)
    assert parse_choice([*thought, answer], ("A", "B")).p_first == pytest.approx(0.25)
    assert parse_choice(thought, ("A", "B")) is None


@pytest.mark.parametrize("top", [{"The": 0.9, "I": 0.1}, {}])
def test_both_missing_is_no_verdict(top):
    assert parse_choice([token("The", **top)], ("A", "B")) is None


def test_a_sampled_token_that_is_left_out_of_the_likeliest_counts_too():
    tokens = [TokenLogprobs("B", math.log(0.2), (("A", math.log(0.6)),))]
    parsed = parse_choice(tokens, ("A", "B"))
    assert parsed.p_first == pytest.approx(0.75)
    assert not parsed.bounded


@pytest.mark.parametrize("opening", ["\n", " ", "**", "(", "Ġ", '"'])
def test_what_says_nothing_yet_is_passed_over(opening):
    tokens = [token(opening, A=0.1, B=0.1), token("A", A=0.75, B=0.25)]
    assert parse_choice(tokens, ("A", "B")).p_first == pytest.approx(0.75)


def test_long_ids_are_told_apart_by_their_first_differing_token():
    names = parse_choice([token("Al", Al=0.75, Bob=0.25)], ("Alice", "Bob"))
    assert names.p_first == pytest.approx(0.75)
    shared = [token("Model", Model=0.9), likely(" X", [(" X", 0.75), (" Y", 0.25)])]
    assert parse_choice(shared, ("Model X", "Model Y")).p_first == pytest.approx(0.75)


def test_ids_count_in_the_order_in_which_they_were_shown():
    asked, tokens = template("calibraeval-default"), [token("A", A=0.75, B=0.25)]
    found = {
        part: parse(asked, "A", "stop", logprobs=tokens, part=part).p_first
        for part in ("X0", "X1", "X2", "X3")
    }
    assert found == pytest.approx({"X0": 0.75, "X1": 0.25, "X2": 0.75, "X3": 0.25})


def test_nothing_is_made_up_without_log_probabilities():
    assert parse(template("calibraeval-default"), "A", "stop").status is Status.UNPARSED


def test_a_reply_of_one_token_ends_by_length_and_is_valid():
    tokens = [token("A", A=0.75, B=0.25)]
    parsed = parse(template("calibraeval-default"), "A", "length", logprobs=tokens)
    assert parsed.status is Status.VALID


def test_a_reply_of_one_token_that_is_neither_is_unparsed_although_it_ends_by_length():
    asked = template("calibraeval-default")
    neither = parse(asked, "The", "length", logprobs=[token("The", The=0.9, I=0.1)])
    assert neither.status is Status.UNPARSED
    begun = parse(asked, "\n", "length", logprobs=[likely("\n", [("\n", 0.9)])])
    assert begun.status is Status.TRUNCATED


@given(st.lists(st.tuples(st.sampled_from("AB (.C\n"), st.floats(-800, -2)), max_size=6))
def test_a_probability_lies_between_0_and_1_and_turns_with_the_ids(top):
    tokens = [TokenLogprobs("A", -1.0, tuple(top))]
    one, other = (parse_choice(tokens, ids) for ids in (("A", "B"), ("B", "A")))
    assert (one is None) == (other is None)
    if one is not None:
        assert 0 <= one.p_first <= 1
        assert 0 <= one.mass <= 1
        assert one.p_first + other.p_first == pytest.approx(1)


@pytest.mark.parametrize("ids", [("A", "B"), ("a", "b"), ("X", "Y"), ("Alice", "Bob"), ("1", "2")])
def test_usable_ids(ids):
    check_ids(ids)


@pytest.mark.parametrize("ids", [("A", "A"), ("A", "AB"), ("", "B"), ("A.", "B"), ("A", " B")])
def test_unusable_ids(ids):
    with pytest.raises(UnusableIds):
        check_ids(ids)
