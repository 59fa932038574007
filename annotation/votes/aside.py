"""Putting a person's votes of a round aside, and counting them again.

A vote that is put aside leaves its slots, so that others can fill them, and `Vote.objects` no
longer finds it. It is paid all the same, and its person doesn't vote on the pair again. A vote that
is to count again needs a free slot: where others have given all the votes, it stays aside.

The votes of a round are changed in short transactions. What a killed process leaves undone is due,
and a worker goes on with it. A person may be stopped along with it, and let go on later.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.models import (
    Annotator,
    CrowdSubmission,
    Intervention,
    Item,
    Round,
    Seat,
    Slot,
    Vote,
)
from annotation.people.annotators import give_back_items, people_changed
from annotation.queue.queue import PUT_ASIDE, STOPPED, make_seat
from annotation.queue.settling import (
    count_earlier_votes,
    count_vote_in,
    fill_free_slot,
    items_with_lock,
    settle_locked,
)
from judging.core.errors import UserError
from judging.core.leases import Chunks
from judging.projects import access

LONGEST_REASON = 2000
REJECTED = "The panel's submission was rejected."
# Votes that are changed at once, at most.
_MOST = 1000
# Whoever began it is given so long before a worker goes on.
_GRACE = timedelta(minutes=1)
Kind = Intervention.Kind


@dataclass(frozen=True)
class CountedAgain:
    """How many votes count again, and how many stay aside because their pairs have all votes."""

    votes: int
    still_aside: int


def votes_that_count(round_: Round, annotator: Annotator) -> QuerySet[Vote]:
    """Return the votes that the person gave in this round and that were not put aside."""
    return Vote.objects.filter(item__round=round_, annotator=annotator)


def votes_aside(round_: Round, annotator: Annotator | None = None) -> QuerySet[Vote]:
    """Return the votes of this round that are put aside, of one person or of all."""
    votes = Vote.every.filter(item__round=round_, aside_at__isnull=False)
    return votes if annotator is None else votes.filter(annotator=annotator)


def put_aside(
    round_: Round,
    annotator: Annotator,
    by: AbstractUser | None,
    reason: str,
    *,
    stop: bool = False,
) -> int:
    """Let the votes that the person gave in this round so far no longer count. Returns how many.

    Args:
        stop: Also hand out nothing more of this round to them.

    Raises UserError without a reason, or if the person has no vote here that counts.
    """
    reason = _checked(reason)
    n_votes = votes_that_count(round_, annotator).count()
    if not n_votes:
        raise UserError(
            f"{annotator.pseudonym} gave no vote in round {round_.number} that counts, so there is "
            "nothing to put aside. Nothing was changed."
        )
    if stop and round_.kind == Round.Kind.IMPORT:
        raise UserError("A round of imported votes hands nothing out. Nothing was changed.")
    with transaction.atomic():
        made = _intervene(round_, annotator, by, Kind.ASIDE, reason, is_due=True)
        detail = {"annotator": annotator.pseudonym, "votes": n_votes, "reason": reason}
        access.record_event(round_.project, by, PUT_ASIDE, f"round {round_.number}", **detail)
    if stop:
        stop_person(round_, annotator, by, reason)
    carry_out(made)
    return n_votes


def put_aside_all(
    round_: Round, people: Collection[Annotator], by: AbstractUser | None, reason: str
) -> int:
    """Put the votes of several people aside. Returns how many votes; those without any are left."""
    reason, n_votes = _checked(reason), 0
    for annotator in people:
        if votes_that_count(round_, annotator).exists():
            n_votes += put_aside(round_, annotator, by, reason)
    return n_votes


def rejected_with_votes(round_: Round) -> list[Annotator]:
    """Return the people of a panel whose submission was rejected while votes of theirs count."""
    state = CrowdSubmission.State.REJECTED
    rejected = CrowdSubmission.objects.filter(link__round=round_, state=state)
    voters = Vote.objects.filter(item__round=round_).values("annotator")
    people = Annotator.objects.filter(pk__in=rejected.values("annotator")).filter(pk__in=voters)
    return list(people.order_by("number"))


def carry_out(made: Intervention) -> None:
    """Put aside what is still to be put aside. Done twice, it changes nothing more."""
    votes = votes_that_count(made.round, made.annotator).order_by("pk")
    chunks = Chunks()
    while rows := list(votes.values_list("pk", "example")[: min(chunks.size, _MOST)]):
        keys, examples = zip(*rows, strict=True)
        with chunks.transaction():
            _leave_slots(made.round, keys, examples)
    aside = votes_aside(made.round, made.annotator).count()
    Intervention.objects.filter(pk=made.pk).update(is_due=False, n_votes=aside)


def carry_out_due() -> None:
    """Go on where a process was killed. Every worker calls this every 15 s."""
    since = timezone.now() - _GRACE
    due = Intervention.objects.filter(is_due=True, ended_at=None, at__lt=since)
    for made in due.select_related("round__project", "annotator"):
        carry_out(made)


def _leave_slots(round_: Round, keys: Collection[int], examples: Collection[int]) -> None:
    """The items come first, wherever the votes count, as a vote locks them."""
    items = _locked(round_, examples)
    left = Slot.objects.filter(vote__in=keys)
    touched = set(left.values_list("item", flat=True))
    left.update(vote=None, annotator=None, lease_until=None)
    votes = Vote.every.filter(pk__in=keys, aside_at=None)
    votes.update(aside_at=timezone.now(), slot=None)
    changed = [item for item in items if item.pk in touched]
    for item in changed:
        count_earlier_votes(item.round, item.example_id)
    settle_locked(changed)


def count_again(round_: Round, annotator: Annotator, by: AbstractUser | None) -> CountedAgain:
    """Let votes that were put aside count again, as far as their pairs still need votes.

    Raises UserError if none is put aside.
    """
    aside = votes_aside(round_, annotator)
    if not aside.exists():
        raise UserError(
            f"No vote of {annotator.pseudonym} in round {round_.number} is put aside. Nothing was "
            "changed."
        )
    Intervention.objects.filter(
        round=round_, annotator=annotator, kind=Kind.ASIDE, ended_at=None
    ).update(is_due=False)
    counted, last, chunks = 0, 0, Chunks()
    while keys := list(
        aside.filter(pk__gt=last)
        .order_by("pk")
        .values_list("pk", flat=True)[: min(chunks.size, _MOST)]
    ):
        with chunks.transaction():
            counted += _take_slots(round_, keys)
        last = keys[-1]
    still_aside = aside.count()
    with transaction.atomic():
        done: dict[str, Any] = {"n_votes": still_aside}
        if not still_aside:
            done |= {"ended_at": timezone.now()}
        theirs = Intervention.objects.filter(round=round_, annotator=annotator, kind=Kind.ASIDE)
        theirs.filter(ended_at=None).update(**done)
        detail = {"annotator": annotator.pseudonym, "votes": counted, "still_aside": still_aside}
        did, subject = "votes counted again", f"round {round_.number}"
        access.record_event(round_.project, by, did, subject, **detail)
    return CountedAgain(counted, still_aside)


def _take_slots(round_: Round, keys: Collection[int]) -> int:
    """Return how many of the votes found a free slot of their own item."""
    aside = Vote.every.filter(pk__in=keys, aside_at__isnull=False)
    examples = list(aside.values_list("example", flat=True))
    items = {item.pk: item for item in _locked(round_, examples)}
    counted = 0
    for vote in aside.select_related("annotator").order_by("pk"):
        slot = fill_free_slot(items[vote.item_id], vote, vote.annotator)
        if slot is None:
            continue
        counted += 1
        Vote.every.filter(pk=vote.pk).update(aside_at=None, slot=slot)
        for item in items.values():
            if item.example_id == vote.example_id and item.pk != vote.item_id:
                count_vote_in(vote, item.round)
    return counted


def _locked(round_: Round, examples: Collection[int]) -> list[Item]:
    """The examples' items wherever votes of this protocol count, locked in the keys' order."""
    items = items_with_lock().filter(example__in=examples, round__protocol=round_.protocol_id)
    return list(items.order_by("pk"))


def stop_person(round_: Round, annotator: Annotator, by: AbstractUser | None, reason: str) -> None:
    """Hand out nothing more of this round to the person, until they are let go on.

    What they have in hand goes to others. Their votes stay as they are.
    """
    reason = _checked(reason)
    with transaction.atomic():
        make_seat(round_, annotator, round_.parameters.get("limit"))
        seats = Seat.objects.filter(round=round_, annotator=annotator)
        if not seats.exclude(hold=Seat.Hold.STOPPED).update(hold=Seat.Hold.STOPPED):
            return
        _intervene(round_, annotator, by, Kind.STOP, reason)
        detail = {"annotator": annotator.pseudonym, "reason": reason}
        access.record_event(round_.project, by, STOPPED, f"round {round_.number}", **detail)
    give_back_items(annotator, round_)
    people_changed(round_.project)


def let_go_on(round_: Round, annotator: Annotator, by: AbstractUser | None) -> None:
    """Hand out items of this round to the person again."""
    held = Seat.objects.filter(round=round_, annotator=annotator).exclude(hold=Seat.Hold.NONE)
    with transaction.atomic():
        if not held.update(hold=Seat.Hold.NONE):
            raise UserError(f"{annotator.pseudonym} is not stopped in round {round_.number}.")
        ended = Intervention.objects.filter(round=round_, annotator=annotator, ended_at=None)
        ended.exclude(kind=Kind.ASIDE).update(ended_at=timezone.now())
        did, subject = "person let go on", f"round {round_.number}"
        access.record_event(round_.project, by, did, subject, annotator=annotator.pseudonym)
    people_changed(round_.project)


def interventions_in(round_: Round) -> QuerySet[Intervention]:
    """Return what was done about people of this round and was not ended, the latest first."""
    made = Intervention.objects.filter(round=round_, ended_at=None)
    return made.select_related("annotator").order_by("-at", "-pk")


def _intervene(
    round_: Round,
    annotator: Annotator,
    by: AbstractUser | None,
    kind: str,
    reason: str,
    *,
    is_due: bool = False,
) -> Intervention:
    """Record what is done, in the place of the same done before."""
    made, _ = Intervention.objects.update_or_create(
        round=round_,
        annotator=annotator,
        kind=kind,
        ended_at=None,
        defaults={
            "reason": reason,
            "user": by,
            "actor": by.get_username() if by else "command line",
            "at": timezone.now(),
            "is_due": is_due,
        },
    )
    return made


def _checked(reason: str) -> str:
    reason = reason.strip()
    if not reason:
        raise UserError("Say why. The reason is kept in the audit trail. Nothing was changed.")
    if len(reason) > LONGEST_REASON:
        raise UserError(
            f"The reason has {len(reason)} characters. Use at most {LONGEST_REASON}. Nothing was "
            "changed."
        )
    return reason
