"""Text from outside: encodings, characters that no database stores, CSV formulas, models' names."""

from __future__ import annotations

import codecs
import io
import re
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, TextIO


class Encoding(NamedTuple):
    """A codec, and the byte-order mark with which the file begins."""

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
    """Decode each undecodable byte b as the lone surrogate U+DC00 + b.

    A record with such bytes can then be refused by its line, and copied out unchanged. Python's
    own surrogateescape does this for UTF-8 only.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(chr(FIRST_BYTE + byte) for byte in bad), error.end


codecs.register_error(KEEP_BYTES, _keep_bytes)


def encoding_of(head: bytes) -> Encoding:
    """Return the encoding of a text by its byte-order mark, or else by its first zero bytes.

    Headers and JSON keys begin with ASCII characters. In UTF-16 without a mark, every second one of
    the first bytes is therefore zero.
    """
    head = head[:HEAD]
    for encoding in MARKED:
        if head.startswith(encoding.mark):
            return encoding
    pairs = len(head) // 2
    zeros = (head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0))
    if pairs and max(zeros) >= 0.4 * pairs and max(zeros) > 2 * min(zeros):
        return Encoding("utf-16-le" if zeros[1] > zeros[0] else "utf-16-be")
    return Encoding("utf-8")


def as_text(stream: BinaryIO, encoding: Encoding, newline: str) -> TextIO:
    """Read a stream of bytes as text, after the mark; never fails on a byte, see `undecoded`."""
    stream.read(len(encoding.mark))
    return io.TextIOWrapper(stream, encoding.name, KEEP_BYTES, newline)


def encode(text: str, encoding: Encoding) -> bytes:
    """Return the bytes from which `as_text` read `text`."""
    return b"".join(
        bytes(ord(letter) - FIRST_BYTE for letter in part)
        if _KEPT_BYTES.match(part)
        else part.encode(encoding.name)
        for part in _KEPT_BYTES.split(text)
    )


LONGEST_NAME = 200
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def is_name(text: str, longest: int = LONGEST_NAME) -> bool:
    """Return True if people, models and items can be called so: one short line."""
    return 0 < len(text.strip()) <= longest and not _CONTROLS.search(text)


def a_name(longest: int = LONGEST_NAME) -> str:
    """Say in words what `is_name` accepts."""
    return f"one line of at most {longest} characters"


def undecoded(raw: str, encoding: Encoding) -> str | None:
    """Say what in a record is not text, or return None."""
    surrogates = _surrogates(raw)
    if surrogates:
        shown = " ".join(f"{ord(letter) - FIRST_BYTE:02X}" for letter in surrogates[:8])
        return f"the bytes {shown}, which are not {encoding.name.upper()} text"
    return "a NUL character" if "\0" in raw else None


def unstorable(value: str) -> str | None:
    """Say what in a decoded value no database can store, or return None."""
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
    """Replace lone surrogates and NUL characters by U+FFFD."""
    text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    # UTF-16 joins two surrogates that make a pair. Those left over are replaced.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable_json(value: Any) -> Any:
    """Do the same to every key and text of a JSON value."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [storable_json(entry) for entry in value]
    if isinstance(value, dict):
        return {storable(key): storable_json(entry) for key, entry in value.items()}
    return value


# Controls but tab and line feed, and the marks that turn the order of what follows (bidi).
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """Replace what would steer a terminal or turn a line around by U+FFFD."""
    return UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n"))


# A CSV file that FairJudge wrote says in this column that its cells are escaped.
ESCAPE_COLUMN = "fairjudge_escape"
# The mark of a row says with which beginnings its cells were escaped. Earlier releases know the
# first, so that only rows that need the second get it.
_BEGINNINGS = {"1": r"[=+\-@\t\r]", "2": r"[=+\-@\t\r\n＝＋－＠]"}
ESCAPED, ESCAPED_MORE = _BEGINNINGS
_DANGEROUS = {mark: re.compile(f"'*{begin}") for mark, begin in _BEGINNINGS.items()}
_ESCAPED_CELL = {mark: re.compile(f"'+{begin}") for mark, begin in _BEGINNINGS.items()}
# Every cell that is escaped begins with one of these. A row with none, as most are, is done.
_SUSPECT = re.compile(f"'|{_BEGINNINGS[ESCAPED_MORE]}")


def escape_cell(cell: str, mark: str = ESCAPED_MORE) -> str:
    """Put an apostrophe before what a spreadsheet would run as a formula (CSV injection)."""
    return "'" + cell if _DANGEROUS[mark].match(cell) else cell


def escape_row(cells: list[str]) -> list[str]:
    """Escape the cells of a row, and add the row's mark."""
    if not _SUSPECT.search("".join([cell[:1] for cell in cells])):
        return [*cells, ESCAPED]
    more = any(
        _DANGEROUS[ESCAPED_MORE].match(cell) and not _DANGEROUS[ESCAPED].match(cell)
        for cell in cells
    )
    mark = ESCAPED_MORE if more else ESCAPED
    return [*(escape_cell(cell, mark) for cell in cells), mark]


def unescape_cell(cell: str, mark: str) -> str:
    """Return the cell of a row with this mark as it was. Other marks change nothing."""
    escaped = _ESCAPED_CELL.get(mark)
    return cell[1:] if escaped and escaped.match(cell) else cell


HIDDEN_NAME = "[model name hidden]"
# Words that name a model only in the file, and stand for other things in a text.
_COMMON = frozenset(
    "a ai answer assistant b base baseline bot candidate chat control expert gold human judge llm "
    "model other output person reference response student system teacher test user".split()
)
# Between the parts of a name people write a blank, a dash or nothing; a text may set one in bold,
# or hold characters that nobody sees.
_BETWEEN = r"[\W_]{0,4}"
_LATIN = "A-Za-z0-9\u00c0-\u024f"
# Characters that nobody sees, which may stand within a word.
_UNSEEN = "[\u00ad\u200b-\u200d\u2060\ufeff]*"
# After these words a short form of a name is enough: "I am Vicuna" of vicuna-13b.
_INTRODUCED = r"\b(?:I\s+am|I[\u2019']m|my\s+name(?:\s+i|[\u2019'])s|known\s+as)\s+[\W_]{0,4}"
_AS, _AS_END = r"\bas\s+[\W_]{0,4}", r"(?=[\W_]{0,4}\s+I\b)"


@lru_cache(maxsize=256)
def _names_pattern(names: tuple[str, ...]) -> tuple[frozenset[str], re.Pattern[str] | None]:
    """Return the names' first parts, and a pattern that finds specific names anywhere and short
    ones after an introduction.

    A name is specific up to its first number, so "GPT-4" is found for gpt-4-0613. Names such as
    model-1 and response_a name nobody.
    """
    anywhere, introduced, firsts = [], [], set()
    for name in (part for whole in names for part in {whole, whole.rpartition("/")[2]}):
        # "llama3" is written "Llama 3" as well.
        parts = re.findall(r"[^\W\d_]+|\d+", name)
        words = [part for part in parts if not part.isdecimal()]
        if all(word.casefold() in _COMMON for word in words) or sum(map(len, parts)) < 2:
            continue
        firsts.add(parts[0].casefold())
        enough = 2 if len(parts) > 1 and parts[1].isdecimal() else len(parts)
        is_specific = any(len(word) > 2 or not word.isascii() for word in words[:enough])
        if is_specific or len(parts) > 2:
            anywhere.append(_spelled(parts, enough))
        if parts[0].casefold() not in _COMMON and (is_specific or len(parts) == 2):
            introduced.append(_spelled(parts, 1 if len(parts[0]) > 2 else len(parts)))
    if not anywhere and not introduced:
        return frozenset(), None
    # The longest first, so that no part of a longer name is left over.
    longest = sorted(anywhere, key=len, reverse=True)
    any_name = "|".join([*longest, *sorted(introduced, key=len, reverse=True)])
    patterns = [*longest, f"(?P<before>{_INTRODUCED})(?:{any_name})"]
    patterns.append(f"(?P<as>{_AS})(?:{any_name}){_AS_END}")
    return frozenset(firsts), re.compile("|".join(patterns), re.IGNORECASE)


def _spelled(parts: list[str], enough: int) -> str:
    """Return a pattern of the first parts of a name, with as many of the others as follow.

    In Latin letters a name is no part of a longer word. Other scripts have no blanks.
    """
    rest = ""
    for part in reversed(parts[enough:]):
        rest = f"(?:{_BETWEEN}{_word(part)}{_end_of(part)}{rest})?"
    before = f"(?<![{_LATIN}])" if parts[0].isascii() else ""
    start = _BETWEEN.join(map(_word, parts[:enough]))
    # "13b" after "vicuna" is its next part, not another word.
    return before + start + (rest and f"(?:{rest})") + _end_of(parts[-1])


def _word(part: str) -> str:
    return _UNSEEN.join(map(re.escape, part))


def _end_of(part: str) -> str:
    return f"(?![{_LATIN}])" if part.isascii() else ""


def _names_in(text: str, names: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return the pattern of these names if one of them may be in the text.

    Few texts hold a name, and looking for its first part takes a hundredth of the pattern's time.
    """
    firsts, pattern = _names_pattern(names)
    folded = (text if text.isascii() else re.sub(_UNSEEN, "", text)).casefold()
    return pattern if any(first in folded for first in firsts) else None


def names_itself(text: str, *names: str) -> bool:
    """Return True if the text names one of these models."""
    pattern = _names_in(text, names)
    return bool(pattern and pattern.search(text))


def hide_names(text: str, *names: str) -> str:
    """Return the text with the names of these models replaced by `HIDDEN_NAME`."""
    pattern = _names_in(text, names)
    return pattern.sub(_hidden, text) if pattern else text


def _hidden(match: re.Match[str]) -> str:
    return _introduction(match) + HIDDEN_NAME


def _introduction(match: re.Match[str]) -> str:
    return match["before"] or match["as"] or ""


def places_of_names(text: str, *names: str) -> list[tuple[int, int]]:
    """Return where each name begins and ends that `hide_names` replaces, in order."""
    pattern = _names_in(text, names)
    matches = pattern.finditer(text) if pattern else ()
    return [(match.start() + len(_introduction(match)), match.end()) for match in matches]
