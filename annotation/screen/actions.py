"""What an annotator does: vote, save a draft, skip, flag, go back, leave a round, set preferences.

Each works as a plain form. The page's script marks its posts with a header, and gets a sentence or
nothing instead of a page.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AbstractUser
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from annotation.models import Draft, Reading, Round, Vote
from annotation.people import annotators
from annotation.queue import queue
from annotation.screen.blind import VIEWS, feedback_on
from annotation.screen.hand import (
    Entry,
    address_of,
    draft_for,
    entry_of,
    is_token,
    keep,
    kind_to_old_links,
    last_token,
    log_in_first,
    round_behind_link,
    vote_on,
)
from annotation.screen.progress import progress_of, refusal, skipped_sentence, title_of
from annotation.screen.views import KEYS, KEYS_OF_MORE, progress_context, show_ending, show_item
from annotation.votes.voting import NotNeeded, RoundClosed, edit_vote, record_vote
from judging.core import languages
from judging.core.errors import UserError
from judging.projects.models import Preferences


class PreferencesForm(forms.ModelForm):
    class Meta:
        model = Preferences
        fields = ["one_key_submit", "link_scroll", "serif", "no_letter_keys", "keys", "language"]

    def clean_language(self) -> str:
        """Pages and scripts that are older than the choice don't send one, so it stays."""
        if "language" not in self.data:
            return self.initial["language"]
        asked = self.cleaned_data["language"]
        if asked and languages.known(asked) != asked:
            raise forms.ValidationError(_("Choose one of the languages. Nothing was changed."))
        return asked

    def clean_keys(self) -> dict[str, str]:
        """Refuse what is no key of the screen, and two actions on one key."""
        moved = self.cleaned_data["keys"] or {}
        if not isinstance(moved, dict) or not moved.keys() <= {*KEYS, *KEYS_OF_MORE}:
            raise forms.ValidationError(_("These keys could not be read. Nothing was changed."))
        for key in moved.values():
            if not isinstance(key, str) or len(key) > 1 or not key.isprintable() or key == " ":
                raise forms.ValidationError(_("Choose one letter, digit or sign for each action."))
        # A usual key of what only some protocols ask gives way to an action that was moved there.
        keys = [key for key in ({key: key for key in KEYS} | moved).values() if key]
        if len(set(keys)) < len(keys):
            raise forms.ValidationError(_("Two actions have the same key. Nothing was changed."))
        return {place: key for place, key in moved.items() if key != place}


@require_POST
@kind_to_old_links
def annotate_leave(request: HttpRequest, signed: str) -> HttpResponse:
    round_, annotator = round_behind_link(cast(AbstractUser, request.user), signed)
    try:
        annotators.leave_round(round_, annotator)
    except UserError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request,
            _(
                "You left %(round)s. Your votes stay, and others can label what you had "
                "open. You can come back."
            )
            % {"round": title_of(round_)},
        )
    return redirect("annotate")


@require_POST
@kind_to_old_links
def annotate_return(request: HttpRequest, signed: str) -> HttpResponse:
    round_, annotator = round_behind_link(cast(AbstractUser, request.user), signed)
    annotators.come_back(round_, annotator)
    return redirect(address_of(round_))


_MISMATCH = _lazy(
    "The form and the page don't belong to the same pair, so nothing was stored. "
    "Go on with your current pair."
)
# In seconds. An entry that waited for less counts as made now.
_AT_ONCE = 1.0
Action = Callable[[HttpRequest, Draft], HttpResponse]


def on_item(action: Action) -> Callable[..., HttpResponse]:
    """Wrap a post about one item: fetch it, check permission, and compare address and form."""

    @login_not_required
    @never_cache
    @wraps(action)
    def view(request: HttpRequest, token: str) -> HttpResponse:
        if not request.user.is_authenticated:
            return log_in_first(request, token)
        draft = draft_for(request.user, token)
        if request.method != "POST":
            # After a post without a login, logging in leads here.
            return redirect("annotate_item", token)
        if request.POST.get("token") != token:
            return _refuse(request, draft, str(_MISMATCH), 409)
        try:
            return action(request, draft)
        except Draft.DoesNotExist:
            raise Http404("This item was deleted meanwhile.") from None

    return view


@on_item
def vote(request: HttpRequest, draft: Draft) -> HttpResponse:
    entry = _entry(request, draft)
    try:
        if not _is_outdated(draft, entry):
            (_edit if request.POST.get("edit") else _record)(draft, entry)
    except (NotNeeded, RoundClosed) as error:
        return _refuse(request, draft, str(error), 409)
    except UserError as error:
        keep(draft, entry)
        return _refuse(request, draft, str(error), 422)
    if _by_script(request):
        round_, stored = draft.item.round, None
        progress = progress_context(progress_of(round_, draft.annotator))
        if round_.kind == Round.Kind.TRAINING and (stored := vote_on(draft)):
            progress["feedback"] = feedback_on(stored, round_, round_.protocol)
        return render(request, "annotation/screen/_voted.html", progress)
    if draft.item.round.kind == Round.Kind.TRAINING:
        # The page of a pair that was voted on says how the person did.
        return redirect("annotate_item", draft.token)
    return redirect(address_of(draft.item.round))


@on_item
def save(request: HttpRequest, draft: Draft) -> HttpResponse:
    """Save the draft. Without the script this also switches how the texts are shown."""
    keep(draft, _entry(request, draft))
    if (view := request.POST.get("view")) in VIEWS:
        return redirect(reverse("annotate_item", args=[draft.token]) + f"?view={view}")
    return HttpResponse(status=204)


@on_item
def beat(request: HttpRequest, draft: Draft) -> HttpResponse:
    if queue.heartbeat(draft) or vote_on(draft):
        return HttpResponse(status=204)
    return _refuse(
        request,
        draft,
        _(
            "You were away for a long time, so this pair went to another annotator. You can still "
            "submit; if the pair has all its votes by then, you will be told."
        ),
        409,
    )


@on_item
def skip(request: HttpRequest, draft: Draft) -> HttpResponse:
    if draft.item.round.kind in Round.PRACTICE:
        return _refuse(request, draft, _("No pair of this round can be skipped."), 422)
    if vote_on(draft):
        return _refuse(request, draft, _("You voted on this pair. Change the vote instead."), 422)
    keep(draft, _entry(request, draft))
    queue.skip(draft)
    if _by_script(request):
        sentence = skipped_sentence(draft.token)
        return HttpResponse(sentence, content_type="text/plain; charset=utf-8")
    return redirect(f"{address_of(draft.item.round)}?skipped={draft.token}")


@on_item
def unskip(request: HttpRequest, draft: Draft) -> HttpResponse:
    queue.unskip(draft)
    return redirect("annotate_item", draft.token)


@on_item
def flag(request: HttpRequest, draft: Draft) -> HttpResponse:
    # PostgreSQL can't store a NUL character in a text.
    reason = request.POST.get("reason", "").replace("\x00", "").strip()[:300]
    if not reason:
        return _refuse(request, draft, _("Say what is wrong with this pair, then flag it."), 422)
    queue.flag(draft, reason)
    if _by_script(request):
        return HttpResponse(status=204)
    sentence = _("Flagged. You can still vote on this pair, or skip it.")
    messages.success(request, _("Flagged.") if vote_on(draft) else sentence)
    return redirect("annotate_item", draft.token)


@on_item
def read(request: HttpRequest, draft: Draft) -> HttpResponse:
    """Remember that the person has seen the guidelines, so that they don't open again."""
    protocol = draft.item.round.protocol_id
    Reading.objects.get_or_create(annotator=draft.annotator, protocol_id=protocol)
    return HttpResponse(status=204)


@on_item
def back(request: HttpRequest, draft: Draft) -> HttpResponse:
    keep(draft, _entry(request, draft))
    token = last_token(draft.item.round, draft.annotator, before=vote_on(draft))
    if token is None:
        return _refuse(request, draft, _("There is no earlier vote of yours in this round."), 422)
    return redirect("annotate_item", token)


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    """Save a person's own settings, which apply in every project."""
    own, _ = Preferences.objects.get_or_create(user=request.user)
    form = PreferencesForm(request.POST, instance=own)
    if form.is_valid():
        form.save()
    elif _by_script(request):
        sentence = next(iter(form.errors.values()))[0]
        return HttpResponse(sentence, status=422, content_type="text/plain; charset=utf-8")
    else:
        messages.error(request, next(iter(form.errors.values()))[0])
    if _by_script(request):
        return HttpResponse(status=204)
    token = request.POST.get("token", "")
    return redirect("annotate_item", token) if is_token(token) else redirect("annotate")


def _record(draft: Draft, entry: Entry) -> None:
    """Store the vote, or change one given in another tab or before the connection was lost.

    The person has changed their mind since then, so what they said last holds.
    """
    vote = record_vote(draft, entry.answer, entry.comment, entry.seconds)
    if draft.repeat_id is None and (vote.answer, vote.comment) != (draft.answer, draft.comment):
        _change(vote, draft)


def _edit(draft: Draft, entry: Entry) -> None:
    vote = vote_on(draft)
    if vote is None or draft.repeat_id is not None:
        record_vote(draft, entry.answer, entry.comment, entry.seconds)
        return
    keep(draft, entry)
    _change(vote, draft)


def _is_outdated(draft: Draft, entry: Entry) -> bool:
    """Return True if the entry waited for a connection while the person voted on another device."""
    if entry.age < _AT_ONCE:
        return False
    vote = vote_on(draft)
    entered_at = timezone.now() - timedelta(seconds=entry.age)
    return vote is not None and vote.updated_at > entered_at


def _change(vote: Vote, draft: Draft) -> None:
    """The vote's active time becomes the draft's, which has added up since it was opened."""
    added = draft.active_seconds - (vote.active_seconds or 0.0)
    edit_vote(vote, draft.answer, draft.comment, max(0.0, added))


def _entry(request: HttpRequest, draft: Draft) -> Entry:
    return entry_of(request.POST, draft, timezone.now())


def _by_script(request: HttpRequest) -> bool:
    return "X-Annotate" in request.headers


def _refuse(request: HttpRequest, draft: Draft, sentence: str, status: int) -> HttpResponse:
    if _by_script(request):
        return HttpResponse(sentence, status=status, content_type="text/plain; charset=utf-8")
    if status == 422:
        return show_item(request, draft, sentence, status)
    ending = refusal(_("This was not taken"), sentence, draft.item.round)
    return show_ending(request, ending, draft.item.round, draft.annotator, status)
