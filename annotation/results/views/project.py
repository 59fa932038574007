"""A project at a glance."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from annotation.results.overview import overview
from judging.access import project_for
from judging.models.projects import Role


@require_safe
def project(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug)
    if not access.at_least(Role.RESEARCHER):
        return redirect("annotate")
    found = {"overview": overview(access.project), **access.under("overview")}
    fragment = "results/_overview.html" if request.htmx else "results/overview.html"
    return render(request, fragment, found)
