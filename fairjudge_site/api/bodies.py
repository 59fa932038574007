"""What bodies hold: pages of lists, files, stored as uploads are, and the choice of examples.

A page has `limit` rows and the cursor of the next page, which is stable while rows are added.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from django.conf import settings
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from ninja import Query, Schema
from pydantic import AfterValidator, Field

from fairjudge_site.api.problems import FieldError, Refusal
from judging.core.text import unstorable
from judging.dataset.subsets import LARGEST_SEED, Subset
from judging.dataset.uploads import discard, store

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
# The languages of the pages.
Language = Literal["en", "de", "es", "fr", "zh-hans", "ar"]
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


def first_of(rows: QuerySet[M], what: str) -> M:
    """Return the only row, or say with 404 that there is no such thing."""
    row = rows.first()
    if row is None:
        raise Http404(f"No such {what}.")
    return row


def page_of(
    rows: QuerySet[M], cursor: str, limit: int, to_row: Callable[[M], Any], by: str = "pk"
) -> dict[str, Any]:
    """Return a page of a queryset, by a field that grows and has each value once."""
    after = decoded(cursor)
    if after is not None:
        rows = rows.filter(**{f"{by}__gt": after})
    # One row more says whether another page follows, without a count.
    matching: Sequence[M] = list(rows.order_by(by)[: limit + 1])
    more = len(matching) > limit
    shown = matching[:limit]
    last = encoded(getattr(shown[-1], by)) if more else None
    return {"items": [to_row(row) for row in shown], "next_cursor": last}


_PIECE = 2**16
# The formats of a body, by its content type.
_LINES = dict.fromkeys(("application/x-ndjson", "application/jsonl"), "jsonl")
TYPES = _LINES | {"application/json": "json", "text/csv": "csv"}
# These are told by their content. Their names have no format, so that nothing contradicts it.
BINARY = {
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/gzip": "gz",
    # Pairs with their images.
    "application/zip": "zip",
    "application/zstd": "zst",
}


class _Body:
    """A request's body, as `store` takes uploads."""

    def __init__(self, request: HttpRequest, name: str) -> None:
        self.name = name
        self._request, self._hash = request, hashlib.sha256()

    def chunks(self) -> Iterator[bytes]:
        received = 0
        while piece := self._request.read(_PIECE):
            # Counted here, because a body that is sent in chunks doesn't say its length before.
            received += len(piece)
            if received > settings.FAIRJUDGE_MAX_UPLOAD_BYTES:
                raise Refusal(
                    "too_large",
                    "The body is larger than FAIRJUDGE_MAX_UPLOAD_MB allows. Nothing was imported. "
                    "Send it in parts.",
                )
            # For the idempotency key: the body is gone once it is read.
            self._hash.update(piece)
            yield piece

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def stored_body(request: HttpRequest, name: str) -> Iterator[tuple[Path, str, str, list[bool]]]:
    """Store the body; give its path, format and hash, and a list to which `True` keeps the file.

    The stored name tells the format, and rows of other tools are recognised by their content.
    """
    kind = (request.content_type or "").lower()
    endings = TYPES | BINARY
    if kind not in endings:
        raise Refusal(
            "media_type_unknown", f"Send the rows as {' or '.join(endings)}. Nothing was imported."
        )
    body: Any = _Body(request, f"{name}.{endings[kind]}")
    kept: list[bool] = []
    paths: list[Path] = []
    try:
        paths = store([body])
        yield paths[0], "auto", body.digest, kept
    finally:
        if not kept and paths:
            discard(paths)


class SubsetIn(Schema):
    """The part of the examples that something is about; by default all of them."""

    where: list[Annotated[Text, Field(max_length=220)]] = Field(
        default_factory=list,
        max_length=100,
        description="Such as `category=math`; docs/files.md has the names.",
    )
    examples: list[Annotated[Text, Field(max_length=200)]] | None = Field(
        None, max_length=100_000, description="Only these ids."
    )
    sample: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="How many of these are drawn at random, by `seed`."
    )

    def subset(self, seed: int | None = None) -> Subset:
        # A round's seed may be larger than a sample's.
        seed = None if seed is None else seed % LARGEST_SEED
        return Subset.chosen(self.where, ids=self.examples, sample=self.sample, seed=seed)


def file_in_schema(*types: str) -> dict[str, Any]:
    """Describe an answer of bytes for the schema, by the content types that it can have."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {"responses": {200: {"content": dict.fromkeys(types, binary)}}}


def rows_in_schema(description: str) -> dict[str, Any]:
    """Describe such a body for the schema."""
    text = {"schema": {"type": "string", "description": description}}
    binary = {"schema": {"type": "string", "format": "binary", "description": description}}
    content = dict.fromkeys(TYPES, text) | dict.fromkeys(BINARY, binary)
    content |= {"application/json": {"schema": {"description": description}}}
    return {"requestBody": {"required": True, "content": content}}
