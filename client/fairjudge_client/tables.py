"""Rows in and out: DataFrames of pandas, polars and Arrow, dictionaries, and files.

Rows that are sent are first written to a temporary file, as JSON lines. So any number of them takes
little memory, and the site is told their size. A repeated request sends the same bytes, also if the
rows came from an iterator.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from fairjudge_client.reading import plain

# Frames by the name that you choose them by, with the package that makes them.
PACKAGES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
_PIECE = 2**16
# Rows of a DataFrame that are dictionaries at once.
_AT_ONCE = 1000
_TYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".arrow": "application/vnd.apache.arrow.file",
    ".feather": "application/vnd.apache.arrow.file",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".gz": "application/gzip",
    ".zip": "application/zip",
    ".zst": "application/zstd",
}
# Columns whose values come as text so that no digit is lost, and as numbers in DataFrames.
_NUMBERS = frozenset({"judge_usd", "human_usd", "usd"})
# Columns of fractions. pandas doesn't see it if no value is known.
_FLOATS = _NUMBERS | {"score_1", "score_2", "bpde", "routing_score", "probability", "p_chosen"}
_TIMES = frozenset({"submitted_at"})


class Upload:
    """Rows to be sent, as often as needed: a DataFrame, dictionaries, or the path of a file.

    Raises:
        TypeError: The data are neither.
        ValueError: The file is of another kind.
    """

    def __init__(self, data: Any) -> None:
        self.content_type, self.size = "application/x-ndjson", 0
        self._data: Any = ()
        if isinstance(data, str | os.PathLike):
            path = Path(data)
            if path.suffix.lower() not in _TYPES:
                ends = ", ".join(_TYPES)
                raise ValueError(f"{path.name} ends with none of {ends}. Nothing was sent.")
            self.content_type = _TYPES[path.suffix.lower()]
            self._stream: IO[bytes] = path.open("rb")
        else:
            self._data = data
            self._stream = TemporaryFile()  # noqa: SIM115

    def prepare(self) -> None:
        """Write the rows to the file. If it is closed meanwhile, this ends soon.

        Raises:
            TypeError: A row is no dictionary.
            ValueError: A row can't be sent; the message names it.
        """
        for number, row in enumerate(rows_of(self._data), 1):
            self._stream.write(_line(number, row))
        self.size = self._stream.seek(0, os.SEEK_END)

    def pieces(self) -> Iterator[bytes]:
        self._stream.seek(0)
        while piece := self._stream.read(_PIECE):
            yield piece

    def close(self) -> None:
        self._stream.close()


def _line(number: int, row: Any) -> bytes:
    if not isinstance(row, Mapping):
        raise TypeError(
            f"Row {number} is a {type(row).__name__}. Give a DataFrame, dictionaries or the path "
            "of a file. Nothing was sent."
        )
    known = {str(name): value for name, value in row.items() if not _is_missing(value)}
    try:
        text = json.dumps(known, ensure_ascii=False, default=plain, allow_nan=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"Row {number} can't be sent: {error}. Nothing was sent.") from None


def _is_missing(value: Any) -> bool:
    """Return True for what DataFrames have in place of a value, such as NaN."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def rows_of(data: Any) -> Iterable[Any]:
    """Return the rows of a DataFrame as dictionaries, and anything else as it is."""
    if _is_a(data, "pandas", "DataFrame"):
        return _rows_of_pandas(data)
    if _is_a(data, "polars", "LazyFrame"):
        data = data.collect()
    if _is_a(data, "polars", "DataFrame"):
        rows: Iterable[Any] = data.iter_rows(named=True)
        return rows
    if _is_a(data, "pyarrow", "Table") or _is_a(data, "pyarrow", "RecordBatch"):
        pyarrow = sys.modules["pyarrow"]
        table = data if _is_a(data, "pyarrow", "Table") else pyarrow.Table.from_batches([data])
        batches = table.to_batches(max_chunksize=_AT_ONCE)
        return (row for batch in batches for row in batch.to_pylist())
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise TypeError(
            f"Rows can't be read from a {type(data).__name__}. Give a DataFrame, a list of "
            "dictionaries or the path of a file. Nothing was sent."
        )
    return data


def _rows_of_pandas(frame: Any) -> Iterator[Any]:
    if not frame.columns.is_unique:
        raise ValueError("The DataFrame has two columns of the same name. Nothing was sent.")
    for start in range(0, len(frame), _AT_ONCE):
        yield from frame.iloc[start : start + _AT_ONCE].to_dict(orient="records")


def _is_a(data: Any, package: str, name: str) -> bool:
    """Return True if it is of this class. A package that nobody imported made no DataFrame."""
    module = sys.modules.get(package)
    kind = getattr(module, name, None)
    return isinstance(kind, type) and isinstance(data, kind)


def kind_of_frame(wanted: str | None) -> str:
    """Return which DataFrames to make: the wanted ones, or the first that is installed.

    Raises:
        ValueError: There are no such DataFrames.
        ImportError: Their package isn't installed.
    """
    if wanted is not None and wanted not in PACKAGES:
        raise ValueError(f"frame is {wanted!r}. It can be one of {', '.join(PACKAGES)}.")
    for kind, package in PACKAGES.items():
        if wanted in (None, kind) and find_spec(package) is not None:
            return kind
    extra = wanted or "pandas"
    raise ImportError(
        f"A DataFrame needs a package: pip install 'fairjudge-client[{extra}]'. Without one, "
        "`rows` hands out dictionaries, and `save` writes a file."
    )


def frame_of_parquet(kind: str) -> Callable[[IO[bytes]], Any]:
    """Return what reads a Parquet file as a DataFrame of one of `PACKAGES`.

    Raises:
        ImportError: pyarrow isn't installed, or polars if it is wanted.
    """
    if find_spec("pyarrow") is None:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'fairjudge-client[arrow]'. Nothing was asked."
        )

    def read(file: IO[bytes]) -> Any:
        file.seek(0)
        table = importlib.import_module("pyarrow.parquet").read_table(file)
        if kind == "pandas":
            return table.to_pandas()
        return importlib.import_module("polars").from_arrow(table) if kind == "polars" else table

    return read


class Columns:
    """Collects rows column by column, which takes a fraction of the memory of dictionaries."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._n = 0

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            for name, value in row.items():
                if name not in self._columns:
                    self._columns[name] = [None] * self._n
                self._columns[name].append(_typed(name, value))
            self._n += 1
            for column in self._columns.values():
                if len(column) < self._n:
                    column.append(None)

    def frame(self, kind: str) -> Any:
        """Return the rows as a DataFrame of one of `PACKAGES`."""
        package = importlib.import_module(PACKAGES[kind])
        if kind == "arrow":
            return package.table(self._columns)
        if kind == "polars":
            return package.DataFrame(self._columns, strict=False)
        frame = package.DataFrame(self._columns)
        return frame.astype(dict.fromkeys(_FLOATS & self._columns.keys(), float))


def _typed(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name in _NUMBERS:
            return float(value)
        if name in _TIMES:
            return datetime.fromisoformat(value)
    return value
