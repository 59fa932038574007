"""Money: decimals, cached tokens once, tiers by the prompt's size, and unknown is never 0."""

import json
from datetime import UTC, datetime
from decimal import Decimal as D

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.endpoint import Endpoint
from judging.llm.prices import (
    PriceError,
    PriceSnapshot,
    TokenRate,
    Usage,
    find_price,
    published_price,
    read_overrides,
    usd,
)

OPENAI = Endpoint("default", "https://api.openai.com/v1")
FLAT = PriceSnapshot.flat(D("2.50"), D("10"), "given", cached=D("1.25"))


def test_cached_tokens_are_priced_once_and_at_their_own_price():
    """1,000 of 3,000 prompt tokens cached: 2,000 × 2.50 + 1,000 × 1.25 + 500 × 10 per million."""
    assert FLAT.cost(Usage(3000, 1000, 500)) == D("0.01125")


def test_a_tier_holds_for_all_tokens_once_it_is_passed():
    price = PriceSnapshot(
        TokenRate(D(1), ((200_000, D(2)),)),
        TokenRate(D("0.1")),
        TokenRate(D(8), ((200_000, D(12)),)),
        "given",
    )
    assert price.cost(Usage(200_000, 0, 1000)) == D("0.2") + D("0.008")
    assert price.cost(Usage(200_001, 0, 1000)) == D("0.400002") + D("0.012")


def test_tokens_that_are_written_to_a_cache_have_a_price_of_their_own():
    """1,000 of 3,000 read, 500 written: 1,500 × 2.50 + 1,000 × 1.25 + 500 × 3.125 + 500 × 10."""
    usage = Usage(3000, 1000, 500, written_tokens=500)
    assert FLAT.with_cache_marks().cost(usage) == D("0.0115625")
    assert FLAT.cost(usage) == FLAT.cost(Usage(3000, 1000, 500))
    kept = FLAT.with_cache_marks()
    assert kept.half().cost(usage) * 2 == kept.cost(usage)
    assert PriceSnapshot.from_json(json.loads(json.dumps(kept.to_json()))) == kept
    assert kept.reserve(1000, 1, 1) == D("0.003125") + D("0.00001")


def test_a_published_price_has_what_writing_costs():
    price = published_price("https://api.anthropic.com/v1", "claude-3-5-haiku-latest")
    assert price is not None
    assert price.written.base == price.prompt.base * D("1.25")


def test_a_reservation_is_the_prompt_and_all_choices_full():
    assert FLAT.reserve(1000, 3, 200) == D("0.0025") + D("0.006")


@given(
    prompt=st.integers(1, 300_000),
    cached=st.integers(0, 300_000),
    k=st.integers(1, 9),
    most=st.integers(1, 4000),
    share=st.floats(0, 1),
)
def test_no_call_costs_more_than_was_reserved_for_it(prompt, cached, k, most, share):
    usage = Usage(prompt, min(cached, prompt), int(k * most * share))
    price = PriceSnapshot(
        TokenRate(D(1), ((200_000, D(2)),)),
        TokenRate(D("1.2")),
        TokenRate(D(8), ((9, D(9)),)),
        "given",
    )
    assert price.cost(usage) <= price.reserve(prompt, k, most)


def test_batches_cost_half():
    usage = Usage(3000, 1000, 500)
    assert FLAT.half().cost(usage) * 2 == FLAT.cost(usage)


def test_a_snapshot_survives_the_database():
    price = PriceSnapshot(
        TokenRate(D("0.15"), ((9, D("0.3")),)), TokenRate(D("0.075")), TokenRate(D(1)), "given"
    )
    assert PriceSnapshot.from_json(json.loads(json.dumps(price.to_json()))) == price


def test_published_prices_have_their_version_and_their_cached_price():
    price = find_price(OPENAI, "gpt-4o-mini")
    assert price is not None
    assert price.source.startswith("genai-prices ")
    assert price.cached.base < price.prompt.base < price.completion.base


def test_published_tiers_are_kept():
    google = Endpoint("g", "https://generativelanguage.googleapis.com/v1beta/openai")
    price = find_price(google, "gemini-2.5-pro")
    assert price is not None
    assert price.prompt.at(200_001) == 2 * price.prompt.at(1)


def test_a_price_that_depends_on_the_hour_is_taken_at_its_dearest():
    """DeepSeek's list price was halved from 16:30 to 00:30 UTC, in the package's own table."""
    hours = [datetime(2025, 6, 1, hour, tzinfo=UTC) for hour in (12, 20)]
    noon, night = (
        published_price("https://api.deepseek.com", "deepseek-chat", now=hour) for hour in hours
    )
    assert noon == night
    assert noon is not None
    assert noon.source.endswith("dearest hour of the day")


@pytest.mark.parametrize(
    ("address", "model"),
    [
        ("https://api.openai.com/v1", "no-such-model"),
        # A known name on one's own server costs what that server costs, which nobody knows.
        ("https://vllm.internal.example/v1", "gpt-4o-mini"),
        ("http://127.0.0.1:8000/v1", "gpt-4o-mini"),
    ],
)
def test_an_unknown_price_is_none_and_never_zero(address, model):
    assert find_price(Endpoint("e", address), model) is None


def test_the_local_judge_costs_nothing():
    price = find_price(Endpoint("local", "http://127.0.0.1:9/v1"), "smollm2")
    assert price is not None
    assert price.cost(Usage(1000, 0, 1000)) == 0
    assert price.source == "local"


def test_the_operators_file_comes_before_the_published_prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(
        '["gpt-4o-mini"]\nprompt = "1"\ncompletion = "2"\n'
        '["lab/gpt-4o-mini"]\nprompt = 0.1\ncompletion = 0.2\ncached = 0.05\n'
    )
    overrides = read_overrides(path)
    general = find_price(OPENAI, "gpt-4o-mini", overrides=overrides)
    own = find_price(Endpoint("lab", "lab.example"), "gpt-4o-mini", overrides=overrides)
    assert general == PriceSnapshot.flat(D(1), D(2), "override file")
    assert own == PriceSnapshot.flat(D("0.1"), D("0.2"), "override file", D("0.05"))


def test_the_operators_file_may_be_json(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text('{"m": {"prompt": "0.10", "completion": "0.20"}}')
    assert read_overrides(path)["m"].prompt.base == D("0.10")


def test_prices_given_for_the_run_come_first():
    price = find_price(OPENAI, "gpt-4o-mini", run_price=(D("3"), D("4")))
    assert price == PriceSnapshot.flat(D(3), D(4), "given")


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        '["m"]\nprompt = "1"\n',
        '["m"]\nprompt = "-1"\ncompletion = "1"\n',
        '["m"]\nprompt = "free"\ncompletion = "1"\n',
        '["m"]\nprompt = nan\ncompletion = "1"\n',
        '["m"]\nprompt = true\ncompletion = "1"\n',
        '["m"]\nprompt = 1\ncompletion = 1\ninput = 1\n',
        'm = "1"\n',
    ],
)
def test_a_price_file_that_can_not_be_read_is_named(tmp_path, text):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(PriceError, match=r"prices\.toml"):
        read_overrides(path)


def test_a_missing_price_file_is_named(tmp_path):
    with pytest.raises(PriceError, match=r"none\.toml"):
        read_overrides(tmp_path / "none.toml")


def test_a_price_keeps_every_digit():
    assert usd("0.0000001") == D("0.0000001")
    assert usd(0.1) == D("0.1")
