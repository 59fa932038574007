"""Tokens with which programs use the REST interface: made, shown once, recognised, and ended.

A token is `fj_`, eight characters that stay visible, and a secret of 256 bits. The database holds
its SHA-256 alone, so that neither a copy of the database nor a backup opens anything. What a token
may do is its user's role at each request, cut down to its scopes: removing the person or the role
ends it at once.
"""

import hashlib
import hmac
import re
import secrets
import string
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.text import unstorable
from judging.projects.access import projects_of, record_event
from judging.projects.models import ApiToken, Project

# What each scope allows, in the order of the page. Judge calls cost money.
SCOPES = {
    "read": "read everything that you may read",
    "write": "change projects, examples, rounds and votes",
    "spend": "start and resume judge runs, which cost money",
}
MOST_DAYS = 3660
LONGEST_NAME = ApiToken._meta.get_field("name").max_length
_MARK = "fj_"
_VISIBLE = 8
_ALPHABET = string.ascii_lowercase + string.digits
TOKEN = re.compile(r"(fj_[a-z0-9]{8})_[A-Za-z0-9_-]{43}")
# Written this often at most, so that reading costs no write.
_USED_EVERY = timedelta(minutes=1)


def issue_token(
    user: AbstractUser,
    name: str,
    scopes: Collection[str],
    *,
    project: Project | None = None,
    days: int | None = None,
    by: AbstractUser | None = None,
) -> tuple[ApiToken, str]:
    """Make a token, and return it with its text, which can't be shown again.

    Args:
        project: the only project that the token opens. The user must be a member of it.
        days: how long it works; None: until it is revoked.
        by: who makes it; None for a command.
    """
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME or unstorable(name):
        raise UserError(f"Give the token a name of 1 to {LONGEST_NAME} characters.")
    unknown = set(scopes) - SCOPES.keys()
    if unknown or not scopes:
        raise UserError(f"Choose at least one scope: {', '.join(SCOPES)}. No token was made.")
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise UserError(f"A token works for 1 to {MOST_DAYS} days. No token was made.")
    if not user.is_active:
        raise UserError(f"The login {user.get_username()} is inactive. No token was made.")
    if project is not None and not projects_of(user).filter(pk=project.pk).exists():
        raise UserError(
            f"{user.get_username()} is not a member of {project.slug}. No token was made."
        )
    prefix = _MARK + "".join(secrets.choice(_ALPHABET) for _ in range(_VISIBLE))
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user,
            project=project,
            name=name,
            prefix=prefix,
            digest=_digest(text),
            scopes=[scope for scope in SCOPES if scope in scopes],
            expires_at=None if days is None else timezone.now() + timedelta(days=days),
        )
        owner = user.get_username()
        record_event(project, by, "token made", prefix, scopes=token.scopes, owner=owner)
    return token, text


def tokens_of(user: AbstractUser) -> QuerySet[ApiToken]:
    """Return a user's tokens, the newest first, also those that were revoked."""
    return ApiToken.objects.filter(user=user.pk).select_related("project").order_by("-pk")


def revoke(token: ApiToken, by: AbstractUser | None) -> bool:
    """End a token; False if it was ended before."""
    with transaction.atomic():
        live = ApiToken.objects.filter(pk=token.pk, revoked_at=None)
        changed = live.update(revoked_at=timezone.now()) == 1
        if changed:
            owner = token.user.get_username()
            record_event(token.project, by, "token revoked", token.prefix, owner=owner)
    return changed


def token_of_header(authorization: str) -> ApiToken | None:
    """Return the token of an `Authorization` header if it works for an active user."""
    kind, _, text = authorization.partition(" ")
    parts = TOKEN.fullmatch(text.strip())
    if kind.lower() != "bearer" or parts is None:
        return None
    token = ApiToken.objects.select_related("user", "project").filter(prefix=parts[1]).first()
    if token is None or not hmac.compare_digest(token.digest, _digest(text.strip())):
        return None
    if not token.is_live or not token.user.is_active:
        return None
    # A project that is being deleted is gone for everybody.
    if token.project is not None and token.project.deleted_at is not None:
        return None
    return token


def note_use(token: ApiToken) -> None:
    """Remember when the token was last used, to the minute."""
    now = timezone.now()
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - _USED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - _USED_EVERY:
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# The rate limit


WINDOW_SECONDS = 60
# A process reserves requests in blocks of this share of the limit, so that few requests write.
_BLOCKS = 20


@dataclass
class _Reserved:
    """What this process may still grant. It holds until the window ends."""

    left: dict[int, tuple[int, int]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


_reserved = _Reserved()


def seconds_to_wait(token: ApiToken) -> int:
    """Count a request of the token; return 0, or in how many seconds the next one is allowed.

    All processes together grant `FAIRJUDGE_API_RATE` requests in each window of a minute.
    """
    limit = settings.FAIRJUDGE_API_RATE
    now = time.time()
    window = int(now // WINDOW_SECONDS)
    with _reserved.lock:
        of_window, left = _reserved.left.get(token.pk, (window, 0))
        if of_window != window:
            left = 0
        if not left:
            left = _reserve(token, window, limit)
        # What is forgotten here was reserved, so this grants fewer requests and never more.
        if len(_reserved.left) > 10_000:
            _reserved.left.clear()
        _reserved.left[token.pk] = (window, max(0, left - 1))
    return 0 if left else max(1, int((window + 1) * WINDOW_SECONDS - now) + 1)


def _reserve(token: ApiToken, window: int, limit: int) -> int:
    """Take a block of requests in the database; 0 if the window has no more."""
    block = max(1, limit // _BLOCKS)
    mine = ApiToken.objects.filter(pk=token.pk)
    if mine.exclude(window=window).update(window=window, taken=min(block, limit)):
        return min(block, limit)
    # Near the limit no whole block is left, and single requests may be.
    for size in sorted({block, 1}, reverse=True):
        if mine.filter(window=window, taken__lte=limit - size).update(taken=F("taken") + size):
            return size
    return 0
