"""Kinds of arguments that commands share."""

from argparse import ArgumentTypeError
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from django.core.management.base import CommandParser

_LARGEST_EXPONENT = 30


def add_project(parser: CommandParser, more: str = "") -> None:
    parser.add_argument("project", metavar="PROJECT", help=f"its slug, as in addresses{more}")


def add_format(parser: CommandParser, formats: Sequence[str]) -> None:
    parser.add_argument(
        "--format", choices=formats, default="auto", help="default: seen from the file itself"
    )


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
