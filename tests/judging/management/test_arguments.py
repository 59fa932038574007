from argparse import ArgumentTypeError
from decimal import Decimal

import pytest

from judging.management.arguments import decimal_argument


def test_a_number_is_kept_as_written():
    assert decimal_argument("20.50") == Decimal("20.50")
    assert decimal_argument("0") == 0


@pytest.mark.parametrize("text", ["x", "nan", "-inf", "1e9999999", "1e-9999999", "0e-9999999"])
def test_what_no_percentage_or_money_can_be_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="is not a number"):
        decimal_argument(text)
