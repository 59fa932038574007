"""The records of Parquet and Arrow files: rows in columns with types, read as texts.

Records have the values that a JSON file of the same rows would give: numbers as their text, times
in ISO 8601, lists and objects as they are. A batch of rows is in memory at once, and a text that
many of its rows share is there once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from judging.core.bounds import LARGEST_CELL, MEBIBYTE, TooLarge, most_inflated
from judging.core.conversations import NumberText
from judging.core.errors import UserError
from judging.dataset.records import Place, Record, Refused, as_json, listed, refusal

ROW = "row"
_MOST_ROWS = 1000
_BATCH_BYTES = 8 * MEBIBYTE
_BUFFER = MEBIBYTE
# The first bytes of Arrow's file format; those of its stream format are a length of -1.
ARROW_FILE = b"ARROW1"


def arrow_for(what: str) -> Any:
    """Return pyarrow. Raises UserError, which says how to install it, if it isn't there."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{what}, which needs the package pyarrow. Nothing was imported. Install it with: "
            "pip install 'fairjudge[arrow]'"
        ) from None
    return pyarrow


def columnar(path: Path, kind: str) -> Iterator[Record | Refused]:
    """Read the rows of a Parquet or an Arrow file, with their numbers from 1."""
    arrow = arrow_for(f"{path.name} is a file of {kind.capitalize()}")
    row, read = 1, 0
    most = most_inflated(path.stat().st_size)
    try:
        with ExitStack() as opened:
            names, batches = (_parquet if kind == "parquet" else _arrow)(arrow, path, opened)
            if twice := [name for name, n in Counter(names).items() if n > 1]:
                sentence = (
                    f"The file has {listed(twice)} more than once. Rename one of the columns."
                )
                yield refusal(Place(str(path), 1, ROW), twice[0], sentence, fatal=True)
                return
            for batch in batches:
                columns = [_values(arrow, column) for column in batch.columns]
                # A table without columns has rows, too.
                for cells in zip(*columns, strict=True):
                    values = dict(zip(names, cells, strict=True))
                    place, size = Place(str(path), row, ROW), sum(map(_length, cells))
                    row, read = row + 1, read + size
                    if read > most:
                        raise TooLarge(f"it would inflate to more than {most // MEBIBYTE} MiB")
                    if size > LARGEST_CELL:
                        sentence = f"The row is longer than {LARGEST_CELL // MEBIBYTE} MiB."
                        yield refusal(place, "", sentence)
                    else:
                        yield Record(place, values, values, header_line=1)
    except TooLarge as error:
        yield _lost(path, row, str(error))
    except (arrow.ArrowException, OSError, OverflowError, ValueError):
        yield _lost(path, row, f"its {kind.capitalize()} data is cut or broken")


def _lost(path: Path, row: int, why: str) -> Refused:
    sentence = f"The file can't be read from here on: {why}. Get a whole copy of it."
    return refusal(Place(str(path), row, ROW), "", sentence, fatal=True)


def _parquet(arrow: Any, path: Path, opened: ExitStack) -> tuple[list[str], Iterable[Any]]:
    read = arrow.parquet.ParquetFile
    with read(path) as file:
        schema, about = file.schema_arrow, file.metadata
        shared = _repeating(about) & {f.name for f in schema if arrow.types.is_string(f.type)}
        groups = [about.row_group(n).total_byte_size for n in range(about.num_row_groups)]
    most = most_inflated(path.stat().st_size)
    if sum(groups) > most:
        raise TooLarge(f"it would inflate to more than {most // MEBIBYTE} MiB")
    # Which columns repeat is known from the metadata only, and has to be said when the file is
    # opened. `pre_buffer` would hold the columns of a whole group of rows in memory.
    file = opened.enter_context(
        read(path, read_dictionary=sorted(shared), pre_buffer=False, buffer_size=_BUFFER)
    )
    a_row = max(1, sum(groups) // max(1, about.num_rows))
    rows = max(1, min(_MOST_ROWS, _BATCH_BYTES // a_row))
    return schema.names, file.iter_batches(batch_size=rows, use_threads=False)


def _repeating(about: Any) -> set[str]:
    """Return the columns that are mostly a dictionary of texts, which many rows share.

    Their texts are in memory once, however many rows have them. To look for equal texts among those
    of other columns would take twice the time, and hold them all.
    """
    repeating = set()
    for group in map(about.row_group, range(about.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                size = chunk.data_page_offset - chunk.dictionary_page_offset
                if 2 * size >= chunk.total_compressed_size:
                    repeating.add(chunk.path_in_schema)
    return repeating


def _arrow(arrow: Any, path: Path, opened: ExitStack) -> tuple[list[str], Iterable[Any]]:
    source = opened.enter_context(arrow.OSFile(str(path), "rb"))
    with path.open("rb") as stream:
        in_file = stream.read(len(ARROW_FILE)) == ARROW_FILE
    if not in_file:
        reader = opened.enter_context(arrow.ipc.open_stream(source))
        return reader.schema.names, _slices(reader)
    file = opened.enter_context(arrow.ipc.open_file(source))
    batches = (file.get_batch(n) for n in range(file.num_record_batches))
    return file.schema.names, _slices(batches)


def _slices(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for start in range(0, batch.num_rows, _MOST_ROWS):
            yield batch.slice(start, _MOST_ROWS)


def _length(cell: Any) -> int:
    return len(cell) if isinstance(cell, str) else 8 if cell is None else len(as_json(cell))


def _values(arrow: Any, column: Any) -> list[Any]:
    """Return a column's values as JSON has them, with numbers as their text."""
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind):
        names = _values(arrow, column.dictionary)
        return [None if at is None else names[at] for at in column.indices.to_pylist()]
    if types.is_boolean(kind) or types.is_null(kind) or _is_text(types, kind):
        return list(column.to_pylist())
    if types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        texts = column.cast(arrow.string()).to_pylist()
        # pandas writes a number that is missing as NaN.
        return [None if text == "nan" else text for text in texts]
    if types.is_timestamp(kind):
        # Python knows no nanoseconds.
        column = column.cast(arrow.timestamp("us", kind.tz), safe=False)
    return [_plain(value) for value in column.to_pylist()]


def _is_text(types: Any, kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, dict):
        # Rows of one type have all keys: what a JSON file would leave out is null.
        return {str(k): _plain(inner) for k, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, float):
        return None if value != value else NumberText(repr(value))
    if isinstance(value, int | Decimal):
        return NumberText(f"{value:f}" if isinstance(value, Decimal) else value)
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value.total_seconds() if isinstance(value, timedelta) else value)
