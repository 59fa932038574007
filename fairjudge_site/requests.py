"""How the site receives a request: who sends it, what it may carry, and what caches may keep.

`settings.py` names each part of this module where Django or another package looks for it. They
follow each other here in the order in which a request meets them.
"""

import codecs
import re
import secrets
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views import csrf
from django.views.decorators.http import require_http_methods
from whitenoise.storage import CompressedManifestStaticFilesStorage

from annotation.people.crowds import CrowdOver
from annotation.screen.crowd import CROWD
from annotation.screen.hand import expired
from judging.core import languages, tracing
from judging.core.incidents import AWAY_SECONDS, DATABASE_AWAY
from judging.core.sql.statements import prepared
from judging.core.tracing import log_context
from judging.projects.access import Access, StillBlind, project_for
from judging.projects.logins import LISTED, note_use
from judging.projects.models import Role

# Static files


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Static files by their hashed names, or by their plain names before `collectstatic`.

    A checkout and its tests thus serve pages without collecting first.
    """

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name


# Middleware

# The forms of pages before a login take some names and words.
LARGEST_WITHOUT_LOGIN = 2**16


# A name that a proxy gave to a request, so that its log and ours can be read side by side.
GIVEN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def named_requests(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Give each request a name, which is in its answer and in what is logged about it."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        name = request.headers.get("X-Request-Id", "")
        if not GIVEN_NAME.fullmatch(name):
            name = secrets.token_hex(8)
        before = log_context.set((("request", name),))
        try:
            response = (traced if tracing.service else get_response)(request)
        finally:
            log_context.reset(before)
        response["X-Request-Id"] = name
        return response

    def traced(request: HttpRequest) -> HttpResponseBase:
        # A proxy of the site's may have begun the trace. Others can't make us keep one.
        parent = request.headers.get("traceparent") if settings.FAIRJUDGE_PROXIES else None
        method = request.method or ""
        with tracing.span(method, "server", parent, http__request__method=method) as span:
            response = get_response(request)
            route = request.resolver_match.route if request.resolver_match else "none"
            span.name(f"{method} /{route}")
            span.set(http__route=f"/{route}", http__response__status_code=response.status_code)
            if response.status_code >= 500:
                span.fail(f"status {response.status_code}")
            return response

    return middleware


def private_pages(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Tell caches that a page is for one user, so that no proxy keeps it for others.

    `Vary: Cookie` alone isn't enough: a cache that ignores it hands a project's texts to anybody.
    Static files are answered before this middleware, and say how long they may be kept.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        patch_cache_control(response, private=True)
        return response

    return middleware


def utf8_only(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    """Refuse requests that name another encoding than UTF-8."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if codecs.lookup(request.encoding or "utf-8").name != "utf-8":
            raise BadRequest("A request must be in UTF-8.")
        return get_response(request)

    return middleware


def no_uploads_without_login(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Ask for the login before an upload is written to the disk, which checking CSRF would do."""

    def middleware(request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        large = not length.isdecimal() or int(length) > LARGEST_WITHOUT_LOGIN
        files = request.content_type == "multipart/form-data"
        # The REST interface takes tokens instead of logins, and no forms.
        forms = not request.path.startswith("/api/")
        if forms and files and large and not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return get_response(request)

    return middleware


# Pages that annotators meet. They are in the language of the person, all others in English.
_SPOKEN = re.compile(
    r"annotate|crowd|home$|login$|logout|demo_enter|second_step|confirm$|account|sessions_end"
    r"|factor_|sign_on|recovery_codes|password_|own_|mail_confirm|mail_off|invite$|project_leave|language$"
)


def speaks(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Choose the language of the answer: the person's, else the browser's.

    Where a project is known, `drafts.use_language` puts its language between the two. The person's
    own comes with their login, so that it costs no query.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        with translation.override(translation.get_language_from_request(request)):
            response = get_response(request)
        patch_vary_headers(response, ("Accept-Language",))
        return response

    def process_view(request: HttpRequest, *_: Any) -> None:
        match = request.resolver_match
        if match is None or not _SPOKEN.match(match.url_name or ""):
            translation.activate(languages.ENGLISH)
            return
        request.is_spoken = True  # type: ignore[attr-defined]
        _speak_to(request)

    def process_exception(request: HttpRequest, exception: Exception) -> None:
        # An annotator who follows a link to another page is told so in their language.
        if isinstance(exception, PermissionDenied):
            translation.activate(translation.get_language_from_request(request))
            _speak_to(request)

    def _speak_to(request: HttpRequest) -> None:
        kept = request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")
        user = request.user
        offered = dict(settings.LANGUAGES)
        own = next((code for code in (getattr(user, "language", ""), kept) if code in offered), "")
        user.language = own  # type: ignore[union-attr]
        if own:
            translation.activate(own)

    middleware.process_view = process_view  # type: ignore[attr-defined]
    middleware.process_exception = process_exception  # type: ignore[attr-defined]
    return middleware


def language(request: HttpRequest) -> dict[str, Any]:
    """Tell templates the language of the page, and in which direction it is written."""
    return {
        "LANGUAGE_CODE": translation.get_language(),
        "is_rtl": translation.get_language_bidi(),
        "is_spoken": getattr(request, "is_spoken", False),
        "languages": settings.LANGUAGES,
    }


Answer = Callable[[HttpRequest], HttpResponseBase]


def hooked(get_response: Answer, **hooks: Callable[..., HttpResponse | None]) -> Answer:
    """Return a middleware that is nothing but these hooks of Django's."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return get_response(request)

    vars(middleware).update(hooks)
    return middleware


def asks_to_look(get_response: Answer) -> Answer:
    """Ask before the first view of judge output, instead of the page that would show it."""

    def process_exception(request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, StillBlind):
            return None
        # What was posted isn't done, and a part of a page has no address of its own: the page
        # that asked for it comes back.
        is_page = request.method == "GET" and not request.htmx  # type: ignore[attr-defined]
        asked = request.get_full_path() if is_page else request.headers.get("Referer", "")
        return _ask_to_look(request, exception.access, asked, exception.names_models)

    return hooked(get_response, process_exception=process_exception)


# What a person who came by a crowd link may open: their round, their own page and data, the docs.
_OF_CROWD = re.compile(
    r"annotate_(?!leave|return)|crowd|own_data_file|image$|language$|docs|glossary|logout|healthz|readyz"
)


def crowd_keeps_to_its_round(get_response: Answer) -> Answer:
    """Lead people of a panel back to their own page from all others, and when their part ends."""

    def process_view(request: HttpRequest, *_: Any) -> HttpResponse | None:
        match = request.resolver_match
        name = (match and match.url_name) or ""
        # After a login was erased or deactivated, only its session is left.
        is_inside = CROWD in request.session and request.user.is_authenticated
        if not is_inside or _OF_CROWD.match(name):
            return None
        return redirect("crowd_own")

    def process_exception(request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, CrowdOver):
            return None
        if "X-Annotate" in request.headers:
            text = _("Your part in this study has ended. Load the page again to see how to go on.")
            return HttpResponse(text, status=409, content_type="text/plain; charset=utf-8")
        return redirect("crowd_own")

    return hooked(get_response, process_view=process_view, process_exception=process_exception)


# Sessions and logins: every request asks for both, so the queries are prepared.


class SessionStore(db.SessionStore):
    def load(self) -> dict[str, Any]:
        data: dict[str, Any] = super().load()
        if LISTED in data:
            note_use(self.session_key)
        return data

    def _get_session_from_db(self) -> Session | None:
        session: Session | None = _live_sessions.first(key=self.session_key, now=timezone.now())
        if session is None:
            self._session_key = None
        return session


@prepared
def _live_sessions(key: Any, now: Any) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=now)


class Logins(ModelBackend):
    def get_user(self, user_id: int) -> User | None:
        user: User | None = _users.first(key=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None


@prepared
def _users(key: Any) -> QuerySet[User]:
    """Find a user, with the language that they chose, which every page needs."""
    return User.objects.filter(pk=key).annotate(language=F("preferences__language"))


def client_address(request: HttpRequest) -> str:
    """Return the address of the client, by which failed logins are counted.

    Each proxy appends to X-Forwarded-For the address that it saw. Only as many entries from the
    right as there are proxies of ours can be trusted. The others are the sender's own claim.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    if not settings.FAIRJUDGE_PROXIES:
        return peer
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    by_our_proxies = [part for part in forwarded if part][-settings.FAIRJUDGE_PROXIES :]
    return by_our_proxies[0] if len(by_our_proxies) == settings.FAIRJUDGE_PROXIES else peer


# Uploads


class LimitedUploadHandler(TemporaryFileUploadHandler):
    """Writes uploads to temporary files, and stops a request as soon as they exceed the limit."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.received = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        # The limit is for all files of the request together.
        self.received += len(raw_data)
        if self.received > settings.FAIRJUDGE_MAX_UPLOAD_BYTES:
            self.file.close()
            raise RequestDataTooBig("The upload is larger than FAIRJUDGE_MAX_UPLOAD_MB allows.")
        super().receive_data_chunk(raw_data, start)


# Refusals


@login_not_required
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Keep what an annotator entered on a page that was loaded before the last login."""
    return expired(request) or csrf.csrf_failure(request, reason)


@login_not_required
def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An upload over the limit gets a page of its own, which names the limit."""
    if isinstance(exception, RequestDataTooBig):
        return render(request, "413.html", status=413)
    return render(request, "400.html", status=400)


@login_not_required
def server_error(request: HttpRequest) -> HttpResponse:
    """A database that is away, or whose disk is full, has a page of its own, since it passes."""
    # The pages are written without the request: asking who is logged in would fail again.
    if isinstance(sys.exception(), DATABASE_AWAY):
        headers = {"Retry-After": AWAY_SECONDS}
        return HttpResponse(render_to_string("503.html"), status=503, headers=headers)
    return HttpResponse(render_to_string("500.html"), status=500)


# Judge output


@require_http_methods(["GET", "HEAD", "POST"])
def look(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask whether the user wants to see judge output, or remember that they do and go on."""
    if request.method != "POST":
        access = project_for(request.user, slug, Role.OBSERVER)
        return _ask_to_look(request, access, request.GET.get("next", ""), "models" in request.GET)
    project_for(request.user, slug, Role.OBSERVER, shows_judge=True, is_told=True)
    return redirect(own_address(request, request.POST.get("next", "")) or f"/p/{slug}/")


def _ask_to_look(
    request: HttpRequest, access: Access, asked: str, names_models: bool = False
) -> HttpResponse:
    context = {
        **access.under(""),
        "asks_to_look": True,
        "names_models": names_models,
        "next": own_address(request, asked),
    }
    part = request.htmx  # type: ignore[attr-defined]
    return render(request, "parts/look_first.html" if part else "look_first.html", context)


def own_address(request: HttpRequest, address: str) -> str:
    """Return the path and the query of an address on this site, "" for any other address."""
    hosts, https = {request.get_host()}, request.is_secure()
    if not url_has_allowed_host_and_scheme(address, hosts, require_https=https):
        return ""
    path = urlunsplit(urlsplit(address)._replace(scheme="", netloc=""))
    is_path = url_has_allowed_host_and_scheme(path, hosts, require_https=https)
    return path if is_path and path.startswith("/") else ""
