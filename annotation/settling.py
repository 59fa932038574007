"""When an item is settled: n votes are in, or nobody is left who could vote."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.utils.functional import cached_property

from annotation.models import Adjudication, Annotator, Item, Round, Seat, Selection, Skip, Slot
from annotation.unblinded import leaving_out
from annotation.waking import wake_when_learned
from judging.methods.outcomes import Label
from judging.methods.votes import majority
from judging.models.projects import Project
from judging.prepared import prepared

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
        items: list[Item] = locked.all(keys=[item.pk])
        settle_locked(items)
    item.state = items[0].state
    return item.state


def settle_all(items: QuerySet[Item]) -> None:
    """The same for many, some hundreds at a time, so that no vote waits long for its turn."""
    keys = list(items.order_by("pk").values_list("pk", flat=True).distinct())
    for start in range(0, len(keys), _CHUNK):
        with transaction.atomic(savepoint=False):
            _settle(locked.all(keys=keys[start : start + _CHUNK]))


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


def with_lock() -> QuerySet[Item]:
    """Items with what settling needs, each locked until the transaction ends.

    Not the key: a vote that is being stored refers to it, and would be waited for forever.
    """
    items = Item.objects.select_for_update(of=("self",), no_key=True)
    return items.select_related("round", "selection")


@prepared
def locked(keys: list[int]) -> QuerySet[Item]:
    """The items of these keys, by key: whoever locks several takes them in this order."""
    return with_lock().filter(pk__in=keys).order_by("pk")


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
        return leaving_out(self.projects) if self.unblinded else set()

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
            self.could_vote[item.round_id] = could_vote(item.round)
        voted = {annotator for _, annotator in self.votes[item.pk] if annotator is not None}
        return not self.could_vote[item.round_id] - skipped - voted


def could_vote(round_: Round) -> "set[int]":
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
