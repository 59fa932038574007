"""Mail, if the operator has configured a server for it: queued, sent once, and logged.

Each mail is one row, and each event has one mail to a person. Everything up to SMTP's command DATA
can be repeated safely, and is tried again for a day. Right before it, the row is marked. If the
answer is lost from there on, nobody can tell whether the server took the mail. It isn't sent again
by itself, and shows as perhaps sent.
"""

import logging
import secrets
import smtplib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import formataddr
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser, User
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.smtp import EmailBackend
from django.core.mail.message import sanitize_address
from django.core.validators import validate_email
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.incidents import incident
from judging.core.text import printable
from judging.projects.deliveries import DEAD, DELIVERED, SENDING, UNSURE, WAITING, Courier, Outcome
from judging.projects.models import Mail, MailServer, MailSettings

logger = logging.getLogger(__name__)
Kind, State = Mail.Kind, Mail.State
# What people can turn off, each with the field of `MailSettings`.
OPTIONAL = (Kind.WAITING, Kind.DECISION, Kind.COMPLETE)
# A link that confirms an address works for so long.
CONFIRM_SECONDS = 3 * 24 * 3600
# An address without a login is kept for so long if nothing could be sent to it.
ADDRESS_KEPT = timedelta(days=7)
_OFF, _CONFIRM = "fairjudge.mail.off", "fairjudge.mail.confirm"
_TIMES = ("at", "began_at", "next_at")
_LOOK_SECONDS = 300
# From here on, a status of SMTP says that asking again is no use.
_FOR_GOOD = 500


@dataclass(frozen=True)
class Letter:
    """A mail as it is sent now."""

    to: str
    subject: str
    text: str
    html: str
    headers: Mapping[str, str] = field(default_factory=dict)


Write = Callable[[Mail], Letter | None]


def mail_is_configured() -> bool:
    """Return True if the site can send mail. Otherwise pages show links to copy."""
    return bool(settings.MAIL)


def usable_address(text: str) -> str:
    """Return the address without blanks around it. Raises UserError if no mail can go there."""
    text = text.strip()
    try:
        validate_email(text)
    except ValidationError:
        raise UserError(
            _("“%(text)s” is no mail address. Nothing was changed.") % {"text": printable(text)}
        ) from None
    if len(text) > Mail._meta.get_field("to").max_length:
        raise UserError(_("This mail address is too long. Nothing was changed."))
    return text


# Queueing


def post(
    kind: str, event: str, *, user: AbstractUser | None = None, to: str = "", **about: Any
) -> Mail | None:
    """Queue a mail, in the transaction of what causes it. Without a mail server, do nothing.

    Args:
        event: names what it is about. A second mail of one event isn't queued.
        user: who gets it, at the address that their login has when it is sent.
        to: where it goes if that is no address of a login.
        about: keys of rows, from which the mail is written when it is sent.
    """
    if not mail_is_configured():
        return None
    server, _ = MailServer.objects.get_or_create(pk=1)
    fields = {"server": server, "kind": kind, "user": user, "to": to, "about": about}
    fields |= {"message": secrets.token_hex(16)} | dict.fromkeys(_TIMES, timezone.now())
    mail, created = Mail.objects.get_or_create(event=event, defaults=fields)
    if created:
        COURIER.wake_for(server)
    return mail


def who_want(kind: str, users: QuerySet[User]) -> QuerySet[User]:
    """Return those of the users who have an address and didn't turn this kind off."""
    off = MailSettings.objects.filter(**{kind: False}).values("user")
    return users.filter(is_active=True).exclude(email="").exclude(pk__in=off)


def post_to_all(kind: str, event: str, users: Iterable[User], **about: Any) -> None:
    """Queue a mail of an event for each of the users."""
    for user in users:
        post(kind, f"{kind}:{event}:{user.pk}", user=user, **about)


# Addresses and what people want


def settings_of(user: AbstractUser) -> MailSettings:
    """Return what mail a user wants, unsaved defaults until they are changed."""
    return MailSettings.objects.filter(user=user).first() or MailSettings(user=user)


def choose(user: AbstractUser, **wanted: bool) -> None:
    """Keep what mail a user wants. The other columns belong to the worker."""
    MailSettings.objects.get_or_create(user=user)
    MailSettings.objects.filter(user=user).update(**wanted)


def ask_to_confirm(user: AbstractUser, address: str) -> None:
    """Send a link to an address, by which the user says that it is theirs.

    Only the link holds the address until then, and the mail until it is sent.
    """
    address = usable_address(address)
    event = f"{Kind.ADDRESS}:{user.pk}:{secrets.token_hex(8)}"
    post(Kind.ADDRESS, event, user=user, to=address)


def confirming_link(user: AbstractUser, address: str) -> str:
    token = signing.dumps([user.pk, user.email, address], salt=_CONFIRM)
    return absolute(reverse("mail_confirm", args=[token]))


def confirm(user: AbstractUser, token: str, *, write: bool = True) -> str:
    """Make the address of a link that of the user, who has logged in, and return it."""
    try:
        key, before, address = signing.loads(token, salt=_CONFIRM, max_age=CONFIRM_SECONDS)
    except signing.SignatureExpired:
        raise UserError(_("This link is older than 3 days. Enter the address again.")) from None
    except (signing.BadSignature, ValueError, TypeError):
        raise UserError(_("This link is incomplete. Copy the whole link again.")) from None
    if key != user.pk:
        raise UserError(_("This link belongs to another login. Log in as the person who asked."))
    # An old link must not undo a change of the address that came later.
    same = User.objects.filter(pk=user.pk, email=before)
    if write and not same.update(email=address) and user.email != address:
        raise UserError(_("Your address was changed since. Enter it again."))
    return str(address)


def off_link(user: AbstractUser, kind: str) -> str:
    """Return the link that turns a kind of mail off, without a login. It works without end."""
    token = signing.dumps([user.pk, user.email, kind], salt=_OFF)
    return absolute(reverse("mail_off", args=[token]))


def off_behind(token: str) -> tuple[User, str]:
    """Return whom an `off_link` is for, and the kind. Raises UserError if the link is no good."""
    try:
        key, address, kind = signing.loads(token, salt=_OFF)
    except (signing.BadSignature, ValueError, TypeError):
        raise UserError(_("This link is incomplete. Copy the whole link again.")) from None
    # The address is part of the link, so that it ends once the mail goes to another one.
    user = User.objects.filter(pk=key, email=address).first()
    if user is None or kind not in OPTIONAL:
        raise UserError(_("FairJudge sends no such mail to this address any more."))
    return user, str(kind)


def absolute(path: str) -> str:
    return str(settings.FAIRJUDGE_URL).rstrip("/") + path


# Sending


def _servers() -> QuerySet[MailServer]:
    return MailServer.objects.all() if mail_is_configured() else MailServer.objects.none()


COURIER = Courier("mail", waking.SEND_MAIL, _servers, Mail, "server")


def send_due(key: int, write: Write) -> int:
    """Send the mails that are due, each as `write` makes it, and return how many were tried."""

    def attempt(server: MailServer, mail: Mail, begin: Callable[[], bool]) -> Outcome | None:
        try:
            letter = write(mail)
        except Exception:
            # It must not keep the others from leaving.
            reference = incident(logger, f"Mail {mail.pk} could not be written")
            return Outcome(WAITING, said=f"It could not be written (reference {reference}).")
        if letter is None:
            return Outcome(State.DROPPED, row={"to": ""})
        came = _send(mail, letter, begin)
        if came is not None and came.state == DELIVERED:
            came.row["to"] = ""
        return came

    return COURIER.send_due(key, attempt)


def send_now(to: str, subject: str, text: str) -> str:
    """Send a mail in this process, past the queue. Return why it surely wasn't sent, else ""."""
    message = EmailMultiAlternatives(
        subject,
        text,
        formataddr(("FairJudge", settings.DEFAULT_FROM_EMAIL)),
        [to],
        headers={"Auto-Submitted": "auto-generated"},
    )
    connection = get_connection()
    if isinstance(connection, EmailBackend):
        came = _by_smtp(connection, message, to, lambda: True)
        is_sent = came is None or came.state in (DELIVERED, UNSURE)
        return "" if is_sent else came.said or f"status {came.status}"
    try:
        connection.send_messages([message])
    except OSError as error:
        return _clean(str(error), to)
    return ""


def wake_to_look() -> None:
    """Have a worker look every few minutes for whom pairs or decisions wait."""
    if mail_is_configured():
        leases.wake_once(waking.LOOK_WHO_WAITS, "who waits", 0, _LOOK_SECONDS)


def forget_addresses() -> None:
    """Blank addresses without a login that no mail went to within a week."""
    ended = Mail.objects.exclude(to="").exclude(state__in=(WAITING, SENDING))
    ended.filter(at__lt=timezone.now() - ADDRESS_KEPT).update(to="")


def send_again(mail: Mail) -> None:
    """Queue a mail again that was given up or perhaps sent. Call it in a transaction."""
    if mail.state not in (DEAD, UNSURE):
        raise UserError(f"Mail {mail.pk} is {mail.get_state_display()}. Nothing was changed.")
    if not mail.to and (mail.user is None or not mail.user.email):
        raise UserError(f"The address of mail {mail.pk} is no longer known. Nothing was changed.")
    COURIER.send_again(mail)


def _send(mail: Mail, letter: Letter, begin: Callable[[], bool]) -> Outcome | None:
    host = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2]
    # Each attempt has the same ID, by which receivers recognise a mail that comes twice. Programs
    # that answer mail leave one alone that says it is automatic (RFC 3834).
    headers = {"Message-ID": f"<{mail.message}@{host}>", "Auto-Submitted": "auto-generated"}
    message = EmailMultiAlternatives(
        letter.subject,
        letter.text,
        formataddr(("FairJudge", settings.DEFAULT_FROM_EMAIL)),
        [letter.to],
        headers=headers | dict(letter.headers),
        alternatives=[(letter.html, "text/html")],
    )
    connection = get_connection()
    if isinstance(connection, EmailBackend):
        return _by_smtp(connection, message, letter.to, begin)
    if not begin():
        return None
    try:
        connection.send_messages([message])
    except OSError as error:
        return Outcome(WAITING, said=_clean(str(error), letter.to), rests=True)
    return Outcome(DELIVERED)


def _by_smtp(
    connection: EmailBackend, message: EmailMultiAlternatives, to: str, begin: Callable[[], bool]
) -> Outcome | None:
    """Send by SMTP, step by step, so that it is known whether the mail was handed over."""
    has_begun = False

    def refused(code: int, reply: bytes | str, *, for_good: bool = True) -> Outcome:
        text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
        is_over = for_good and code >= _FOR_GOOD
        # A reply that is none has the code -1.
        status = code if code > 0 else None
        return Outcome(DEAD if is_over else WAITING, status, _clean(text, to), rests=not status)

    try:
        connection.open()
        client = connection.connection
        client.ehlo_or_helo_if_needed()
        sender = sanitize_address(settings.DEFAULT_FROM_EMAIL, "utf-8")
        body = message.message().as_bytes(linesep="\r\n")
        code, reply = client.mail(sender)
        if code != 250:
            # Nothing is wrong with this mail: the operator can correct it within the day.
            return refused(code, reply, for_good=False)
        code, reply = client.rcpt(sanitize_address(to, "utf-8"))
        if code not in (250, 251):
            return refused(code, reply)
        if not begin():
            return None
        has_begun = True
        code, reply = client.data(body)
        # No answer that can be read: whether the mail was taken, nobody can tell.
        if code < 0:
            raise smtplib.SMTPServerDisconnected("The answer could not be read.")
        return Outcome(DELIVERED, code) if code == 250 else refused(code, reply)
    except smtplib.SMTPDataError as error:
        return refused(error.smtp_code, error.smtp_error)
    except (smtplib.SMTPException, OSError) as error:
        reply = _clean(f"{type(error).__name__}: {error}", to)
        return Outcome(UNSURE if has_begun else WAITING, said=reply, rests=True)
    finally:
        # The outcome is known by now, whatever saying goodbye to the server raises.
        connection.fail_silently = True
        connection.close()


def _clean(reply: str, to: str) -> str:
    """Return what a server said on one line, without the address, which the log doesn't keep."""
    return " ".join(printable(reply).split()).replace(to, "the address")
