"""What PORTIA asked so far, stage by stage: examples, calls and cost."""

from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Q, Sum

from judging.llm.parts import stage_of, stage_parts
from judging.methods.portia.stages import Stage
from judging.models.calls import Call
from judging.models.runs import Run
from judging.models.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class StageCalls:
    """One stage: examples begun, calls and cost, and how many of the examples it settled.

    `usd` is None where the price is unknown.
    """

    stage: str
    examples: int
    calls: int
    usd: Decimal | None
    settled: int


def stage_calls(run: Run) -> tuple[StageCalls, ...]:
    """The stages that were asked, in the order of asking. Two queries."""
    counted = {
        stage: (
            Count("example", distinct=True, filter=Q(part__in=stage_parts(stage))),
            Count("pk", filter=Q(part__in=stage_parts(stage))),
            Sum("usd", filter=Q(part__in=stage_parts(stage)), default=Decimal(0)),
        )
        for stage in run.stages
    }
    names = ("examples", "calls", "usd")
    sums = run.calls.aggregate(
        **{
            f"{stage}_{name}": sum_
            for stage, sums in counted.items()
            for name, sum_ in zip(names, sums, strict=True)
        }
    )
    priced = run.price is not None
    ended = Verdict.objects.filter(run=run).order_by().values_list("stage").annotate(n=Count("pk"))
    settled = dict(ended)
    return tuple(
        StageCalls(
            stage,
            sums[f"{stage}_examples"],
            sums[f"{stage}_calls"],
            sums[f"{stage}_usd"] if priced else None,
            settled.get(stage, 0),
        )
        for stage in run.stages
        if sums[f"{stage}_calls"]
    )


def slots_expected(run: Run, examples: int) -> dict[str, int]:
    """By part the slots that are asked by now, or as good as asked; it grows while the run goes on.

    Examples not begun are counted with the first stage, and an order whose twin was claimed too.
    """
    asked = run.calls.exclude(example=None).order_by()
    by_part = dict(asked.values_list("part").annotate(n=Count("example", distinct=True)))
    waiting = examples - asked.aggregate(n=Count("example", distinct=True))["n"]
    expected = {}
    for stage in run.stages:
        begun = max(by_part.get(part, 0) for part in stage_parts(stage))
        begun += max(0, waiting) if stage == run.stages[0] else 0
        expected |= {part: begun * run.k for part in stage_parts(stage) if begun}
    return expected


def last_stages(run: Run) -> dict[int, str]:
    """By example the stage whose samples speak, for those with a verdict: two queries, no text."""
    verdicts = Verdict.objects.filter(run=run).exclude(stage="").values_list("example", "stage")
    found = {pk: stage for pk, stage in verdicts if stage != Stage.NONE}
    open_ones = Verdict.objects.filter(run=run, stage__in=("", Stage.NONE)).values("example")
    asked = Call.objects.filter(run=run, example__in=open_ones).values_list("example", "part")
    places = {stage: place for place, stage in enumerate(run.stages)}
    last: dict[int, int] = {}
    for pk, part in asked.distinct().order_by():
        last[pk] = max(last.get(pk, 0), places.get(stage_of(part), 0))
    return found | {pk: run.stages[place] for pk, place in last.items()}
