"""Files as the body of a request: stored as an upload is, piece by piece, and hashed on the way."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from fairjudge_site.api.problems import Refusal
from judging.dataset.uploads import discard, store

_PIECE = 2**16
# The formats of a body, by its content type.
TYPES = {"application/x-ndjson": "jsonl", "application/jsonl": "jsonl", "text/csv": "csv"}


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
    """Store the body; give its path, format and hash, and a list to which `True` keeps the file."""
    kind = (request.content_type or "").lower()
    if kind not in TYPES:
        raise Refusal(
            "media_type_unknown",
            f"Send the rows as {' or '.join(TYPES)}. Nothing was imported.",
        )
    file_format = TYPES[kind]
    body: Any = _Body(request, f"{name}.{file_format}")
    kept: list[bool] = []
    paths: list[Path] = []
    try:
        paths = store([body])
        yield paths[0], file_format, body.digest, kept
    finally:
        if not kept and paths:
            discard(paths)


def rows_in_schema(description: str) -> dict[str, Any]:
    """Describe such a body for the schema."""
    text = {"schema": {"type": "string", "description": description}}
    return {"requestBody": {"required": True, "content": dict.fromkeys(TYPES, text)}}
