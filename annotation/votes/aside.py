"""Putting a person's votes of a round aside, and counting them again.

A vote that is put aside leaves its slots, so that others can fill them, and `Vote.objects` no
longer finds it. It is paid all the same, and its person doesn't vote on the pair again. A vote that
is to count again needs a free slot: where others have given all the votes, it stays aside.

The votes of a round are changed in short transactions. What a killed process leaves undone is due,
and a worker goes on with it. A person may be stopped along with it, and let go on later.

A round may have rules about its attention checks. `judge_attention` is asked with every vote on a
check, and with no other vote. It decides in the vote's transaction, and acts after it.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from annotation.models import (
    Annotator,
    CrowdSubmission,
    Intervention,
    Item,
    Round,
    Seat,
    Selection,
    Slot,
    Vote,
)
from annotation.people.annotators import give_back_items, people_changed
from annotation.queue.queue import PUT_ASIDE, STOPPED, make_seat
from annotation.queue.settling import (
    count_earlier_votes,
    fill_free_slot,
    items_with_lock,
    settle_locked,
)
from annotation.rounds.opening import CheckRule, check_rules_of
from annotation.rounds.progress import interventions_in, votes_aside
from judging.core.errors import UserError
from judging.core.leases import in_chunks
from judging.projects import access

LONGEST_REASON = 2000
REJECTED = "The panel's submission was rejected."
# Votes that are changed at once, at most.
_MOST = 1000
# A worker goes on after this time. Until then, the process that began it may be at work.
_GRACE = timedelta(minutes=1)
Kind = Intervention.Kind


@dataclass(frozen=True)
class CountedAgain:
    """How many votes count again, and how many stay aside, since others have all places."""

    votes: int
    still_aside: int


def votes_that_count(round_: Round, annotator: Annotator) -> QuerySet[Vote]:
    """Return the votes that the person gave in this round and that were not put aside."""
    return Vote.objects.filter(item__round=round_, annotator=annotator)


@dataclass(frozen=True)
class PersonStanding:
    """A person's standing in a round.

    n_counting, n_aside: votes given in it that count, and that are put aside.
    hold: why nothing more is handed out to them; empty if they may label.
    interventions: what was done about them and was not ended, the latest first.
    """

    n_counting: int
    n_aside: int
    hold: str
    interventions: tuple[Intervention, ...]

    @property
    def is_warned(self) -> bool:
        return any(made.kind == Kind.WARN for made in self.interventions)


def standing_of(round_: Round, annotator: Annotator) -> PersonStanding:
    """Return the person's standing in the round, without counting the rest of it."""
    seat = Seat.objects.filter(round=round_, annotator=annotator).first()
    return PersonStanding(
        votes_that_count(round_, annotator).count(),
        votes_aside(round_).filter(annotator=annotator).count(),
        seat.hold if seat else "",
        tuple(interventions_in(round_).filter(annotator=annotator)),
    )


def put_aside(
    round_: Round, annotator: Annotator, by: AbstractUser | None, reason: str, *, stop: bool = False
) -> int:
    """Let the votes that the person gave in this round so far no longer count. Returns how many.

    Args:
        stop: Also give them no more pairs of this round.

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
        raise UserError(
            "Nobody labels in a round of imported votes, so nobody can be stopped in "
            "it. Nothing was changed."
        )
    with transaction.atomic():
        made = _intervene(round_, annotator, by, Kind.ASIDE, reason, is_due=True)
        detail: dict[str, Any] = {"annotator": annotator.pseudonym, "votes": n_votes}
        # A person who knows what the judge said could choose votes by it.
        seen = by is not None and access.project_for(by, round_.project.slug).has_seen_judge
        detail |= {"reason": reason, "had_seen_judge": seen}
        access.record_event(round_.project, by, PUT_ASIDE, f"round {round_.number}", **detail)
        stopped = _stop(round_, annotator, by, reason) if stop else None
    if stopped is not None:
        carry_out(stopped)
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
    """Do what follows: put the votes aside, or give to others what the person has in hand.

    Done twice, it changes nothing more.
    """
    if made.kind != Kind.ASIDE:
        give_back_items(made.annotator, made.round)
        people_changed(made.round.project)
        Intervention.objects.filter(pk=made.pk).update(is_due=False)
        return
    votes = votes_that_count(made.round, made.annotator)
    # In chunks, since each locks its items, and voters on these pairs must not wait for all of
    # them.
    in_chunks(votes, partial(_leave_slots, made.round), _MOST)
    aside = votes_aside(made.round).filter(annotator=made.annotator)
    Intervention.objects.filter(pk=made.pk).update(is_due=False, n_votes=aside.count())


def carry_out_due() -> None:
    """Go on where a process was killed. Every worker calls this every 15 s."""
    since = timezone.now() - _GRACE
    due = Intervention.objects.filter(is_due=True, ended_at=None, at__lt=since)
    for made in due.select_related("round__project", "annotator"):
        carry_out(made)


def _leave_slots(round_: Round, keys: Collection[int]) -> None:
    """The items come first, wherever the votes count, as a vote locks them."""
    items = _locked(round_, keys)
    left = Slot.objects.filter(vote__in=keys)
    touched = set(left.values_list("item", flat=True))
    # The places are free again at once, so that other people are asked for these pairs.
    left.update(vote=None, annotator=None, lease_until=None)
    votes = Vote.every.filter(pk__in=keys, aside_at=None)
    votes.update(aside_at=timezone.now(), slot=None)
    changed = [item for item in items if item.pk in touched]
    for item in changed:
        if item.round.kind == Round.Kind.ROUTED and item.round.state != Round.State.CLOSED:
            # A vote from another round may have waited for a place here.
            count_earlier_votes(item.round, item.example_id)
    settle_locked(changed)


def check_put_aside(round_: Round, annotator: Annotator) -> QuerySet[Vote]:
    """Return the person's votes of this round that are put aside. Raises UserError without any."""
    aside = votes_aside(round_).filter(annotator=annotator)
    if not aside.exists():
        raise UserError(
            f"No vote of {annotator.pseudonym} in round {round_.number} is put aside. Nothing was "
            "changed."
        )
    return aside


def count_again(round_: Round, annotator: Annotator, by: AbstractUser | None) -> CountedAgain:
    """Let votes that were put aside count again, as far as their pairs still need votes.

    Raises UserError if none is put aside.
    """
    aside = check_put_aside(round_, annotator)
    Intervention.objects.filter(
        round=round_, annotator=annotator, kind=Kind.ASIDE, ended_at=None
    ).update(is_due=False)
    of_each_chunk: list[int] = []
    in_chunks(aside, lambda keys: of_each_chunk.append(_take_slots(round_, keys)), _MOST)
    counted, still_aside = sum(of_each_chunk), aside.count()
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
    items: dict[int, dict[int, Item]] = defaultdict(dict)
    for item in _locked(round_, keys):
        items[item.example_id][item.pk] = item
    aside = Vote.every.filter(pk__in=keys, aside_at__isnull=False)
    counted = 0
    # In the order in which they were given: the earliest votes take the places that are left.
    for vote in aside.select_related("annotator").order_by("pk"):
        others = items[vote.example_id]
        # Its own round comes first. A vote counts elsewhere only if it counts where it was given.
        slot = fill_free_slot(others.pop(vote.item_id), vote, vote.annotator)
        if slot is None:
            continue
        counted += 1
        Vote.every.filter(pk=vote.pk).update(aside_at=None, slot=slot)
        for item in others.values():
            if _counted_there(vote, item.round):
                fill_free_slot(item, vote)
    return counted


def _counted_there(vote: Vote, round_: Round) -> bool:
    """Return True if a vote from another round counts in this one where it finds room.

    A closed round counts only what was given before it was closed.
    """
    if round_.kind == Round.Kind.IMPORT:
        return False
    submitted, closed = vote.submitted_at, round_.closed_at
    return closed is None or submitted is None or submitted <= closed


def _locked(round_: Round, votes: Collection[int]) -> list[Item]:
    """The items on which these votes of the round may count, locked in the order of their keys."""
    examples = Vote.every.filter(pk__in=votes).values_list("example", flat=True)
    items = items_with_lock().filter(example__in=list(examples))
    return list(items.filter(round__protocol=round_.protocol_id).order_by("pk"))


def _stop(
    round_: Round, annotator: Annotator, by: AbstractUser | None, reason: str
) -> Intervention | None:
    """Return what is left to be done; None if the person was stopped already."""
    make_seat(round_, annotator, round_.parameters.get("limit"))
    seats = Seat.objects.filter(round=round_, annotator=annotator)
    if not seats.exclude(hold=Seat.Hold.STOPPED).update(hold=Seat.Hold.STOPPED):
        return None
    detail = {"annotator": annotator.pseudonym, "reason": reason}
    access.record_event(round_.project, by, STOPPED, f"round {round_.number}", **detail)
    return _intervene(round_, annotator, by, Kind.STOP, reason, is_due=True)


def judge_attention(round_: Round, annotator: Annotator) -> None:
    """Apply the round's rules about attention checks after a vote of this person on one.

    Call it in the vote's transaction. Only votes since the person was last let go on count, and no
    "can't judge", which is no wrong answer: it says why in its comment.
    """
    rules = check_rules_of(round_)
    if not rules:
        return
    theirs = Intervention.objects.filter(round=round_, annotator=annotator)
    checks = votes_that_count(round_, annotator).filter(
        ~Q(label=""), item__selection__kind=Selection.Kind.CHECK, example__gold_label__isnull=False
    )
    since = theirs.exclude(kind=Kind.ASIDE).aggregate(last=Max("ended_at"))["last"]
    if since is not None:
        checks = checks.filter(submitted_at__gt=since)
    answers = list(checks.values_list("label", "example__gold_label"))
    right, n = sum(label == gold for label, gold in answers), len(answers)
    broken = [rule for rule in rules if rule.is_broken(right, n)]
    if not broken:
        return
    # Several rules may be broken by one answer, and the mildest would undo the others.
    rule = max(broken, key=lambda broken_rule: broken_rule.severity)
    # One warning at a time: the person has read it, or reads it with the next pair.
    if rule.then == Kind.WARN and theirs.filter(kind=Kind.WARN, ended_at=None).exists():
        return
    reason = f"{right} of {n} attention checks right. The rule is “{rule}”."
    for made in _act(round_, annotator, rule, reason):
        # After the vote's commit, since putting votes aside takes longer than a person may wait.
        transaction.on_commit(partial(carry_out, made), robust=True)


_HOLD_OF = {Kind.PAUSE: Seat.Hold.PAUSED, Kind.STOP: Seat.Hold.FAILED}


def _act(round_: Round, annotator: Annotator, rule: CheckRule, reason: str) -> list[Intervention]:
    """Warn, pause or stop the person. Returns what is left to be done."""
    kind = Kind(rule.then)
    detail = {"annotator": annotator.pseudonym, "reason": reason}
    did = {Kind.WARN: "person warned", Kind.PAUSE: "person paused", Kind.STOP: STOPPED}[kind]
    access.record_event(round_.project, None, did, f"round {round_.number}", by="rule", **detail)
    acts = kind != Kind.WARN
    made = [_intervene(round_, annotator, None, kind, reason, by_rule=True, is_due=acts)]
    if not acts:
        return []
    seats = Seat.objects.filter(round=round_, annotator=annotator)
    # Whom an owner stopped stays stopped, whatever a rule says.
    seats.exclude(hold=Seat.Hold.STOPPED).update(hold=_HOLD_OF[kind])
    if kind == Kind.STOP:
        n_votes = votes_that_count(round_, annotator).count()
        subject, votes = f"round {round_.number}", {"votes": n_votes}
        access.record_event(round_.project, None, PUT_ASIDE, subject, by="rule", **detail | votes)
        made.append(
            _intervene(round_, annotator, None, Kind.ASIDE, reason, by_rule=True, is_due=True)
        )
    return made


def let_go_on(round_: Round, annotator: Annotator, by: AbstractUser | None) -> bool:
    """Hand out items of this round to the person again, and take a warning back.

    Returns False if there was only a warning.
    """
    held = Seat.objects.filter(round=round_, annotator=annotator).exclude(hold=Seat.Hold.NONE)
    made = Intervention.objects.filter(round=round_, annotator=annotator, ended_at=None)
    with transaction.atomic():
        was_held = held.update(hold=Seat.Hold.NONE)
        if not made.exclude(kind=Kind.ASIDE).update(ended_at=timezone.now()) and not was_held:
            raise UserError(
                f"{annotator.pseudonym} is not stopped, paused or warned in round {round_.number}. "
                "Nothing was changed."
            )
        did, subject = "person let go on", f"round {round_.number}"
        access.record_event(round_.project, by, did, subject, annotator=annotator.pseudonym)
    people_changed(round_.project)
    return bool(was_held)


def _intervene(
    round_: Round,
    annotator: Annotator,
    by: AbstractUser | None,
    kind: str,
    reason: str,
    *,
    by_rule: bool = False,
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
            "actor": Intervention.RULE if by_rule else by.get_username() if by else "command line",
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
