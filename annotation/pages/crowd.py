"""The owner's page of a round's crowd link: its terms, its address, and who came by it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods, require_POST

from annotation.models import CrowdLink, Round
from annotation.pages.forms import FormText, LinesField, TranslationsField
from annotation.people import crowds
from annotation.people.background import (
    in_lines,
    questions_of,
    read_questions,
    read_translation,
    written,
)
from annotation.votes.aside import REJECTED, put_aside_all, rejected_with_votes
from judging.core.errors import Overtaken, UserError
from judging.core.formatting import number_of
from judging.core.languages import name_of
from judging.projects.access import Access, project_for
from judging.projects.models import Role

_PAGE = 50


def translations_in_lines(link: CrowdLink) -> dict[str, dict[str, str]]:
    """Return a link's translations as owners write them."""
    return {
        code: texts | ({"questions": in_lines(texts["questions"])} if "questions" in texts else {})
        for code, texts in link.translations.items()
    }


class CrowdForm(forms.ModelForm):
    """The terms of a crowd link."""

    questions = LinesField(
        required=False,
        label="Questions about the person",
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text="One per line, asked before the first pair. Examples: “text: What do you work "
        "as?”, “choice: Do you read English every day? | yes | no!” and “number: How old are you? "
        "| 18 | 99”. An answer with an exclamation mark, or a number outside the bounds, screens a "
        "person out. “text?:” makes a question optional.",
    )

    translations = TranslationsField(
        {
            "consent": FormText("What people agree to before they start", rows=8),
            "questions": FormText("Questions about the person", rows=5),
            "completion_text": FormText("Text after the last pair", rows=3),
            "screened_text": FormText("Text for people who were screened out", rows=3),
        },
        label="The same in other languages",
        help_text="People whose page is in one of these languages read it, all others read the "
        "texts above. Translate all that is filled in above, or leave a language empty. Write the "
        "questions in the same order with the same marks: answers are stored as the lines above "
        "have them. The question and the guidelines are translated in the project's settings.",
    )

    completion_url = forms.URLField(
        max_length=500,
        required=False,
        assume_scheme="https",
        label="Address to go back to when done",
        help_text="A button after the last pair leads there.",
    )
    screened_url = forms.URLField(
        max_length=500,
        required=False,
        assume_scheme="https",
        label="Address for people who were screened out",
    )

    class Meta:
        model = CrowdLink
        fields = (
            "consent", "questions", "completion_text", "screened_text", "translations",
            "max_people", "max_pairs", "completion_code",
            "completion_url", "screened_code", "screened_url", "worker_name", "study_name",
            "session_name",
        )  # fmt: skip
        field_classes = dict.fromkeys(("consent", "completion_text", "screened_text"), LinesField)
        labels = {
            "consent": "What people agree to before they start",
            "completion_text": "Text after the last pair",
            "screened_text": "Text for people who were screened out",
            "max_people": "People at most",
            "max_pairs": "Pairs per person at most",
            "completion_code": "Completion code",
            "screened_code": "Code for people who were screened out",
            "worker_name": "URL parameter with the worker's ID",
            "study_name": "URL parameter with the study's ID",
            "session_name": "URL parameter with the submission's ID",
        }
        help_texts = {
            "consent": "Markdown. Say who you are, what you ask, how long it takes, what you pay "
            "and what you store.",
            "completion_text": "Markdown, shown above the code.",
            "screened_text": "Markdown, shown above the code. Don't say which answer was wrong.",
            "max_people": "Counts people at work and people who are done. If someone stops, or "
            "closes the page for 5 minutes, their place is free again.",
            "completion_code": "Shown after the last pair. Give a code, an address, or both.",
            "screened_code": "People who find no pair left get this code, too.",
            "worker_name": "MTurk's workerId, hitId and assignmentId are read too.",
        }
        widgets = {
            "consent": forms.Textarea(attrs={"rows": 8}),
            "completion_text": forms.Textarea(attrs={"rows": 3}),
            "screened_text": forms.Textarea(attrs={"rows": 3}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["questions"] = in_lines(self.instance.questions)
        self.initial["translations"] = translations_in_lines(self.instance)
        for name in ("max_people", "max_pairs"):
            self.fields[name].min_value = 1
            self.fields[name].widget.attrs |= {"min": 1, "max": 100_000}

    def clean_questions(self) -> list[dict[str, Any]]:
        try:
            return written(read_questions(self.cleaned_data["questions"]))
        except UserError as error:
            raise ValidationError(str(error)) from None

    def _clean_translations(self, data: dict[str, Any]) -> None:
        """Read each language, which has all that people read in the original."""
        field = self.fields["translations"]
        assert isinstance(field, TranslationsField)
        # A field with an error is missing from the data, and without it nothing can be compared.
        if not data.keys() >= {*field.parts, "translations"}:
            return
        questions = questions_of(data["questions"])
        for code, texts in data["translations"].items():
            differ = [part for part in field.parts if bool(data[part]) != bool(texts.get(part))]
            if differ:
                labels = ", ".join(field.parts[part].label for part in differ)
                self.add_error(
                    "translations",
                    f"{name_of(code)} differs from what is filled in above in: {labels}. "
                    "Translate all of it, or leave the language empty.",
                )
            elif "questions" in texts:
                try:
                    texts["questions"] = written(read_translation(texts["questions"], questions))
                except UserError as error:
                    self.add_error("translations", f"{name_of(code)}: {error}")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        self._clean_translations(data)
        for name in ("max_people", "max_pairs"):
            # A field that has an error already is missing from the data, and needs no second one.
            if not 1 <= data.get(name, 1) <= 100_000:
                self.add_error(name, "Choose a number from 1 to 100,000.")
        for name in ("completion_url", "screened_url"):
            if data.get(name) and not data[name].startswith("https://"):
                self.add_error(name, "Give an address that begins with https://.")
        if not data.get("completion_code") and not data.get("completion_url"):
            self.add_error(
                "completion_code", "Give a code or an address, or the panel can't tell who is done."
            )
        names = [data.get(name) for name in ("worker_name", "study_name", "session_name")]
        named = [name for name in names if name]
        if len(set(named)) < len(named):
            self.add_error("worker_name", "Give each ID a parameter of its own.")
        return data


class MarksForm(forms.Form):
    file = forms.FileField(
        label="The panel's list (CSV)",
        help_text="With the worker's ID and the status: approved, rejected or returned. The files "
        "that Prolific and MTurk hand out can be uploaded as they are.",
        widget=forms.FileInput(attrs={"accept": ".csv,text/csv"}),
    )
    aside = forms.BooleanField(
        required=False,
        label="Put the votes of rejected submissions aside",
        help_text="They no longer count, their pairs need votes again, and they can be counted "
        "again later. Without this, all votes stay.",
    )


def _round_of(request: HttpRequest, slug: str, number: int) -> tuple[Access, Round]:
    access = project_for(request.user, slug, Role.OWNER)
    rounds = Round.objects.select_related("project", "protocol").exclude(kind=Round.Kind.IMPORT)
    return access, get_object_or_404(rounds, project=access.project, number=number)


@require_http_methods(["GET", "HEAD", "POST"])
def crowd(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Make the link or change its terms, and list who came by it."""
    access, round_ = _round_of(request, slug, number)
    link = CrowdLink.objects.filter(round=round_).first()
    form = CrowdForm(request.POST or None, instance=link)
    made_for = request.POST.get("made_for")
    if request.method == "POST" and form.is_valid():
        try:
            crowds.set_up(round_, access.user, form.cleaned_data, request.POST.get("made_for"))
        except Overtaken as error:
            form.add_error(None, str(error))
            made_for = None
        except UserError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The link is ready. Give it to the panel.")
            return redirect("round_crowd", slug, number)
    return crowd_page(request, access, round_, form, made_for=made_for)


@require_POST
def withdraw(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, round_ = _round_of(request, slug, number)
    link = get_object_or_404(CrowdLink.objects.select_related("round__project"), round=round_)
    crowds.withdraw(link, access.user)
    messages.success(
        request, "Nobody else can use the link to join. People who are at work may finish."
    )
    return redirect("round_crowd", slug, number)


@require_POST
def file_for_paying(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Send the list with the panel's ids. It is a POST, since each download is recorded."""
    access, round_ = _round_of(request, slug, number)
    content = crowds.file_for_paying(round_, access.user)
    response = HttpResponse(content, content_type="text/csv; charset=utf-8")
    name = f"{slug}-round{number}-submissions.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    add_never_cache_headers(response)
    return response


@require_POST
def aside(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Put the votes of all rejected submissions aside."""
    access, round_ = _round_of(request, slug, number)
    n = put_aside_all(round_, rejected_with_votes(round_), access.user, REJECTED)
    if n:
        did = f"{number_of(n, 'vote')} put aside. They no longer count."
        messages.success(request, f"{did} Count them again on the page of each person.")
    else:
        messages.info(request, "No vote of a rejected submission counts. Nothing was changed.")
    return redirect("round_crowd", slug, number)


@require_POST
def mark(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Take the panel's list of approved, rejected and returned submissions."""
    access, round_ = _round_of(request, slug, number)
    form = MarksForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            marked = crowds.mark(round_, access.user, form.cleaned_data["file"].read())
        except UserError as error:
            form.add_error("file", str(error))
        else:
            sentence = f"{number_of(marked.changed, 'submission')} changed."
            if marked.unknown:
                sentence += (
                    f" {number_of(marked.unknown, 'row')} named people who never used this link."
                )
            if form.cleaned_data["aside"]:
                rejected = rejected_with_votes(round_)
                n = put_aside_all(round_, rejected, access.user, REJECTED)
                sentence += f" {number_of(n, 'vote')} of rejected submissions put aside."
            messages.success(request, sentence)
            return redirect("round_crowd", slug, number)
    return crowd_page(request, access, round_, marks_form=form)


def crowd_page(
    request: HttpRequest,
    access: Access,
    round_: Round,
    form: CrowdForm | None = None,
    marks_form: MarksForm | None = None,
    made_for: str | None = None,
) -> HttpResponse:
    # The page counts people at work, so it first takes back the places of those who left.
    crowds.release_absent(CrowdLink.objects.filter(round=round_))
    link = CrowdLink.objects.filter(round=round_).first()
    is_live = link is not None and crowds.is_usable(link)
    listed = crowds.submissions_with_votes(round_)
    context = {
        **access.under("rounds"),
        "round": round_,
        "link": link,
        # A form with a mistake in it is still made for what it was made for.
        "version": made_for or crowds.terms_version(round_),
        "is_live": is_live,
        "address": crowds.link_of(link) if link is not None and is_live else "",
        "form": form if form is not None else CrowdForm(instance=link),
        "marks_form": marks_form or MarksForm(),
        "counts": crowds.counts_by_state(round_),
        "rejected": rejected_with_votes(round_),
        "page": Paginator(listed, _PAGE).get_page(request.GET.get("page")),
    }
    status = 422 if any(bound is not None and bound.errors for bound in (form, marks_form)) else 200
    response = render(request, "annotation/rounds/crowd.html", context, status=status)
    add_never_cache_headers(response)
    return response
