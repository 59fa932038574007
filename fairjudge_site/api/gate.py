"""What every request of the REST interface passes: its token, the rate limit, and caches.

`guarded` wraps each view. It alone decides who asks, whatever cookie is sent, so that no
operation can forget it. `once` keeps the answer to a POST with an idempotency key.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from django.utils.crypto import constant_time_compare
from django.utils.http import quote_etag
from django.views.decorators.csrf import csrf_exempt
from ninja import Schema
from ninja.responses import NinjaJSONEncoder
from ninja.security import HttpBearer

from fairjudge_site.api.problems import CODES, CONTENT_TYPE, Refusal
from judging.core.errors import Overtaken, UserError
from judging.core.incidents import AWAY_SECONDS, DATABASE_AWAY, incident
from judging.core.leases import is_dead, new_holder
from judging.core.text import unstorable
from judging.projects.access import Access, project_for
from judging.projects.models import ApiToken, KeptAnswer, Role
from judging.projects.tokens import note_use, seconds_to_wait, token_of_header

log = logging.getLogger(__name__)
# For so long the answer to a key is kept.
KEPT = timedelta(hours=24)
# So long a request waits for an earlier one with its key; that one is dead after the longer time.
WAITS_SECONDS, UNDER_WAY = 20.0, timedelta(minutes=10)
_UNDER_WAY = "A request with this key is under way. Try again in a moment."
_HOLDER = "Holder"
_LONGEST_KEY = KeptAnswer._meta.get_field("key").max_length
# A status that several codes share means the first of them.
_CODE_OF_STATUS = {status: code for code, status in reversed(CODES.items())}


class Scope(HttpBearer):
    """Lets a token in if it has the scope that an operation needs."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token_text: str) -> ApiToken:
        token = token_of(request)
        if self.scope not in token.scopes:
            raise Refusal(
                "scope_missing",
                f"The token {token.prefix} has no scope “{self.scope}”. Nothing was changed. Make "
                "a token with it on your account page.",
            )
        return token


READ, WRITE, SPEND = Scope("read"), Scope("write"), Scope("spend")


def token_of(request: HttpRequest) -> ApiToken:
    """Return the token that `guarded` let in."""
    token: ApiToken = request.api_token  # type: ignore[attr-defined]
    return token


def access_to(
    request: HttpRequest, slug: str, role: Role | None = None, *, shows_judge: bool = False
) -> Access:
    """Return the project if token and user may use it, as `project_for` decides.

    A program can't be asked whether it wants to see judge output: asking for it is the answer, and
    marks the user's later votes in the project as unblinded. The docs say so.
    """
    token = token_of(request)
    if unstorable(slug) or (token.project is not None and token.project.slug != slug):
        raise Http404("No such project.")
    return project_for(token.user, slug, role, shows_judge=shows_judge, is_told=shows_judge)


def guarded(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Return the view with everything around it that all operations share."""

    @csrf_exempt
    @login_not_required
    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_head = request.method == "HEAD"
        request.is_head = is_head  # type: ignore[attr-defined]
        if is_head:
            # What a GET would answer, without the body.
            request.method = "GET"
        try:
            _let_in(request)
            response = view(request, *args, **kwargs)
        except Exception as error:
            response = refusal_of(error).response()
        response = _finish(request, response)
        return _without_body(response) if is_head else response

    return inner


def _without_body(response: HttpResponseBase) -> HttpResponseBase:
    headers = dict(response.headers)
    # Open files are closed. `close` would also end the request.
    for close in response._resource_closers:
        close()
    if isinstance(response, HttpResponse):
        headers["Content-Length"] = str(len(response.content))
    # A stream that nobody reads is not begun, so that no export goes on record.
    return HttpResponse(status=response.status_code, headers=headers)


def _let_in(request: HttpRequest) -> None:
    header = request.headers.get("Authorization", "")
    token = token_of_header(header)
    if token is None:
        code = "token_unusable" if header else "token_missing"
        detail = "This token doesn't work: it is unknown, expired or revoked, or its user is gone."
        if not header:
            detail = "Send a token: “Authorization: Bearer fj_…”. Make one on your account page."
        raise Refusal(code, detail, headers={"WWW-Authenticate": 'Bearer realm="FairJudge"'})
    # Whatever session a cookie belongs to has no part in this.
    request.user = token.user
    request.api_token = token  # type: ignore[attr-defined]
    if wait := seconds_to_wait(token):
        detail = f"This token has used up its requests of this minute. Try again in {wait} seconds."
        raise Refusal("too_many_requests", detail, headers={"Retry-After": str(wait)})
    note_use(token)


def refusal_of(error: Exception) -> Refusal:
    """Return the problem that an error is. What nobody foresaw is logged, with a reference."""
    match error:
        case Refusal():
            return error
        case Overtaken():
            return Refusal("changed_meanwhile", str(error))
        case UserError():
            return Refusal("refused", str(error))
        case Http404():
            return Refusal("not_found", "There is nothing here, or not for you.")
        case PermissionDenied():
            return Refusal("role_too_small", str(error) or "Your role does not include this.")
        case RequestDataTooBig():
            return Refusal("too_large", "The request is larger than this site accepts.")
        case BadRequest():
            return Refusal("not_readable", str(error))
    reference = incident(log, "An API request failed")
    if isinstance(error, DATABASE_AWAY):
        return Refusal(
            "unavailable",
            f"The database can't be used at the moment (reference {reference}). Send the request "
            "again later. With the same Idempotency-Key it is done once.",
            headers={"Retry-After": AWAY_SECONDS},
        )
    return Refusal(
        "unexpected",
        f"An unexpected error stopped this (reference {reference}). Nothing was changed by it. "
        "Give the reference to the operator: it finds the details in the log.",
    )


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if response.status_code >= 400 and response.headers.get("Content-Type") != CONTENT_TYPE:
        # Django's own answer to a method that an address doesn't have.
        code = _CODE_OF_STATUS.get(response.status_code, "not_readable")
        allowed = {k: v for k, v in response.headers.items() if k == "Allow"}
        detail = f"{request.method} is not possible here."
        response = Refusal(code, detail, headers=allowed).response()
    patch_vary_headers(response, ["Authorization"])
    patch_cache_control(response, private=True, no_cache=True)
    is_read = request.method in ("GET", "HEAD") and response.status_code == 200
    if is_read and isinstance(response, HttpResponse):
        etag = quote_etag(hashlib.sha256(response.content).hexdigest()[:32])
        response.headers["ETag"] = etag
        return get_conditional_response(request, etag=etag, response=response) or response
    return response


# Idempotency keys


class _Repeated(Exception):
    """Another request with this key was first."""


def answer(body: Schema, status: int = 200, *, location: str = "", **headers: str) -> HttpResponse:
    """Return a body as the response that can be kept for a repeat."""
    response = HttpResponse(
        # As django-ninja writes the answers to reads.
        json.dumps(body.model_dump(), cls=NinjaJSONEncoder),
        status=status,
        content_type="application/json",
        headers=headers,
    )
    if location:
        response.headers["Location"] = location
    return response


def once(
    request: HttpRequest,
    work: Callable[[], HttpResponse],
    *,
    body_digest: str = "",
    unsealed: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> HttpResponse:
    """Do the work in one transaction with keeping its answer; a repeat gets the answer again.

    A crash thus keeps both or neither. Of two that come at once, the second waits for the first. A
    refusal is not kept: it changed nothing, so that a repeat may succeed.

    Args:
        body_digest: The hash of a body that was read as a stream.
        unsealed: Puts a secret into an answer that is sent. What is kept doesn't hold it.
    """
    response = _once(request, work, body_digest)
    if unsealed is not None:
        response.content = json.dumps(unsealed(json.loads(response.content)))
    return response


def _once(request: HttpRequest, work: Callable[[], HttpResponse], body_digest: str) -> HttpResponse:
    key = _key_of(request)
    digest = _digest_of(request, body_digest) if key else ""
    if key and (kept := _kept(request, key, digest)):
        return kept
    try:
        with transaction.atomic():
            row = _claim(request, key, digest) if key else None
            response = work()
            if row is not None:
                _keep(row, response)
            return response
    except _Repeated:
        kept = _kept(request, key, digest)
        if kept is None:
            raise Refusal("idempotency_key_reused", _UNDER_WAY) from None
        return kept


def once_made(
    request: HttpRequest,
    work: Callable[[Callable[[HttpResponse], None]], object],
    *,
    body_digest: str = "",
    alone: bool = False,
) -> HttpResponse:
    """Answer as `once` does, for work that asks an endpoint before its transaction begins.

    Args:
        work: Gets a function that keeps the answer. It calls it in the transaction that makes what
            was asked for.
        alone: Another request with the key waits before it works, not only before it keeps.
    """
    key = _key_of(request)
    digest = _digest_of(request, body_digest) if key else ""
    if key and (kept := _kept(request, key, digest)):
        return kept
    mine = _claimed_alone(request, key, digest) if key and alone else None
    if isinstance(mine, HttpResponse):
        return mine
    answers: list[HttpResponse] = []

    def keep(response: HttpResponse) -> None:
        if key:
            with transaction.atomic():
                _keep(mine or _claim(request, key, digest), response)
        answers.append(response)

    try:
        work(keep)
    except BaseException as error:
        if mine is not None:
            # It changed nothing, so that a repeat may succeed.
            KeptAnswer.objects.filter(pk=mine.pk, status=0).delete()
        if not isinstance(error, _Repeated | UserError):
            raise
        # The other one may have taken the name, too.
        if key and (kept := _kept(request, key, digest)):
            return kept
        raise
    return answers[-1]


def _key_of(request: HttpRequest) -> str:
    key = request.headers.get("Idempotency-Key", "")
    if "Idempotency-Key" in request.headers and not (
        0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()
    ):
        detail = f"An idempotency key has 1 to {_LONGEST_KEY} printable ASCII characters."
        raise Refusal("idempotency_key_unusable", detail)
    return key


def _digest_of(request: HttpRequest, body_digest: str) -> str:
    body = body_digest or hashlib.sha256(request.body).hexdigest()
    return hashlib.sha256(f"{request.method} {request.get_full_path()} {body}".encode()).hexdigest()


def _kept(request: HttpRequest, key: str, digest: str) -> HttpResponse | None:
    since = timezone.now() - KEPT
    rows = KeptAnswer.objects.filter(token=token_of(request), key=key, at__gte=since)
    row = rows.exclude(status=0).first()
    if row is None:
        return None
    if not constant_time_compare(row.request_digest, digest):
        raise Refusal(
            "idempotency_key_reused",
            "This idempotency key belongs to another request of the last 24 hours. Nothing was "
            "changed. Use a new key for each request.",
        )
    headers = row.headers | {"Idempotency-Replayed": "true"}
    content_type = headers.pop("Content-Type", "application/json")
    return HttpResponse(row.body, status=row.status, content_type=content_type, headers=headers)


def _claim(request: HttpRequest, key: str, digest: str) -> KeptAnswer:
    token = token_of(request)
    KeptAnswer.objects.filter(token=token, at__lt=timezone.now() - KEPT).delete()
    try:
        with transaction.atomic():
            # Until there are headers to keep, they say which process is at it.
            at_work = {_HOLDER: new_holder()}
            return KeptAnswer.objects.create(
                token=token, key=key, request_digest=digest, headers=at_work
            )
    except IntegrityError:
        raise _Repeated from None


def _claimed_alone(request: HttpRequest, key: str, digest: str) -> KeptAnswer | HttpResponse:
    """Claim the key before the work, or return the answer of the request that did."""
    deadline = time.monotonic() + WAITS_SECONDS
    rows = KeptAnswer.objects.filter(token=token_of(request), key=key)
    while True:
        try:
            return _claim(request, key, digest)
        except _Repeated:
            if kept := _kept(request, key, digest):
                return kept
        # The process that claimed it was killed at work.
        if (taken := _taken_over(rows.filter(status=0), digest)) is not None:
            return taken
        if time.monotonic() > deadline:
            raise Refusal("idempotency_key_reused", _UNDER_WAY)
        time.sleep(0.1)


def _taken_over(claims: QuerySet[KeptAnswer], digest: str) -> KeptAnswer | None:
    row, now = claims.first(), timezone.now()
    if row is None or not (row.at < now - UNDER_WAY or is_dead(row.headers.get(_HOLDER, ""))):
        return None
    mine = {"at": now, "request_digest": digest, "headers": {_HOLDER: new_holder()}}
    return claims.get() if claims.filter(pk=row.pk, at=row.at).update(**mine) else None


def _keep(row: KeptAnswer, response: HttpResponse) -> None:
    row.status, row.body = response.status_code, response.content.decode()
    row.headers = {
        name: value
        for name, value in response.headers.items()
        if name in ("Content-Type", "Location", "Preference-Applied")
    }
    row.save(update_fields=["status", "body", "headers"])
