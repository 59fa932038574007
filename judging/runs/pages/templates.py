"""A project's own judge templates: the list, writing one, its versions, retiring them."""

from decimal import Decimal
from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from judging.core.errors import Overtaken, UserError
from judging.llm.own_templates import TemplateRefused, custom_template
from judging.llm.prompts.templates import (
    REPLIES_OF_FORM,
    JudgeForm,
    ReplyFormat,
    Template,
    UnknownTemplate,
    templates_of,
)
from judging.llm.prompts.templates import template as shipped
from judging.projects.access import Access, project_for
from judging.projects.models import Role
from judging.runs.models import JudgeTemplate
from judging.runs.templates import (
    TemplateTrial,
    current,
    keep,
    newest_version,
    own_templates,
    set_retired,
    template_in,
    try_out,
    versions,
)

FORMS = (JudgeForm.SCORE, JudgeForm.RELATION, JudgeForm.LIKERT)
FORM_OF = {reply: form for form in FORMS for reply in REPLIES_OF_FORM[form]}
ANSWERS = {
    ReplyFormat.SCORE_LINES: "two scores, in lines: The score of Assistant 1: 8",
    ReplyFormat.SCORE_PAIR: "two scores, as two values in the first line: 8 6",
    ReplyFormat.SCORE_JSON: 'two scores, in JSON: {"evidence": "…", "score_1": 8, "score_2": 6}',
    ReplyFormat.VERDICT_MARK: "a verdict, by its mark: [[A]], [[B]] or [[C]] for a tie",
    ReplyFormat.VERDICT_LINE: "a verdict, in a line: Assistant 1, Assistant 2 or Same",
    ReplyFormat.RATING_LINE: "a rating from 1 to 7 in the first line, higher for the first",
}
LONGEST_TEXT = 20_000
LONGEST_REPLY = 5_000


class TemplateForm(forms.Form):
    name = forms.SlugField(
        label="Name",
        max_length=80,
        help_text="Letters, digits and hyphens. An existing name gets a new version.",
    )
    reply = forms.ChoiceField(
        label="The judge answers with",
        choices=[(reply.value, text) for reply, text in ANSWERS.items()],
    )
    low = forms.DecimalField(label="Lowest score", initial=Decimal(1), decimal_places=2)
    high = forms.DecimalField(label="Highest score", initial=Decimal(10), decimal_places=2)
    text = forms.CharField(
        label="Text",
        max_length=LONGEST_TEXT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 22, "class": "mono", "spellcheck": "false"}),
        help_text="Slots: {question}, {first} and {second} for the responses by position, "
        "{reference} (the example's reference answer) and {criteria} (the project's criteria) if "
        "you want them. {Q}, {R1} and {R2} mean the first three. With {reference}, a run starts "
        "only if each example has a reference answer. {conversation_first} and "
        "{conversation_second} are whole conversations: the messages of the question and of one "
        "response. They replace the first three.",
    )
    sample_reply = forms.CharField(
        label="A sample reply",
        max_length=LONGEST_REPLY,
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono"}),
        help_text="Write it as the judge would, with a verdict. FairJudge must be able to read it.",
    )
    template: Template | None = None

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        # A field with an error is missing from the values, and the template needs each of them.
        if self.errors:
            return values
        # Browsers send line ends as CRLF, and a template from a file has LF. The same text must not
        # become another template.
        for name in ("text", "sample_reply"):
            values[name] = values[name].replace("\r\n", "\n")
        reply = ReplyFormat(values["reply"])
        try:
            self.template = custom_template(
                values["name"],
                {
                    "form": FORM_OF[reply].value,
                    "reply": reply.value,
                    "text": values["text"],
                    "scale": scale(reply, values),
                    "sample_reply": values["sample_reply"],
                },
            )
        except TemplateRefused as refused:
            for problem in refused.problems:
                self.add_error("sample_reply" if "sample reply" in problem else "text", problem)
        return values


def scale(reply: ReplyFormat, values: dict[str, Any]) -> list[Decimal] | None:
    return [values["low"], values["high"]] if FORM_OF[reply] is JudgeForm.SCORE else None


def filled_in(template: Template, name: str, sample_reply: str = "") -> dict[str, Any]:
    """Return the initial values of the form when a template is copied."""
    return {
        "name": name,
        "reply": template.reply.value,
        "low": template.scale.low,
        "high": template.scale.high,
        "text": template.text,
        "sample_reply": sample_reply,
    }


@require_GET
def templates(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    context = {
        **access.under("runs"),
        "own": list(own_templates(access.project)),
        "shipped": [shown for form in FORMS for shown in templates_of(form)],
    }
    return render(request, "judging/templates/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def template_write(request: HttpRequest, slug: str) -> HttpResponse:
    """Try a template out or keep it. If it is refused, the form keeps what was written."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    if request.method != "POST":
        return writing_page(request, access, TemplateForm(initial=copied(request, access)))
    form, status, trial = TemplateForm(request.POST), 422, None
    made_for = whole_number(request.POST.get("made_for", ""))
    if form.is_valid() and form.template is not None:
        reply = form.cleaned_data["sample_reply"]
        trial, status = try_out(access.project, form.template, reply), 200
        if "keep" in request.POST:
            try:
                version = keep(access.project, access.user, form.template, reply, made_for=made_for)
            except Overtaken as error:
                form.add_error("name", str(error))
                status, made_for = 422, None
            except UserError as error:
                form.add_error("name", str(error))
                status = 422
            else:
                return redirect("template", slug, version.pk)
    return writing_page(request, access, form, trial, status, made_for=made_for)


@require_GET
def template(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    access, version = version_for(request, slug, pk)
    shown = template_in(version)
    reply = version.output.get("sample_reply", "")
    context = {
        **access.under("runs"),
        "version": version,
        "versions": versions(access.project, version.name),
        "current": current(access.project, version.name),
        "template": shown,
        "sample_reply": reply,
        "trial": try_out(access.project, shown, reply),
    }
    return render(request, "judging/templates/detail.html", context)


@require_POST
def template_retire(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Take a version out of the choices for new runs, or put it back."""
    access, version = version_for(request, slug, pk)
    # The button says which of the two: of two people who press it, the second undoes nothing.
    sent = request.POST.get("retired")
    retired = version.retired_at is None if sent is None else sent == "yes"
    set_retired(version, access.user, retired=retired)
    return redirect("template", slug, pk)


def version_for(request: HttpRequest, slug: str, pk: int) -> tuple[Access, JudgeTemplate]:
    access = project_for(request.user, slug, Role.RESEARCHER)
    kept = JudgeTemplate.objects.select_related("created_by", "project")
    return access, get_object_or_404(kept, project=access.project, pk=pk)


def whole_number(sent: str) -> int | None:
    return int(sent) if sent.isdecimal() and len(sent) < 12 else None


def copied(request: HttpRequest, access: Access) -> dict[str, Any]:
    """Return the template that `copy` names: a version of this project, or a shipped one."""
    name = request.GET.get("copy", "")
    if (number := whole_number(name)) is not None:
        _, version = version_for(request, access.project.slug, number)
        reply = version.output.get("sample_reply", "")
        return filled_in(template_in(version), version.name, reply)
    if not name:
        return {}
    try:
        return filled_in(shipped(name), f"own-{name}")
    except UnknownTemplate as error:
        raise Http404(str(error)) from None


def writing_page(
    request: HttpRequest,
    access: Access,
    form: TemplateForm,
    trial: TemplateTrial | None = None,
    status: int = 200,
    made_for: int | None = None,
) -> HttpResponse:
    """Show the form. What it was made for stays until a refusal has said what came since."""
    context = {
        **access.under("runs"),
        "form": form,
        "made_for": newest_version(access.project) if made_for is None else made_for,
        "trial": trial,
        "template": form.template,
    }
    return render(request, "judging/templates/write.html", context, status=status)
