"""What a manager may do with a round: pause, close, reopen, raise n, extend the cut."""

from collections.abc import Sequence
from decimal import Decimal
from random import Random

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.counting import count_all_earlier_votes, count_earlier_votes
from annotation.filling import add_items
from annotation.learning import ranking_of
from annotation.models import Item, Round, Selection, Slot
from annotation.selecting import Ranked, frame, size_for_beta
from annotation.settling import settle_all, settle_skipped
from judging import audit
from judging.errors import UserError
from judging.table_statistics import rows_came

_MAX_VOTES = 99
# In a selection's parameters: the audit items that it counts as selected.
COVERS = "covers_audit_items"


def pause(round_: Round, user: AbstractUser | None) -> None:
    """No new items are handed out; a vote on an item in hand is still taken."""
    _move(round_, user, Round.State.OPEN, Round.State.PAUSED, "round paused")


def resume(round_: Round, user: AbstractUser | None) -> None:
    _move(round_, user, Round.State.PAUSED, Round.State.OPEN, "round resumed")


def close(round_: Round, user: AbstractUser | None) -> None:
    """End the round and merge what is there. Votes are kept and can no longer be changed."""
    states = [Round.State.OPEN, Round.State.PAUSED]
    if not _change(round_, states, Round.State.CLOSED, closed_at=timezone.now()):
        raise UserError(f"Round {round_.number} is closed already.")
    Slot.objects.filter(round=round_, vote=None).update(annotator=None, lease_until=None)
    count_earlier_votes(round_)
    _settle_unfinished(round_)
    audit.record(round_.project, user, "round closed", f"round {round_.number}")


def reopen(round_: Round, user: AbstractUser | None) -> None:
    """Go on with the items that did not get all their votes."""
    if round_.kind == Round.Kind.IMPORT:
        raise UserError("Imported votes cannot be opened for labelling. Open a round instead.")
    if not _change(round_, [Round.State.CLOSED], Round.State.OPEN, closed_at=None):
        raise UserError(f"Round {round_.number} is not closed.")
    count_all_earlier_votes(round_)
    settle_all(Item.objects.filter(round=round_, slots__vote=None))
    audit.record(round_.project, user, "round reopened", f"round {round_.number}")


def raise_votes(round_: Round, user: AbstractUser | None, votes: int) -> None:
    """Ask for more votes an item: slots are added, and complete items open again."""
    if not round_.votes_per_item < votes <= _MAX_VOTES:
        raise UserError(
            f"Give a number above {round_.votes_per_item} and up to {_MAX_VOTES}. Votes already "
            "given are never taken away."
        )
    with transaction.atomic():
        before = round_.votes_per_item
        _not_closed(round_, "ask for more votes")
        changed = Round.objects.filter(pk=round_.pk, votes_per_item=before)
        if not changed.update(votes_per_item=votes):
            raise UserError("Somebody changed this round in the same moment. Look again.")
        round_.votes_per_item = votes
        items = Item.objects.filter(round=round_).only("pk", "position", "round_id")
        # In the order in which everybody locks items; an UPDATE takes them as it meets them.
        list(items.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
        Slot.objects.bulk_create(
            (
                Slot(round=round_, item=item, index=index, position=item.position)
                for item in items.iterator()
                for index in range(before, votes)
            ),
            batch_size=1000,
        )
        items.update(state=Item.State.OPEN)
        rows_came(items.count() * (votes - before), Item, Slot)
        audit.record(
            round_.project, user, "votes raised", f"round {round_.number}", before=before, now=votes
        )
    count_earlier_votes(round_)
    settle_skipped(items)


def extend(round_: Round, user: AbstractUser | None, beta: Decimal) -> int:
    """Select up to the new cut. New items go at random among those still open; none is repeated.

    An audit item that falls into the new cut stays where it is and is counted as selected by the
    analysis (SCIENCE: win rate). Returns how many items joined.
    """
    if round_.run is None or round_.kind == Round.Kind.IMPORT:
        raise UserError("Only a round that was selected by a run's ranking has a cut to extend.")
    m = size_for_beta(frame(round_.project).count(), beta)
    if round_.stage == Round.Stage.LEARN:
        raise UserError("This round is still learning. Extend it once its rest is selected.")
    wanted = ranking_of(round_, round_.run)[:m]
    with transaction.atomic():
        # Two extensions at once take different examples.
        round_ = _not_closed(round_, "extend it")
        items = Item.objects.filter(round=round_)
        here = set(items.values_list("example_id", flat=True))
        new = [ranked for ranked in wanted if ranked.example_id not in here]
        if not new:
            raise UserError(f"β = {beta} % adds nothing: these examples are in the round already.")
        selection = Selection.objects.create(
            round=round_,
            kind=Selection.Kind.TOP,
            seed=round_.seed,
            frame_size=round_.frame_size,
            parameters={
                "beta": str(beta),
                "extends": round_.parameters.get("beta"),
                COVERS: _audited_within(items, wanted),
            },
        )
        add_items(round_, selection, new, _places_among_open(round_, len(new), selection.pk))
        rows_came(len(new) * round_.votes_per_item, Item, Slot)
        parameters = round_.parameters | {"beta": str(beta)}
        Round.objects.filter(pk=round_.pk).update(parameters=parameters)
        audit.record(
            round_.project,
            user,
            "cut extended",
            f"round {round_.number}",
            beta=str(beta),
            items=len(new),
        )
    count_all_earlier_votes(round_)
    return len(new)


def _not_closed(round_: Round, to_do: str) -> Round:
    """The round as it is now, locked, so that nobody closes it meanwhile."""
    locked = Round.objects.select_for_update(of=("self",), no_key=True).get(pk=round_.pk)
    if locked.state == Round.State.CLOSED:
        raise UserError(f"Reopen the round before you {to_do}.")
    return locked


def _audited_within(items: QuerySet[Item], wanted: Sequence[Ranked]) -> list[int]:
    """Audit items that the new cut reaches."""
    reached = {ranked.example_id for ranked in wanted}
    audited = items.filter(selection__kind=Selection.Kind.AUDIT).order_by("pk")
    return [pk for pk, example in audited.values_list("pk", "example") if example in reached]


def _places_among_open(round_: Round, n: int, salt: int) -> list[float]:
    """Random places between the items that are still open, so that a place tells nothing."""
    random = Random(f"extend:{round_.seed}:{salt}")
    open_places = list(
        Item.objects.filter(round=round_, state=Item.State.OPEN)
        .order_by("position")
        .values_list("position", flat=True)
    )
    if not open_places:
        last = Item.objects.filter(round=round_).order_by("-position").first()
        start = last.position + 1 if last else 0.0
        places = [start + step for step in range(n)]
        random.shuffle(places)
        return places
    ends = [open_places[0] - 1.0, *open_places, open_places[-1] + 1.0]
    gaps = [random.randrange(len(ends) - 1) for _ in range(n)]
    return [random.uniform(ends[gap], ends[gap + 1]) for gap in gaps]


def _move(round_: Round, user: AbstractUser | None, before: str, after: str, action: str) -> None:
    if not _change(round_, [before], after):
        round_.refresh_from_db(fields=["state"])
        raise UserError(f"Round {round_.number} is {round_.get_state_display()}.")
    audit.record(round_.project, user, action, f"round {round_.number}")


def _change(round_: Round, before: list[str], after: str, **fields: object) -> bool:
    rows = Round.objects.filter(pk=round_.pk, state__in=before)
    if rows.update(state=after, **fields) != 1:
        return False
    round_.refresh_from_db(fields=["state", "closed_at"])
    return True


def _settle_unfinished(round_: Round) -> None:
    settle_all(Item.objects.filter(round=round_).exclude(state=Item.State.COMPLETE))
