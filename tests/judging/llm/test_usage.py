"""Tokens: as reported where that can be true, else estimated from the texts and marked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.prices import (
    PIECE,
    Usage,
    estimate_prompt,
    estimate_tokens,
    fewest_tokens,
    reported_usage,
)

PROMPT = ["Which response is better? " * 20]
TEXT = (
    "Evaluation evidence: both are fine.\nThe score of Assistant 1: 8\nThe score of Assistant 2: 6"
)


def report(prompt=120, completion=30, **more):
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


def test_a_plausible_report_is_taken_as_it_is():
    assert reported_usage(report(), PROMPT, [TEXT]) == Usage(120, 0, 30)


@pytest.mark.parametrize(
    "details",
    [
        {"prompt_tokens_details": {"cached_tokens": 64}},
        {"prompt_cache_hit_tokens": 64},
    ],
)
def test_cached_tokens_are_part_of_the_prompt(details):
    assert reported_usage(report(**details), PROMPT, [TEXT]) == Usage(120, 64, 30)


def test_more_cached_than_there_are_is_cut_to_the_prompt():
    details = {"prompt_tokens_details": {"cached_tokens": 500}}
    assert reported_usage(report(**details), PROMPT, [TEXT]).cached_tokens == 120


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "none",
        {},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -5, "completion_tokens": -1},
        {"prompt_tokens": "120", "completion_tokens": "30"},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": 1.5, "completion_tokens": float("nan")},
    ],
)
def test_a_missing_or_impossible_report_is_estimated_and_marked(wrong):
    usage = reported_usage(wrong, PROMPT, [TEXT])
    assert usage == Usage(estimate_prompt(PROMPT), 0, estimate_tokens(TEXT), estimated=True)


def test_three_choices_of_which_one_is_reported_are_counted_from_the_texts():
    """llama.cpp: n=3 with 20 tokens in each choice, and 20 reported. 3 × 20 = 60."""
    text = TEXT[:80]
    usage = reported_usage(report(completion=20), PROMPT, [text, text, text])
    assert usage == Usage(120, 0, 60, estimated=True, one_choice=True)


def test_choices_of_unequal_length_are_estimated_on_the_scale_of_the_reported_one():
    """The report fits the text of 20 pieces, 22 by the estimate: all 154 are scaled by 30/22."""
    texts = ["evidence. " * 10, "evidence. " * 40, "evidence. " * 20]
    usage = reported_usage(report(completion=30), PROMPT, texts)
    assert usage.completion_tokens == round((22 + 88 + 44) * 30 / 22)
    assert usage.one_choice


def test_all_choices_reported_are_not_corrected():
    usage = reported_usage(report(completion=75), PROMPT, [TEXT, TEXT, TEXT])
    assert usage == Usage(120, 0, 75)


def test_short_json_verdicts_show_the_missing_choices_too():
    text = '{"score_1": 7, "score_2": 6}'
    assert not reported_usage(report(completion=39), PROMPT, [text] * 3).estimated
    assert reported_usage(report(completion=13), PROMPT, [text] * 3).estimated


def test_reasoning_makes_a_report_larger_than_the_texts_and_is_believed():
    assert reported_usage(report(completion=900), PROMPT, [TEXT]).completion_tokens == 900


def test_thinking_that_is_counted_in_the_total_alone_is_paid_for():
    """Gemini and xAI: 120 in the prompt, 30 in the text, and 350 of thinking between them."""
    thinking = report(total_tokens=500)
    assert reported_usage(thinking, PROMPT, [TEXT]) == Usage(120, 0, 380)
    assert reported_usage(report(total_tokens=1), PROMPT, [TEXT]) == Usage(120, 0, 30)


def test_a_server_known_to_report_one_choice_is_always_corrected():
    usage = reported_usage(report(completion=75), PROMPT, [TEXT] * 3, one_choice_only=True)
    assert usage.estimated
    assert usage.completion_tokens > 75
    single = reported_usage(report(completion=25), PROMPT, [TEXT], one_choice_only=True)
    assert not single.estimated


def test_logprobs_count_exactly():
    usage = reported_usage(report(completion=3), PROMPT, [TEXT] * 2, counted=[31, 29])
    assert usage.completion_tokens == 60


# By how tokenisers split words and digits: text, fewest tokens, most tokens.
COUNTED = [
    ("The quick brown fox jumps over the lazy dog.", 10, 10),
    ("", 0, 0),
    ("1234567890", 4, 10),  # in threes, or digit by digit
]


@pytest.mark.parametrize(("text", "fewest", "most"), COUNTED)
def test_the_lower_bound_holds_and_the_estimate_is_near(text, fewest, most):
    assert fewest_tokens(text) <= fewest
    assert fewest_tokens(text) <= estimate_tokens(text)
    assert estimate_tokens(text) <= 2 * max(most, 1)


@pytest.mark.parametrize(
    "text", ["这是一个很好的回答。", "これは良い答えです", "이것은 좋은 대답입니다"]
)
def test_scripts_without_spaces_are_counted_by_character(text):
    assert len(text) * 0.6 <= estimate_tokens(text) <= len(text) * 1.5


def test_an_estimate_grows_with_the_text():
    assert estimate_tokens("Это хороший ответ. " * 50) > 40 * estimate_tokens("хороший") / 2
    assert estimate_prompt(["a b c", "d"]) > estimate_prompt(["a b c"])


@given(st.text(st.characters(max_codepoint=127)) | st.text("a_.7 \x1c", max_size=30))
def test_the_pieces_of_plain_text_are_counted_as_their_pattern_finds_them(text):
    assert fewest_tokens(text) == len(PIECE.findall(text))
