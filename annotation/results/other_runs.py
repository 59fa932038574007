"""The project's other runs, with their labels in the order of a sheet."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from annotation.results.columns import CHUNK, as_read, places_of
from annotation.results.costs import judge_cost
from annotation.results.sheet import Sheet
from annotation.results.sheet_rows import label_sign
from judging.methods.arrays import Booleans, Signs
from judging.models.runs import Run
from judging.models.verdicts import Verdict

MOST_RUNS = 20
FIELDS = ("name", "method", "form", "endpoint", "model", "k", "temperature", "template_name")

_ROW = np.dtype([("run", "i8"), ("example", "i8"), ("sign", "i1")])


@dataclass(frozen=True)
class OtherRun:
    """`settings` by name, as text where they can differ; labels as in `Sheet`."""

    settings: dict[str, str]
    judge: Signs
    judged: Booleans
    judge_usd: Decimal | None

    @property
    def name(self) -> str:
        return self.settings["name"]


def settings_of(run: Run) -> dict[str, str]:
    return {name: str(getattr(run, name)) for name in FIELDS}


def other_runs(sheet: Sheet, run: Run) -> tuple[OtherRun, ...]:
    """The newest ones that are ranked, the oldest of them first. Two queries."""
    ranked = run.project.runs.filter(ranked_at__isnull=False).exclude(pk=run.pk)
    runs = list(reversed(ranked.order_by("-number")[:MOST_RUNS]))
    labels = _labels(sheet, runs)
    return tuple(
        OtherRun(settings_of(one), *labels[one.pk], judge_usd=judge_cost(one)) for one in runs
    )


def _labels(sheet: Sheet, runs: list[Run]) -> dict[int, tuple[Signs, Booleans]]:
    rows = Verdict.objects.filter(run__in=runs, label__isnull=False).order_by()
    given = rows.annotate(sign=as_read(label_sign())).values_list("run", "example", "sign")
    found = np.fromiter(given.iterator(chunk_size=CHUNK), dtype=_ROW)
    places = places_of(sheet.ids, found["example"])
    table = {}
    for run in runs:
        theirs = (found["run"] == run.pk) & (places >= 0)
        judge, judged = np.zeros(len(sheet), np.int8), np.zeros(len(sheet), bool)
        judge[places[theirs]], judged[places[theirs]] = found["sign"][theirs], True
        table[run.pk] = judge, judged
    return table
