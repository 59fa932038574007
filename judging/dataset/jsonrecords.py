"""Records of JSON Lines files and of JSON arrays, with the line on which each starts.

Numbers keep the text that the file has for them, so that no digit is lost.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from judging.core.text import Encoding, detect, open_text, undecoded
from judging.dataset.records import Problem, Record, Refused, quoted

CHUNK = 1 << 16
LARGEST_RECORD = 64 << 20
# How close to the end of what has been read a mistake may be only a token that is cut there.
CUT_TOKEN = 16
FOUND = (
    ("Unterminated string", "a string without its closing quote"),
    ("Invalid control character", "a control character within a string"),
    ("Invalid \\", "a backslash that escapes nothing"),
    ("Extra data", "more text after it"),
    ("Longer", f"one longer than {LARGEST_RECORD >> 20} MiB"),
)
_SPACE = re.compile(r"[ \t\r\n]*")


def _constant(name: str) -> str | None:
    """NaN is how some tools write a missing value; the infinities are kept as their text."""
    return None if name == "NaN" else name


_decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_constant)


def lines(path: Path) -> Iterator[Record | Refused]:
    """One JSON object a line; blank lines are passed over."""
    encoding = detect(path)
    with open_text(path, newline="\n") as stream:
        # One character more than a record may have, and never a line of any length.
        limited = iter(functools.partial(stream.readline, LARGEST_RECORD + 1), "")
        for number, raw in enumerate(limited, start=1):
            if raw.isspace():
                continue
            if len(raw) > LARGEST_RECORD:
                yield _too_long(path, number)
                return
            try:
                value = _decoder.decode(raw)
            except json.JSONDecodeError as error:
                found = undecoded(raw, encoding) or f"{_words(error)} at character {error.pos + 1}"
                yield _refused(path, number, raw, found)
            except RecursionError:
                yield _refused(path, number, raw, "values nested too deeply")
            else:
                yield _record(path, number, raw, value, encoding)


def array(path: Path) -> Iterator[Record | Refused]:
    """The objects of one JSON array, read a chunk at a time."""
    encoding = detect(path)
    with open_text(path, newline="\n") as stream:
        window = _Window(stream)
        if window.next_letter() != "[":
            yield _stopped(path, window, "no [ at its start", "a JSON array")
            return
        window.take(1)
        more = window.next_letter() != "]"
        while more:
            letter, number = window.next_letter(), window.line
            try:
                value, raw = window.value()
            except json.JSONDecodeError as error:
                found = undecoded(window.rest(80), encoding) or _found(letter, error)
                yield _stopped(path, window, found)
                return
            except RecursionError:
                yield _stopped(path, window, "values nested too deeply")
                return
            yield _record(path, number, raw, value, encoding)
            after = window.next_letter()
            if after not in {",", "]"}:
                found = quoted(after) if after else "the end of the file"
                yield _stopped(path, window, found, "a comma or ]")
                return
            more = after == ","
            window.take(int(more))
        window.take(1)
        if window.next_letter():
            yield _stopped(path, window, "text after the closing ]", "the end of the file")


class _Window:
    """The part of a file that is being read, and the line on which it begins."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def _read(self, size: int) -> None:
        more = self._stream.read(size)
        self._ended = not more
        self._text = self._text[self._at :] + more
        self._at = 0

    def take(self, length: int) -> str:
        taken = self._text[self._at : self._at + length]
        self.line += taken.count("\n")
        self._at += length
        return taken

    def rest(self, length: int) -> str:
        return self._text[self._at : self._at + length]

    def next_letter(self) -> str:
        """Pass over white space; the letter after it, or "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self.take(space.end() - self._at if space else 0)
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read(CHUNK)

    def value(self) -> tuple[Any, str]:
        """Take one whole value; what is read grows twofold until the value is complete in it."""
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, self._at)
                if end < len(self._text) or self._ended:
                    return value, self.take(end - self._at)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._text) - CUT_TOKEN or "Unterminated" in error.msg
                if self._ended or not cut:
                    raise
            if len(self._text) - self._at > LARGEST_RECORD:
                raise json.JSONDecodeError("Longer", "", 0)
            self._read(max(CHUNK, len(self._text) - self._at))


def _found(letter: str, error: json.JSONDecodeError) -> str:
    if not letter:
        return "the end of the file"
    return _words(error) if letter in '{["' else f"{_words(error)} at {quoted(letter)}"


def _words(error: json.JSONDecodeError) -> str:
    """What was found in place of the object, where Python says what it would have expected."""
    if error.msg.startswith("Expecting "):
        return f"no {error.msg.removeprefix('Expecting ')}"
    return next((words for begins, words in FOUND if error.msg.startswith(begins)), error.msg)


def _record(path: Path, line: int, raw: str, value: Any, encoding: Encoding) -> Record | Refused:
    fault = undecoded(raw, encoding)
    if fault:
        return _refused(path, line, raw, fault)
    if not isinstance(value, dict):
        return _refused(path, line, raw, f"{kind(value)}", "a JSON object")
    return Record(str(path), line, value, raw)


def kind(value: Any) -> str:
    """What a decoded value is, in words. Numbers have been decoded to their text."""
    names = {dict: "an object", list: "an array", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a text or number")


def _too_long(path: Path, line: int) -> Refused:
    expected, found = "one JSON object", _words(json.JSONDecodeError("Longer", "", 0))
    sentence = f"Expected {expected}, found {found}. The rest of the file can't be read."
    return Refused((Problem(str(path), line, "", expected, found, sentence),), fatal=True)


def _refused(
    path: Path, line: int, raw: str, found: str, expected: str = "one JSON object"
) -> Refused:
    sentence = f"Expected {expected}, found {found}."
    return Refused((Problem(str(path), line, "", expected, found, sentence),), raw)


def _stopped(path: Path, window: _Window, found: str, expected: str = "a JSON object") -> Refused:
    sentence = f"Expected {expected}, found {found}. The rest of the file can't be read."
    problem = Problem(str(path), window.line, "", expected, found, sentence)
    return Refused((problem,), fatal=True)
