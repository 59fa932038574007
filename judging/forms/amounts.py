"""Fields for money and whole numbers, with the limits that the run forms share."""

from decimal import Decimal

from django import forms

MOST_USD = Decimal(1_000_000)
MOST_TOKENS = 200_000


def dollars(label: str, help_text: str = "", *, required: bool = False) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        help_text=help_text,
        required=required,
        min_value=Decimal(0),
        max_value=MOST_USD,
        decimal_places=6,
        widget=forms.NumberInput(attrs={"step": "any", "min": "0"}),
    )


def whole(label: str, most: int, help_text: str = "", least: int = 1) -> forms.IntegerField:
    return forms.IntegerField(
        label=label, help_text=help_text, required=False, min_value=least, max_value=most
    )


def plainly(amount: Decimal | None) -> str | None:
    """Without the zeros that the database keeps."""
    return None if amount is None else format(amount.normalize(), "f")
