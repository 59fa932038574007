"""The page for a request that was refused before any view saw it."""

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import csrf

from annotation.screen.logged_out import expired


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
