"""What the judge's card reads beside the rest: the cost of each example, and likelihoods."""

import numpy as np

from annotation.results.analysis import Analysis
from annotation.results.columns import CHUNK, spread
from annotation.results.sections import Data
from judging.models.verdicts import Verdict
from judging.runs.likelihood import pair_differences

_COST = np.dtype([("example", "i8"), ("usd", "f8")])


def read_card(of: Analysis) -> Data:
    """usd: (N,) NaN where not known; likelihood, per_token: response 1 less 2, NaN likewise."""
    usd = np.full(len(of.sheet), np.nan)
    if of.run.price is not None:
        known = Verdict.objects.filter(run=of.run, usd__isnull=False)
        rows = known.values_list("example", "usd").iterator(chunk_size=CHUNK)
        found = np.fromiter(rows, dtype=_COST)
        usd = spread(of.sheet.ids, found["example"], found["usd"])
    found = pair_differences(of.project, of.sheet.ids)
    plain = {
        "likelihood_model": found.model,
        "statuses": of.statuses,
    }
    arrays = {"usd": usd, "likelihood": found.sums, "per_token": found.per_token}
    return Data(arrays, plain)
