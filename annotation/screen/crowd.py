"""Pages of people who come by a crowd link: consent and questions, and how their part ends."""

from decimal import Decimal
from typing import Any

from axes.helpers import get_client_ip_address
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.models import CrowdLink, CrowdSubmission, Round
from annotation.people import crowds
from annotation.people.background import CHOICE, NUMBER, Question, are_screened_out, questions_of
from annotation.queue.drafts import use_language
from annotation.rendering import render as rendered
from annotation.screen.hand import address_of
from judging.core.errors import UserError

# In the session of a person of a panel: their submission's key.
CROWD = "crowd"
# Longer than any study, shorter than a browser that somebody else uses later.
_SECONDS = 7 * 24 * 3600
_LONGEST_ANSWER = 2000
State = CrowdSubmission.State


class BackgroundForm(forms.Form):
    """Consent, and the owner's questions about the person."""

    consent = forms.BooleanField(
        label=_lazy("I have read this and take part."),
        error_messages={"required": _lazy("Tick the box to take part, or close this page.")},
    )

    def __init__(
        self, questions: list[Question], shown: tuple[list[Question], str], data: Any
    ) -> None:
        """shown: the same questions as the person reads them, and in which language that is."""
        super().__init__(data)
        self.questions = questions
        for place, (question, answer) in enumerate(zip(questions, shown[0], strict=True)):
            self.fields[f"question-{place}"] = _field_of(question, answer, shown[1])

    def answers(self) -> dict[str, str]:
        filled_in = {
            question.text: self.cleaned_data[f"question-{place}"]
            for place, question in enumerate(self.questions)
        }
        return {
            text: _plain(answer) for text, answer in filled_in.items() if answer not in (None, "")
        }


def _field_of(question: Question, shown: Question, language: str) -> forms.Field:
    """Return a field with the shown words, whose answers are those of the question."""
    # The words may be in another language than the page, and run the other way.
    label, *options = (
        format_html('<bdi lang="{}">{}</bdi>', language, text)
        for text in (shown.text, *shown.choices)
    )
    shared: dict[str, Any] = {"label": label, "required": not question.optional}
    if question.kind == CHOICE:
        choices = list(zip(question.choices, options, strict=True))
        return forms.ChoiceField(choices=choices, widget=forms.RadioSelect, **shared)
    if question.kind == NUMBER:
        return forms.DecimalField(max_digits=12, decimal_places=3, **shared)
    return forms.CharField(max_length=_LONGEST_ANSWER, **shared)


def _plain(answer: str | Decimal) -> str:
    return f"{answer.normalize():f}" if isinstance(answer, Decimal) else answer


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def enter(request: HttpRequest, token: str) -> HttpResponse:
    """Let a person of a panel in, lead one who comes back on, or say why neither is possible."""
    try:
        link = crowds.open_link(token)
        use_language(request.user, link.round.project.language)
        if request.user.is_authenticated and CROWD not in request.session:
            return _consent(request, link, is_preview=True)
        ids = crowds.panel_ids(link, request.GET)
        submission = crowds.submission_of(link, ids)
        if submission is None:
            crowds.refuse_if_full(link)
            return _consent(request, link, ids)
        return _continue(request, submission, ids)
    except UserError as error:
        return _refused(request, str(error))


def _consent(
    request: HttpRequest,
    link: CrowdLink,
    ids: crowds.PanelIds | None = None,
    *,
    is_preview: bool = False,
) -> HttpResponse:
    posted = request.POST if request.method == "POST" and not is_preview else None
    questions = questions_of(link.questions)
    asked, language = crowds.wording(link, "questions")
    form = BackgroundForm(questions, (questions_of(asked), language), posted)
    if ids is not None and form.is_valid():
        answers = form.answers()
        screened_out = are_screened_out(questions, answers)
        crowds.count_new_login(get_client_ip_address(request))
        submission = crowds.begin(link, ids, answers, screened_out=screened_out)
        if screened_out:
            return _ending(request, submission)
        _log_in(request, submission)
        return redirect(address_of(link.round))
    consent, language = crowds.wording(link, "consent")
    context = {
        "link": link,
        "form": form,
        "consent": rendered(consent),
        "consent_language": language,
        "is_preview": is_preview,
    }
    return render(
        request, "annotation/crowd/enter.html", context, status=422 if form.errors else 200
    )


def _continue(
    request: HttpRequest, submission: CrowdSubmission, ids: crowds.PanelIds
) -> HttpResponse:
    if submission.state == State.SCREENED:
        return _ending(request, submission)
    if request.session.get(CROWD) == submission.pk:
        return redirect("crowd_own")
    if not ids.is_secret:
        raise UserError(_("You began this study in another browser. Go on there."))
    if request.method == "POST":
        _log_in(request, submission)
        return redirect("crowd_own")
    return render(request, "annotation/crowd/go_on.html", {"link": submission.link})


def _log_in(request: HttpRequest, submission: CrowdSubmission) -> None:
    annotator = submission.annotator
    if annotator is None or annotator.user is None or not annotator.user.is_active:
        raise UserError(_("Your part in this study has ended."))
    login(request, annotator.user, backend=settings.LOGIN_BACKEND)
    request.session[CROWD] = submission.pk
    request.session.set_expiry(_SECONDS)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def own(request: HttpRequest) -> HttpResponse:
    """A person's own page: go on, stop, or the code at the end."""
    submission = _own(request)
    use_language(request.user, submission.link.round.project.language)
    waits_for = ""
    if request.method == "POST":
        _act(request, submission, request.POST.get("what", ""))
        if submission.state == State.WORKING:
            return redirect(address_of(submission.link.round))
        return redirect("crowd_own")
    if submission.state == State.WORKING:
        waits_for = _waits_for(submission)
    return _ending(request, submission, waits_for=waits_for)


def _own(request: HttpRequest) -> CrowdSubmission:
    """Return the submission of this session. Raises Http404 for everybody else."""
    submissions = CrowdSubmission.objects.select_related(
        "annotator__user", "link__round__project", "link__round__protocol"
    )
    theirs = submissions.filter(pk=request.session.get(CROWD), annotator__user=request.user.pk)
    submission = theirs.first() if request.user.is_authenticated else None
    if submission is None:
        raise Http404("No such study.")
    return submission


def _act(request: HttpRequest, submission: CrowdSubmission, what: str) -> None:
    if what == "stop":
        crowds.end(submission, State.RETURNED)
    elif what == "finish" and not crowds.finish(submission):
        messages.info(request, _("There is another pair for you."))
    elif what == "go_on" and not crowds.come_back(submission):
        messages.warning(
            request, _("All places of this study are taken. Try again in some minutes.")
        )


def _waits_for(submission: CrowdSubmission) -> str:
    """End the submission if nothing more can come. Returns why only waiting is left, or ""."""
    nothing = crowds.why_nothing(submission)
    if nothing in ("limit", "done", "closed", "not_assigned", "left", "stopped", "failed"):
        crowds.finish(submission)
    return nothing if nothing in ("in_work", "more_to_come", "paused", "held") else ""


def _ending(
    request: HttpRequest, submission: CrowdSubmission, *, waits_for: str = ""
) -> HttpResponse:
    link, state = submission.link, submission.state
    code, url, text, language = "", "", "", ""
    if state in (State.COMPLETE, State.APPROVED):
        code, url = link.completion_code, link.completion_url
        text, language = crowds.wording(link, "completion_text")
    elif state in (State.SCREENED, State.NOTHING):
        code, url = link.screened_code, link.screened_url
    if state == State.SCREENED:
        text, language = crowds.wording(link, "screened_text")
    context = {
        "submission": submission,
        "state": state,
        "is_waiting": bool(waits_for),
        "is_held": waits_for == "held",
        "n_votes": crowds.votes_of(submission),
        "is_paused": link.round.state == Round.State.PAUSED,
        "next_url": address_of(link.round),
        "text": rendered(text) if text else "",
        "text_language": language,
        "code": code,
        "panel_url": url,
    }
    return render(request, "annotation/crowd/own.html", context)


def _refused(request: HttpRequest, sentence: str) -> HttpResponse:
    context = {"refused": sentence, "is_inside": CROWD in request.session}
    return render(request, "annotation/crowd/refused.html", context, status=410)
