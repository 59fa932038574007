"""What the site's pages tell caches: a page is for whoever asked, and no proxy keeps it for others.

`Vary: Cookie` alone does not say so: a cache that ignores it hands a project's texts to anybody.
Static files are answered before this and say for themselves how long they may be kept.
"""

import codecs
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import BadRequest, RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views import csrf

from annotation.screen.entries import expired


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
