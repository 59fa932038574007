"""Reading what comes from outside within bounds: inflated size, members, depth and time.

Two megabytes of a compressed answer or archive can inflate to gigabytes, and a few bytes of JSON
can nest deeper than Python recurses. Each reader here stops at its bound with `TooLarge`.
"""

import contextlib
import csv
import gzip
import io
import json
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

MEBIBYTE = 2**20
PIECE = MEBIBYTE
DEEPEST_JSON = 60
LARGEST_CELL = 64 * MEBIBYTE
# Texts and tables deflate to a tenth, repetitive ones to a fiftieth. Bombs reach a thousandth.
MOST_INFLATED = 200
# What a file may inflate to however small it is.
FREE = 256 * MEBIBYTE
# A member of a directory takes some 100 bytes in the file, and 700 in memory.
LARGEST_DIRECTORY = 32 * MEBIBYTE
# What inflating can't be stopped at: `zipfile` inflates a piece of these as a whole.
BOUNDED_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class TooLarge(ValueError):
    """What was read is larger, deeper or slower than anything genuine. The message says how."""


class Damaged(ValueError):
    """What was read is no whole compressed file. The message says how."""


def most_inflated(packed: int) -> int:
    """Return how many bytes a file of this size may inflate to."""
    return max(FREE, MOST_INFLATED * packed)


def refuse_bomb(path: Path) -> None:
    """Raise TooLarge if a gzip file that says so at its end inflates to more than it may.

    `Inflated` stops at the same bound. But until then, millions of short rows take an hour.
    """
    with path.open("rb") as stream:
        packed = stream.seek(0, io.SEEK_END)
        stream.seek(max(packed - 4, 0))
        # The last four bytes of a gzip file are its inflated size modulo 2^32 (RFC 1952). A file
        # that was cut ends with any number.
        if int.from_bytes(stream.read(4), "little") <= most_inflated(packed):
            return
        stream.seek(0)
        whole = io.BufferedReader(Inflated(stream, "gzip", packed), PIECE)
        # Who reads it finds the rows before a cut, and refuses the file from there on.
        with contextlib.suppress(Damaged):
            while whole.read(PIECE):
                pass


class Inflated(io.RawIOBase):
    """What a gzip or zstd stream of `packed` bytes inflates to.

    Reading raises TooLarge beyond the bound, and Damaged if the stream is cut or broken. zstd needs
    pyarrow, or else Inflated raises ImportError.
    """

    def __init__(self, stream: BinaryIO, packing: str, packed: int) -> None:
        super().__init__()
        self._packed = stream
        self._left = self._most = most_inflated(packed)
        self._source: Any
        if packing == "gzip":
            self._source = gzip.GzipFile(fileobj=stream)
        else:
            import pyarrow

            self._source = pyarrow.CompressedInputStream(pyarrow.PythonFile(stream), packing)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._packed.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        try:
            piece = self._source.read(len(buffer))
        except (OSError, EOFError, zlib.error):
            raise Damaged("its compressed data is cut or broken") from None
        self._left -= len(piece)
        if self._left < 0:
            raise TooLarge(f"it would inflate to more than {self._most // MEBIBYTE} MiB")
        buffer[: len(piece)] = piece
        return len(piece)


def allow_long_cells() -> None:
    """Let `csv` read any text that an import takes. Its own limit is 131,072 characters."""
    csv.field_size_limit(LARGEST_CELL)


def shallow_json(content: bytes | str) -> Any:
    """Read JSON that something will walk recursively.

    Raises:
        TooLarge: It is nested deeper than 60 levels.
        ValueError: It isn't JSON.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise TooLarge("its JSON is nested too deeply") from None
    if is_deep(value):
        raise TooLarge("its JSON is nested too deeply")
    return value


def is_deep(value: Any) -> bool:
    """Return True for a JSON value of more than 60 levels, which nothing may walk recursively."""
    level = [value]
    for _ in range(DEEPEST_JSON):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer if isinstance(outer, list) else outer.values())
        ]
        if not level:
            return False
    return True


@dataclass(frozen=True)
class ArchiveBounds:
    """What an archive may hold: members, bytes after inflating, and seconds of reading.

    `free` bytes are allowed however small the file is; beyond them the file's own size counts.
    """

    members: int
    inflated: int
    free: int
    seconds: float = 600.0


class _Directory(io.BufferedReader):
    """A ZIP file whose directory, which is read as a whole, has a bound."""

    def read(self, size: int | None = -1, /) -> bytes:
        # `zipfile` reads the directory in one piece of the size that the file claims for it.
        if size is not None and size > LARGEST_DIRECTORY:
            raise TooLarge("it has too many members")
        return super().read(size)


class Archive:
    """A ZIP from outside. Its bounds are checked before anything is inflated.

    Raises:
        TooLarge: It has more members or would inflate further than its bounds say.
        zipfile.BadZipFile: It is no ZIP.
    """

    def __init__(self, source: Path | bytes, bounds: ArchiveBounds) -> None:
        self._ends = time.monotonic() + bounds.seconds
        in_memory = isinstance(source, bytes)
        self._file: BinaryIO = (
            io.BytesIO(source) if in_memory else _Directory(io.FileIO(source))  # type: ignore[arg-type]
        )
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._check(bounds)
        except BaseException:
            # `zipfile` doesn't close a file that it was handed already open.
            self._file.close()
            raise

    def _check(self, bounds: ArchiveBounds) -> None:
        members = self._zip.infolist()
        if len(members) > bounds.members:
            raise TooLarge(f"it has more than {bounds.members} members")
        packed = self._file.seek(0, io.SEEK_END)
        most = min(bounds.inflated, max(bounds.free, MOST_INFLATED * packed))
        # `zipfile` gives no more bytes of a member than its head says.
        if sum(member.file_size for member in members) > most:
            raise TooLarge(f"it would inflate to more than {most // MEBIBYTE} MiB")
        for member in members:
            if member.compress_type not in BOUNDED_METHODS:
                raise TooLarge(f"{member.filename} is packed in a way that has no bound")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._zip.close()
        self._file.close()

    @property
    def names(self) -> list[str]:
        return self._zip.namelist()

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return a member's content. Raises KeyError if there is none, TooLarge beyond `most`."""
        if most is not None and self._zip.getinfo(name).file_size > most:
            raise TooLarge(f"{name} is larger than {most // MEBIBYTE} MiB")
        target = io.BytesIO()
        self._copy(name, target)
        return target.getvalue()

    def extract(self, name: str, target: Path) -> None:
        """Write a member to a new file. The caller chooses the name."""
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stream:
            self._copy(name, stream)

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield a member's content in pieces. Raises KeyError if there is none."""
        with self._zip.open(name) as member:
            while piece := member.read(PIECE):
                if time.monotonic() > self._ends:
                    raise TooLarge("reading it takes too long")
                yield piece

    def _copy(self, name: str, target: BinaryIO) -> None:
        for piece in self.pieces(name):
            target.write(piece)
