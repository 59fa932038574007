"""The annotator's pages: open rounds, the item on the screen, and the next one fetched ahead."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.models import Annotator, Draft, Protocol, Reading, Round, Vote
from annotation.queue.drafts import (
    CANT_JUDGE,
    FIVE,
    AnswerOption,
    answer_options,
    answer_words,
    confidence_options,
    criterion_options,
    use_language,
    wording_of,
)
from annotation.queue.queue import NoItem, claim_next, is_held, why_no_items
from annotation.screen.blind import VIEWS, Feedback, View, blind_pair, feedback_on, guidelines
from annotation.screen.hand import (
    KEPT,
    address_of,
    draft_for,
    is_token,
    kind_to_old_links,
    last_token,
    list_address_of,
    may_see_image,
    round_behind_link,
    take_up,
    vote_on,
)
from annotation.screen.progress import (
    Ending,
    OwnProgress,
    as_listed,
    ending_of,
    labelled_by,
    open_work,
    own_skips,
    own_votes,
    progress_of,
    refusal,
    skipped_drafts,
    skipped_sentence,
    title_of,
)
from annotation.votes.voting import PRACTICE_IS_FINAL, is_final, takes_votes, why_not_needed
from judging.dataset.models import Image
from judging.projects.access import language_of_projects, preferences_of


@dataclass(frozen=True)
class Criterion:
    """A row of the form, and what was chosen in it."""

    name: str
    chosen: str

    def __str__(self) -> str:
        return self.name


def item_context(
    draft: Draft,
    vote: Vote | None,
    *,
    progress: OwnProgress | None,
    view: View = "rendered",
    error: str = "",
) -> dict[str, Any]:
    """Return the templates' context of an item.

    Args:
        vote: The person's earlier vote, which is then being edited.
        progress: None for an item that is fetched ahead, which is shown after another.
    """
    protocol = draft.item.round.protocol
    wording = wording_of(protocol, draft.project_language)
    buttons = _as_read(answer_options(protocol))
    chosen, reasons = draft.answer.get("criteria", {}), draft.answer.get("reasons", ())
    base = reverse("annotate_item", args=[draft.token])
    round_ = draft.item.round
    can_go_back = round_.kind not in Round.PRACTICE and (progress is None or progress.done)
    return (progress_context(progress) if progress else {}) | {
        "token": draft.token,
        "pair": blind_pair(draft, view),
        "guidelines": guidelines(draft),
        "wording": wording,
        "choices": buttons,
        # Without "can't judge", which has a row of its own on a phone if there are many.
        "n_choices": sum(button.value != CANT_JUDGE for button in buttons),
        "criteria": [
            Criterion(wording.shown(name), chosen.get(name, "")) for name in protocol.criteria
        ],
        "criterion_choices": _as_read(criterion_options(protocol)),
        "is_derived": bool(protocol.criteria_rule),
        "confidence_choices": confidence_options(protocol),
        "reasons": [
            Criterion(wording.shown(name), "on" * (name in reasons))
            for name in protocol.reason_tags
        ],
        "asks_spans": protocol.ask_spans,
        "content_language": draft.content_language,
        "draft": {
            "overall": draft.answer.get("overall", ""),
            "confidence": draft.answer.get("confidence", ""),
            "comment": draft.comment,
        },
        "age": f"{(timezone.now() - draft.updated_at).total_seconds():.1f}",
        "voted": _words(protocol, vote) if vote else "",
        "error": error,
        "item_url": base,
        "submit_url": f"{base}/vote",
        "draft_url": f"{base}/draft",
        "skip_url": "" if round_.kind in Round.PRACTICE else f"{base}/skip",
        "is_training": round_.kind == Round.Kind.TRAINING,
        "flag_url": f"{base}/flag",
        "back_url": f"{base}/back" if can_go_back else "",
        "next_url": address_of(draft.item.round),
        "own_url": list_address_of(draft.item.round),
    }


def _as_read(buttons: Sequence[AnswerOption]) -> list[AnswerOption]:
    """Return the buttons in the order in which the page's lines run.

    Left is left on every page, and so is its key. Only where reading begins differs.
    """
    scale = [button for button in buttons if button.value in FIVE]
    others = [button for button in buttons if button.value not in FIVE]
    return (scale[::-1] if translation.get_language_bidi() else scale) + others


def progress_context(progress: OwnProgress) -> dict[str, Any]:
    return {
        "where": progress.where,
        "done": progress.done,
        "total": progress.total,
        "time_left": progress.time_left,
        "is_warned": progress.is_warned,
    }


def _words(protocol: Protocol, vote: Vote) -> str:
    words: str = answer_words(protocol).get(vote.answer.get("overall", ""), vote.label)
    return _("%(said)s (by your answers)") % {"said": words} if "rule" in vote.answer else words


# The keys of one character. A person may move each to another one, by its place here.
KEYS = "123450ATBXNSFCGEDRLV?"
# Keys for what a protocol may ask in addition: how sure a person is, why, and marking text.
KEYS_OF_MORE = "789WM"
_PAGE = 50
_FINAL = _lazy("Another round that counts this vote was closed, so it can no longer be changed.")
_ASIDE = _lazy("The project put it aside: it doesn't count, and it can't be changed.")
_NOT_SUBMITTED = _lazy(
    "This was not submitted yet, because your login had ended. What you entered is here: check it, "
    "then submit."
)
_IN_WORK = _lazy(
    "Other annotators are working on it at the moment. Your draft is kept. Come back later."
)


@require_GET
@never_cache
def annotate(request: HttpRequest) -> HttpResponse:
    """List the user's open rounds, with one button each."""
    user = cast(AbstractUser, request.user)
    use_language(user, language_of_projects(user))
    context = {"work": open_work(user), "memberships": labelled_by(user)}
    return render(request, "annotation/screen/open_work.html", context)


@require_GET
@never_cache
@kind_to_old_links
def annotate_round(request: HttpRequest, signed: str) -> HttpResponse:
    """Hand out the next item, or say why there is none."""
    round_, annotator = round_behind_link(cast(AbstractUser, request.user), signed)
    handed = claim_next(round_, annotator, again="again" in request.GET)
    if request.headers.get("HX-Request"):
        return _turned_up(handed)
    if isinstance(handed, NoItem):
        return show_nothing(request, handed, round_, annotator)
    query = f"?skipped={skipped}" if (skipped := _skipped(request)) else ""
    return redirect(reverse("annotate_item", args=[handed.token]) + query)


@require_GET
@never_cache
def annotate_item(request: HttpRequest, token: str) -> HttpResponse:
    """Show one item with its draft, or the person's own vote on it to be changed."""
    draft = draft_for(request.user, token)
    round_, vote = draft.item.round, vote_on(draft)
    if vote is None and round_.state == Round.State.PAUSED:
        return show_nothing(request, NoItem("paused"), round_, draft.annotator)
    if round_.state == Round.State.CLOSED:
        return show_nothing(request, NoItem("closed"), round_, draft.annotator)
    if vote is None and not take_up(draft, timezone.now()):
        if nothing := why_no_items(round_, draft.annotator):
            return show_nothing(request, nothing, round_, draft.annotator)
        ending = refusal(_("This pair is settled"), why_not_needed(draft.item), round_)
        if takes_votes(draft.item):
            ending = refusal(_("This pair is not free"), _IN_WORK, round_)
        return show_ending(request, ending, round_, draft.annotator)
    if vote is not None and vote.aside_at is not None:
        ending = refusal(_("This vote was put aside"), _ASIDE, round_)
        return show_ending(request, ending, round_, draft.annotator)
    if vote is not None and vote.is_practice:
        ending = refusal(_("Your answer is stored"), PRACTICE_IS_FINAL, round_)
        feedback = feedback_on(vote, round_, round_.protocol)
        return show_ending(request, ending, round_, draft.annotator, feedback=feedback)
    if vote is not None and is_final(vote):
        ending = refusal(_("This vote can't be changed"), _FINAL, round_)
        return show_ending(request, ending, round_, draft.annotator)
    progress = progress_of(round_, draft.annotator)
    if KEPT in request.GET:
        messages.warning(request, _NOT_SUBMITTED)
    context = item_context(draft, vote, view=_view(request), progress=progress)
    context |= _own_settings(request, round_.protocol)
    context |= _skip_context(request)
    context["unread"] = bool(context["guidelines"]) and _is_first_item(draft)
    return render(request, "annotation/screen/screen.html", context)


def _is_first_item(draft: Draft) -> bool:
    """Return True if the person has neither seen the guidelines nor voted by them."""
    protocol = draft.item.round.protocol_id
    mine = {"annotator": draft.annotator, "protocol": protocol}
    read = Reading.objects.filter(**mine).values("pk")
    # A union asks about both tables in one query.
    return not Vote.every.filter(**mine).values("pk").union(read).exists()


@require_GET
@never_cache
@kind_to_old_links
def annotate_own(request: HttpRequest, signed: str) -> HttpResponse:
    """List the person's own votes and skips in a round, each with a way back to it."""
    round_, annotator = round_behind_link(cast(AbstractUser, request.user), signed)
    page = Paginator(own_votes(round_, annotator), _PAGE).get_page(request.GET.get("page"))
    votes = as_listed(page, round_.protocol)
    is_open = round_.state == Round.State.OPEN and not is_held(round_, annotator)
    context = {
        "where": title_of(round_),
        "page": page,
        "votes": votes,
        "any_aside": any(vote.is_aside for vote in votes),
        "skips": own_skips(round_, annotator),
        "is_open": is_open,
        "is_closed": round_.state == Round.State.CLOSED,
        "is_practice": round_.kind in Round.PRACTICE,
        "next_url": address_of(round_),
    }
    return render(request, "annotation/screen/own.html", context)


@require_GET
@never_cache
def annotate_texts(request: HttpRequest, token: str) -> HttpResponse:
    """Return only the two sides, as raw text or with their differences marked."""
    draft = draft_for(request.user, token)
    context = {
        "pair": blind_pair(draft, _view(request)),
        "content_language": draft.content_language,
    }
    return render(request, "annotation/screen/_texts.html", context)


@require_GET
def image(request: HttpRequest, sha256: str) -> HttpResponse:
    """Return an image of an example that the person may see. Its hash is its name for ever."""
    if not may_see_image(request.user, sha256):
        raise Http404("No such image.")
    kept = get_object_or_404(Image, pk=sha256)
    # What it is was decided when it was imported: nothing of the file's own is believed.
    response = HttpResponse(bytes(kept.content), content_type=kept.content_type)
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    response["Content-Disposition"] = "inline"
    return response


@require_GET
@never_cache
def annotate_ahead(request: HttpRequest, token: str) -> HttpResponse:
    """Return the next item, held for the person while they still work on this one."""
    draft = draft_for(request.user, token)
    ahead = claim_next(draft.item.round, draft.annotator, ahead_of=token)
    if isinstance(ahead, NoItem):
        return HttpResponse(status=204)
    # Both are of one round, and so of one project. `draft_for` reads these with the draft, and
    # `claim_next` doesn't.
    ahead.content_language = draft.content_language
    ahead.project_language = draft.project_language
    context = item_context(ahead, None, progress=None)
    return render(request, "annotation/screen/_item.html", context)


def show_nothing(
    request: HttpRequest, nothing: NoItem, round_: Round, annotator: Annotator
) -> HttpResponse:
    if annotator.is_crowd:
        # Their own page says how it ends, and gives them their code.
        return redirect("crowd_own")
    has_voted = progress_of(round_, annotator).done > 0
    ending = ending_of(nothing, round_, annotator, has_voted=has_voted)
    return show_ending(request, ending, round_, annotator)


def _turned_up(handed: Draft | NoItem) -> HttpResponse:
    """Tell the waiting page that there is nothing yet, or where to go on."""
    if isinstance(handed, NoItem):
        waits = handed.reason == "more_to_come"
        return HttpResponse(status=204, headers={} if waits else {"HX-Refresh": "true"})
    address = reverse("annotate_item", args=[handed.token])
    return HttpResponse(status=204, headers={"HX-Redirect": address})


def show_ending(
    request: HttpRequest,
    ending: Ending,
    round_: Round,
    annotator: Annotator,
    status: int = 200,
    *,
    feedback: Feedback | None = None,
) -> HttpResponse:
    """Say why there is no item. A link leads back to the last vote if it can be changed."""
    context = progress_context(progress_of(round_, annotator)) | asdict(ending)
    context["feedback"] = feedback
    context |= _skip_context(request)
    context["own_url"] = list_address_of(round_)
    if round_.state != Round.State.CLOSED:
        context["last"] = last_token(round_, annotator)
    if round_.state == Round.State.OPEN:
        skipped = skipped_drafts(annotator=annotator, item__round=round_)
        tokens = list(skipped.values_list("token", flat=True))
        context |= {"n_skipped": len(tokens), "skipped_token": tokens[0] if tokens else ""}
    return render(request, "annotation/screen/nothing.html", context, status=status)


def show_item(request: HttpRequest, draft: Draft, error: str, status: int) -> HttpResponse:
    """Show the item again, with what is missing."""
    progress = progress_of(draft.item.round, draft.annotator)
    context = item_context(draft, vote_on(draft), error=error, progress=progress)
    context |= _own_settings(request, draft.item.round.protocol)
    return render(request, "annotation/screen/screen.html", context, status=status)


def _view(request: HttpRequest) -> View:
    asked = request.GET.get("view")
    return next((view for view in VIEWS if view == asked), "rendered")


def _own_settings(request: HttpRequest, protocol: Protocol) -> dict[str, Any]:
    preferences = preferences_of(cast(AbstractUser, request.user))
    asks_more = protocol.ask_confidence or protocol.reason_tags or protocol.ask_spans
    places = KEYS + KEYS_OF_MORE if asks_more else KEYS
    return {
        "preferences": preferences,
        "keys": json.dumps(preferences.keys),
        "places": places,
        "own_language": preferences.language,
    }


def _skip_context(request: HttpRequest) -> dict[str, str]:
    token = _skipped(request)
    return {"skipped": token, "skipped_sentence": skipped_sentence(token)} if token else {}


def _skipped(request: HttpRequest) -> str:
    """Return the token of the item that was just skipped, so that the skip can be undone."""
    token = request.GET.get("skipped", "")
    return token if is_token(token) else ""
