"""The item in a person's hand: its links, fetching it with its permission, and what is entered.

Fetching and "may this person?" are one step, so that no view can forget the second. A form that
comes without a login, or from a page older than the login, is kept: nobody but the person knows
the token of an item in hand, so what was entered goes into that item's draft, where the person
finds it after logging in. Nothing else is done with it, and no time is counted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial, wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core import signing
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import Annotator, Draft, Round, Vote
from annotation.people import crowds
from annotation.people.annotators import annotator_of
from annotation.queue.drafts import (
    CONFIDENCE,
    MAX_COMMENT,
    answer_options,
    criterion_values,
    save_draft,
    use_language,
)
from annotation.queue.queue import claim_slot_of, heartbeat
from annotation.queue.repeats import answer_again, may_answer_again
from annotation.rendering.spans import read_marks
from annotation.screen.blind import spans_marked
from judging.core.sql.statements import prepared
from judging.projects.access import project_for, projects_of
from judging.projects.models import Role

_TOKEN = re.compile(r"[\w-]{20,43}", re.ASCII)
_SIGNER = signing.Signer(salt="fairjudge.round")
_DRAFT = (
    "token", "left_response", "answer", "comment", "active_seconds", "updated_at", "repeat",
)  # fmt: skip
_ROUND = (
    "project", "kind", "state", "seed", "open_to_all", "no_majority", "nonce", "after",
    "repeat_percent",
)  # fmt: skip
_PROTOCOL = (
    "question_asked", "guidelines", "scale", "both_bad", "cant_judge", "criteria", "rendering",
    "criteria_rule", "hide_models", "show_reference", "ask_confidence", "reason_tags", "ask_spans",
    "language", "translations",
)  # fmt: skip
_NEEDED = [
    *_DRAFT,
    *(f"annotator__{name}" for name in ("project", "user", "left_at", "is_crowd")),
    *(f"item__{name}" for name in ("round", "example", "state")),
    *(f"item__round__{name}" for name in (*_ROUND, "number")),
    *(f"item__round__protocol__{name}" for name in _PROTOCOL),
]


class LinkEnded(Http404):
    """The link once led to a round, but links have been renewed since."""


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def draft_for(user: AbstractUser | AnonymousUser, token: str) -> Draft:
    """Return the person's own draft, in a project they still belong to. Raises Http404."""
    draft = _drafts.first(token=token, user=user.pk) if user.pk and is_token(token) else None
    if draft is None or draft.annotator.left_at is not None:
        raise Http404("No such item of yours.")
    if draft.annotator.is_crowd:
        crowds.admitted(user, draft.item.round_id)
    else:
        draft.item.round.project = project_for(user, draft.slug, Role.ANNOTATOR).project
    draft.annotator.user = user
    use_language(user, draft.project_language)
    return draft


# How many items or projects with the same image are tried.
_MOST_TRIED = 20


def may_see_image(user: AbstractUser | AnonymousUser, sha256: str) -> bool:
    """Return True if the image is in an item of this person's, or in a project they work on.

    Each is asked as its own page would ask.
    """
    if not user.pk:
        return False
    mine = Draft.objects.filter(annotator__user=user.pk, item__example__images__image=sha256)
    tokens = mine.order_by("-pk").values_list("token", flat=True)[:_MOST_TRIED]
    asked = [partial(draft_for, user, token) for token in tokens]
    # Readers see all examples, and reviewers those of rounds.
    here = {Role.OBSERVER: "examples", Role.REVIEWER: "rounds__items__example"}
    for role, way in here.items():
        projects = projects_of(user).filter(**{f"{way}__images__image": sha256}).distinct()
        slugs = projects.order_by("pk").values_list("slug", flat=True)[:_MOST_TRIED]
        asked += [partial(project_for, user, slug, role) for slug in slugs]
    for ask in asked:
        try:
            ask()
        except (Http404, PermissionDenied):
            continue
        return True
    return False


@prepared
def _drafts(token: Any, user: Any) -> QuerySet[Draft]:
    """Find a draft and what the screen needs of the round. Nothing about the judge is read."""
    drafts = Draft.every.select_related("item__round__protocol", "annotator")
    drafts = drafts.annotate(
        slug=F("item__round__project__slug"),
        project_language=F("item__round__project__language"),
        content_language=F("item__round__project__content_language"),
    )
    return drafts.only(*_NEEDED).filter(token=token, annotator__user=user)


def round_behind_link(user: AbstractUser, signed: str) -> tuple[Round, Annotator]:
    """Return the round of a link, and the annotator that the user labels as.

    Raises Http404, and LinkEnded for a link that worked once.
    """
    try:
        named = _SIGNER.unsign_object(signed)
    except signing.BadSignature:
        raise Http404("No such round.") from None
    # Links of an older version hold only the key, which may be another round's after a restore.
    number, nonce = named if isinstance(named, list) else (named, "")
    round_ = _rounds.first(key=number)
    if round_ is None:
        raise Http404("No such round.")
    if not constant_time_compare(round_.nonce, nonce):
        raise LinkEnded("No such round.")
    use_language(user, round_.project.language)
    try:
        access = project_for(user, round_.project.slug, Role.ANNOTATOR)
    except Http404:
        # People of a panel are no members.
        return round_, crowds.admitted(user, round_.pk)
    return round_, annotator_of(access.project, user)


def kind_to_old_links(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Redirect from a link that has ended to the list of open rounds, where the new link is."""

    @wraps(view)
    def kind(request: HttpRequest, signed: str) -> HttpResponse:
        try:
            return view(request, signed)
        except LinkEnded:
            messages.info(
                request,
                _(
                    "This link is no longer valid. Your votes are safe. Your open rounds are "
                    "listed below."
                ),
            )
        if request.headers.get("HX-Request"):
            return HttpResponse(status=204, headers={"HX-Redirect": reverse("annotate")})
        return redirect("annotate")

    return kind


@prepared
def _rounds(key: Any) -> QuerySet[Round]:
    rounds = Round.objects.select_related("project", "protocol")
    return rounds.filter(pk=key).exclude(kind=Round.Kind.IMPORT)


def address_of(round_: Round) -> str:
    """Return the address where the round's next item is handed out."""
    return reverse("annotate_round", args=[_signed(round_)])


def list_address_of(round_: Round) -> str:
    """Return the address of the person's own votes and skips in the round."""
    return reverse("annotate_own", args=[_signed(round_)])


def leave_address_of(round_: Round) -> str:
    return reverse("annotate_leave", args=[_signed(round_)])


def return_address_of(round_: Round) -> str:
    return reverse("annotate_return", args=[_signed(round_)])


def _signed(round_: Round) -> str:
    return _SIGNER.sign_object([round_.pk, round_.nonce])


def take_up(draft: Draft, now: datetime) -> bool:
    """Hold the item's slot, also after its lease ended. Returns False if it needs no more votes.

    A pair that the person has again holds no slot.
    """
    if draft.repeat_id is not None:
        return may_answer_again(draft)
    return heartbeat(draft, now) or claim_slot_of(draft.item, draft.annotator, now) is not None


def vote_on(draft: Draft) -> Vote | None:
    """Return this person's vote on the item, if any; of a pair that they have again, the answer."""
    if draft.repeat_id is not None:
        return answer_again(draft)
    vote = _votes.first(item=draft.item_id, annotator=draft.annotator_id)
    if vote is not None:
        vote.item, vote.protocol = draft.item, draft.item.round.protocol
    return vote


@prepared
def _votes(item: Any, annotator: Any) -> QuerySet[Vote]:
    return Vote.every.filter(item=item, annotator=annotator)


def last_token(round_: Round, annotator: Annotator, before: Vote | None = None) -> str | None:
    """Return the token of the annotator's last vote in this round, or last before `before`."""
    source = Vote.Source.SCREEN
    votes = Vote.objects.filter(annotator=annotator, item__round=round_, source=source)
    if before is not None:
        votes = votes.filter(submitted_at__lt=before.submitted_at)
    last = votes.order_by("-submitted_at", "-pk").values("item")[:1]
    drafts = Draft.objects.filter(annotator=annotator, item=last)
    if not round_.repeat_percent:
        return drafts.values_list("token", flat=True).first()
    at = votes.order_by("-submitted_at").values_list("submitted_at", flat=True).first()
    again = Draft.every.filter(repeat__round=round_, repeat__annotator=annotator)
    again = again.filter(repeat__submitted_at__isnull=False)
    if before is not None:
        again = again.filter(repeat__submitted_at__lt=before.submitted_at)
    if at is not None:
        again = again.filter(repeat__submitted_at__gt=at)
    token = again.order_by("-repeat__submitted_at").values_list("token", flat=True).first()
    return token or drafts.values_list("token", flat=True).first()


# Longer than a browser keeps a form that waits for a connection.
_LONGEST = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Entry:
    """What was entered on the screen, as it is posted with a draft, a vote or a skip.

    seconds: active time since the last entry.
    age: seconds that the entry waited in the browser for a connection.
    """

    answer: dict[str, Any]
    comment: str
    seconds: float
    age: float = 0.0


def entry_of(posted: Mapping[str, str], draft: Draft, now: datetime) -> Entry:
    """Read a form. Values that the protocol doesn't offer are left out; `checked_answer` tells."""
    protocol = draft.item.round.protocol
    answer: dict[str, Any] = {}
    if posted.get("overall") in {option.value for option in answer_options(protocol)}:
        answer["overall"] = posted["overall"]
    scale = criterion_values(protocol)
    criteria = {
        name: value
        for number, name in enumerate(protocol.criteria, start=1)
        if (value := posted.get(f"criterion-{number}")) in scale
    }
    if criteria:
        answer["criteria"] = criteria
    if protocol.ask_confidence and posted.get("confidence") in CONFIDENCE:
        answer["confidence"] = posted["confidence"]
    if reasons := [
        name
        for number, name in enumerate(protocol.reason_tags, start=1)
        if posted.get(f"reason-{number}")
    ]:
        answer["reasons"] = reasons
    if protocol.ask_spans:
        marks = {side: read_marks(posted.get(f"spans-{side}", "")) for side in ("left", "right")}
        if any(marks.values()) and (spans := spans_marked(draft, marks)):
            answer["spans"] = spans
    comment = posted.get("comment", "").replace("\r\n", "\n").replace("\x00", "")
    passed = (now - draft.updated_at).total_seconds()
    # Never more than has passed since the last entry, so that a repeated post adds nothing.
    seconds = _number(posted.get("seconds", ""), most=passed)
    return Entry(answer, comment, seconds, _number(posted.get("age", ""), most=_LONGEST))


def keep(draft: Draft, entry: Entry) -> None:
    save_draft(draft, entry.answer, entry.comment, entry.seconds)


def _number(text: str, most: float) -> float:
    """Return the number between 0 and `most`, or 0 if the text is no number or NaN."""
    try:
        return max(0.0, min(float(text), most))
    except ValueError:
        return 0.0


KEPT = "kept"
_LOG_IN = _lazy("You were logged out. What you entered is kept: log in, then submit it.")


def log_in_first(request: HttpRequest, token: str) -> HttpResponse:
    """Redirect to the login, and from there to the item."""
    return redirect_to_login(_address(request, token, is_kept=_keep(request, token)))


def expired(request: HttpRequest) -> HttpResponse | None:
    """Redirect to the item from a form whose CSRF token is no longer valid.

    Returns None for other forms, and if nothing was entered.
    """
    match = request.resolver_match
    token = match.kwargs.get("token", "") if match else ""
    if "X-Annotate" in request.headers or not _keep(request, token):
        return None
    return redirect(_address(request, token, is_kept=True))


def _address(request: HttpRequest, token: str, *, is_kept: bool) -> str:
    address = reverse("annotate_item", args=[token])
    if not is_kept:
        return address
    # The script keeps its own copy and sends it repeatedly, so it needs no message.
    if not request.user.is_authenticated and "X-Annotate" not in request.headers:
        messages.warning(request, _LOG_IN)
    return f"{address}?{KEPT}=1"


def _keep(request: HttpRequest, token: str) -> bool:
    if not is_token(token) or request.POST.get("token") != token:
        return False
    drafts = Draft.every.filter(token=token, annotator__left_at=None)
    drafts = drafts.filter(annotator__user__is_active=True)
    draft = drafts.select_related("item__round__protocol").first()
    if draft is None:
        return False
    entry = entry_of(request.POST, draft, timezone.now())
    if not entry.answer and not entry.comment.strip():
        return False
    # The time of change stays, since active time is counted from it.
    drafts.update(answer=entry.answer, comment=entry.comment[:MAX_COMMENT])
    return True
