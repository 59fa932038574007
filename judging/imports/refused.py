"""Refused records, copied out unchanged next to their file, to be mended and imported again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from judging.errors import UserError
from judging.imports import delimited, layouts
from judging.imports.encodings import detect, encode
from judging.imports.problems import Refused


def refused_path(path: Path) -> Path:
    """`pairs.csv` leaves its refused rows in `pairs.refused.csv`."""
    return path.with_suffix(f".refused{path.suffix}")


class RefusedFiles:
    """One file for each source that has refused records; they appear when all are complete."""

    def __init__(self, paths: Sequence[Path], file_format: str) -> None:
        three = file_format == "auto" and layouts.detect_format(paths) == "faireval"
        self._format = "faireval" if three else file_format
        self._open: dict[Path, _RefusedFile] = {}

    def add(self, refused: Refused) -> None:
        if not refused.raw:
            return
        source = Path(refused.problems[0].file)
        if source not in self._open:
            self._open[source] = _RefusedFile(source, self._kind(source))
        self._open[source].add(refused.raw)

    def _kind(self, source: Path) -> str:
        if self._format == "faireval":
            return "jsonl"
        return layouts.format_of(source) if self._format == "auto" else self._format

    def finish(self) -> list[Path]:
        return [file.finish() for file in self._open.values()]

    def discard(self) -> None:
        for file in self._open.values():
            file.discard()


class _RefusedFile:
    def __init__(self, source: Path, kind: str) -> None:
        self._target = refused_path(source)
        self._draft = self._target.with_name(f"{self._target.name}.part")
        self._encoding = detect(source)
        self._array = kind not in ("csv", "tsv", "jsonl")
        try:
            self._stream: BinaryIO = self._draft.open("wb")
        except OSError as error:
            raise UserError(
                f"{self._target} can't be written ({error.strerror}). Make its folder writable."
            ) from None
        self._stream.write(self._encoding.mark)
        self._first = True
        if kind in ("csv", "tsv"):
            sheet = delimited.open_sheet(source, "\t" if kind == "tsv" else None)
            self._write(sheet.header_raw if sheet else "")

    def add(self, raw: str) -> None:
        if self._array:
            raw = ("[\n" if self._first else ",\n") + raw
        elif not raw.endswith(("\n", "\r")):
            raw += "\n"
        self._write(raw)
        self._first = False

    def _write(self, text: str) -> None:
        self._stream.write(encode(text, self._encoding))

    def finish(self) -> Path:
        self._write("\n]\n" if self._array else "")
        self._stream.close()
        os.replace(self._draft, self._target)
        return self._target

    def discard(self) -> None:
        self._stream.close()
        self._draft.unlink(missing_ok=True)
