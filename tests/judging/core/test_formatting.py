"""How numbers, money and times are written."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.core import formatting

SPACE = formatting.NARROW_SPACE


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.7321, 3, ".732"),
        (0.9999, 3, "1.000"),
        (0, 3, ".000"),
        (-0.05, 2, "−.05"),
        (-0.0001, 2, ".00"),
        (12, 0, "12"),
        (1234.5, 1, f"1{SPACE}234.5"),
    ],
)
def test_a_number_loses_its_leading_zero_and_nothing_else(value, digits, text):
    assert formatting.decimals(value, digits) == text


def test_a_signed_number_says_which_side_of_zero_it_is_on():
    assert formatting.decimals(0.05, 2, signed=True) == "+.05"
    assert formatting.decimals(-0.05, 2, signed=True) == "−.05"
    assert formatting.decimals(0.001, 2, signed=True) == ".00"


def test_an_interval_is_coarser_than_its_value_unless_it_is_narrow():
    assert formatting.interval(0.691, 0.771) == ".69–.77"
    assert formatting.interval(0.7281, 0.7359) == ".728–.736"


def test_a_p_value_is_never_zero():
    assert (formatting.p_value(0.0321), formatting.p_value(1)) == ("= .032", "= 1.000")
    assert formatting.p_value(0.0004) == formatting.p_value(0) == "< .001"


def test_one_thing_is_not_many():
    assert formatting.number_of(1, "row") == "1 row"
    assert formatting.number_of(0, "row") == "0 rows"
    assert formatting.number_of(12345, "new item") == f"12{SPACE}345 new items"


def test_what_is_counted_keeps_its_zero():
    assert formatting.decimals(0.5, 1, counted=True) == "0.5"
    assert formatting.decimals(0, 1, counted=True) == "0.0"
    assert formatting.interval(0.2, 3.4, 1, counted=True) == "0–3"


def test_an_interval_below_zero_is_written_with_a_word():
    assert formatting.interval(-0.12, 0.02, 3) == "−.12 to .02"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "unknown"),
        (Decimal(0), "$0"),
        (Decimal("0.0000001"), "<$0.000001"),
        (Decimal("0.00312"), "$0.0031"),
        (Decimal("0.0312"), "$0.031"),
        (Decimal("0.5"), "$0.50"),
        (Decimal("0.999"), "$1.00"),
        (Decimal("1.204"), "$1.20"),
        (Decimal("5.625"), "$5.63"),
        (Decimal("1e30"), "$1" + f"{SPACE}000" * 10 + ".00"),
        (Decimal("0.125"), "$0.13"),
        (Decimal("12345.6"), f"$12{SPACE}345.60"),
        (Decimal("-0.5"), "−$0.50"),
    ],
)
def test_money_keeps_two_digits_that_count_and_unknown_is_not_zero(amount, text):
    assert formatting.usd(amount) == text


@given(st.decimals(min_value="0.000001", max_value="1000000", places=8))
def test_money_is_never_off_by_more_than_half_of_its_last_digit(amount):
    shown = Decimal(formatting.usd(amount).lstrip("<$").replace(SPACE, ""))
    step = Decimal(1).scaleb(shown.as_tuple().exponent)
    assert abs(shown - amount) <= step / 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (-3, "0 s"),
        (1.24, "1.2 s"),
        (40, "40 s"),
        (99.6, "2 min"),
        (754, "13 min"),
        (3599, "1 h 00 min"),
        (3 * 3600 + 5 * 60, "3 h 05 min"),
        (52 * 3600, "2 d 4 h"),
    ],
)
def test_a_span_of_time_has_at_most_two_units(seconds, text):
    assert formatting.duration(seconds) == text


def test_counts_and_shares():
    assert formatting.count(12345) == f"12{SPACE}345"
    assert formatting.count(None) == "unknown"
    assert formatting.percent(0.732, 1) == f"73.2{SPACE}%"
    assert formatting.percent(None) == "unknown"
