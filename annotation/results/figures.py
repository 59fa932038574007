"""A figure as the report writes it: value, interval and n, or the reason why there is none."""

from decimal import Decimal
from typing import Any

from judging.methods.estimates import Estimate, Undefined

Json = dict[str, Any]


def shown(found: Any, n: int | None = None) -> Json:
    """An Estimate, a plain number with its n, or an Undefined, in one shape."""
    if isinstance(found, Estimate | Undefined):
        return found.as_json()
    return {"value": float(found), "low": None, "high": None, "n": n}


def undefined(reason: str) -> Json:
    return Undefined(reason).as_json()


def lacking(reason: Undefined, *names: str) -> Json:
    """The same reason under each of these names."""
    return {name: reason.as_json() for name in names}


def usd(amount: Decimal | None) -> str | None:
    """Exact, without an exponent; None is unknown."""
    return None if amount is None else f"{amount.normalize():f}"
