"""A value as a cell of CSV or a value of JSON: full precision, empty for what is not known."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any


def as_cell(value: Any) -> str:
    """Text for CSV. Floats by their shortest exact text, decimals without an exponent."""
    value = as_json(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def as_json(value: Any) -> Any:
    """For JSON lines: decimals as text, since a JSON number is read as a float elsewhere."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value
