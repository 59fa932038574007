"""Opening a file as text: which encoding it is in, and which bytes of it are not text."""

from __future__ import annotations

import codecs
import io
import re
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO


class Encoding(NamedTuple):
    """A codec, and the byte-order mark that the file begins with."""

    name: str
    mark: bytes = b""


MARKED = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-32-le", codecs.BOM_UTF32_LE),
    Encoding("utf-32-be", codecs.BOM_UTF32_BE),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)
HEAD = 64
KEEP_BYTES = "fairjudge-keep-bytes"
FIRST_BYTE = 0xDC00
_KEPT_BYTES = re.compile("([\udc00-\udcff]+)")


def _keep_bytes(error: UnicodeError) -> tuple[str, int]:
    """Let each undecodable byte b stand as the lone surrogate U+DC00 + b.

    A record with such bytes can then be refused by its line and copied out unchanged. Python's
    own surrogateescape does this for UTF-8 only.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(chr(FIRST_BYTE + byte) for byte in bad), error.end


codecs.register_error(KEEP_BYTES, _keep_bytes)


def detect(path: Path) -> Encoding:
    """The encoding of a file: by its byte-order mark, else by where the zero bytes are.

    Headers and JSON keys begin with ASCII, so UTF-16 without a mark shows in the first bytes.
    """
    with path.open("rb") as stream:
        head = stream.read(HEAD)
    for encoding in MARKED:
        if head.startswith(encoding.mark):
            return encoding
    pairs = len(head) // 2
    zeros = (head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0))
    if pairs and max(zeros) >= 0.4 * pairs and max(zeros) > 2 * min(zeros):
        return Encoding("utf-16-le" if zeros[1] > zeros[0] else "utf-16-be")
    return Encoding("utf-8")


def open_text(path: Path, newline: str) -> TextIO:
    """Open for reading, after the mark; never fails on a byte, see `undecoded`."""
    return as_text(path.open("rb"), detect(path), newline)


def as_text(stream: BinaryIO, encoding: Encoding, newline: str) -> TextIO:
    """Read a stream of bytes as `open_text` does, from its start."""
    stream.read(len(encoding.mark))
    return io.TextIOWrapper(stream, encoding.name, KEEP_BYTES, newline)


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes that `open_text` read `text` from."""
    return b"".join(
        bytes(ord(letter) - FIRST_BYTE for letter in part)
        if _KEPT_BYTES.match(part)
        else part.encode(encoding.name)
        for part in _KEPT_BYTES.split(text)
    )


def undecoded(raw: str, encoding: Encoding) -> str | None:
    """In words, what in the text of a record is not text; None when all of it is."""
    surrogates = _surrogates(raw)
    if surrogates:
        shown = " ".join(f"{ord(letter) - FIRST_BYTE:02X}" for letter in surrogates[:8])
        return f"the bytes {shown}, which are not {encoding.name.upper()} text"
    return "a NUL character" if "\0" in raw else None


def unstorable(value: str) -> str | None:
    """In words, what in a decoded value no database stores; None when all of it is fine."""
    if value.isascii() and "\0" not in value:
        return None
    surrogates = _surrogates(value)
    if surrogates:
        return f"the lone surrogate \\u{ord(surrogates[0]):04x}"
    return "a NUL character" if "\0" in value else None


def _surrogates(text: str) -> str:
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return text[error.start : error.end]
    return ""


def storable(text: str) -> str:
    """With U+FFFD for half a character and for NUL."""
    text = text.replace("\0", "\ufffd")
    return (
        text
        if text.isascii()
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def storable_json(value: Any) -> Any:
    """The same of all text in a JSON value."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [storable_json(one) for one in value]
    if isinstance(value, dict):
        return {storable(name): storable_json(one) for name, one in value.items()}
    return value


ESCAPE_COLUMN = "fairjudge_escape"


ESCAPED = "1"


_DANGEROUS = re.compile(r"'*[=+\-@\t\r]")


_ESCAPED_CELL = re.compile(r"'+[=+\-@\t\r]")


def escape_cell(cell: str) -> str:
    return "'" + cell if _DANGEROUS.match(cell) else cell


def unescape_cell(cell: str) -> str:
    return cell[1:] if _ESCAPED_CELL.match(cell) else cell
