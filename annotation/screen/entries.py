"""What was entered on the screen, as it is posted with a draft, a vote or a skip."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from annotation.models import Draft, Protocol
from annotation.queue.drafts import FIVE, MAX_COMMENT, THREE, choices, save_draft
from annotation.screen.hand import is_token
from judging.projects.models import Project

# Longer than a browser keeps what waits.
_LONGEST = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Entry:
    """`seconds` is active time since the last entry; `age`, in seconds, how long it waited in the
    browser for a connection."""

    answer: dict[str, Any]
    comment: str
    seconds: float
    age: float = 0.0


def criterion_values(protocol: Protocol) -> tuple[str, ...]:
    return FIVE if protocol.scale == Project.Scale.FIVE else THREE


def entry_of(posted: Mapping[str, str], draft: Draft, now: datetime) -> Entry:
    """Read a form. What is no answer under the protocol is left out, for the check to miss."""
    protocol = draft.item.round.protocol
    answer: dict[str, Any] = {}
    if posted.get("overall") in {choice.value for choice in choices(protocol)}:
        answer["overall"] = posted["overall"]
    given = {
        name: posted.get(f"criterion-{number}", "")
        for number, name in enumerate(protocol.criteria, start=1)
    }
    scale = criterion_values(protocol)
    if criteria := {name: value for name, value in given.items() if value in scale}:
        answer["criteria"] = criteria
    comment = posted.get("comment", "").replace("\r\n", "\n").replace("\x00", "")
    passed = (now - draft.updated_at).total_seconds()
    # Never more than has passed since the last entry: a post that is repeated adds nothing.
    seconds = _number(posted.get("seconds", ""), most=passed)
    return Entry(answer, comment, seconds, _number(posted.get("age", ""), most=_LONGEST))


def keep(draft: Draft, entry: Entry) -> None:
    save_draft(draft, entry.answer, entry.comment, entry.seconds)


def _number(text: str, most: float) -> float:
    """0 for what is none, NaN included."""
    try:
        return max(0.0, min(float(text), most))
    except ValueError:
        return 0.0


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
