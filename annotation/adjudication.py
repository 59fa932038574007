"""Deciding what votes did not settle: by a person, with a reason, kept for good."""

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from annotation.models import Adjudication, Item
from annotation.settling import settle
from annotation.trail import ADJUDICATED
from judging import audit
from judging.errors import UserError
from judging.models.examples import Label


def decide(item: Item, user: AbstractUser, label: str, reason: str) -> Adjudication:
    """Record a decision. A later one on the same item replaces it; both stay on record."""
    if label not in Label.values:
        raise UserError("Choose win, tie or lose of response 1.")
    if item.state == Item.State.OPEN:
        raise UserError("This item still waits for votes, so there is nothing to decide yet.")
    if item.state == Item.State.COMPLETE and not item.adjudications.exists():
        raise UserError("The votes settled this item, so there is nothing to decide.")
    with transaction.atomic():
        decision = Adjudication.objects.create(
            item=item,
            label=label,
            reason=reason.strip(),
            decided_by=user,
            decider=user.get_username(),
        )
        settle(item)
        audit.record(
            item.round.project,
            user,
            ADJUDICATED,
            item.example.external_id,
            label=label,
            reason=reason.strip(),
        )
    return decision
