"""A project's own judge templates: the list, writing one, its versions, retiring them."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from judging.access import Access, project_for
from judging.errors import UserError
from judging.forms.templates import FORMS, TemplateForm, filled_in
from judging.llm.catalogue import UnknownTemplate, templates_of
from judging.llm.catalogue import template as shipped
from judging.models.endpoints import JudgeTemplate
from judging.models.projects import Role
from judging.runs import own_templates


@require_GET
def templates(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    context = {
        "project": access.project,
        "tab": "runs",
        "own": list(own_templates.own_templates(access.project)),
        "shipped": [one for form in FORMS for one in templates_of(form)],
    }
    return render(request, "judging/templates/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def template_write(request: HttpRequest, slug: str) -> HttpResponse:
    """Try it out or keep it; where it is refused nothing is lost."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    if request.method != "POST":
        return writing_page(request, access, TemplateForm(initial=copied(request, access)))
    form, status, trial = TemplateForm(request.POST), 422, None
    if form.is_valid() and form.template is not None:
        reply = form.cleaned_data["sample_reply"]
        trial, status = own_templates.try_out(access.project, form.template, reply), 200
        if "keep" in request.POST:
            try:
                version = own_templates.keep(access.project, access.user, form.template, reply)
            except UserError as error:
                form.add_error("name", str(error))
                status = 422
            else:
                return redirect("template", slug, version.pk)
    return writing_page(request, access, form, trial, status)


@require_GET
def template(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    access, version = version_for(request, slug, pk)
    found = own_templates.template_in(version)
    reply = version.output.get("sample_reply", "")
    context = {
        "project": access.project,
        "tab": "runs",
        "version": version,
        "versions": own_templates.versions(access.project, version.name),
        "current": own_templates.current(access.project, version.name),
        "template": found,
        "sample_reply": reply,
        "trial": own_templates.try_out(access.project, found, reply),
    }
    return render(request, "judging/templates/detail.html", context)


@require_POST
def template_retire(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Out of the choices for new runs, and back into them."""
    access, version = version_for(request, slug, pk)
    own_templates.set_retired(version, access.user, retired=version.retired_at is None)
    return redirect("template", slug, pk)


def version_for(request: HttpRequest, slug: str, pk: int) -> tuple[Access, JudgeTemplate]:
    access = project_for(request.user, slug, Role.RESEARCHER)
    versions = JudgeTemplate.objects.select_related("created_by", "project")
    return access, get_object_or_404(versions, project=access.project, pk=pk)


def copied(request: HttpRequest, access: Access) -> dict[str, Any]:
    """The template that `copy` names: a version of this project, or one that ships."""
    name = request.GET.get("copy", "")
    if name.isdecimal() and len(name) < 12:
        _, version = version_for(request, access.project.slug, int(name))
        reply = version.output.get("sample_reply", "")
        return filled_in(own_templates.template_in(version), version.name, reply)
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
    trial: own_templates.Trial | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "project": access.project,
        "tab": "runs",
        "form": form,
        "trial": trial,
        "template": form.template,
    }
    return render(request, "judging/templates/write.html", context, status=status)
