"""The audit trail of what people do to items, and how the details of its lines read."""

from typing import Any

from annotation.models import Annotator, Item
from judging import audit

VOTED, SKIPPED, UNSKIPPED = "voted", "skipped", "skip undone"
# So many lines that they are shown on demand.
OF_EACH_ITEM = (VOTED, SKIPPED, UNSKIPPED)
# In these words are a person's own, which go when the person is erased.
FLAGGED, ADJUDICATED = "flagged", "adjudicated"
WITH_REASON = (FLAGGED, ADJUDICATED)
_SHOWN = 200


def tell(annotator: Annotator, item: Item, action: str, **detail: str) -> None:
    """Add a line. What the item is about is not looked up: the screen must not know it."""
    number = item.round.number
    where = {"round": number, "item": item.pk}
    audit.record(item.round.project, annotator.user, action, f"round {number}", **where, **detail)


def told(detail: dict[str, Any]) -> str:
    """Details in one line; what is empty or long is not shown in full."""
    shown = [(name, value) for name, value in detail.items() if value not in ("", None, False)]
    return " · ".join(f"{name} {_words(value)}" for name, value in shown)


def _words(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"before", "now"}:
        return f"{_words(value['before'])} → {_words(value['now'])}"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, bool):
        value = "yes" if value else "no"
    text = " ".join(str(value).split()) or "(empty)"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()} …"
