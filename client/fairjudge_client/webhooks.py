"""Webhooks of a project: who is told what happens in it, and the log of what was sent."""

from __future__ import annotations

from typing import Unpack

from fairjudge_client import calls
from fairjudge_client import models as m
from fairjudge_client.session import MOST_ROWS, Session, pages
from fairjudge_client.steps import Call, F, Resource, Rows, Steps, method, rows_method


class Webhook(Resource[F]):
    """An address that is told of events.

    Attributes:
        secret: What events are signed with, after `add` and `rotate`; None: nothing tells it.
    """

    def __init__(self, session: Session, project: str, info: m.WebhookOut) -> None:
        super().__init__(session)
        self.project, self.number, self.info = project, info.number, info
        self.secret: str | None = None

    def __repr__(self) -> str:
        return f"<Webhook {self.number} of {self.project}: {self.state}>"

    @property
    def state(self) -> str:
        return self.info.state

    @method
    def refresh(self) -> Steps[Webhook[F]]:
        """Ask for its state."""
        return (yield from self._changed(calls.get_webhook(self.project, self.number)))

    @method
    def pause(self) -> Steps[Webhook[F]]:
        """Send nothing more. Later events are never sent; those that wait are, after a resume."""
        return (yield from self._changed(calls.pause_webhook(self.project, self.number)))

    @method
    def resume(self) -> Steps[Webhook[F]]:
        """Send again, also after the receiver answered 410."""
        return (yield from self._changed(calls.resume_webhook(self.project, self.number)))

    @method
    def rotate(self) -> Steps[Webhook[F]]:
        """Make a new `secret`. For a day, events are signed with the earlier one, too."""
        made = yield from self._session.ask(calls.rotate_webhook(self.project, self.number))
        self.info, self.secret = _without_secret(made), made.secret
        return self

    @method
    def delete(self) -> Steps[Webhook[F]]:
        """Delete the webhook with its log."""
        return (yield from self._changed(calls.delete_webhook(self.project, self.number)))

    @method
    def test(self) -> Steps[m.DeliveryOut]:
        """Send an event `webhook.test`, which says nothing."""
        sent = calls.send_test_event(self.project, self.number)
        return (yield from self._session.ask(sent))

    @rows_method
    def deliveries(self) -> Rows[m.DeliveryOut]:
        """Iterate over the log, the oldest event first. Events that have ended stay for 30 days."""
        return pages(
            self._session,
            lambda cursor: calls.list_deliveries(
                self.project, self.number, limit=MOST_ROWS, cursor=cursor
            ),
        )

    @method
    def send_again(self, delivery: int) -> Steps[m.DeliveryOut]:
        """Send an event of the log again by its `id`, with the same message id."""
        sent = calls.send_delivery(self.project, self.number, delivery)
        return (yield from self._session.ask(sent))

    def _changed(self, call: Call[m.WebhookOut]) -> Steps[Webhook[F]]:
        self.info = yield from self._session.ask(call)
        return self


class Webhooks(Resource[F]):
    """The webhooks of a project. They need the role of an owner."""

    def __init__(self, session: Session, project: str) -> None:
        super().__init__(session)
        self.project = project

    @method
    def add(
        self, *, idempotency_key: str | None = None, **settings: Unpack[m.WebhookIn]
    ) -> Steps[Webhook[F]]:
        """Add a webhook. Keep its `secret`: nothing tells it later."""
        sent = calls.new_webhook(self.project, idempotency_key=idempotency_key, **settings)
        made = yield from self._session.ask(sent)
        hook = Webhook[F](self._session, self.project, _without_secret(made))
        hook.secret = made.secret
        return hook

    @method
    def get(self, number: int) -> Steps[Webhook[F]]:
        """Return a webhook by its number."""
        info = yield from self._session.ask(calls.get_webhook(self.project, number))
        return Webhook(self._session, self.project, info)

    @rows_method
    def list(self) -> Rows[Webhook[F]]:
        """Iterate over the webhooks, the oldest first."""
        return pages(
            self._session,
            lambda cursor: calls.list_webhooks(self.project, limit=MOST_ROWS, cursor=cursor),
            lambda info: Webhook(self._session, self.project, info),
        )


def _without_secret(made: m.WebhookSecret) -> m.WebhookOut:
    """Return the webhook so that printing it shows no secret."""
    return m.WebhookOut(
        number=made.number, url=made.url, events=made.events, state=made.state,
        failures=made.failures, created_at=made.created_at,
    )  # fmt: skip
