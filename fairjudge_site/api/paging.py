"""Pages of a list: `limit` rows and the cursor of the next page, stable while rows are added."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from ninja import Query, Schema
from pydantic import AfterValidator, Field

from fairjudge_site.api.problems import FieldError, Refusal
from judging.core.text import unstorable

MOST = 1000
LARGEST_NUMBER = 2**31 - 1

Row = TypeVar("Row")
M = TypeVar("M", bound=Model)


class Page(Schema, Generic[Row]):
    """A page of a list. `next_cursor` is null on the last one."""

    items: list[Row]
    next_cursor: str | None = None


def storable(text: str) -> str:
    """Refuse what no database stores, such as NUL."""
    if fault := unstorable(text):
        raise ValueError(f"It contains {fault}.")
    return text


Text = Annotated[str, AfterValidator(storable)]
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Limit = Annotated[int, Query(ge=1, le=MOST, description="How many rows the page has at most.")]
Cursor = Annotated[
    str,
    Query(max_length=200, description="`next_cursor` of the page before; empty: from the start."),
]


def encoded(place: int) -> str:
    return base64.urlsafe_b64encode(f"k{place}".encode()).decode().rstrip("=")


def decoded(cursor: str) -> int | None:
    """Return the place after which the page begins; None for the first page."""
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError):
        text = ""
    if not text.startswith("k") or not text[1:].isdecimal() or len(text) > 19:
        wrong = FieldError(field="query.cursor", detail="It is no cursor of this list.")
        raise Refusal(
            "field_unusable", "query.cursor: It is no cursor of this list.", errors=[wrong]
        )
    return int(text[1:])


def page_of(
    rows: QuerySet[M], cursor: str, limit: int, to_row: Callable[[M], Any], by: str = "pk"
) -> dict[str, Any]:
    """Return a page of a queryset, by a field that grows and has each value once."""
    after = decoded(cursor)
    if after is not None:
        rows = rows.filter(**{f"{by}__gt": after})
    found: Sequence[M] = list(rows.order_by(by)[: limit + 1])
    more = len(found) > limit
    shown = found[:limit]
    last = encoded(getattr(shown[-1], by)) if more else None
    return {"items": [to_row(row) for row in shown], "next_cursor": last}
