"""Kinds of arguments that commands share."""

from argparse import ArgumentTypeError
from decimal import Decimal, InvalidOperation


def decimal_argument(text: str) -> Decimal:
    """A plain, finite number, exactly as written: money and percentages are never floats."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"“{text}” is not a number") from None
    if not value.is_finite():
        raise ArgumentTypeError(f"“{text}” is not a number")
    return value
