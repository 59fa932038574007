"""When an item is settled: n votes are in, or nobody is left who could vote."""

from collections.abc import Iterable

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from annotation.models import Annotator, Item, Round, Seat, Selection, Skip, Slot
from annotation.waking import wake_when_learned
from judging.methods.outcomes import Label
from judging.methods.votes import majority
from judging.models import Project


def needs_decision(round_: Round, kind: str, labels: Iterable[str]) -> bool:
    """No majority, and the round's policy leaves it to a person. Audit and learning items always
    do so when the policy is the judge, whose label may not measure or teach itself; attention
    checks never do."""
    if kind == Selection.Kind.CHECK:
        return False
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
        # Not the key: a vote that is being stored refers to it, and would be waited for forever.
        locked = Item.objects.select_for_update(of=("self",), no_key=True)
        locked = locked.select_related("round", "selection")
        found = locked.get(pk=item.pk)
        item.state = _state_of(found)
        if item.state != found.state:
            Item.objects.filter(pk=item.pk).update(state=item.state)
        if item.state == Item.State.COMPLETE:
            wake_when_learned(found)
    return item.state


def _state_of(item: Item) -> str:
    asked = list(Slot.objects.filter(item=item).values_list("vote__label", flat=True))
    labels = [label for label in asked if label is not None]
    closed = item.round.state == Round.State.CLOSED
    if len(labels) < len(asked) and not closed:
        if not _skipped_by_all(item):
            return Item.State.OPEN
        settled = item.selection.kind == Selection.Kind.CHECK or item.adjudications.exists()
        return Item.State.COMPLETE if settled else Item.State.ADJUDICATE
    if item.adjudications.exists():
        return Item.State.COMPLETE
    if not labels:
        # Closed without a vote: there is nothing to merge, and the judge's label stays. What
        # everybody skipped still waits for a person.
        waits = _skipped_by_all(item) and item.selection.kind != Selection.Kind.CHECK
        return Item.State.ADJUDICATE if waits else Item.State.OPEN
    undecided = needs_decision(item.round, item.selection.kind, labels)
    return Item.State.ADJUDICATE if undecided else Item.State.COMPLETE


def settle_skipped(items: QuerySet[Item]) -> None:
    """The skipped among these: fewer people can vote on them now, or more votes are asked for."""
    for item in items.filter(skips__isnull=False).distinct().iterator():
        settle(item)


def could_vote(round_: Round) -> "set[int]":
    """Ids of the annotators who may take items of this round."""
    people = Annotator.objects.filter(project=round_.project_id, user__isnull=False, left_at=None)
    people = people.filter(user__is_active=True, user__memberships__project=round_.project_id)
    seats = Seat.objects.filter(round=round_, annotator=OuterRef("pk"))
    if not round_.open_to_all:
        people = people.filter(Exists(seats))
    people = people.exclude(Exists(seats.filter(left_at__isnull=False)))
    return set(people.values_list("pk", flat=True))


def _skipped_by_all(item: Item) -> bool:
    skipped = set(Skip.objects.filter(item=item).values_list("annotator_id", flat=True))
    if not skipped:
        return False
    voted = set(
        Slot.objects.filter(item=item, vote__isnull=False).values_list("vote__annotator", flat=True)
    )
    return not could_vote(item.round) - skipped - voted
