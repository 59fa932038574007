"""Rows of the database as arrays: values as the driver has them, each at its example's place."""

import numpy as np
from django.db.models import ExpressionWrapper, Field
from django.db.models.expressions import Combinable
from numpy.typing import ArrayLike

from judging.methods.arrays import Codes, Floats

# With many more rows at a time the collector of garbage goes through them all, again and again.
CHUNK = 500


def as_read(number: Combinable) -> ExpressionWrapper:
    """As the driver has it: converting each value again takes longer than reading it."""
    return ExpressionWrapper(number, output_field=Field())


def spread(ids: Codes, examples: ArrayLike, values: ArrayLike) -> Floats:
    """Values of some examples in the order of the ids; NaN where there is none."""
    found, places = np.full(len(ids), np.nan), places_of(ids, examples)
    found[places[places >= 0]] = np.asarray(values, dtype=np.float64)[places >= 0]
    return found


def places_of(ids: Codes, wanted: ArrayLike) -> Codes:
    """Where each of the wanted stands among the ids; -1 where it does not."""
    keys = np.asarray(wanted, dtype=np.intp)
    if not len(ids):
        return np.full(len(keys), -1, dtype=np.intp)
    order = np.argsort(ids)
    near = order[np.searchsorted(ids, keys, sorter=order).clip(max=len(ids) - 1)]
    return np.where(ids[near] == keys, near, -1)
