"""Webhooks of a project and their log. Owners alone have them."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from fairjudge_site.api.bodies import Cursor, Limit, Number, Page, Text, first_of, page_of
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once
from fairjudge_site.api.projects import address_of
from judging.core.outbound import LONGEST_URL
from judging.projects import webhooks
from judging.projects.access import Access
from judging.projects.models import Delivery, Role, Webhook

router = Router(tags=["webhooks"])


class WebhookIn(Schema):
    url: Annotated[Text, Field(min_length=1, max_length=LONGEST_URL)]
    events: list[Annotated[Text, Field(max_length=40)]] = Field(
        default=list(webhooks.EVENTS), min_length=1, max_length=50, description="Default: all."
    )


class WebhookOut(Schema):
    number: int
    url: str
    events: list[str]
    state: str = Field(description="on, paused, or gone: the receiver answered 410.")
    failures: int = Field(description="The last attempts in a row that got no answer.")
    created_at: datetime


class WebhookSecret(WebhookOut):
    """A webhook with its new secret, which nothing tells later."""

    secret: str = Field(description="`whsec_…`, as Standard Webhooks writes it.")


class DeliveryOut(Schema):
    """An event in the log of a webhook."""

    id: int
    message: str = Field(description="The `webhook-id` that the receiver gets.")
    event: str
    state: str = Field(description="waiting, delivered, or dead: given up after a day.")
    attempts: int
    status: int | None = Field(description="HTTP status of the last answer.")
    said: str = Field(description="The beginning of that answer, or why there is none.")
    at: datetime
    tried_at: datetime | None
    next_at: datetime | None = Field(description="When it is tried next; null if it has ended.")
    body: dict[str, Any] = Field(description="What is sent.")


@router.get("/projects/{slug}/webhooks", auth=READ, response=Page[WebhookOut])
def list_webhooks(
    request: HttpRequest, slug: str, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the webhooks, the oldest first."""
    access = access_to(request, slug, Role.OWNER)
    return page_of(access.project.webhooks.all(), cursor, limit, _out, by="number")


@router.post("/projects/{slug}/webhooks", auth=WRITE, response={201: WebhookSecret})
def new_webhook(request: HttpRequest, slug: str, body: WebhookIn) -> HttpResponse:
    """Add a webhook. The answer alone tells its secret; docs/api.md says what is sent."""
    access = access_to(request, slug, Role.OWNER)

    def work() -> HttpResponse:
        made = webhooks.add_webhook(access.project, access.user, body.url, body.events)
        where = address_of(slug, "webhooks", made.number)
        return answer(WebhookSecret(**_sealed(made)), 201, location=where)

    return once(request, work, unsealed=_unsealed)


@router.get("/projects/{slug}/webhooks/{number}", auth=READ, response=WebhookOut)
def get_webhook(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    return _out(_webhook_of(access_to(request, slug, Role.OWNER), number))


@router.post("/projects/{slug}/webhooks/{number}/pause", auth=WRITE, response=WebhookOut)
def pause_webhook(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Send nothing more. Later events are never sent; those that wait are, after a resume."""
    return _changed(request, slug, number, webhooks.pause_webhook)


@router.post("/projects/{slug}/webhooks/{number}/resume", auth=WRITE, response=WebhookOut)
def resume_webhook(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Send again, also after the receiver answered 410."""
    return _changed(request, slug, number, webhooks.resume_webhook)


@router.post("/projects/{slug}/webhooks/{number}/rotate", auth=WRITE, response=WebhookSecret)
def rotate_webhook(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Make a new secret. For a day, events are signed with the earlier one, too."""
    hook = _webhook_of(access_to(request, slug, Role.OWNER), number)
    user = access_to(request, slug, Role.OWNER).user

    def work() -> HttpResponse:
        webhooks.rotate_secret(hook, user)
        return answer(WebhookSecret(**_sealed(hook)))

    return once(request, work, unsealed=_unsealed)


@router.post("/projects/{slug}/webhooks/{number}/test", auth=WRITE, response={202: DeliveryOut})
def send_test_event(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Send an event `webhook.test`, which says nothing."""
    access = access_to(request, slug, Role.OWNER)
    hook = _webhook_of(access, number)

    def work() -> HttpResponse:
        return _queued(webhooks.send_test(hook, access.user))

    return once(request, work)


@router.post("/projects/{slug}/webhooks/{number}/delete", auth=WRITE, response=WebhookOut)
def delete_webhook(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Delete the webhook with its log, and return it as it was."""
    access = access_to(request, slug, Role.OWNER)

    # Looked for here, so that a repeat is told what the first request was.
    def work() -> HttpResponse:
        hook = _webhook_of(access, number)
        was = answer(WebhookOut(**_out(hook)))
        webhooks.remove_webhook(hook, access.user)
        return was

    return once(request, work)


@router.get("/projects/{slug}/webhooks/{number}/deliveries", auth=READ, response=Page[DeliveryOut])
def list_deliveries(
    request: HttpRequest, slug: str, number: Number, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the log, the oldest event first. Events that have ended stay for 30 days."""
    hook = _webhook_of(access_to(request, slug, Role.OWNER), number)
    return page_of(hook.deliveries.all(), cursor, limit, _delivery)


@router.post(
    "/projects/{slug}/webhooks/{number}/deliveries/{delivery}/send",
    auth=WRITE,
    response={202: DeliveryOut},
)
def send_delivery(
    request: HttpRequest, slug: str, number: Number, delivery: Number
) -> HttpResponse:
    """Send an event again, with the same message id."""
    access = access_to(request, slug, Role.OWNER)
    rows = Delivery.objects.select_related("webhook__project")
    wanted = first_of(rows.filter(webhook=_webhook_of(access, number), pk=delivery), "delivery")

    def work() -> HttpResponse:
        webhooks.send_again(wanted, access.user)
        return _queued(wanted)

    return once(request, work)


def _changed(
    request: HttpRequest, slug: str, number: int, change: Callable[[Webhook, Any], object]
) -> HttpResponse:
    access = access_to(request, slug, Role.OWNER)
    hook = _webhook_of(access, number)

    def work() -> HttpResponse:
        change(hook, access.user)
        return answer(WebhookOut(**_out(hook)))

    return once(request, work)


def _webhook_of(access: Access, number: int) -> Webhook:
    rows = Webhook.objects.select_related("project")
    return first_of(rows.filter(project=access.project, number=number), "webhook")


def _queued(delivery: Delivery) -> HttpResponse:
    return answer(DeliveryOut(**_delivery(delivery)), 202)


def _out(hook: Webhook) -> dict[str, Any]:
    return {name: getattr(hook, name) for name in WebhookOut.model_fields}


def _sealed(hook: Webhook) -> dict[str, Any]:
    """Return what is kept for a repeat: the salt, of which the site alone can make the secret."""
    return _out(hook) | {"secret": hook.salt}


def _unsealed(kept: dict[str, Any]) -> dict[str, Any]:
    return kept | {"secret": webhooks.secret_of(kept["secret"])}


def _delivery(delivery: Delivery) -> dict[str, Any]:
    fields = {name: getattr(delivery, name) for name in DeliveryOut.model_fields}
    waiting = delivery.state == Delivery.State.WAITING
    # A delivery that has ended may still hold the time of a next try.
    next_at = delivery.next_at if waiting else None
    return fields | {"next_at": next_at, "body": json.loads(delivery.body)}
