"""Kinds of arguments that commands share."""

from argparse import ArgumentTypeError
from decimal import Decimal, InvalidOperation

_LARGEST_EXPONENT = 30


def decimal_argument(text: str) -> Decimal:
    """A plain, finite number, exactly as written: money and percentages are never floats."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"“{text}” is not a number") from None
    # An exponent of millions would make exact arithmetic go on for hours.
    if not value.is_finite() or abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise ArgumentTypeError(f"“{text}” is not a number")
    return value
