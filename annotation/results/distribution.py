"""How BPDE is distributed over the judged examples, and which of them people were asked about."""

import numpy as np

from annotation.results.figures import Json
from annotation.results.sheet import Sheet

STEP, BINS = 0.1, 11


def distribution(sheet: Sheet) -> list[Json]:
    """Bars of a tenth each up to ln 3, the largest entropy of three outcomes."""
    there = ~np.isnan(sheet.bpde)
    edges = np.arange(BINS + 1) * STEP
    bars = []
    place = np.clip((sheet.bpde[there] / STEP).astype(int), 0, BINS - 1)
    selected = np.bincount(place[sheet.selected[there]], minlength=BINS)
    total = np.bincount(place, minlength=BINS)
    for n in range(BINS if there.any() else 0):
        low, high = round(float(edges[n]), 1), round(float(edges[n + 1]), 1)
        counts = {"selected": int(selected[n]), "others": int(total[n] - selected[n])}
        bars.append({"low": low, "high": high} | counts)
    return bars
