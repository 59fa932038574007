"""The samples of a run as arrays: each sample's score difference, by example, order and slot."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from django.db.models import BigIntegerField, Case, F, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast
from numpy.typing import NDArray

from annotation.results.merge.final_labels import CHUNK, as_read, places_of
from judging.llm.prompts.templates import PromptVariant, stage_parts
from judging.methods.arrays import Booleans, Codes, Signs
from judging.methods.intervals.estimates import Undefined
from judging.runs.forms.portia import last_stages
from judging.runs.models import Form, Parse, Run
from judging.runs.verdicts.judge_figures import difference

# Scores have at most ten decimal places in the database.
_MOST_PLACES = 10
# Probabilities are floats: beyond this many places a difference is rounding.
_PROBABILITY_PLACES = 6
_VALID = Parse.Status.values.index(Parse.Status.VALID)
# What tells the samples of an example apart are the digits of one number: rows of three columns
# are read in two thirds of the time of rows of seven. The bases of status, order and slot.
_BASES = (8, 8, 2**16)
_ROW = np.dtype([("example", "i8"), ("place", "i8"), ("difference", "f8")])


@dataclass(frozen=True)
class SampleArrays:
    """difference: (N, orders, k) score 1 - score 2 in units of 1/scale; valid: which are there.

    band: the largest difference that is a tie, of a sample and of a mean alike, in the same units.
    statuses: how many ended how; None where other parts were asked too.
    """

    difference: NDArray[np.int64]
    valid: Booleans
    scale: int
    statuses: dict[str, int] | None = None
    band: int = 0

    @property
    def signs(self) -> Signs:
        signs = np.sign(self.difference).astype(np.int8)
        return np.where(np.abs(self.difference) <= self.band, np.int8(0), signs)

    @property
    def orders(self) -> int:
        return self.valid.shape[1]

    @property
    def k(self) -> int:
        return self.valid.shape[2]


def samples_array(run: Run, ids: Codes) -> SampleArrays | Undefined:
    """Read the samples by one query, streamed. ids: the examples in the order of the result."""
    samples = np.fromiter(_rows(run).iterator(chunk_size=CHUNK), dtype=_ROW)
    rows = places_of(ids, samples["example"])
    speaks = rows >= 0
    if run.stages:
        speaks &= _of_last_stage(run, samples)
    samples, rows = samples[speaks], rows[speaks]
    _, code, order, slot = _told_apart(samples["place"])
    if not (code == _VALID).any():
        return Undefined("no valid sample was recorded yet")
    shape = (len(ids), len(run.orders), int(slot.max()) + 1)
    # A place with -1 has no sample, since 0 is the code of a status.
    values, status = np.zeros(shape), np.full(shape, -1, dtype=np.int8)
    values[rows, order, slot], status[rows, order, slot] = samples["difference"], code
    valid = status == _VALID
    places = _PROBABILITY_PLACES if run.form == Form.CHOICE else _MOST_PLACES
    # A probability p in a band around 1/2 is a tie. The difference, 2p - 1, is twice as far from 0.
    band = 2 * float(run.band)
    scale = _scale(np.append(values[valid], band), places)
    counts = None if run.parts != run.counted_parts or run.stages else _counts(status)
    # In whole units, scores that cancel out give exactly 0. As floats, some ties would be wins.
    whole = np.rint(values * scale).astype(np.int64)
    return SampleArrays(whole, valid, scale, counts, round(band * scale))


def _counts(status: NDArray[np.int8]) -> dict[str, int]:
    names, times = Parse.Status.values, np.bincount(status[status >= 0])
    return {names[code]: int(n) for code, n in enumerate(times) if n}


def _rows(run: Run) -> QuerySet:
    parts = run.parts if run.stages else run.counted_parts
    orders = [
        When(sample__call__part=part, then=Value(run.orders.index(PromptVariant.parse(part).order)))
        for part in parts
    ]
    order = Case(*orders, output_field=BigIntegerField())
    codes = [When(status=name, then=Value(n)) for n, name in enumerate(Parse.Status.values)]
    code = Case(*codes, output_field=BigIntegerField())
    return (
        Parse.objects.that_count(run)
        .filter(sample__call__part__in=parts)
        .order_by()
        .annotate(
            place=as_read(_in_one(_stage(run), code, order, _slot(run))),
            difference=as_read(difference(run)),
        )
        .values_list("sample__call__example", "place", "difference")
    )


def _in_one(stage: Combinable, *digits: Combinable) -> Combinable:
    number: Combinable = Cast(stage, BigIntegerField())
    for digit, base in zip(digits, _BASES, strict=True):
        number = number * base + digit
    return number


def _told_apart(number: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The stage and the digits after it."""
    digits = []
    for base in reversed(_BASES):
        digits.append(number % base)
        number = number // base
    return (number, *reversed(digits))


def _stage(run: Run) -> Combinable:
    """The place of PORTIA's stage; 0 for other methods."""
    places = [
        When(sample__call__part__in=stage_parts(stage), then=Value(place))
        for place, stage in enumerate(run.stages)
    ]
    return Case(*places, default=Value(0), output_field=BigIntegerField())


def _of_last_stage(run: Run, samples: NDArray[np.void]) -> Booleans:
    """Which rows are of the stage by which their example is judged."""
    last = last_stages(run)
    places = {pk: run.stages.index(stage) for pk, stage in last.items()}
    spoken = [places.get(int(pk), -1) for pk in samples["example"]]
    stage, *_ = _told_apart(samples["place"])
    return np.asarray(stage == np.array(spoken, dtype=int))


def _slot(run: Run) -> Combinable:
    """Several permutations may show the same order: their samples stand one behind the other."""
    if len(run.counted_parts) == len(run.orders):
        return F("sample__slot")
    in_order: Counter[str] = Counter()
    starts = []
    for part in run.counted_parts:
        order = PromptVariant.parse(part).order
        starts.append(When(sample__call__part=part, then=Value(run.k * in_order[order])))
        in_order[order] += 1
    return F("sample__slot") + Case(*starts, output_field=BigIntegerField())


def _scale(values: NDArray[np.float64], most: int) -> int:
    """The smallest power of ten that makes all of them whole."""
    for places in range(most):
        scaled = values * 10**places
        # Decimals may come from the database as floats, which are whole but for their rounding.
        if np.allclose(scaled, np.rint(scaled), rtol=0, atol=1e-6):
            return 10**places
    return 10**most
