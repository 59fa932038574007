"""A form about an item that comes without a login, or from a page that is older than the login.

A token is known to nobody but the person who has its item in hand. So what was entered goes into
that item's draft, in which one form more takes no more room, and there the person finds it after
logging in. Nothing else is done with it, nothing of the item is told, and no time is counted.
"""

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from annotation.answers import MAX_COMMENT
from annotation.models import Draft
from annotation.screen.entries import entry_of
from annotation.screen.hand import is_token

KEPT = "kept"
_LOG_IN = "You were logged out. What you entered is kept: log in, and it is there to be submitted."


def log_in_first(request: HttpRequest, token: str) -> HttpResponse:
    """The way to the login, and from there to the item."""
    return redirect_to_login(_address(request, token, is_kept=_keep(request, token)))


def expired(request: HttpRequest) -> HttpResponse | None:
    """The way to the item from a form whose CSRF token no longer holds; None where it is of
    something else, or where nothing was entered."""
    match = request.resolver_match
    token = match.kwargs.get("token", "") if match else ""
    if "X-Annotate" in request.headers or not _keep(request, token):
        return None
    return redirect(_address(request, token, is_kept=True))


def _address(request: HttpRequest, token: str, *, is_kept: bool) -> str:
    address = reverse("annotate_item", args=[token])
    if not is_kept:
        return address
    # The script keeps its own copy, and sends it again and again.
    if not request.user.is_authenticated and "X-Annotate" not in request.headers:
        messages.warning(request, _LOG_IN)
    return f"{address}?{KEPT}=1"


def _keep(request: HttpRequest, token: str) -> bool:
    if not is_token(token) or request.POST.get("token") != token:
        return False
    drafts = Draft.objects.filter(token=token, annotator__left_at=None)
    drafts = drafts.filter(annotator__user__is_active=True)
    draft = drafts.select_related("item__round__protocol").first()
    if draft is None:
        return False
    entry = entry_of(request.POST, draft, timezone.now())
    if not entry.answer and not entry.comment.strip():
        return False
    # Without its time of change: active time is counted from there on.
    drafts.update(answer=entry.answer, comment=entry.comment[:MAX_COMMENT])
    return True
