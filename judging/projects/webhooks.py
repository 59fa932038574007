"""Webhooks: addresses that are told of a project's events, signed as Standard Webhooks says.

An event and what is to be sent of it are written in one transaction, so that none is lost and none
is told of a change that was rolled back. A worker sends, one request at a time for each webhook,
and tries again for a day. The payloads say what happened and where to read more. They hold nothing
that a judge said about an example and no text of the data.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from judging.core import leases, outbound, waking
from judging.core.errors import UserError
from judging.core.leases import Lease, delete_rows, in_chunks, new_holder
from judging.core.processes import stop_requested
from judging.projects.access import (
    next_number,
    queue_deliveries,
    record_event,
    refuse_for_last,
    version_of,
    wake_sender,
)
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
# When the attempts begin, in seconds after the event; the last one after a day.
ATTEMPTS = (0, 5, 60, 300, 1800, 7200, 18_000, 36_000, 57_600, 86_400)
# After a rotation, both secrets sign for so long.
BOTH_SECRETS = timedelta(hours=24)
# Deliveries that have ended stay in the log for so long.
KEPT = timedelta(days=30)
LEASE = Lease(timedelta(seconds=60))
# So long a worker sends for one webhook before other work gets its turn.
AT_ONCE_SECONDS = 20.0
# A receiver that doesn't answer costs a worker the whole timeout each time, so it is asked seldom.
REST_SECONDS, LONGEST_REST_SECONDS = 15, 300
ONE_WAKE_SECONDS = 10
_GONE = 410
_LONGEST_SAID = Delivery._meta.get_field("said").max_length
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
    hook, now = delivery.webhook, timezone.now()
    _refuse_off(hook)
    with transaction.atomic():
        Delivery.objects.filter(pk=delivery.pk).update(
            state=State.WAITING, began_at=now, next_at=now
        )
        Webhook.objects.filter(pk=hook.pk).update(failures=0, rest_until=None)
        _record(hook, user, "webhook sent again", message=delivery.message)
        wake_sender(hook)
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


def send_due(key: int) -> int:
    """Send what is due for a webhook, and return how many requests were sent.

    Another process that sends for the same webhook makes this one leave at once.
    """
    hook = _sending().filter(pk=key).first()
    rows, holder = Webhook.objects.filter(pk=key, state=Webhook.State.ON), new_holder()
    if hook is None or not LEASE.take(rows.filter(leases.abandoned(hook)), holder):
        return 0
    sent, until = 0, time.monotonic() + AT_ONCE_SECONDS
    try:
        while time.monotonic() < until and not stop_requested.is_set():
            if not LEASE.renew(rows, holder):
                break
            hook.refresh_from_db()
            delivery = _due(hook).first()
            if delivery is None:
                break
            _attempt(hook, delivery, holder)
            sent += 1
    finally:
        LEASE.held_by(Webhook.objects.filter(pk=key), holder).update(**leases.FREE)
    # It may have been queued while this process held the lease, or its turn was over.
    hook = _sending().filter(pk=key).first()
    if hook is not None and _due(hook).exists():
        waking.wake(waking.SEND_WEBHOOKS, key)
    return sent


def wake_to_send() -> None:
    """Wake workers for what is due: later attempts, lost messages and killed senders."""
    now = timezone.now()
    due = Delivery.objects.filter(webhook=OuterRef("pk"), state=State.WAITING, next_at__lte=now)
    hooks = _sending().filter(Exists(due))
    leases.wake_abandoned(hooks, waking.SEND_WEBHOOKS, "webhook", ONE_WAKE_SECONDS)


def forget_old() -> None:
    """Delete what has ended long ago from the log."""
    old = Delivery.objects.exclude(state=State.WAITING).filter(at__lt=timezone.now() - KEPT)
    in_chunks(old, lambda keys: delete_rows(Delivery, pk__in=keys))


def _sending() -> QuerySet[Webhook]:
    """Return webhooks that may be sent to now."""
    rested = Q(rest_until=None) | Q(rest_until__lte=timezone.now())
    hooks = Webhook.objects.select_related("project").filter(rested, state=Webhook.State.ON)
    return hooks.filter(project__deleted_at=None)


def _due(hook: Webhook) -> QuerySet[Delivery]:
    now = timezone.now()
    if hook.rest_until is not None and hook.rest_until > now:
        return Delivery.objects.none()
    waiting = Delivery.objects.filter(webhook=hook, state=State.WAITING, next_at__lte=now)
    return waiting.order_by("next_at", "pk")


def _attempt(hook: Webhook, delivery: Delivery, holder: str) -> None:
    body = delivery.body.encode()
    status, said = None, ""
    try:
        found = outbound.post(
            hook.url, body, _headers(hook, delivery, body), settings.FAIRJUDGE_WEBHOOK_HOSTS
        )
        status, said = found.status, found.text
    except outbound.Unreachable as error:
        said = str(error)
    now = timezone.now()
    fields: dict[str, Any] = {"status": status, "said": said[:_LONGEST_SAID], "tried_at": now}
    fields |= _what_follows(delivery, status)
    with transaction.atomic():
        if not LEASE.held_by(Webhook.objects.filter(pk=hook.pk), holder).update(
            **_of_receiver(hook, status)
        ):
            # Another process has taken over, since this one seemed dead: it attempts it again.
            return
        same = Delivery.objects.filter(pk=delivery.pk, began_at=delivery.began_at)
        same.update(attempts=F("attempts") + 1, **fields)
        if status == _GONE:
            _record(hook, None, "webhook ended by its receiver", status=_GONE)


def _what_follows(delivery: Delivery, status: int | None) -> dict[str, Any]:
    """Return the next state: delivered, another attempt, or given up after a day."""
    if status is not None and 200 <= status < 300:
        return {"state": State.DELIVERED}
    passed = (timezone.now() - delivery.began_at).total_seconds()
    later = next((offset for offset in ATTEMPTS if offset > passed), None)
    if status == _GONE or later is None:
        return {"state": State.DEAD}
    return {"next_at": delivery.began_at + timedelta(seconds=later)}


def _of_receiver(hook: Webhook, status: int | None) -> dict[str, Any]:
    if status is None:
        rest = min(REST_SECONDS * 2 ** min(hook.failures, 10), LONGEST_REST_SECONDS)
        rest_until = timezone.now() + timedelta(seconds=rest)
        return {"failures": hook.failures + 1, "rest_until": rest_until}
    gone = {"state": Webhook.State.GONE} if status == _GONE else {}
    return {"failures": 0, "rest_until": None} | gone


def _headers(hook: Webhook, delivery: Delivery, body: bytes) -> dict[str, str]:
    now = timezone.now()
    stamp = str(int(now.timestamp()))
    salts = [hook.salt]
    if hook.former_until is not None and hook.former_until > now:
        salts.append(hook.former_salt)
    signed = f"{delivery.message}.{stamp}.".encode() + body
    digests = (hmac.new(_key(salt), signed, hashlib.sha256).digest() for salt in salts)
    return {
        "Content-Type": "application/json",
        "User-Agent": "FairJudge-Webhooks",
        "webhook-id": delivery.message,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in digests),
    }
