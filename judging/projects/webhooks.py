"""Webhooks: addresses that are told of a project's events, signed as Standard Webhooks says.

The payloads say what happened and where to read more. They hold nothing that a judge said about an
example and no text of the data. `deliveries` sends them.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from judging.core import outbound, waking
from judging.core.errors import UserError
from judging.projects.access import (
    next_number,
    queue_deliveries,
    record_event,
    refuse_for_last,
    version_of,
    wake_sender,
)
from judging.projects.deliveries import Courier, Outcome
from judging.projects.models import AuditEvent, Delivery, Project, Webhook

# What a webhook can be told of, in the order of the page.
EVENTS = {
    "run.done": "A judge run has asked everything.",
    "run.paused": "A judge run has paused, by a person, its budget or an endpoint's limit.",
    "run.failed": "A judge run has stopped with an error.",
    "round.complete": "No item of a round waits for votes or needs a decision.",
    "round.needs_decision": "Votes on an item of a round gave no majority.",
    "certificate.issued": "The audit of a round certifies the labels that nobody checked.",
    "certificate.refused": "All planned looks at an audit are over without a certificate.",
    "import.done": "An import of examples, judgments, scores or votes is written.",
    "gate.decided": "A gate or a comparison took a look at new data.",
}
# Sent on demand, whatever a webhook is told of.
TEST = "webhook.test"
MOST_WEBHOOKS = 20
# After a rotation, both secrets sign for so long.
BOTH_SECRETS = timedelta(hours=24)
_GONE = 410
State = Delivery.State


# Webhooks of a project


def secret_of(salt: str) -> str:
    """Return the secret of a salt, which can't be told without the site's secret key."""
    return "whsec_" + base64.b64encode(_key(salt)).decode()


def _key(salt: str) -> bytes:
    return salted_hmac(__name__, salt, algorithm="sha256").digest()


def add_webhook(
    project: Project, user: AbstractUser | None, url: str, events: Collection[str]
) -> Webhook:
    """Add a webhook. Show `secret_of` its salt once: nothing else tells it.

    Raises UserError if the address or an event can't be used.
    """
    parts = outbound.check_url(url.strip(), settings.FAIRJUDGE_WEBHOOK_HOSTS)
    unknown = sorted(set(events) - EVENTS.keys())
    if unknown or not events:
        what = f"{unknown[0]} isn't an event." if unknown else "Choose at least one event."
        raise UserError(f"{what} Events are {', '.join(EVENTS)}. Nothing was added.")
    with transaction.atomic():
        number = next_number(project, Webhook)
        if project.webhooks.count() >= MOST_WEBHOOKS:
            raise UserError(
                f"A project has at most {MOST_WEBHOOKS} webhooks. Delete one that you no longer "
                "need. Nothing was added."
            )
        chosen = [event for event in EVENTS if event in events]
        hook = Webhook.objects.create(
            project=project, number=number, url=url.strip(), events=chosen
        )
        # The path may be a secret of the receiver's.
        _record(hook, user, "webhook added", host=parts.netloc, events=chosen)
    return hook


def pause_webhook(hook: Webhook, user: AbstractUser | None) -> bool:
    """Send nothing more. What waits is sent after a resume, and later events never are."""
    return _move(hook, user, (Webhook.State.ON,), Webhook.State.PAUSED, "webhook paused")


def resume_webhook(hook: Webhook, user: AbstractUser | None) -> bool:
    """Send again, beginning with what waits; False if it is on."""
    off = (Webhook.State.PAUSED, Webhook.State.GONE)
    return _move(hook, user, off, Webhook.State.ON, "webhook resumed")


def _move(
    hook: Webhook, user: AbstractUser | None, before: Collection[str], after: str, action: str
) -> bool:
    with transaction.atomic():
        rows = Webhook.objects.filter(pk=hook.pk, state__in=before)
        changed = rows.update(state=after, failures=0, rest_until=None) == 1
        if changed:
            _record(hook, user, action)
            wake_sender(hook)
    hook.refresh_from_db()
    return changed


ROTATED = "webhook secret rotated"


def rotate_secret(hook: Webhook, user: AbstractUser | None, *, made_for: str | None = None) -> None:
    """Make a new secret. The one before it signs too for another day.

    Args:
        made_for: The secret that the form was made for, by `version_of` of its salt. Raises
            Overtaken if somebody made another one since: theirs would end with that day.
    """
    with transaction.atomic():
        now = Webhook.objects.select_for_update().get(pk=hook.pk)
        if made_for not in (None, version_of(now.salt)):
            rotated = AuditEvent.objects.filter(project=hook.project, action=ROTATED)
            mine = rotated.filter(subject=f"webhook {hook.number}")
            refuse_for_last(mine, user, lambda event: "made a new secret for this webhook")
        Webhook.objects.filter(pk=hook.pk).update(
            former_salt=F("salt"),
            former_until=timezone.now() + BOTH_SECRETS,
            salt=secrets.token_urlsafe(),
        )
        _record(hook, user, ROTATED)
    hook.refresh_from_db()


def remove_webhook(hook: Webhook, user: AbstractUser | None) -> None:
    """Delete a webhook with its log. What waits is never sent."""
    with transaction.atomic():
        _record(hook, user, "webhook deleted")
        Webhook.objects.filter(pk=hook.pk).delete()


def send_test(hook: Webhook, user: AbstractUser | None) -> Delivery:
    """Queue an event that says nothing, to see whether the receiver understands."""
    _refuse_off(hook)
    with transaction.atomic():
        delivery = queue_deliveries([hook], TEST, hook.project, {"webhook": hook.number})[0]
        _record(hook, user, "webhook tested")
    return delivery


def send_again(delivery: Delivery, user: AbstractUser | None) -> None:
    """Queue a delivery again, with the same message id, for another day of attempts."""
    hook = delivery.webhook
    _refuse_off(hook)
    with transaction.atomic():
        COURIER.send_again(delivery)
        _record(hook, user, "webhook sent again", message=delivery.message)
    delivery.refresh_from_db()


def _refuse_off(hook: Webhook) -> None:
    if hook.state != Webhook.State.ON:
        raise UserError(
            f"Webhook {hook.number} is {hook.get_state_display()}. Resume it first. "
            "Nothing was sent."
        )


def _record(hook: Webhook, user: AbstractUser | None, action: str, **detail: Any) -> None:
    record_event(hook.project, user, action, f"webhook {hook.number}", **detail)


# Sending


def _receivers() -> QuerySet[Webhook]:
    hooks = Webhook.objects.select_related("project").filter(state=Webhook.State.ON)
    return hooks.filter(project__deleted_at=None)


COURIER = Courier(
    "webhook", waking.SEND_WEBHOOKS, _receivers, Delivery, "webhook", on=Q(state=Webhook.State.ON)
)


def send_due(key: int) -> int:
    """Send what is due for a webhook, and return how many requests were sent."""
    return COURIER.send_due(key, _attempt)


def _attempt(hook: Webhook, delivery: Delivery, begin: Callable[[], bool]) -> Outcome:
    body = delivery.body.encode()
    headers = _headers(hook, delivery, body)
    try:
        receipt = outbound.post(hook.url, body, headers, settings.FAIRJUDGE_WEBHOOK_HOSTS)
    except outbound.Unreachable as error:
        return Outcome(State.WAITING, said=str(error), rests=True)
    # Standard Webhooks has receivers end a webhook by 410 Gone.
    if receipt.status == _GONE:
        gone = {"state": Webhook.State.GONE}
        ended = partial(_record, hook, None, "webhook ended by its receiver", status=_GONE)
        return Outcome(State.DEAD, _GONE, receipt.text, receiver=gone, also=ended)
    state = State.DELIVERED if 200 <= receipt.status < 300 else State.WAITING
    return Outcome(state, receipt.status, receipt.text)


def _headers(hook: Webhook, delivery: Delivery, body: bytes) -> dict[str, str]:
    now = timezone.now()
    stamp = str(int(now.timestamp()))
    salts = [hook.salt]
    if hook.former_until is not None and hook.former_until > now:
        salts.append(hook.former_salt)
    # Standard Webhooks signs the id, the time and the body, with dots between them.
    signed = f"{delivery.message}.{stamp}.".encode() + body
    digests = (hmac.new(_key(salt), signed, hashlib.sha256).digest() for salt in salts)
    return {
        "Content-Type": "application/json",
        "User-Agent": "FairJudge-Webhooks",
        "webhook-id": delivery.message,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(mac).decode()}" for mac in digests),
    }
