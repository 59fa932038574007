"""Logging in: the second factor after the password, and the sessions that a person sees and ends.

A person is logged in once every step is done. Until then their session holds who is expected and
nothing else. Of a session, people see the browser and when it was used. No address is stored.
"""

import hmac
import re
import time
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from django.conf import settings
from django.contrib.auth import SESSION_KEY, login
from django.contrib.auth.models import AbstractUser, User
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from judging.projects import factors
from judging.projects.access import record_event
from judging.projects.models import LoginSession

# In a session: when its person last proved who they are by more than one step or by a password.
PROVED = "proved_at"
# The second factor was given in this session, or isn't asked here.
SECOND = "second_factor_given"
# The session is in the list of its person.
LISTED = "listed"
_EXPECTED = "expected_second_step"
_EXPECTED_SECONDS = 10 * 60
# A login is as good as a proof for this long.
_FRESH_SECONDS = 15 * 60
_NOTED_EVERY = timedelta(minutes=10)


@dataclass(frozen=True)
class FirstStep:
    """Who has given the first step of a login, and where they want to go."""

    user: User
    next: str


def enter(request: HttpRequest, user: AbstractUser, next_: str, *, has_second: bool = False) -> str:
    """Log in a person who has proved who they are, or ask for their second factor first.

    Args:
        next_: an address of this site.
        has_second: somebody else has asked for the second factor.

    Returns where to go now.
    """
    if not has_second and factors.has_factor(user):
        request.session.cycle_key()
        request.session[_EXPECTED] = {
            "user": user.pk,
            # A new password ends what began with the old one.
            "password": user.get_session_auth_hash(),
            "until": time.time() + _EXPECTED_SECONDS,
            "next": next_,
        }
        return reverse("second_step")
    log_in(request, user, has_second=has_second)
    return next_


def expected_at(request: HttpRequest) -> FirstStep | None:
    """Return who has to give a second factor now, or None if nobody does or it took too long."""
    kept = request.session.get(_EXPECTED)
    if not kept or kept["until"] < time.time():
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    if user is None or not hmac.compare_digest(kept["password"], user.get_session_auth_hash()):
        return None
    return FirstStep(user, kept["next"])


def log_in(request: HttpRequest, user: AbstractUser, *, has_second: bool = False) -> None:
    """Log in, and list the session with its browser."""
    login(request, user, backend=settings.LOGIN_BACKEND)
    session = request.session
    session.pop(_EXPECTED, None)
    session[PROVED] = int(time.time())
    session[SECOND] = has_second
    session[LISTED] = True
    # A new session has its key only once it is saved.
    if session.session_key is None:
        session.save()
    device = device_of(request.headers.get("User-Agent", ""))
    row = {"user_id": user.pk, "device": device}
    LoginSession.objects.update_or_create(session_key=session.session_key, defaults=row)


def proving(next_: str) -> str:
    """Return where a person proves again who they are before they go on to `next_`."""
    return reverse("confirm") + "?" + urlencode({"next": next_})


def prove(request: HttpRequest, *, has_second: bool) -> None:
    """Remember that the person of this session has just proved who they are."""
    request.session[PROVED] = int(time.time())
    if has_second:
        request.session[SECOND] = True


def is_proved(request: HttpRequest) -> bool:
    """Return True if this session began, or its person proved who they are, a short time ago."""
    return bool(time.time() - request.session.get(PROVED, 0) < _FRESH_SECONDS)


# The sessions of a person


_SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("CrOS", "ChromeOS"),
    ("Windows", "Windows"), ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip
# Most browsers also name those that they are like, so the order decides.
_BROWSERS = (
    (re.compile(r"\bEdg(?:e|A|iOS)?/"), "Edge"),
    (re.compile(r"\bOPR/"), "Opera"),
    (re.compile(r"\bSamsungBrowser/"), "Samsung Internet"),
    (re.compile(r"\b(?:Firefox|FxiOS)/"), "Firefox"),
    (re.compile(r"\b(?:HeadlessChrome|Chromium|Chrome|CriOS)/"), "Chrome"),
    (re.compile(r"\bVersion/[0-9.]+ (?:Mobile/\w+ )?Safari/"), "Safari"),
)


def device_of(agent: str) -> str:
    """Return the browser and the system of a User-Agent header, of which nothing else is kept."""
    browser = next((name for mark, name in _BROWSERS if mark.search(agent)), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    if not browser:
        return f"A browser on {system}" if system else "A browser or a program"
    return f"{browser} on {system}" if system else browser


def sessions_of(user: AbstractUser) -> QuerySet[LoginSession]:
    """Return the sessions in which the person is logged in, the one used last first."""
    live = Session.objects.filter(expire_date__gt=timezone.now())
    mine = LoginSession.objects.filter(user=user.pk, session_key__in=live.values("session_key"))
    return mine.order_by("-used_at", "-pk")


def end_session(session: LoginSession) -> None:
    """Log the person out there."""
    Session.objects.filter(session_key=session.session_key).delete()
    session.delete()


def end_sessions(user: AbstractUser, *, but: str | None = None) -> int:
    """Log the person out everywhere, but in the session with this key. Returns how many ended.

    Sessions that are in no list, such as those from before there was one, end too.
    """
    live = Session.objects.filter(expire_date__gt=timezone.now()).exclude(session_key=but)
    mine = [
        row.session_key
        for row in live.iterator()
        if row.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    for key in mine:
        Session.objects.filter(session_key=key).delete()
    LoginSession.objects.filter(user=user.pk).exclude(session_key=but or "").delete()
    return len(mine)


def keep_listed(request: HttpRequest, before: str | None) -> None:
    """Follow a session that got another key, as it does with a new password."""
    rows = LoginSession.objects.filter(session_key=before or "")
    rows.update(session_key=request.session.session_key)


@dataclass
class _Noted:
    """When this process last wrote that a session is in use, so that few requests write."""

    at: dict[str, float] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


_noted = _Noted()


def note_use(session_key: str) -> None:
    """Remember that a listed session is in use, to some minutes."""
    now, every = time.monotonic(), _NOTED_EVERY.total_seconds()
    with _noted.lock:
        if now - _noted.at.get(session_key, -every) < every:
            return
        if len(_noted.at) > 10_000:
            _noted.at.clear()
        _noted.at[session_key] = now
    stale = LoginSession.objects.filter(used_at__lt=timezone.now() - _NOTED_EVERY)
    stale.filter(session_key=session_key).update(used_at=timezone.now())


def reset_second_factor(user: AbstractUser, by: AbstractUser | None) -> str:
    """Remove the second factors of a person who lost them, and log them out everywhere.

    Returns what is true now, as a sentence.
    """
    name, n = user.get_username(), factors.reset(user, by)
    if not n:
        return f"{name} had no second factor. Nothing was changed."
    end_sessions(user)
    record_event(None, by, "logged out everywhere", name)
    return f"{name} has no second factor any more, and is logged out everywhere."
