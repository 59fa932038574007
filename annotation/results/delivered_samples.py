"""Whether delivered samples are those that the figures of a report were computed on, and whether
the judge's labels follow from them."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from annotation.agreement import SIGN
from annotation.results.delivered_tables import rows
from annotation.results.samples_array import Samples
from annotation.results.sheet import Sheet
from judging.llm.parts import is_swapped
from judging.llm.parts import order as order_of
from judging.methods.estimates import Undefined
from judging.methods.verdict_arrays import verdict_arrays
from judging.models.calls import Parse
from judging.models.runs import Form, Run

COLUMNS = (
    "external_id", "part", "slot", "attempt", "status", "score_1", "score_2", "rating", "p_first",
    "outcome",
)  # fmt: skip
MIDDLE = 4
TOLERANCE = 1e-6
# An example's place, its order, and the place of the sample within the order.
Cell = tuple[int, int, int]
Found = dict[Cell, set[float]]


def compare_samples(
    content: bytes, ids: Sequence[str], samples: Samples | Undefined, run: Run
) -> Iterator[str]:
    """What samples.csv says otherwise than the arrays. ids: the examples in their order."""
    found = _valid(content, ids, run)
    if isinstance(samples, Undefined):
        return
    cells = np.argwhere(samples.valid)
    band = float(run.band)
    values = (samples.difference[samples.valid] / samples.scale).tolist()
    wrong = [
        place
        for (place, order, slot), value in zip(cells.tolist(), values, strict=True)
        if not _has(found.get((place, order, slot), set()), value, band)
    ]
    if wrong:
        yield (
            f"{len(wrong)} samples that the figures rest on are not in samples.csv, or otherwise: "
            f"one on {ids[wrong[0]]} is one"
        )
    # Of PORTIA the samples of earlier stages are there as well.
    elif not run.stages and len(found) != len(values):
        yield (f"samples.csv has {len(found)} valid samples, and the figures rest on {len(values)}")


def compare_verdicts(sheet: Sheet, samples: Samples | Undefined, run: Run) -> Iterator[str]:
    """Labels and BPDE from outcomes alone; those of probabilities and stages are made otherwise."""
    if isinstance(samples, Undefined) or run.form == Form.CHOICE or run.stages:
        return
    scores = np.zeros((*samples.valid.shape, 2), dtype=np.int64)
    scores[..., 0] = samples.difference
    found = verdict_arrays(scores, samples.valid, samples.scale)
    there = sheet.judged
    wrong = there & (~found.judged | (found.sign != sheet.judge))
    if wrong.any():
        yield f"the judge's label of {int(wrong.sum())} examples does not follow from its samples"
    wrong = there & ~np.isclose(found.bpde, sheet.bpde, rtol=0, atol=TOLERANCE)
    if wrong.any():
        yield f"bpde of {int(wrong.sum())} examples does not follow from its samples"


def _valid(content: bytes, ids: Sequence[str], run: Run) -> Found:
    """What the last attempt at each place says, where it is valid."""
    places = {name: place for place, name in enumerate(ids)}
    slots = _slots(run)
    last: dict[tuple[int, str, int], tuple[int, str, float]] = {}
    for name, part, slot, attempt, status, *said in rows(content, COLUMNS):
        if part not in slots or name not in places:
            continue
        key = places[name], part, int(slot)
        if key not in last or int(attempt) >= last[key][0]:
            value = _difference(part, *said) if status == Parse.Status.VALID else 0.0
            last[key] = int(attempt), status, value
    found: Found = {}
    for (place, part, slot), (_, status, value) in last.items():
        if status == Parse.Status.VALID:
            order, start = slots[part]
            found.setdefault((place, order, start + slot), set()).add(value)
    return found


def _slots(run: Run) -> dict[str, tuple[int, int]]:
    """Of each part its order, and where its samples begin within the order."""
    seen: Counter[int] = Counter()
    slots = {}
    for part in run.parts if run.stages else run.counted_parts:
        order = run.orders.index(order_of(part))
        slots[part] = order, 0 if run.stages else seen[order] * run.k
        seen[order] += 1
    return slots


def _difference(
    part: str, score_1: str, score_2: str, rating: str, p_first: str, outcome: str
) -> float:
    if score_1:
        return float(score_1) - float(score_2)
    if rating:
        return float(rating) - MIDDLE
    if p_first:
        preferred = 2 * float(p_first) - 1
        return -preferred if is_swapped(part) else preferred
    return float(SIGN[outcome])


def _has(given: set[float], value: float, band: float) -> bool:
    """A probability near to one half is a tie."""
    return any(abs((0.0 if abs(one) <= 2 * band else one) - value) <= TOLERANCE for one in given)
