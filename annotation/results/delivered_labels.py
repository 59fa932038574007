"""Whether delivered labels are those that the figures of a report were computed on."""

import csv
import io
from collections.abc import Iterator

import numpy as np

from annotation.results.sheet import Sheet, signs
from judging.methods.comparison import Booleans, Signs

COLUMNS = ("judge_label", "human_label", "final_label", "gold_label", "bpde", "selection")
TOLERANCE = 1e-12
Rows = list[dict[str, str]]


def compare_labels(content: bytes, sheet: Sheet) -> Iterator[str]:
    """What labels.csv says otherwise than the arrays. Raises ValueError for no such table."""
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    lacking = [name for name in COLUMNS if rows and name not in rows[0]]
    if lacking:
        raise ValueError(f"the column {lacking[0]} is missing")
    if len(rows) != len(sheet):
        yield f"labels.csv has {len(rows)} examples, and the figures rest on {len(sheet)}"
        return
    yield from _differ("judge_label", rows, sheet.judge, sheet.judged)
    yield from _differ("final_label", rows, sheet.final, sheet.has_final)
    if sheet.basis == "gold":
        yield from _differ("gold_label", rows, sheet.human, sheet.labelled)
    elif sheet.basis == "round":
        yield from _differ("human_label", rows, sheet.human, sheet.labelled, sheet.labelled)
    given = np.array([float(row["bpde"]) if row["bpde"] else np.nan for row in rows])
    same = np.isclose(given, sheet.bpde, rtol=0, atol=TOLERANCE, equal_nan=True)
    if not same.all():
        yield f"bpde of {int((~same).sum())} examples is not what the figures rest on"
    for name, inside in (("audit", sheet.audited & ~sheet.selected),):
        wrong = np.array([row["selection"] == name for row in rows], dtype=bool) != inside
        if wrong.any():
            yield f"selection of {int(wrong.sum())} examples is not what the figures rest on"


def _differ(
    name: str, rows: Rows, values: Signs, there: Booleans, among: Booleans | None = None
) -> Iterator[str]:
    given, given_there = signs([row[name] or None for row in rows])
    wrong = (there != given_there) | (there & (values != given))
    if among is not None:
        wrong &= among
    if wrong.any():
        yield f"{name} of {int(wrong.sum())} examples is not what the figures rest on"
