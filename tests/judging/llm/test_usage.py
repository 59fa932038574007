"""Tokens: as reported where that can be true, else estimated from the texts and marked."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.prices import (
    PIECE,
    PriceSnapshot,
    Usage,
    estimate_prompt,
    estimate_tokens,
    fewest_tokens,
    is_cut,
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
        {"prompt_tokens": "120 tokens", "completion_tokens": ""},
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


def spent(usage):
    price = PriceSnapshot.flat(Decimal(1), Decimal(10), "given", cached=Decimal("0.1"))
    return price.cost(usage)


# prompt, cached and completion of the whole call; the fields; what it costs at 1, 0.1 and 10.
LAYOUTS = {
    "OpenAI, inside": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "beside, by the total": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "Anthropic": (
        {"input_tokens": 90, "output_tokens": 110, "cache_read_input_tokens": 1920},
        (2010, 1920, 110),
        "0.001382",
    ),
    "Anthropic, with what was written to the cache": (
        {
            "prompt_tokens": 40,
            "completion_tokens": 110,
            "cache_creation_input_tokens": 50,
            "cache_read_input_tokens": 1920,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "Anthropic through a gateway that adds them up": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "cache_read_input_tokens": 1920,
            "cache_creation_input_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "DeepSeek": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "prompt_cache_hit_tokens": 1920,
            "prompt_cache_miss_tokens": 90,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "DeepSeek's names, beside": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 110,
            "prompt_cache_hit_tokens": 1920,
            "prompt_cache_miss_tokens": 90,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "Moonshot": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "cached_tokens": 1920,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "beside, by a name of their own in the details": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "prompt_tokens_details": {"cache_read_tokens": 1920, "cache_type": "short"},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "inside, by a name of their own": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "num_cached_tokens": 1920,
            "cache_write_tokens": 7,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "OpenRouter, with what was written to the cache": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2120,
            "prompt_tokens_details": {"cached_tokens": 1920, "cache_write_tokens": 80},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "inside, with 300 tokens of thinking in the total alone": (
        {
            "prompt_tokens": 2010,
            "completion_tokens": 110,
            "total_tokens": 2420,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        (2010, 1920, 410),
        "0.004382",
    ),
    "beside, with 300 tokens of thinking in the total alone": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 110,
            "total_tokens": 2420,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        (2010, 1920, 410),
        "0.004382",
    ),
    "in Google's own words": (
        {
            "promptTokenCount": 2010,
            "candidatesTokenCount": 110,
            "totalTokenCount": 2120,
            "cachedContentTokenCount": 1920,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "in Amazon's own words, beside": (
        {
            "inputTokens": 90,
            "outputTokens": 110,
            "totalTokens": 2120,
            "cacheReadInputTokens": 1920,
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "as text and as a decimal": (
        {
            "prompt_tokens": "2010",
            "completion_tokens": 110.0,
            "total_tokens": "2120",
            "usage_details": {"cache_read_tokens": "1920"},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
    "as a flag, which is no count": (
        {"prompt_tokens": 2010, "completion_tokens": 110, "is_cached": 1},
        (2010, 0, 110),
        "0.00311",
    ),
    "beside without a total, by the prompt's own length": (
        {
            "prompt_tokens": 90,
            "completion_tokens": 110,
            "prompt_tokens_details": {"cached_tokens": 1920},
        },
        (2010, 1920, 110),
        "0.001382",
    ),
}

# Part of the prompt, at its price unless the snapshot has one for them.
WRITTEN = {
    "Anthropic, with what was written to the cache": 50,
    "inside, by a name of their own": 7,
    "OpenRouter, with what was written to the cache": 80,
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_cached_tokens_cost_their_own_price_once_wherever_they_are_counted(name):
    fields, (prompt, cached, completion), usd = LAYOUTS[name]
    usage = reported_usage(fields, ["word " * 1900], [TEXT])
    assert usage == Usage(prompt, cached, completion, written_tokens=WRITTEN.get(name, 0))
    assert spent(usage) == Decimal(usd)


@pytest.mark.parametrize(
    ("text", "reported", "cut"),
    [
        ("word " * 3000, 2051, True),
        ("A sentence of a response that is judged. " * 330, 2051, True),
        ("The quick brown fox isn't lazy. " * 500, 2048, True),
        # No tokeniser has four characters of these scripts in each token.
        ("这是一个很好的回答。" * 1000, 2051, True),
        ("これはとても長い回答ですので、注意して読んでください。" * 300, 2051, True),
        ("이것은 아주 긴 답변이므로 주의 깊게 읽어야 합니다. " * 300, 1024, True),
        # A tokeniser whose tokens span words, at its best.
        ("word " * 3000, 2760, False),
        ("word " * 3000, 3010, False),
        # Scripts without spaces, rows of signs, code, one long word, and short prompts.
        ("这是一个很好的回答。" * 1000, 3300, False),
        ("これは良い答えです " * 500, 2051, False),
        ("| - | - | = | " * 1000, 300, False),
        ("snake_case_name_of_it(a_b_c) " * 500, 3000, False),
        ("https://www.example.com/a/b/c " * 400, 2051, False),
        ("x" * 20000, 700, False),
        ("word " * 100, 50, False),
        ("e.g. i.e. U.S.A. don't can't " * 400, 2000, False),
    ],
)
def test_a_prompt_that_the_server_cut_is_noticed_and_no_tokeniser_is_accused(text, reported, cut):
    assert reported_usage(report(prompt=reported), [text], [TEXT]).prompt_cut is cut
    assert is_cut(reported, [text[: len(text) // 2], text[len(text) // 2 :]]) is cut


def test_cached_tokens_beside_the_prompt_are_read_whatever_the_total_counts():
    usage = report(prompt=90, completion=110, cached_tokens=1920, total_tokens=200)
    assert reported_usage(usage, ["word " * 2000], [TEXT]) == Usage(2010, 1920, 110)


def test_cached_tokens_beside_the_prompt_are_read_and_so_no_sign_of_a_cut():
    usage = report(prompt=300, completion=30, total_tokens=3330)
    usage["prompt_tokens_details"] = {"cached_tokens": 3000}
    assert reported_usage(usage, ["word " * 3000], [TEXT]) == Usage(3300, 3000, 30)
