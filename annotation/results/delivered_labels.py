"""Whether delivered labels are those that the figures of a report were computed on."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from annotation.results.delivered_tables import columns, numbers
from annotation.results.sheet import Sheet
from annotation.results.sheet_rows import signs
from judging.methods.arrays import Booleans, Signs
from judging.methods.votes import majority_of

COLUMNS = (
    "external_id", "response_1", "response_2", "model_1", "model_2", "category", "gold_label",
    "judge_label", "score_1", "score_2", "bpde", "rank", "selection", "votes_win", "votes_tie",
    "votes_lose", "human_label", "final_label", "source",
)  # fmt: skip
VOTES = ("win", "tie", "lose")
TOLERANCE = 1e-9
Columns = dict[str, list[str]]


def compare_labels(content: bytes, sheet: Sheet) -> Iterator[str]:
    """What labels.csv says otherwise than the arrays. Raises ValueError for no such table."""
    given = columns(content, COLUMNS)
    n = len(given["external_id"])
    if n != len(sheet):
        yield f"labels.csv has {n} examples, and the figures rest on {len(sheet)}"
        return
    for name, wrong in (*_labels(given, sheet), *_judge(given, sheet), *_texts(given, sheet)):
        if wrong.any():
            yield f"{name} of {int(wrong.sum())} examples is not what the figures rest on"
    yield from _merged(given)


def _labels(given: Columns, sheet: Sheet) -> Iterator[tuple[str, Booleans]]:
    yield "judge_label", _other(given["judge_label"], sheet.judge, sheet.judged)
    yield "final_label", _other(given["final_label"], sheet.final, sheet.has_final)
    selection = np.array(given["selection"], dtype=np.str_)
    if sheet.basis == "gold":
        yield "gold_label", _other(given["gold_label"], sheet.human, sheet.labelled)
    elif sheet.basis == "round":
        human = _other(given["human_label"], sheet.human, sheet.labelled)
        yield "human_label", human & sheet.labelled
    else:
        # Where a round asked again, the label is that of the round.
        human = _other(given["human_label"], sheet.human, sheet.labelled)
        yield "human_label", human & (selection == "")
    yield "selection", (selection == "audit") != (sheet.audited & ~sheet.selected)
    votes = sheet.ballots.counts.counts
    comparable = votes.any(axis=1) & ((selection == "") | (sheet.basis == "round"))
    for place, name in enumerate(VOTES):
        counts = np.nan_to_num(numbers(given[f"votes_{name}"]))
        yield f"votes_{name}", (counts != votes[:, place]) & comparable


def _judge(given: Columns, sheet: Sheet) -> Iterator[tuple[str, Booleans]]:
    yield "bpde", ~_close(numbers(given["bpde"]), sheet.bpde)
    gap = np.abs(numbers(given["score_1"]) - numbers(given["score_2"]))
    yield "the gap between score_1 and score_2", ~_close(gap, sheet.gap) & ~np.isnan(gap)
    rank = numbers(given["rank"])
    order = np.argsort(rank, kind="stable")[: int(np.isfinite(rank).sum())]
    moved = np.zeros(len(sheet), bool)
    if len(order) == len(sheet.ranking):
        moved[order] = order != sheet.ranking
    else:
        moved[:] = True
    yield "rank", moved


def _texts(given: Columns, sheet: Sheet) -> Iterator[tuple[str, Booleans]]:
    names = np.array([*sheet.models], dtype=np.str_)
    for column, codes in (("model_1", sheet.model_1), ("model_2", sheet.model_2)):
        yield column, np.array(given[column], dtype=np.str_) != names[codes]
    yield "category", np.array(given["category"], dtype=np.str_) != sheet.category
    pairs = zip(given["response_1"], given["response_2"], strict=True)
    length = np.array([len(one) - len(two) for one, two in pairs], dtype=np.int64)
    yield "the difference in length", length != sheet.length


def _merged(given: Columns) -> Iterator[str]:
    """Each final label by what its source says that it rests on."""
    names = ("source", "judge_label", "final_label", *(f"votes_{name}" for name in VOTES))
    wrong = 0
    for source, judge, final, *votes in zip(*(given[name] for name in names), strict=True):
        expected: Any = final
        if source in ("judge", "policy:judge"):
            expected = judge
        elif source == "majority":
            expected = majority_of(dict(zip(VOTES, map(int, votes), strict=True)))
        elif source == "policy:tie":
            expected = "tie"
        wrong += final != expected
    if wrong:
        yield f"final_label of {wrong} examples does not follow from its source"


def _other(column: list[str], values: Signs, there: Booleans) -> Booleans:
    given, given_there = signs([cell or None for cell in column])
    return np.asarray((there != given_there) | (there & (values != given)))


def _close(one: np.ndarray, other: np.ndarray) -> Booleans:
    return np.isclose(one, other, rtol=0, atol=TOLERANCE, equal_nan=True)
