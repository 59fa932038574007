"""Votes of people who had seen what the judge says: whether they count is a project's setting."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.utils import timezone
from django.utils.functional import cached_property

from annotation.models import (
    Adjudication,
    Annotator,
    Item,
    Round,
    Seat,
    Selection,
    Skip,
    Slot,
    Vote,
)
from judging.core import waking
from judging.core.sql.statements import prepared
from judging.methods.agreement.votes import majority
from judging.methods.verdicts.verdicts import Label
from judging.projects.models import Project


def leaving_out_unblinded(projects: Collection[int]) -> set[int]:
    """Those of these projects whose results such votes do not enter.

    As it is now: whoever holds the project may have read it before it was changed.
    """
    found = Project.objects.filter(pk__in=projects, leave_out_unblinded=True)
    return set(found.values_list("pk", flat=True))


def wake_when_learned(item: Item) -> None:
    """After a learning item was settled. A message that is lost is made up for by the sweeper."""
    learning = item.selection.kind == Selection.Kind.LEARN
    if learning and item.round.stage == Round.Stage.LEARN:
        transaction.on_commit(partial(_wake, item.round_id), robust=True)


def _wake(round_id: int) -> None:
    items = Item.objects.filter(round=round_id, selection__kind=Selection.Kind.LEARN)
    if not items.exclude(state=Item.State.COMPLETE).exists():
        waking.wake(waking.GO_ON_WITH_ROUND, round_id)


_CHUNK = 500


def needs_decision(round_: Round, kind: str, labels: Iterable[str]) -> bool:
    """No majority, and the round's policy leaves it to a person. Audit and learning items always
    do so when the policy is the judge, whose label may not measure or teach itself, and so does
    what has no vote that counts; attention checks never do."""
    if kind == Selection.Kind.CHECK:
        return False
    labels = list(labels)
    if not labels:
        return True
    if majority(Label(label) for label in labels) is not None:
        return False
    if round_.no_majority == Project.NoMajority.JUDGE:
        return kind in (Selection.Kind.AUDIT, Selection.Kind.LEARN)
    return round_.no_majority == Project.NoMajority.ADJUDICATE


def settle(item: Item) -> str:
    """Bring the item's state up to date with its slots and votes. Idempotent.

    The item's row is locked first: of two votes that arrive at once, the later one sees both.
    """
    with transaction.atomic(savepoint=False):
        items: list[Item] = locked_items.all(keys=[item.pk])
        settle_locked(items)
    item.state = items[0].state
    return item.state


def settle_all(items: QuerySet[Item]) -> None:
    """The same for many, some hundreds at a time, so that no vote waits long for its turn."""
    keys = list(items.order_by("pk").values_list("pk", flat=True).distinct())
    for start in range(0, len(keys), _CHUNK):
        with transaction.atomic(savepoint=False):
            _settle(locked_items.all(keys=keys[start : start + _CHUNK]))


def settle_skipped(items: QuerySet[Item]) -> None:
    """The skipped among these: fewer people can vote on them now, or more votes are asked for."""
    settle_all(items.filter(skips__isnull=False))


def settle_unblinded(project: Project) -> None:
    """The same for the items that stand otherwise when the project leaves such votes out."""
    settle_all(Item.objects.filter(round__project=project, slots__vote__unblinded=True))


def settle_locked(items: list[Item]) -> None:
    """The same for items that were fetched with their lock, in its transaction."""
    _settle(items)
    for item in items:
        if item.round.parameters.get("limit") is not None:
            # Only then: two votes that lock each other's items would wait for ever.
            transaction.on_commit(partial(_wait_for_none_at_limit, item.pk, item.round_id))


def _wait_for_none_at_limit(item: int, round_: int) -> None:
    """After a vote on the item, which may have been the voter's last."""
    voters = Slot.objects.filter(item=item, vote__isnull=False).values("annotator")
    if _at_limit(round_).filter(annotator__in=voters).exists():
        settle_skipped(Item.objects.filter(round=round_, state=Item.State.OPEN))


def _settle(items: list[Item]) -> None:
    changed: dict[str, list[int]] = defaultdict(list)
    facts = _Facts(items)
    for item in items:
        before, item.state = item.state, facts.state_of(item)
        if item.state != before:
            changed[item.state].append(item.pk)
    for state, those in changed.items():
        Item.objects.filter(pk__in=those).update(state=state)
    complete = [item for item in items if item.state == Item.State.COMPLETE]
    # One of each kind tells whether its round has learned.
    for item in {item.selection_id: item for item in complete}.values():
        wake_when_learned(item)


def items_with_lock() -> QuerySet[Item]:
    """Items with what settling needs, each locked until the transaction ends.

    Not the key: a vote that is being stored refers to it, and would be waited for forever.
    """
    items = Item.objects.select_for_update(of=("self",), no_key=True)
    return items.select_related("round", "selection")


@prepared
def locked_items(keys: list[int]) -> QuerySet[Item]:
    """The items of these keys, by key: whoever locks several takes them in this order."""
    return items_with_lock().filter(pk__in=keys).order_by("pk")


@prepared
def _labels(keys: list[int]) -> QuerySet[Slot, Any]:
    slots = Slot.objects.filter(item__pk__in=keys)
    return slots.values_list("item", "vote__label", "vote__annotator", "vote__unblinded")


@prepared
def _skips(keys: list[int]) -> QuerySet[Skip, Any]:
    return Skip.objects.filter(item__pk__in=keys).values_list("item", "annotator")


class _Facts:
    """What the states of some items follow from. What no item needs is not asked for."""

    def __init__(self, items: list[Item]) -> None:
        self.keys = [item.pk for item in items]
        self.projects = {item.round.project_id for item in items}
        self.votes: dict[int, list[tuple[str | None, int | None]]] = defaultdict(list)
        self.unblinded: set[tuple[int, int | None]] = set()
        for key, label, annotator, unblinded in _labels.all(keys=self.keys):
            self.votes[key].append((label, annotator))
            if unblinded:
                self.unblinded.add((key, annotator))
        self.could_vote: dict[int, set[int]] = {}

    @cached_property
    def skips(self) -> dict[int, set[int]]:
        skips: dict[int, set[int]] = defaultdict(set)
        for key, annotator in _skips.all(keys=self.keys):
            skips[key].add(annotator)
        return skips

    @cached_property
    def decided(self) -> set[int]:
        rows = Adjudication.objects.filter(item__in=self.keys)
        return set(rows.values_list("item", flat=True))

    @cached_property
    def leaving_out(self) -> set[int]:
        # Asked only where it matters, which is seldom: most votes are blind.
        return leaving_out_unblinded(self.projects) if self.unblinded else set()

    def state_of(self, item: Item) -> str:
        given = [one for one in self.votes[item.pk] if one[0] is not None]
        is_check = item.selection.kind == Selection.Kind.CHECK
        if len(given) < len(self.votes[item.pk]) and item.round.state != Round.State.CLOSED:
            if not self.skipped_by_all(item):
                return Item.State.OPEN
            settled = is_check or item.pk in self.decided
            return Item.State.COMPLETE if settled else Item.State.ADJUDICATE
        if item.pk in self.decided:
            return Item.State.COMPLETE
        if not given:
            # Closed without a vote: there is nothing to merge, and the judge's label stays. What
            # everybody skipped still waits for a person.
            waits = self.skipped_by_all(item) and not is_check
            return Item.State.ADJUDICATE if waits else Item.State.OPEN
        undecided = needs_decision(item.round, item.selection.kind, self.counted(item))
        return Item.State.ADJUDICATE if undecided else Item.State.COMPLETE

    def counted(self, item: Item) -> list[str]:
        """The labels of the votes that enter the result."""
        votes = self.votes[item.pk]
        if item.round.project_id in self.leaving_out:
            votes = [one for one in votes if (item.pk, one[1]) not in self.unblinded]
        return [label for label, _ in votes if label is not None]

    def skipped_by_all(self, item: Item) -> bool:
        skipped = self.skips.get(item.pk)
        if not skipped:
            return False
        if item.round_id not in self.could_vote:
            self.could_vote[item.round_id] = possible_voters(item.round)
        voted = {annotator for _, annotator in self.votes[item.pk] if annotator is not None}
        return not self.could_vote[item.round_id] - skipped - voted


def possible_voters(round_: Round) -> "set[int]":
    """Ids of the annotators who may take items of this round."""
    people = Annotator.objects.filter(project=round_.project_id, user__isnull=False, left_at=None)
    people = people.filter(user__is_active=True, user__memberships__project=round_.project_id)
    seats = Seat.objects.filter(round=round_, annotator=OuterRef("pk"))
    if not round_.open_to_all:
        people = people.filter(Exists(seats))
    people = people.exclude(Exists(seats.filter(left_at__isnull=False)))
    people = people.exclude(pk__in=_at_limit(round_.pk).values("annotator"))
    return set(people.values_list("pk", flat=True))


def _at_limit(round_: int) -> QuerySet[Seat]:
    """The seats of those who gave all the votes that they may; what is in hand can be skipped."""
    votes = Slot.objects.filter(round=round_, annotator=OuterRef("annotator"), vote__isnull=False)
    given = votes.order_by().values("annotator").annotate(n=Count("pk")).values("n")
    return Seat.objects.filter(round=round_, limit__lte=Subquery(given))


def count_earlier_votes(
    round_: Round, example_id: int | None = None, *, by: Annotator | None = None
) -> int:
    """Let votes that were given under the same protocol elsewhere fill this round's slots.

    Earliest first, never more than n an item; on one example or by one person alone where they
    are named. Returns how many slots were filled.
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
    return filled


def count_all_earlier_votes(round_: Round) -> int:
    """The same for a round whose items have just come, or that has just opened: also votes that
    are being given at this moment, and that did not see it yet.

    A vote holds the items of its example until it is stored, and looks once more after it held
    them for where it counts. Whoever waits for these items afterwards misses none.
    """
    elsewhere = Item.objects.filter(round__protocol=round_.protocol_id)
    elsewhere = elsewhere.filter(example__items__round=round_).exclude(round=round_)
    keys = list(elsewhere.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), _CHUNK):
        with transaction.atomic():
            held = Item.objects.select_for_update(no_key=True).order_by("pk")
            list(held.filter(pk__in=keys[start : start + _CHUNK]).values_list("pk", flat=True))
    return count_earlier_votes(round_)


def count_vote_in(vote: Vote, round_: Round) -> int:
    """A free slot of the example, the voter's own before others: they cannot fill it any more."""
    item = Item.objects.filter(round=round_, example=vote.example_id)
    with transaction.atomic():
        # Locked first: two who count the same vote at once must not give it two slots.
        locked = item.select_for_update(of=("self",), no_key=True).first()
        if locked is None or Slot.objects.filter(item=locked, vote=vote).exists():
            return 0
        # It may have been deleted with the person who gave it.
        if not Vote.objects.filter(pk=vote.pk).exists():
            return 0
        return _fill_free_slot(locked, vote)


def _fill_free_slot(item: Item, vote: Vote) -> int:
    mine = Q(annotator=vote.annotator_id)
    open_to_it = mine | Q(annotator=None) | Q(lease_until__lt=timezone.now())
    # The slot's own columns alone: a join would be judged by what it held before the update.
    free = Slot.objects.filter(open_to_it, item=item, vote=None)
    for slot in free.order_by(Case(When(mine, then=0), default=1), "index"):
        if free.filter(pk=slot.pk).update(vote=vote, annotator=None, lease_until=None):
            settle(item)
            return 1
    return 0
