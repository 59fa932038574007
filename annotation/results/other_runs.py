"""The labels of other runs of the project, in the order of a sheet."""

from annotation.results.sheet import Sheet, signs
from judging.methods.comparison import Booleans, Signs
from judging.models import Run, Verdict


def labels_of(sheet: Sheet, runs: list[Run]) -> dict[int, tuple[Signs, Booleans]]:
    """One query for all runs."""
    place = {int(pk): n for n, pk in enumerate(sheet.ids)}
    table: dict[int, list[str | None]] = {run.pk: [None] * len(sheet) for run in runs}
    rows = Verdict.objects.filter(run__in=runs, label__isnull=False)
    for run, example, label in rows.values_list("run", "example", "label").iterator(5000):
        if example in place:
            table[run][place[example]] = label
    return {run: signs(labels) for run, labels in table.items()}
