"""Whose request it is: every one of them asks for a session and a login, by prepared queries."""

import codecs
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.core.exceptions import BadRequest, RequestDataTooBig
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.views import csrf
from whitenoise.storage import CompressedManifestStaticFilesStorage

from annotation.screen.hand import expired
from judging.core.sql.statements import prepared


class SessionStore(db.SessionStore):
    def _get_session_from_db(self) -> Session | None:
        session: Session | None = _live.first(key=self.session_key, now=timezone.now())
        if session is None:
            self._session_key = None
        return session


class Logins(ModelBackend):
    def get_user(self, user_id: int) -> User | None:
        user: User | None = _users.first(key=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None


@prepared
def _live(key: Any, now: Any) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=now)


@prepared
def _users(key: Any) -> QuerySet[User]:
    return User.objects.filter(pk=key)


class LimitedUploadHandler(TemporaryFileUploadHandler):
    """Counts the bytes of all files of a request while they arrive."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.received = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.received += len(raw_data)
        if self.received > settings.FAIRJUDGE_MAX_UPLOAD_BYTES:
            self.file.close()
            raise RequestDataTooBig("The upload is larger than FAIRJUDGE_MAX_UPLOAD_MB allows.")
        super().receive_data_chunk(raw_data, start)


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Lets a checkout and its tests serve pages without `collectstatic`."""

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name


def private_pages(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        patch_cache_control(response, private=True)
        return response

    return middleware


def utf8_only(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    def middleware(request: HttpRequest) -> HttpResponse:
        if codecs.lookup(request.encoding or "utf-8").name != "utf-8":
            raise BadRequest("A request must be in UTF-8.")
        return get_response(request)

    return middleware


def client_address(request: HttpRequest) -> str:
    """The peer, or what the outermost of our own proxies saw.

    Each proxy appends to X-Forwarded-For, so only as many entries from the right as we have
    proxies are not the sender's own claim.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    if not settings.FAIRJUDGE_PROXIES:
        return peer
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    seen = [part for part in forwarded if part][-settings.FAIRJUDGE_PROXIES :]
    return seen[0] if len(seen) == settings.FAIRJUDGE_PROXIES else peer


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """What an annotator entered on a page from before the last login is not lost."""
    return expired(request) or csrf.csrf_failure(request, reason)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An upload over the limit has a page of its own, which says what the limit is."""
    if isinstance(exception, RequestDataTooBig):
        return render(request, "413.html", status=413)
    return render(request, "400.html", status=400)
