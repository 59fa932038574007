"""Cells that a spreadsheet would run as a formula: escaped on export, turned back on import.

A cell that begins with = + - @, a tab or a carriage return, after any number of apostrophes, gets
one apostrophe in front, and the file a column `fairjudge_escape` that says 1. Because cells that
already begin with apostrophes get one more, taking exactly one off gives every cell back.
"""

from __future__ import annotations

import re

ESCAPE_COLUMN = "fairjudge_escape"
ESCAPED = "1"
_DANGEROUS = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED_CELL = re.compile(r"'+[=+\-@\t\r]")


def escape_cell(cell: str) -> str:
    return "'" + cell if _DANGEROUS.match(cell) else cell


def unescape_cell(cell: str) -> str:
    return cell[1:] if _ESCAPED_CELL.match(cell) else cell
