"""The expected score of a pointwise reply (Ohi et al., eq. 7)."""

from dataclasses import replace
from decimal import Decimal
from math import log

import pytest

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import Scale, template

ASKED = template("ohi-any")


def token(sampled: str, **shares: float) -> TokenLogprobs:
    top = tuple((text.strip("_"), log(share)) for text, share in shares.items())
    return TokenLogprobs(sampled, dict(top)[sampled], top)


def test_the_score_is_expected_over_the_score_tokens_alone():
    """(4 x .5 + 5 x .25) / .75 = 13/3; the rest went to a token that is no score."""
    read = parse(ASKED, "4", "stop", logprobs=[token("4", _4=0.5, _5=0.25, It=0.25)])
    assert read.status is Status.VALID
    assert float(read.rating) == pytest.approx(13 / 3)
    assert read.mass == pytest.approx(0.75)
    assert not read.bounded


def test_ten_as_two_tokens_is_told_from_one():
    """1 begins both: .6 x .5 = .3 is 10, .3 stays with 1; (1 x .3 + 10 x .3 + 9 x .4) / 1 = 6.9."""
    wide = replace(ASKED, scale=Scale(Decimal(1), Decimal(10)))
    first, second = token("1", _1=0.6, _9=0.4), token("0", _0=0.5, x=0.5)
    read = parse(wide, "10", "stop", logprobs=[first, second])
    assert float(read.rating) == pytest.approx(6.9)
    assert not read.bounded


def test_where_the_shares_are_not_told_the_sampled_score_stands_and_is_marked():
    wide = replace(ASKED, scale=Scale(Decimal(1), Decimal(10)))
    read = parse(wide, "9", "stop", logprobs=[token("9", _1=0.4, _9=0.6)])
    assert (read.rating, read.bounded) == (Decimal(9), True)


def test_without_logprobs_the_written_score_is_read_and_no_score_is_no_value():
    assert parse(ASKED, "4", "stop").rating == 4
    assert parse(ASKED, "Rather good.", "stop").status is Status.UNPARSED
    assert parse(ASKED, "7", "stop", logprobs=[token("7", _7=0.9, x=0.1)]).status is Status.UNPARSED
