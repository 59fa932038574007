"""What the votes on an item come to: which votes count, when the item is done, and what follows.

Each of these rules is stated once, and everything else asks here:

- who may vote: `annotators_who_may_vote` in a project, `possible_voters` in a round;
- which votes count: those in a slot, which a vote that is put aside has left (`Vote.objects` leaves
  it out too; `annotation.votes.aside` is who puts votes aside); those with a label, so not "can't
  judge", which fills its slot all the same; only the blind ones if the project leaves the others
  out (`leaving_out_unblinded`, `counted_slots`; for one vote `enters_results` of
  `judging.methods`);
- what they come to: `outcome` of `judging.methods`, by the round's policy for items without a
  majority; `needs_decision` asks it;
- when an item is done: `settle` keeps `Item.state` up to date.

Votes given in one round also count in other rounds that ask the same, where they fill free slots.
Merging people's labels with the judge's belongs to `annotation.results.merge`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, partial
from typing import Any

from django.db import transaction
from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, When
from django.utils import timezone

from annotation.models import (
    Adjudication,
    Annotator,
    CrowdLink,
    CrowdSubmission,
    Item,
    PracticeResult,
    Round,
    Seat,
    Selection,
    Skip,
    Slot,
    Vote,
)
from judging.core import waking
from judging.core.leases import Chunks
from judging.core.sql.statements import prepared
from judging.methods.agreement.votes import LabelSource, enters_results, outcome
from judging.projects.access import who_label
from judging.projects.models import Project

_WORKING = CrowdSubmission.State.WORKING
HAVE_A_PLACE = (_WORKING, CrowdSubmission.State.COMPLETE, CrowdSubmission.State.APPROVED)
# Items that are waited for at once.
_CHUNK = 500
Advance = Callable[[int], None]


def no_news(rows: int) -> None:
    """Tell nobody how far the work is."""


def annotators_who_may_vote(project_id: int) -> QuerySet[Annotator]:
    """Annotators who can log in, are members who label, and have not left the project."""
    people = Annotator.objects.filter(project=project_id, left_at=None, user__is_active=True)
    return people.filter(user__in=who_label().filter(project=project_id).values("user"))


def possible_voters(round_: Round) -> set[int]:
    """Ids of the annotators who may still take items of this round."""
    people = annotators_who_may_vote(round_.project_id)
    seats = Seat.objects.filter(round=round_)
    if not round_.open_to_all:
        people = people.filter(pk__in=seats.values("annotator"))
    of_crowd = CrowdSubmission.objects.filter(link__round=round_, state=_WORKING)
    may_not = ~Q(pk__in=seats.may_label()) | Q(pk__in=seats_at_limit(round_.pk))
    out = seats.filter(may_not).values("annotator")
    if round_.after_id is not None:
        failed = PracticeResult.objects.filter(round=round_.after_id, is_over=True, passed=False)
        people = people.exclude(pk__in=failed.values("annotator"))
    people, of_crowd = people.exclude(pk__in=out), of_crowd.exclude(annotator__in=out)
    people_of_round = people.values_list("pk").union(of_crowd.values_list("annotator"))
    return {key for (key,) in people_of_round}


def crowd_places(round_id: int) -> int:
    """Return how many people may still come by the round's crowd link, 0 without one.

    Those who are at work or done have a place; all others gave it back.
    """
    taken = Count("submissions", filter=Q(submissions__state__in=HAVE_A_PLACE))
    links = CrowdLink.objects.filter(round=round_id, withdrawn_at=None, created_by__isnull=False)
    counted = links.annotate(taken=taken).values_list("max_people", "taken").first()
    return max(0, counted[0] - counted[1]) if counted else 0


def seats_at_limit(round_id: int) -> QuerySet[Seat]:
    """Seats whose annotators gave as many votes as they may. An item in hand can be skipped."""
    votes = Slot.objects.filter(round=round_id, annotator=OuterRef("annotator"), vote__isnull=False)
    n_votes = votes.order_by().values("annotator").annotate(n=Count("pk")).values("n")
    return Seat.objects.filter(round=round_id, limit__lte=Subquery(n_votes))


def leaving_out_unblinded(projects: Collection[int]) -> set[int]:
    """Return those of these projects that leave out votes of people who had seen judge output.

    Read now, because the caller's project may have been read before the setting was changed.
    """
    leaving = Project.objects.filter(pk__in=projects, leave_out_unblinded=True)
    return set(leaving.values_list("pk", flat=True))


def counted_slots(slots: QuerySet[Slot], leave_out: bool) -> QuerySet[Slot]:
    """Return those of the slots whose votes enter results, by the same rule as `enters_results`."""
    filled = slots.filter(vote__isnull=False).exclude(vote__label="")
    return filled.filter(vote__unblinded=False) if leave_out else filled


def needs_decision(round_: Round, kind: str, labels: Iterable[str]) -> bool:
    """Return True if the counted votes on a finished item leave its label to a person.

    Attention checks never need one: their right answer is known.
    """
    if kind == Selection.Kind.CHECK:
        return False
    _, source = outcome(Counter(labels), round_.no_majority, measures=kind in Selection.RANDOM)
    return source == LabelSource.UNDECIDED


def settle(item: Item) -> str:
    """Bring the item's state up to date with its slots and votes, and return it. Idempotent.

    The item's row is locked first: of two votes that arrive at once, the later one sees both.
    """
    with transaction.atomic(savepoint=False):
        items: list[Item] = locked_items.all(keys=[item.pk])
        settle_locked(items)
    item.state = items[0].state
    return item.state


def settle_all(items: QuerySet[Item], advance: Advance = no_news) -> None:
    """Settle many items in short transactions.

    Args:
        advance: Told in each transaction how many it settles, before any of them is read. If it
            raises, they stay as they were.
    """
    keys = list(items.order_by("pk").values_list("pk", flat=True).distinct())
    chunks = Chunks()
    while keys:
        chunk, keys = keys[: chunks.size], keys[chunks.size :]
        with chunks.transaction():
            advance(len(chunk))
            _settle(locked_items.all(keys=chunk))


def settle_skipped(items: QuerySet[Item]) -> None:
    """Settle the items that somebody skipped, after the people or the votes asked for changed."""
    settle_all(items.filter(skips__isnull=False))


def settle_unblinded(project: Project) -> None:
    """Settle the items with unblinded votes, after the project's setting for these changed."""
    settle_all(Item.objects.filter(round__project=project, slots__vote__unblinded=True))


def settle_locked(items: list[Item]) -> None:
    """Settle items that were fetched with `locked_items`, within its transaction."""
    _settle(items)
    for item in items:
        if _limits_people(item.round):
            # On commit, since two votes that lock each other's items would wait forever.
            transaction.on_commit(partial(_settle_if_at_limit, item.pk, item.round_id))


def _limits_people(round_: Round) -> bool:
    asked = round_.parameters
    return asked.get("limit") is not None or bool(asked.get("assigned", {}).get("shares"))


def _settle_if_at_limit(item_id: int, round_id: int) -> None:
    """Settle skipped items if the last vote on this one was the last that its voter may give."""
    voters = Slot.objects.filter(item=item_id, vote__isnull=False).values("annotator")
    if seats_at_limit(round_id).filter(annotator__in=voters).exists():
        settle_skipped(Item.objects.filter(round=round_id, state=Item.State.OPEN))


def _settle(items: list[Item]) -> None:
    changed: dict[str, list[int]] = defaultdict(list)
    facts = _Facts(items)
    for item in items:
        before, item.state = item.state, facts.state_of(item)
        if item.state != before:
            changed[item.state].append(item.pk)
    for state, keys in changed.items():
        Item.objects.filter(pk__in=keys).update(state=state)
    complete = [item for item in items if item.state == Item.State.COMPLETE]
    # One item of each selection is enough to tell whether its round has learned.
    for item in {item.selection_id: item for item in complete}.values():
        if item.selection.kind == Selection.Kind.LEARN and item.round.stage == Round.Stage.LEARN:
            # The sweeper makes up for a message that is lost.
            transaction.on_commit(partial(_wake_if_learned, item.round_id), robust=True)


def _wake_if_learned(round_id: int) -> None:
    items = Item.objects.filter(round=round_id, selection__kind=Selection.Kind.LEARN)
    if not items.exclude(state=Item.State.COMPLETE).exists():
        waking.wake(waking.GO_ON_WITH_ROUND, round_id)


def items_with_lock() -> QuerySet[Item]:
    """Return items with what settling needs, each locked until the transaction ends.

    The lock leaves the key free: a vote that is being stored refers to the key, and would
    otherwise be waited for forever.
    """
    items = Item.objects.select_for_update(of=("self",), no_key=True)
    return items.select_related("round", "selection")


@prepared
def locked_items(keys: list[int]) -> QuerySet[Item]:
    """The items of these keys, locked. Code that locks several takes them in the keys' order."""
    return items_with_lock().filter(pk__in=keys).order_by("pk")


@prepared
def _labels(keys: list[int]) -> QuerySet[Slot, Any]:
    slots = Slot.objects.filter(item__pk__in=keys)
    return slots.values_list("item", "index", "vote__label", "vote__annotator", "vote__unblinded")


@prepared
def _skips(keys: list[int]) -> QuerySet[Skip, Any]:
    return Skip.objects.filter(item__pk__in=keys).values_list("item", "annotator")


class _Facts:
    """What the states of some items follow from. Queries that no item needs are not made."""

    def __init__(self, items: list[Item]) -> None:
        self._keys = [item.pk for item in items]
        self._projects = {item.round.project_id for item in items}
        # For each slot of an item: label, annotator, unblinded; None for a slot without a vote.
        self._slots: dict[int, list[tuple[str | None, int | None, bool | None]]] = defaultdict(list)
        asked = {item.pk: item.round.votes_per_item for item in items}
        for key, index, *vote in _labels.all(keys=self._keys):
            # While a round is asked for more votes, their slots are still being written.
            if index < asked[key] or vote[0] is not None:
                self._slots[key].append(tuple(vote))
        self._possible_voters: dict[int, set[int]] = {}
        self._places: dict[int, int] = {}

    def state_of(self, item: Item) -> str:
        """Return the state by this rule, in this order:

        0. Somebody may still practise on it: open.
        1. A slot is empty and the round not closed: open, unless everybody who could vote has
           skipped the item; then it waits for a decision or has one.
        2. A person decided: complete.
        3. The round was closed before any vote: open, and the judge's label stays; but what
           everybody skipped still waits for a person.
        4. The counted votes have a majority, or the round's policy settles them: complete.
        """
        slots = self._slots[item.pk]
        n_votes = sum(label is not None for label, _, _ in slots)
        is_check = item.selection.kind == Selection.Kind.CHECK
        if item.round.kind in Round.PRACTICE and item.round.state != Round.State.CLOSED:
            return Item.State.OPEN
        if n_votes < len(slots) and item.round.state != Round.State.CLOSED:
            if not self._skipped_by_all(item):
                return Item.State.OPEN
            settled = is_check or item.pk in self._decided
            return Item.State.COMPLETE if settled else Item.State.ADJUDICATE
        if item.pk in self._decided:
            return Item.State.COMPLETE
        if not n_votes:
            waits = self._skipped_by_all(item) and not is_check
            return Item.State.ADJUDICATE if waits else Item.State.OPEN
        undecided = needs_decision(item.round, item.selection.kind, self._counted(item))
        return Item.State.ADJUDICATE if undecided else Item.State.COMPLETE

    def _counted(self, item: Item) -> list[str]:
        leave_out = item.round.project_id in self._leaving_out
        return [
            label
            for label, _, unblinded in self._slots[item.pk]
            if label and enters_results(label, unblinded=bool(unblinded), leave_out=leave_out)
        ]

    def _skipped_by_all(self, item: Item) -> bool:
        skipped = self._skips.get(item.pk)
        if not skipped:
            return False
        if item.round_id not in self._possible_voters:
            self._possible_voters[item.round_id] = possible_voters(item.round)
        voted = {annotator for _, annotator, _ in self._slots[item.pk]}
        voted |= self._aside.get(item.pk, set())
        if self._possible_voters[item.round_id] - skipped - voted:
            return False
        # More people may come by a crowd link, and they haven't skipped it.
        if item.round_id not in self._places:
            self._places[item.round_id] = crowd_places(item.round_id)
        return not self._places[item.round_id]

    @cached_property
    def _skips(self) -> dict[int, set[int]]:
        skips: dict[int, set[int]] = defaultdict(set)
        for key, annotator in _skips.all(keys=self._keys):
            skips[key].add(annotator)
        return skips

    @cached_property
    def _aside(self) -> dict[int, set[int]]:
        """The people who don't vote on each item, because their vote on its example was put aside.

        It doesn't matter in which round they cast it.
        """
        votes = Vote.every.filter(
            aside_at__isnull=False,
            example__items__in=self._keys,
            protocol=F("example__items__round__protocol"),
        )
        aside: dict[int, set[int]] = defaultdict(set)
        for key, annotator in votes.values_list("example__items", "annotator"):
            aside[key].add(annotator)
        return aside

    @cached_property
    def _decided(self) -> set[int]:
        rows = Adjudication.objects.filter(item__in=self._keys)
        return set(rows.values_list("item", flat=True))

    @cached_property
    def _leaving_out(self) -> set[int]:
        # Most votes are blind, and then the setting makes no difference.
        any_unblinded = any(vote[2] for slots in self._slots.values() for vote in slots)
        return leaving_out_unblinded(self._projects) if any_unblinded else set()


def is_free(now: Any) -> Q:
    """Slots without a vote that nobody holds: no annotator, or a lease that has ended."""
    return Q(vote=None) & (Q(annotator=None) | Q(lease_until__lt=now))


def hand_back(slots: QuerySet[Slot]) -> None:
    """Free those of the slots that are in somebody's hands; filled ones stay.

    A slot of practice stays the person's own, since nobody else needs it.
    """
    held = slots.filter(vote=None, annotator__isnull=False)
    # No join: it would be judged by what it held before the update.
    held = held.exclude(round__in=Round.objects.filter(kind__in=Round.PRACTICE).values("pk"))
    held.update(annotator=None, lease_until=None)


def count_earlier_votes(
    round_: Round,
    example_id: int | None = None,
    *,
    by: Annotator | None = None,
    advance: Advance = no_news,
) -> int:
    """Let votes given elsewhere under the same protocol fill this round's free slots.

    The earliest come first, and never more than n votes an item. Returns how many slots were
    filled.

    Args:
        example_id: Look at votes on this example only.
        by: Look at this annotator's votes only.
        advance: Told after each vote.
    """
    filled = 0
    earlier = (
        Vote.objects.filter(protocol=round_.protocol_id, example__items__round=round_)
        .exclude(item__round=round_)
        .exclude(counted_in__round=round_)
        .order_by("example", "submitted_at", "pk")
    )
    if example_id is not None:
        earlier = earlier.filter(example=example_id)
    if by is not None:
        earlier = earlier.filter(annotator=by)
    for vote in earlier.iterator():
        filled += count_vote_in(vote, round_)
        advance(1)
    return filled


def count_all_earlier_votes(round_: Round, advance: Advance = no_news) -> int:
    """Count earlier votes in a round whose items are new, among them votes being given just now.

    Such a vote did not see the new items. It holds its example's items until it is stored, and
    then looks once more for rounds to count in. Waiting for these items therefore misses none.
    """
    elsewhere = Item.objects.filter(round__protocol=round_.protocol_id)
    elsewhere = elsewhere.filter(example__items__round=round_).exclude(round=round_)
    keys = list(elsewhere.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), _CHUNK):
        with transaction.atomic():
            held = Item.objects.select_for_update(no_key=True).order_by("pk")
            list(held.filter(pk__in=keys[start : start + _CHUNK]).values_list("pk", flat=True))
        advance(0)
    return count_earlier_votes(round_, advance=advance)


def count_vote_in(vote: Vote, round_: Round) -> int:
    """Let the vote fill a free slot of its example in this round. Returns 1 if it does, else 0."""
    items = Item.objects.select_related("round").filter(round=round_, example=vote.example_id)
    with transaction.atomic():
        # Locked first: two who count the same vote at once must not give it two slots.
        item = items.select_for_update(of=("self",), no_key=True).first()
        if item is None or Slot.objects.filter(item=item, vote=vote).exists():
            return 0
        # It may have been deleted with the person who gave it, or been put aside.
        if not Vote.objects.filter(pk=vote.pk).exists():
            return 0
        return int(fill_free_slot(item, vote) is not None)


def fill_free_slot(item: Item, vote: Vote, holder: Annotator | None = None) -> Slot | None:
    """Let the vote fill a free slot of an item that the caller has locked, and return the slot.

    The voter's own slot is taken before others, since they can't fill it any more.

    Args:
        holder: Whose slot it becomes: the voter's if the vote was cast on this item.
    """
    mine = Q(annotator=vote.annotator_id)
    # The slot's own columns alone: a join would be judged by what it held before the update.
    free = Slot.objects.filter(mine | is_free(timezone.now()), item=item, vote=None)
    if item.round.kind == Round.Kind.ROUTED:
        # Beyond them are the slots of more votes that are still being written.
        free = free.filter(index__lt=item.round.votes_per_item)
    for slot in free.order_by(Case(When(mine, then=0), default=1), "index"):
        if free.filter(pk=slot.pk).update(vote=vote, annotator=holder, lease_until=None):
            settle(item)
            return slot
    return None
