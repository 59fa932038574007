"""The first page: my projects, and my open work."""

from django import forms
from django.contrib import messages
from django.db.models import OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from annotation.models import Round
from annotation.screen.progress import open_work
from judging.access import may_research, projects_of
from judging.counted import count_of
from judging.errors import UserError
from judging.models.examples import Example
from judging.models.projects import Project, Role
from judging.models.runs import Run
from judging.projects import create_project


class NewProject(forms.Form):
    name = forms.CharField(
        max_length=200,
        label="Name of the new project",
        help_text="Such as “Vicuna 80”. Annotators see it, so let it name neither model. It can be "
        "changed later.",
    )


@require_http_methods(["GET", "POST"])
def home(request: HttpRequest) -> HttpResponse:
    form = NewProject(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            project = create_project(request.user, form.cleaned_data["name"])
        except UserError as error:
            form.add_error("name", str(error))
        else:
            messages.success(request, "The project was created. Import pairs to begin.")
            return redirect("project", project.slug)
    return render(
        request,
        "results/home.html",
        {
            "form": form,
            "projects": _managed(request),
            "work": open_work(request.user),
            "may_create": may_research(request.user),
        },
        status=422 if form.errors else 200,
    )


def _managed(request: HttpRequest) -> QuerySet[Project]:
    """The projects that this person manages, the newest first, with what is in them."""
    projects = projects_of(request.user)
    if not request.user.is_superuser:
        managing = [Role.OWNER, Role.RESEARCHER]
        projects = projects.filter(memberships__user=request.user, memberships__role__in=managing)
    its = {"project": OuterRef("pk")}
    runs = Run.objects.filter(**its)
    running = runs.filter(state__in=[Run.State.QUEUED, Run.State.RUNNING])
    return projects.annotate(
        n_examples=count_of(Example.objects.visible().filter(**its), "project"),
        n_runs=count_of(runs, "project"),
        n_running=count_of(running, "project"),
        n_rounds=count_of(Round.objects.filter(**its), "project"),
    ).order_by("-created_at")
