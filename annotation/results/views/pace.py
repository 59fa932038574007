"""The pace of a project's annotators, as the page of its people shows it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from annotation.results.pace import by_person, pace_plot, times_of
from judging.access import project_for
from judging.methods.estimates import Undefined
from judging.models.projects import Role


@require_safe
def pace(request: HttpRequest, slug: str) -> HttpResponse:
    """Nothing of the judge is in it, so that it unblinds nobody."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    times = times_of(access.project)
    people = [] if isinstance(times, Undefined) else by_person(times)
    found = {"report": {"pace": people}, "project": access.project}
    if people:
        found["plot"] = pace_plot({"pace": people})
    return render(request, "results/_people_pace.html", found)
