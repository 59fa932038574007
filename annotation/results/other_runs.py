"""The project's other runs, with their labels in the order of a sheet."""

from dataclasses import dataclass
from decimal import Decimal

from annotation.results.costs import judge_cost
from annotation.results.sheet import Sheet, signs
from judging.methods.comparison import Booleans, Signs
from judging.models import Run, Verdict

MOST_RUNS = 20
FIELDS = ("name", "method", "form", "endpoint", "model", "k", "temperature", "template_name")


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
    place = {int(pk): n for n, pk in enumerate(sheet.ids)}
    table: dict[int, list[str | None]] = {run.pk: [None] * len(sheet) for run in runs}
    rows = Verdict.objects.filter(run__in=runs, label__isnull=False)
    for run, example, label in rows.values_list("run", "example", "label").iterator(5000):
        if example in place:
            table[run][place[example]] = label
    return {run: signs(labels) for run, labels in table.items()}
