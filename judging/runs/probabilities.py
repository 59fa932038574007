"""A choice run's probabilities as a table: P(t1) of each example under each permutation."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from judging.llm.parts import token_probability
from judging.models.calls import Parse
from judging.models.runs import Run

Table = NDArray[np.float64]


def token_table(run: Run, ids: NDArray[np.intp]) -> tuple[Table, Table]:
    """(N, P) the mean P(t1) over the k samples, and the mean mass of both tokens; NaN: none.

    ids: the examples, in the order of the rows. The last attempt at a slot counts.
    """
    place = {int(pk): row for row, pk in enumerate(ids.tolist())}
    columns = {part: column for column, part in enumerate(run.parts)}
    rows = (
        Parse.objects.filter(
            current=True,
            sample__call__run=run,
            sample__call__part__in=columns,
            p_first__isnull=False,
        )
        .order_by("sample__attempt")
        .values_list(
            "sample__call__example", "sample__call__part", "sample__slot", "p_first", "mass"
        )
    )
    found: defaultdict[tuple[int, int], dict[int, tuple[float, float]]] = defaultdict(dict)
    for example, part, slot, p_first, mass in rows.iterator(chunk_size=5000):
        if example in place:
            cell = place[example], columns[part]
            found[cell][slot] = token_probability(p_first, part), np.nan if mass is None else mass
    table = np.full((len(ids), len(columns)), np.nan)
    masses = table.copy()
    for cell, samples in found.items():
        table[cell], masses[cell] = np.mean(list(samples.values()), axis=0)
    return table, masses
