"""The identity of each row of a file: ids for rows without one, and ids used twice."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace

from judging.imports.problems import Problem, Refused, quoted
from judging.imports.records import ExampleRow

DIGITS = 16
LINE_BITS = 32
FIELDS = (
    "question", "response_1", "response_2", "model_1", "model_2",
    "category", "gold_label", "is_check",
)  # fmt: skip


def content_id(row: ExampleRow) -> str:
    """The first 16 hex digits of SHA-256 over question, responses and models."""
    parts = [*row.texts, row.model_1, row.model_2]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differing(one: tuple[object, ...], other: tuple[object, ...]) -> list[str]:
    """The names of the fields in which the contents of two rows differ."""
    pairs = zip(FIELDS, one, other, strict=True)
    return [field for field, here, there in pairs if here != there]


class Identities:
    """Remembers what has been read so far, as hashes: about 200 bytes a row, however long."""

    def __init__(self) -> None:
        self._generated: Counter[str] = Counter()
        self._seen: dict[int, int] = {}

    def settle(self, row: ExampleRow) -> ExampleRow | Refused:
        """The row with its id, or the conflict with an earlier row of the same id."""
        if not row.external_id:
            base = content_id(row)
            self._generated[base] += 1
            count = self._generated[base]
            row = replace(row, external_id=base if count == 1 else f"{base}-{count}")
        seen = hash(row.content) << LINE_BITS | row.line
        earlier = self._seen.setdefault(hash(row.external_id), seen)
        if earlier >> LINE_BITS == seen >> LINE_BITS:
            return row
        line = earlier & (1 << LINE_BITS) - 1
        found = quoted(row.external_id)
        sentence = (
            f"The id {found} stands on line {line} with other content. "
            "Give each pair an id of its own, or map another column to external_id."
        )
        problem = Problem(row.file, row.line, "external_id", "an id of its own", found, sentence)
        return Refused((problem,), row.raw)
