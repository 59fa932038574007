"""How many of a project's examples have some property, from the selected and a random audit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.proportions import clopper_pearson


def design_total(selected: ArrayLike, audited: ArrayLike, n_rest: int) -> Figure:
    """sum_S z + sum_A z + (N_U - n) mean_A z, with the binomial's exact limits for the last part.

    selected: z of S, each 0 to 1; audited: z of A, a simple random sample of the n_rest others.
    Only what neither selection nor audit saw is uncertain, and counts with its limits.
    """
    inside, drawn = (np.asarray(z, dtype=np.float64) for z in (selected, audited))
    seen = float(inside.sum() + drawn.sum())
    unseen = n_rest - len(drawn)
    n = len(inside) + len(drawn)
    if not unseen:
        return Estimate(seen, n, seen, seen)
    share = clopper_pearson(float(drawn.sum()), len(drawn))
    if isinstance(share, Undefined) or share.low is None or share.high is None:
        return Undefined("an audit of the rest is needed")
    return Estimate(
        seen + unseen * share.value, n, seen + unseen * share.low, seen + unseen * share.high
    )
