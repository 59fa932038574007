"""What people say of each example: their votes under one protocol, and what these come to.

Two readings. For a run: the items that a round of that run selected, where votes enter the final
label. For people alone: every vote under the newest protocol that the example has votes of.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from django.db.models import QuerySet

from annotation.changes import COVERS
from annotation.models import Adjudication, Item, Round, Selection
from annotation.results.columns import CHUNK
from annotation.results.votes import Vote, votes_on
from judging.methods.cost import Rate, human_usd, human_usd_of_active_time
from judging.methods.votes import majority_of
from judging.models.examples import Example, Label
from judging.models.projects import Project
from judging.models.runs import Run

# Where a vote enters the final label of a run. Imported votes elsewhere are gold.
ENTERS = (Selection.Kind.TOP, Selection.Kind.AUDIT, Selection.Kind.LEARN, Selection.Kind.ALL)
# Of several rounds that asked about an example the first of these says why.
_STRONGEST = (Selection.Kind.ALL, Selection.Kind.TOP, Selection.Kind.LEARN, Selection.Kind.AUDIT)

_LABELS = tuple(Label.values)


@dataclass(frozen=True)
class PeopleSay:
    """The votes on an example and the label they come to, if they have come to one.

    `source` is `majority`, `adjudicated`, `policy:tie`, `policy:judge`, or `` while undecided;
    `waits` is true where a person has yet to decide, `lapsed` where the round was closed before
    anybody voted. `selection` and `probability` say how the example came into the round, and are
    empty for imported votes. `left_out` are votes that do not count, as the project leaves out
    those of people who had seen what the judge says; they were paid for all the same.
    """

    votes: tuple[Vote, ...]
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
    left_out: tuple[Vote, ...] = ()

    @property
    def n_votes(self) -> int:
        return len(self.votes)

    @property
    def paid(self) -> tuple[Vote, ...]:
        return self.votes + self.left_out


def people_for_run(run: Run) -> dict[int, PeopleSay]:
    """By example id: what people say where a round of this run asked them.

    Where several rounds of the run hold an example, the newest one with a decision speaks.
    """
    items = Item.objects.filter(
        round__run=run, round__kind=Round.Kind.ROUTED, selection__kind__in=ENTERS
    )
    return _asked(_sayings(items, run.project))


def people_alone(project: Project) -> dict[int, PeopleSay]:
    """By example id: what people say under the newest protocol that the example has votes of."""
    return _latest(_by_protocol(_sayings(_all_items(project), project)))


def people_both_ways(
    project: Project, run: Run, **only: Example
) -> tuple[dict[int, PeopleSay], dict[int, PeopleSay]]:
    """People alone, and people for the run, from one reading of the votes. only: `example`, where
    one alone is wanted."""
    sayings = _sayings(_all_items(project).filter(**only), project)
    asked = [one for one in sayings if _enters(one[0], run)]
    return _latest(_by_protocol(sayings)), _asked(asked)


class Asked(NamedTuple):
    """An item with what its round and selection say of it; lighter than the model, of which a
    report reads tens of thousands."""

    pk: int
    example_id: int
    state: str
    round: Round
    selection: Selection
    probability: float | None


Saying = tuple[Asked, PeopleSay]


def _all_items(project: Project) -> QuerySet[Item]:
    return Item.objects.filter(round__project=project).exclude(selection__kind="check")


def _enters(item: Asked, run: Run) -> bool:
    routed = item.round.kind == Round.Kind.ROUTED
    return routed and item.round.run_id == run.pk and item.selection.kind in ENTERS


def _by_protocol(sayings: list[Saying]) -> list[Saying]:
    return sorted(sayings, key=lambda one: one[0].round.protocol.number)


def _latest(sayings: Iterable[Saying]) -> dict[int, PeopleSay]:
    """Of several, the last one that has votes, and a decision if one before it has."""
    said: dict[int, PeopleSay] = {}
    for item, say in sayings:
        before = said.get(item.example_id)
        if before is None or say.source or (say.votes and not before.source):
            said[item.example_id] = say
    return said


def _asked(sayings: list[Saying]) -> dict[int, PeopleSay]:
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


def _because(say: PeopleSay, selection: str, probability: float | None) -> PeopleSay:
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
        item = Asked(pk, example, state, rounds[round_], chosen, probability)
        counted, left_out = _parted(votes.get(pk, ()), project.leave_out_unblinded)
        sayings.append((item, _say(item, counted, left_out, decisions.get(pk))))
    return sayings


def _parted(votes: Iterable[Vote], leave_out: bool) -> tuple[tuple[Vote, ...], tuple[Vote, ...]]:
    """Those that count, and those that do not."""
    if not leave_out:
        return tuple(votes), ()
    blind = tuple(vote for vote in votes if not vote.unblinded)
    return blind, tuple(vote for vote in votes if vote.unblinded)


def _say(
    item: Asked,
    votes: tuple[Vote, ...],
    left_out: tuple[Vote, ...],
    decision: Adjudication | None,
) -> PeopleSay:
    counts = dict.fromkeys(_LABELS, 0)
    for vote in votes:
        counts[vote.label] += 1
    label, source, rule = _decide(item, tuple(counts.values()), len(left_out), decision)
    if left_out:
        rule = "; ".join(filter(None, (rule, f"{len(left_out)} given unblinded left out")))
    routed = item.round.kind == Round.Kind.ROUTED
    return PeopleSay(
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
    item: Asked, counts: tuple[int, ...], n_left_out: int, decision: Adjudication | None
) -> tuple[Label | None, str, str]:
    if decision is not None:
        return Label(decision.label), "adjudicated", "decided by a person"
    settled = item.state == Item.State.COMPLETE or item.round.state == Round.State.CLOSED
    if not any(counts) or not settled:
        return None, "", _unsettled(item, counts, n_left_out)
    measures = item.selection.kind in (Selection.Kind.AUDIT, Selection.Kind.LEARN)
    return _counted_out(counts, item.round.no_majority, measures)


def _unsettled(item: Asked, counts: tuple[int, ...], n_left_out: int) -> str:
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
) -> tuple[Label | None, str, str]:
    """The same for all examples with these votes. measures: the item is there to measure the
    judge, so that the judge cannot decide it."""
    spread = _spread(counts)
    label = majority_of(dict(zip(_LABELS, counts, strict=True)))
    if label is not None:
        return Label(label), "majority", f"more than half of {sum(counts)} votes ({spread})"
    if policy == Project.NoMajority.TIE:
        return Label.TIE, "policy:tie", f"no majority ({spread}): a tie by policy"
    if policy == Project.NoMajority.JUDGE and not measures:
        return None, "policy:judge", f"no majority ({spread}): the judge's label by policy"
    return None, "", f"no majority ({spread}): waits for a decision"


def _spread(counts: tuple[int, ...]) -> str:
    return "–".join(map(str, counts))


def _decisions(items: QuerySet[Item]) -> dict[int, Adjudication]:
    rows = Adjudication.objects.filter(item__in=items.values("pk")).order_by("pk")
    return {decision.item_id: decision for decision in rows}


def human_cost(says: Iterable[PeopleSay]) -> Decimal:
    """USD for these votes: each one costs wage × minutes, assumed or measured (SCIENCE: cost)."""
    return sum((vote_cost(say, vote) for say in says for vote in say.paid), Decimal(0))


def vote_cost(say: PeopleSay, vote: Vote) -> Decimal:
    """USD of one vote. A vote without a measured time is counted with the assumed minutes."""
    if say.measured and vote.active_seconds is not None:
        return human_usd_of_active_time(Decimal(repr(vote.active_seconds)), say.wage_usd)
    return _assumed_usd(say.minutes_per_vote, say.wage_usd)


@lru_cache(maxsize=100)
def _assumed_usd(minutes: Decimal, wage: Decimal) -> Decimal:
    return human_usd(1, Rate(minutes, wage))
