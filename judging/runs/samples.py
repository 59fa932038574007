"""Reading back what a run recorded, example by example, in constant memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from judging.llm.parts import is_swapped, order, stage_parts
from judging.methods.outcomes import (
    Label,
    Number,
    score_pair_from_outcome,
    score_pair_from_probability,
    score_pair_from_rating,
    score_pair_from_scores,
)
from judging.methods.portia.stages import Stage, StageResult
from judging.models.calls import Parse
from judging.models.examples import Example
from judging.models.runs import Form, Run
from judging.runs.plan import pages
from judging.runs.portia.settings import PortiaSettings
from judging.runs.portia.splits import ExampleSplits
from judging.runs.portia.standing import (
    Standing,
    begun_stages,
    label_of,
    standing,
    standing_of_recorded,
)

PAGE = 500
Pair = tuple[Number, Number]


# There are few scores on a scale, and making them exact takes longer than anything else here.
exact_scores = lru_cache(maxsize=1000)(score_pair_from_scores)


@dataclass(frozen=True, slots=True)
class RecordedSample:
    """The last attempt at one slot, turned back to responses 1 and 2. `p_first` is by position."""

    part: str
    slot: int
    attempt: int
    status: str
    score_1: Decimal | None
    score_2: Decimal | None
    rating: Decimal | None
    p_first: float | None
    mass: float | None
    outcome: str | None

    @property
    def order(self) -> str:
        return order(self.part)

    def pair(self, form: str) -> Pair | None:
        """What `methods.verdict` takes: None for a sample without a verdict."""
        if self.status != Parse.Status.VALID:
            return None
        if form == Form.SCORE and self.score_1 is not None and self.score_2 is not None:
            return exact_scores(self.score_1, self.score_2)
        if form == Form.LIKERT and self.rating is not None:
            return score_pair_from_rating(self.rating)
        if form == Form.CHOICE and self.p_first is not None:
            p_first = Fraction(self.p_first)
            return score_pair_from_probability(1 - p_first if is_swapped(self.part) else p_first)
        return score_pair_from_outcome(Label(self.outcome)) if self.outcome else None


@dataclass(frozen=True, slots=True)
class ExampleSamples:
    """One example of the run; without samples where nothing was recorded yet.

    `counted` are the parts by which the verdict speaks; None where all of them are. `standing`
    says how far PORTIA has come with the example.
    """

    example_id: int
    external_id: str
    number: int
    samples: tuple[RecordedSample, ...]
    counted: tuple[str, ...] | None = None
    standing: Standing | None = None

    def of(self, order: str) -> list[RecordedSample]:
        """The samples that count in one order, whichever parts it was asked in."""
        return [
            sample
            for sample in self.samples
            if sample.order == order and (self.counted is None or sample.part in self.counted)
        ]

    def of_part(self, part: str) -> list[RecordedSample]:
        return [sample for sample in self.samples if sample.part == part]

    def pairs(self, order: str, form: str) -> list[Pair | None]:
        return [sample.pair(form) for sample in self.of(order)]


def recorded(run: Run, example_ids: list[int]) -> Iterator[ExampleSamples]:
    """These examples, in import order."""
    examples = run.project.examples.filter(pk__in=example_ids).order_by("number", "pk")
    if not run.stages:
        examples = examples.only("external_id", "number")
    yield from with_samples(run, examples)


def samples_of(run: Run) -> Iterator[ExampleSamples]:
    """Every judged example of the project, in import order."""
    for examples in pages(run, PAGE):
        yield from with_samples(run, examples)


def with_samples(run: Run, examples: Iterable[Example]) -> Iterator[ExampleSamples]:
    examples = list(examples)
    found = last_attempts(run, [example.pk for example in examples])
    for example in examples:
        samples = tuple(found[example.pk])
        named = example.pk, example.external_id, example.number, samples
        if run.stages:
            yield by_stages(run, example, ExampleSamples(*named))
        else:
            yield ExampleSamples(*named, run.counted_parts)


def by_stages(run: Run, example: Example, found: ExampleSamples) -> ExampleSamples:
    """The same with the samples that count: those of the last stage that PORTIA asked."""
    settings = PortiaSettings.of(run)
    results = {}
    begun = begun_stages(sample.part for sample in found.samples)
    for stage in begun:
        orders = [found.of_part(part) for part in stage_parts(stage)]
        if settings is None or all(len(order) >= run.k for order in orders):
            results[stage] = StageResult(
                *(label_of([s.pair(run.form) for s in order]) for order in orders)
            )
    if settings is None:
        stands = standing_of_recorded([Stage(stage) for stage in run.stages], results)
    else:
        stands = standing(settings, results, begun, ExampleSplits(example, settings))
    counted = stage_parts(stands.last) if stands.last else ()
    return replace(found, counted=counted, standing=stands)


def last_attempts(run: Run, example_ids: list[int]) -> defaultdict[int, list[RecordedSample]]:
    parses = Parse.objects.filter(
        current=True, sample__call__run=run, sample__call__example__in=example_ids
    )
    rows = parses.order_by(
        "sample__call__example_id", "sample__call__part", "sample__slot", "sample__attempt"
    ).values_list(
        "sample__call__example_id",
        "sample__call__part",
        "sample__slot",
        "sample__attempt",
        "status",
        "score_1",
        "score_2",
        "rating",
        "p_first",
        "mass",
        "outcome",
    )
    found: defaultdict[int, list[RecordedSample]] = defaultdict(list)
    for example_id, *values in rows.iterator(chunk_size=2000):
        sample, earlier = RecordedSample(*values), found[example_id]
        if earlier and (earlier[-1].part, earlier[-1].slot) == (sample.part, sample.slot):
            earlier[-1] = sample
        else:
            earlier.append(sample)
    return found
