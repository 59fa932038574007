"""Rows of the database as arrays: values as the driver has them, each at its example's place."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from django.db.models import (
    Case,
    ExpressionWrapper,
    F,
    Field,
    IntegerField,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from numpy.typing import ArrayLike

from annotation.models import (
    Adjudication,
    Item,
    Round,
    Selection,
    Slot,
)
from annotation.rounds.changes import COVERS
from judging.dataset.models import Example, Label, frame_of
from judging.methods.agreement.votes import LabelSource, enters_results, outcome
from judging.methods.arrays import Codes, Floats
from judging.methods.review.cost import HumanRate, human_usd, human_usd_of_active_time
from judging.projects.models import Project
from judging.runs.models import Run, Verdict

# With many more rows at a time the collector of garbage goes through them all, again and again.
CHUNK = 500


def as_read(number: Combinable) -> ExpressionWrapper:
    """As the driver has it: converting each value again takes longer than reading it."""
    return ExpressionWrapper(number, output_field=Field())


def spread(ids: Codes, examples: ArrayLike, values: ArrayLike) -> Floats:
    """Values of some examples in the order of the ids; NaN where there is none."""
    found, places = np.full(len(ids), np.nan), places_of(ids, examples)
    found[places[places >= 0]] = np.asarray(values, dtype=np.float64)[places >= 0]
    return found


def places_of(ids: Codes, wanted: ArrayLike) -> Codes:
    """Where each of the wanted stands among the ids; -1 where it does not."""
    keys = np.asarray(wanted, dtype=np.intp)
    if not len(ids):
        return np.full(len(keys), -1, dtype=np.intp)
    order = np.argsort(ids)
    near = order[np.searchsorted(ids, keys, sorter=order).clip(max=len(ids) - 1)]
    return np.where(ids[near] == keys, near, -1)


class CastVote(NamedTuple):
    annotator_id: int
    label: str
    active_seconds: float | None
    both_bad: bool = False
    unblinded: bool = False
    left_response: int | None = None


def votes_on(items: QuerySet[Item]) -> dict[int, list[CastVote]]:
    both_bad = When(vote__answer__overall="both_bad", then=Value(1))
    rows = (
        Slot.objects.filter(item__in=items.values("pk"), vote__isnull=False)
        .order_by("item", "index")
        .annotate(
            both_bad=as_read(Case(both_bad, default=Value(0), output_field=IntegerField())),
            unblinded=as_read(F("vote__unblinded")),
        )
        .values_list(
            "item",
            "vote__annotator",
            "vote__label",
            "vote__active_seconds",
            "both_bad",
            "unblinded",
            "vote__left_response",
        )
    )
    votes: dict[int, list[CastVote]] = defaultdict(list)
    for item, annotator, label, seconds, both_bad, unblinded, left in rows.iterator(CHUNK):
        vote = CastVote(annotator, label, seconds, bool(both_bad), bool(unblinded), left)
        votes[item].append(vote)
    return votes


# Where a vote enters the final label of a run. Imported votes elsewhere are gold.
ENTERS = (Selection.Kind.TOP, Selection.Kind.AUDIT, Selection.Kind.LEARN, Selection.Kind.ALL)
# Of several rounds that asked about an example the first of these says why.
_STRONGEST = (Selection.Kind.ALL, Selection.Kind.TOP, Selection.Kind.LEARN, Selection.Kind.AUDIT)

_LABELS = tuple(Label.values)


@dataclass(frozen=True)
class HumanLabel:
    """The votes on an example and the label they come to, if they have come to one.

    `source` is `majority`, `adjudicated`, `policy:tie`, `policy:judge`, or `` while undecided;
    `waits` is true where a person has yet to decide, `lapsed` where the round was closed before
    anybody voted. `selection` and `probability` say how the example came into the round, and are
    empty for imported votes. `left_out` are votes that do not count, as the project leaves out
    those of people who had seen what the judge says; they were paid for all the same.
    """

    votes: tuple[CastVote, ...]
    label: Label | None
    source: str
    rule: str
    waits: bool = False
    lapsed: bool = False
    selection: str = ""
    probability: float | None = None
    adjudicator: str = ""
    wage_usd: Decimal = Decimal(0)
    minutes_per_vote: Decimal = Decimal(0)
    measured: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    left_out: tuple[CastVote, ...] = ()

    @property
    def n_votes(self) -> int:
        return len(self.votes)

    @property
    def paid(self) -> tuple[CastVote, ...]:
        return self.votes + self.left_out


def people_for_run(run: Run) -> dict[int, HumanLabel]:
    """By example id: what people say where a round of this run asked them.

    Where several rounds of the run hold an example, the newest one with a decision speaks.
    """
    items = Item.objects.filter(
        round__run=run, round__kind=Round.Kind.ROUTED, selection__kind__in=ENTERS
    )
    return _asked(_sayings(items, run.project))


def people_alone(project: Project) -> dict[int, HumanLabel]:
    """By example id: what people say under the newest protocol that the example has votes of."""
    return _latest(_by_protocol(_sayings(_all_items(project), project)))


def people_both_ways(
    project: Project, run: Run, **only: Example
) -> tuple[dict[int, HumanLabel], dict[int, HumanLabel]]:
    """People alone, and people for the run, from one reading of the votes. only: `example`, where
    one alone is wanted."""
    sayings = _sayings(_all_items(project).filter(**only), project)
    asked = [one for one in sayings if _enters(one[0], run)]
    return _latest(_by_protocol(sayings)), _asked(asked)


class AskedItem(NamedTuple):
    """An item with what its round and selection say of it; lighter than the model, of which a
    report reads tens of thousands."""

    pk: int
    example_id: int
    state: str
    round: Round
    selection: Selection
    probability: float | None


Saying = tuple[AskedItem, HumanLabel]


def _all_items(project: Project) -> QuerySet[Item]:
    return Item.objects.filter(round__project=project).exclude(selection__kind="check")


def _enters(item: AskedItem, run: Run) -> bool:
    routed = item.round.kind == Round.Kind.ROUTED
    return routed and item.round.run_id == run.pk and item.selection.kind in ENTERS


def _by_protocol(sayings: list[Saying]) -> list[Saying]:
    return sorted(sayings, key=lambda one: one[0].round.protocol.number)


def _latest(sayings: Iterable[Saying]) -> dict[int, HumanLabel]:
    """Of several, the last one that has votes, and a decision if one before it has."""
    said: dict[int, HumanLabel] = {}
    for item, say in sayings:
        before = said.get(item.example_id)
        if before is None or say.source or (say.votes and not before.source):
            said[item.example_id] = say
    return said


def _asked(sayings: list[Saying]) -> dict[int, HumanLabel]:
    """The last ones. What one round selected stays selected where the audit of another drew it: it
    is no random example of the rest."""
    why: dict[int, tuple[str, float | None]] = {}
    for item, say in sayings:
        before = why.get(item.example_id)
        if before is None or _strength(say.selection) < _strength(before[0]):
            why[item.example_id] = say.selection, say.probability
    return {
        pk: say if say.selection == why[pk][0] else _because(say, *why[pk])
        for pk, say in _latest(sayings).items()
    }


def _strength(selection: str) -> int:
    return _STRONGEST.index(Selection.Kind(selection))


def _because(say: HumanLabel, selection: str, probability: float | None) -> HumanLabel:
    return replace(say, selection=selection, probability=probability)


def _sayings(items: QuerySet[Item], project: Project) -> list[Saying]:
    """In the order of the rounds. Rounds and selections are few, and are read once."""
    votes, decisions = votes_on(items), _decisions(items)
    ids = items.order_by().values_list("round", flat=True).distinct()
    rounds = Round.objects.select_related("protocol").in_bulk(list(ids))
    selections = {one.pk: one for one in Selection.objects.filter(round__in=rounds)}
    covered = {pk: one for one in selections.values() for pk in one.parameters.get(COVERS, ())}
    columns = ("pk", "example_id", "state", "round_id", "selection_id", "probability")
    rows = items.order_by("round__number", "pk").values_list(*columns)
    sayings = []
    for pk, example, state, round_, selection, probability in rows.iterator(chunk_size=CHUNK):
        chosen = selections[selection]
        if pk in covered:
            # The cut was extended over this audit item: it stands for itself alone.
            chosen, probability = covered[pk], 1.0
        item = AskedItem(pk, example, state, rounds[round_], chosen, probability)
        counted, left_out = _parted(votes.get(pk, ()), project.leave_out_unblinded)
        sayings.append((item, _say(item, counted, left_out, decisions.get(pk))))
    return sayings


def _parted(
    votes: Iterable[CastVote], leave_out: bool
) -> tuple[tuple[CastVote, ...], tuple[CastVote, ...]]:
    """Those that count, and those that do not."""
    if not leave_out:
        return tuple(votes), ()
    parts: dict[bool, list[CastVote]] = {True: [], False: []}
    for vote in votes:
        parts[enters_results(unblinded=vote.unblinded, leave_out=True)].append(vote)
    return tuple(parts[True]), tuple(parts[False])


def _say(
    item: AskedItem,
    votes: tuple[CastVote, ...],
    left_out: tuple[CastVote, ...],
    decision: Adjudication | None,
) -> HumanLabel:
    counts = dict.fromkeys(_LABELS, 0)
    for vote in votes:
        counts[vote.label] += 1
    label, source, rule = _decide(item, tuple(counts.values()), len(left_out), decision)
    if left_out:
        rule = "; ".join(filter(None, (rule, f"{len(left_out)} given unblinded left out")))
    routed = item.round.kind == Round.Kind.ROUTED
    return HumanLabel(
        votes=votes,
        label=label,
        source=source,
        rule=rule,
        waits=item.state == Item.State.ADJUDICATE and not source,
        lapsed=not (votes or left_out or source) and item.round.state == Round.State.CLOSED,
        selection=item.selection.kind if routed else "",
        probability=item.probability if routed else None,
        adjudicator=decision.decider if decision else "",
        wage_usd=item.round.wage_usd,
        minutes_per_vote=item.round.minutes_per_vote,
        measured=item.round.cost_basis == Project.CostBasis.MEASURED,
        counts=counts,
        left_out=left_out,
    )


def _decide(
    item: AskedItem, counts: tuple[int, ...], n_left_out: int, decision: Adjudication | None
) -> tuple[Label | None, str, str]:
    if decision is not None:
        return Label(decision.label), LabelSource.ADJUDICATED, "decided by a person"
    settled = item.state == Item.State.COMPLETE or item.round.state == Round.State.CLOSED
    if not any(counts) or not settled:
        return None, "", _unsettled(item, counts, n_left_out)
    return _counted_out(counts, item.round.no_majority, item.selection.kind in Selection.RANDOM)


def _unsettled(item: AskedItem, counts: tuple[int, ...], n_left_out: int) -> str:
    """Why the votes have not come to a label, so that an export tells it of each example."""
    given, asked = sum(counts) + n_left_out, item.round.votes_per_item
    if item.state == Item.State.ADJUDICATE:
        if n_left_out and not any(counts):
            return "no vote that counts: waits for a decision"
        if given < asked:
            return f"skipped by the others, {given} of {asked} votes: waits for a decision"
        return f"no majority ({_spread(counts)}): waits for a decision"
    return f"{given} of {asked} votes so far" if given else ""


@lru_cache(maxsize=1000)
def _counted_out(
    counts: tuple[int, ...], policy: str, measures: bool
) -> tuple[Label | None, LabelSource, str]:
    """The same for all examples with these votes."""
    spread = _spread(counts)
    label, source = outcome(dict(zip(_LABELS, counts, strict=True)), policy, measures=measures)
    rule = f"no majority ({spread}): {_WITHOUT_MAJORITY.get(source, '')}"
    if source == LabelSource.MAJORITY:
        rule = f"more than half of {sum(counts)} votes ({spread})"
    return Label(label) if label else None, source, rule


_WITHOUT_MAJORITY = {
    LabelSource.POLICY_TIE: "a tie by policy",
    LabelSource.POLICY_JUDGE: "the judge's label by policy",
    LabelSource.UNDECIDED: "waits for a decision",
}


def _spread(counts: tuple[int, ...]) -> str:
    return "–".join(map(str, counts))


def _decisions(items: QuerySet[Item]) -> dict[int, Adjudication]:
    rows = Adjudication.objects.filter(item__in=items.values("pk")).order_by("pk")
    return {decision.item_id: decision for decision in rows}


def human_cost(says: Iterable[HumanLabel]) -> Decimal:
    """USD for these votes: each one costs wage × minutes, assumed or measured (SCIENCE: cost)."""
    return sum((vote_cost(say, vote) for say in says for vote in say.paid), Decimal(0))


def vote_cost(say: HumanLabel, vote: CastVote) -> Decimal:
    """USD of one vote. A vote without a measured time is counted with the assumed minutes."""
    if say.measured and vote.active_seconds is not None:
        return human_usd_of_active_time(Decimal(repr(vote.active_seconds)), say.wage_usd)
    return _assumed_usd(say.minutes_per_vote, say.wage_usd)


@lru_cache(maxsize=100)
def _assumed_usd(minutes: Decimal, wage: Decimal) -> Decimal:
    return human_usd(1, HumanRate(minutes, wage))


_CHUNK = 400


@dataclass(frozen=True)
class Merged:
    """An example with the judge's verdict, what people say of it, and the label that results.

    `people` holds the votes that speak about the example: those of the run's round where one
    selected it, else the votes that people gave elsewhere, which leave the judge's label alone.
    """

    example: Example
    verdict: Verdict | None
    people: HumanLabel | None
    label: Label | None
    source: str
    rule: str
    human_label: Label | None

    @property
    def human_usd(self) -> Decimal | None:
        """USD of the votes that were asked for this run's final label."""
        return human_cost([self.people]) if self.people and self.people.selection else None


def merge(judge: Label | None, people: HumanLabel | None) -> tuple[Label | None, str, str]:
    """Final label, source and rule from the judge's label and people's say on one example."""
    if people is not None and people.waits:
        return None, LabelSource.NONE, people.rule
    if people is not None and people.source == LabelSource.POLICY_JUDGE:
        return judge, people.source if judge else LabelSource.NONE, people.rule
    if people is not None and people.source:
        return people.label, people.source, people.rule
    so_far = people.rule if people is not None else ""
    if judge is not None:
        return judge, LabelSource.JUDGE, ": ".join(filter(None, ("the judge's label", so_far)))
    return None, LabelSource.NONE, so_far or "neither the judge nor people have a label"


def merged(project: Project, run: Run | None) -> Iterator[Merged]:
    """Every example in import order, merged for a run, or by people alone where run is None.

    Streams: a chunk of examples and their verdicts at a time.
    """
    everywhere = people_alone(project)
    asked = people_for_run(run) if run else everywhere
    examples = frame_of(project)
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
    example: Example, verdict: Verdict | None, said: HumanLabel | None, gold: HumanLabel | None
) -> Merged:
    judge = Label(verdict.label) if verdict and verdict.label else None
    label, source, rule = merge(judge, said)
    shown = said
    if said is None and gold and _speaks(gold):
        # Why another run's round asked says nothing of this run.
        shown = replace(gold, selection="", probability=None)
    human = said.label if said and said.label else (gold.label if gold else None)
    return Merged(example, verdict, shown, label, source, rule, human)


def _speaks(say: HumanLabel) -> bool:
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
