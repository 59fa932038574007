"""The tables of a delivered ZIP by column, as they were before their cells were escaped."""

import csv
import io
from collections.abc import Iterator, Sequence

import numpy as np

from judging.imports.escape import ESCAPE_COLUMN, unescape_cell
from judging.methods.arrays import Floats


def rows(content: bytes, wanted: Sequence[str]) -> Iterator[list[str]]:
    """These columns of each row. Raises ValueError for no such table."""
    reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    head = next(reader, None)
    if head is None:
        return
    lacking = [name for name in wanted if name not in head]
    if lacking:
        raise ValueError(f"the column {lacking[0]} is missing")
    places = [head.index(name) for name in wanted]
    escaped = ESCAPE_COLUMN in head
    for row in reader:
        cells = [row[place] for place in places]
        yield [unescape_cell(cell) for cell in cells] if escaped else cells


def columns(content: bytes, wanted: Sequence[str]) -> dict[str, list[str]]:
    found: list[list[str]] = [[] for _ in wanted]
    for row in rows(content, wanted):
        for column, cell in zip(found, row, strict=True):
            column.append(cell)
    return dict(zip(wanted, found, strict=True))


def numbers(column: Sequence[str]) -> Floats:
    """NaN for an empty cell."""
    return np.array([float(cell) if cell else np.nan for cell in column], dtype=np.float64)
