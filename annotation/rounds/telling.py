"""Telling webhooks of rounds: one is over, an item needs a decision, an audit was looked at.

People who want it get a mail when a round is over. Workers look every 15 s, so that no vote waits
for it. What was told last is kept and changed in the transaction of the event: nothing is lost if a
process is killed, and of two workers one tells.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from annotation.models import Item, Round, RoundTold, RoundWork, Selection
from judging.core import leases, waking
from judging.projects import mail
from judging.projects.access import listening, tell, who_may
from judging.projects.models import Role

CERTIFICATE = ("certificate.issued", "certificate.refused")
# A closed round without open decisions changes no more, unless it is reopened.
_WATCHED = timedelta(days=1)


@dataclass(frozen=True)
class RoundStanding:
    """How far a round is now, as `RoundTold` keeps it."""

    complete: bool
    undecided: list[int]
    level: int


def tell_of_rounds() -> None:
    """Tell of the rounds that have come further. Every worker calls this every 15 s."""
    for round_, standing in _standings():
        told = getattr(round_, "told", None)
        if told is None:
            told, _ = RoundTold.objects.get_or_create(round=round_)
        if (standing.complete, standing.undecided) != (told.complete, told.undecided):
            _tell(round_, told, standing)
        if standing.level != told.level:
            _look_at_audit(round_, told, standing.level)


def _standings() -> Iterator[tuple[Round, RoundStanding]]:
    items = Item.objects.filter(round=OuterRef("pk"))
    at_work = RoundWork.objects.filter(round=OuterRef("pk")).exclude(state=RoundWork.State.DONE)
    rounds = Round.objects.filter(~Exists(at_work), project__deleted_at=None)
    rounds = rounds.filter(kind=Round.Kind.ROUTED).exclude(stage=Round.Stage.LEARN)
    long_over = Q(closed_at__lt=timezone.now() - _WATCHED, told__complete=True)
    watched = list(
        rounds.exclude(long_over)
        .annotate(has_items=Exists(items), has_open=Exists(items.filter(state=Item.State.OPEN)))
        .select_related("project", "told")
        .order_by("pk")
    )
    undecided: dict[int, list[int]] = defaultdict(list)
    waiting = Item.objects.filter(round__in=watched, state=Item.State.ADJUDICATE).order_by("pk")
    for round_id, item_id in waiting.values_list("round", "pk"):
        undecided[round_id].append(item_id)
    for round_ in watched:
        mine = undecided[round_.pk]
        is_over = round_.state == Round.State.CLOSED
        is_over |= round_.has_items and not round_.has_open
        complete = is_over and not mine
        yield round_, RoundStanding(complete, mine, audit_level(round_)[0])


def audit_level(round_: Round) -> tuple[int, bool]:
    """Return how far the audit is, as a number that grows with each look, and if it is over.

    Looks are at the items in the order in which they were drawn, settled without a gap.
    """
    if not round_.certificate_plan or round_.run_id is None:
        return 0, False
    audit = Item.objects.filter(round=round_, selection__kind=Selection.Kind.AUDIT)
    unsettled = audit.exclude(state=Item.State.COMPLETE).order_by("audit_order", "pk")
    gap = unsettled.values_list("audit_order", flat=True).first()
    is_whole = gap is None or round_.state == Round.State.CLOSED
    n_settled = (audit if is_whole else audit.filter(audit_order__lt=gap)).count()
    looks = round_.certificate_plan["looks"]
    passed = sum(look <= n_settled for look in looks)
    is_over = is_whole or passed == len(looks)
    return passed + is_over, is_over


def move_on(told: RoundTold, **fields: Any) -> bool:
    """Keep what is told now, in the transaction that tells it; False if another process was faster.

    Changes `told` itself, too.
    """
    same = RoundTold.objects.filter(pk=told.pk, version=told.version)
    if not same.update(version=F("version") + 1, **fields):
        return False
    for name, value in (fields | {"version": told.version + 1}).items():
        setattr(told, name, value)
    return True


def _tell(round_: Round, told: RoundTold, standing: RoundStanding) -> None:
    new = sorted(set(standing.undecided) - set(told.undecided))
    was_complete = told.complete
    with transaction.atomic():
        if not move_on(told, complete=standing.complete, undecided=standing.undecided):
            return
        data = {"round": round_.number, "state": round_.state}
        if new:
            counts = {"undecided": len(standing.undecided), "new": len(new)}
            tell(round_.project, "round.needs_decision", lambda: data | counts)
        if standing.complete and not was_complete:
            tell(round_.project, "round.complete", lambda: data)
            _mail_the_end(round_, told)


def _mail_the_end(round_: Round, told: RoundTold) -> None:
    managers = who_may(Role.RESEARCHER).filter(project=round_.project)
    users = User.objects.filter(pk__in=managers.values("user")).order_by("pk")
    # An event is mailed once. The version makes a new event of a round that was reopened and
    # completed again.
    event = f"{round_.pk}:{told.version}"
    mail.post_to_all(
        mail.Kind.COMPLETE, event, mail.who_want(mail.Kind.COMPLETE, users), round=round_.pk
    )


def _look_at_audit(round_: Round, told: RoundTold, level: int) -> None:
    """Have a worker compute the certificate, which takes a while, if somebody listens."""
    # A level falls if settled items are opened again, which is no news. Without a listener the
    # level is kept all the same, or one who comes later would hear of old looks.
    if level < told.level or not listening(round_.project, *CERTIFICATE):
        move_on(told, level=level)
    else:
        leases.wake_once(waking.TELL_CERTIFICATE, "certificate", round_.pk)
