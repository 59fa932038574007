"""How many items of a run's rounds would now be selected differently."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from annotation.results.reselection import reselections
from judging.access import project_for
from judging.models.projects import Role
from judging.models.runs import Run


@require_safe
def reselection(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Empty where nothing differs. Counts alone: no verdict is shown."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    run = get_object_or_404(Run, project=access.project, number=number)
    found = {"project": access.project, "run": run, "changed": reselections(run)}
    return render(request, "results/_reselection.html", found)
