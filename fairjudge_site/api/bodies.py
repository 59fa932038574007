"""What bodies of requests hold: files, stored as uploads are, and the choice of examples."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Schema
from pydantic import Field

from fairjudge_site.api.paging import Text
from fairjudge_site.api.problems import Refusal
from judging.dataset.subsets import LARGEST_SEED, Subset
from judging.dataset.uploads import discard, store

_PIECE = 2**16
# The formats of a body, by its content type.
TYPES = {"application/x-ndjson": "jsonl", "application/jsonl": "jsonl", "text/csv": "csv"}
# These are told by their content. Their names have no format, so that nothing contradicts it.
BINARY = {
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/gzip": "gz",
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
            received += len(piece)
            if received > settings.FAIRJUDGE_MAX_UPLOAD_BYTES:
                raise Refusal(
                    "too_large",
                    "The body is larger than FAIRJUDGE_MAX_UPLOAD_MB allows. Nothing was imported. "
                    "Send it in parts.",
                )
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
            "media_type_unknown",
            f"Send the rows as {' or '.join(endings)}. Nothing was imported.",
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


def rows_in_schema(description: str) -> dict[str, Any]:
    """Describe such a body for the schema."""
    text = {"schema": {"type": "string", "description": description}}
    binary = {"schema": {"type": "string", "format": "binary", "description": description}}
    content = dict.fromkeys(TYPES, text) | dict.fromkeys(BINARY, binary)
    return {"requestBody": {"required": True, "content": content}}
