"""The final label of each example: people's where they were asked, the judge's elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from django.db.models import Q, QuerySet

from annotation.results.people import (
    PeopleSay,
    human_cost,
    people_alone,
    people_both_ways,
    people_for_run,
)
from annotation.selecting import frame
from judging.models.examples import Example, Label
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict

_CHUNK = 400


@dataclass(frozen=True)
class Merged:
    """An example with the judge's verdict, what people say of it, and the label that results.

    `people` holds the votes that speak about the example: those of the run's round where one
    selected it, else the votes that people gave elsewhere, which leave the judge's label alone.
    """

    example: Example
    verdict: Verdict | None
    people: PeopleSay | None
    label: Label | None
    source: str
    rule: str
    human_label: Label | None

    @property
    def human_usd(self) -> Decimal | None:
        """USD of the votes that were asked for this run's final label."""
        return human_cost([self.people]) if self.people and self.people.selection else None


def merge(judge: Label | None, people: PeopleSay | None) -> tuple[Label | None, str, str]:
    """Final label, source and rule from the judge's label and people's say on one example."""
    if people is not None and people.waits:
        return None, "none", people.rule
    if people is not None and people.source == "policy:judge":
        return judge, people.source if judge else "none", people.rule
    if people is not None and people.source:
        return people.label, people.source, people.rule
    so_far = people.rule if people is not None else ""
    if judge is not None:
        return judge, "judge", ": ".join(filter(None, ("the judge's label", so_far)))
    return None, "none", so_far or "neither the judge nor people have a label"


def merged(project: Project, run: Run | None) -> Iterator[Merged]:
    """Every example in import order, merged for a run, or by people alone where run is None.

    Streams: a chunk of examples and their verdicts at a time.
    """
    everywhere = people_alone(project)
    asked = people_for_run(run) if run else everywhere
    examples = frame(project)
    after = (-1, -1)
    while chunk := list(_after(examples, after)[:_CHUNK]):
        verdicts = _verdicts(run, chunk)
        for example in chunk:
            said, gold = asked.get(example.pk), everywhere.get(example.pk)
            yield _merged(example, verdicts.get(example.pk), said, gold)
        after = (chunk[-1].number, chunk[-1].pk)


def merged_one(example: Example, run: Run) -> Merged:
    """The same of one example, as it is now."""
    everywhere, asked = people_both_ways(example.project, run, example=example)
    verdict = _verdicts(run, [example]).get(example.pk)
    return _merged(example, verdict, asked.get(example.pk), everywhere.get(example.pk))


def _merged(
    example: Example, verdict: Verdict | None, said: PeopleSay | None, gold: PeopleSay | None
) -> Merged:
    judge = Label(verdict.label) if verdict and verdict.label else None
    label, source, rule = merge(judge, said)
    shown = said
    if said is None and gold and _speaks(gold):
        # Why another run's round asked says nothing of this run.
        shown = replace(gold, selection="", probability=None)
    human = said.label if said and said.label else (gold.label if gold else None)
    return Merged(example, verdict, shown, label, source, rule, human)


def _speaks(say: PeopleSay) -> bool:
    return bool(say.votes or say.source)


def _after(examples: QuerySet[Example], place: tuple[int, int]) -> QuerySet[Example]:
    """Keyset paging: constant cost however far down."""
    number, pk = place
    return examples.filter(Q(number__gt=number) | Q(number=number, pk__gt=pk))


def _verdicts(run: Run | None, chunk: list[Example]) -> dict[int, Verdict]:
    if run is None:
        return {}
    rows = Verdict.objects.filter(run=run, example__in=[example.pk for example in chunk])
    return {verdict.example_id: verdict for verdict in rows}
