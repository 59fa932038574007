"""The first page with your projects and open work, and a project's overview with its next step."""

from dataclasses import dataclass

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import Count, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from annotation.deletion import deletions_of
from annotation.models import Item, Round, Slot, Vote
from annotation.results.data.runs import Costs, project_costs, run_totals
from annotation.results.report.cache import kept_for
from annotation.screen.progress import open_work
from judging.core.errors import UserError
from judging.core.formatting import count, number_of, set_apart
from judging.core.models import Worker
from judging.core.processes import parts_down
from judging.core.queries import count_of
from judging.dataset.models import Example, Import, frame_of
from judging.projects.access import create_project, may_research, project_for, projects_of
from judging.projects.models import Project, Role
from judging.runs.models import Run


@dataclass(frozen=True)
class Step:
    """A step from import to export. `state` is `done`, `now` or `later`; `action` is a label."""

    name: str
    state: str
    figure: str
    words: str
    url: str
    action: str = ""
    action_url: str = ""


@dataclass(frozen=True)
class Overview:
    steps: tuple[Step, ...]
    costs: Costs
    run: Run | None
    worker_missing: bool
    parts_down: dict[str, str]


def overview(project: Project) -> Overview:
    """Collect the steps and costs, in a constant number of queries for any size of project."""
    run = project.primary_run or project.runs.order_by("-number").first()
    people = kept_for(project, f"totals:{run.pk if run else 0}", lambda: run_totals(project, run))
    n = frame_of(project).count()
    points = 0 if n else project.point_items.visible().count()
    steps = (
        _scores(project, points) if points else _importing(project, n),
        _judging(project, run, n or points),
        _routing(project, run, n),
        _annotating(project),
        _merging(project, run, n, people.settled),
        _exporting(project, n),
    )
    missing = not Worker.objects.alive().exists()
    down = parts_down(settings.FAIRJUDGE_DATA)
    return Overview(steps, project_costs(project, run, people), run, missing, down)


def _importing(project: Project, n: int) -> Step:
    busy = project.imports.filter(state__in=[Import.State.WRITING, Import.State.INTERRUPTED])
    state = "now" if busy.exists() or not n else "done"
    imports = reverse("imports", args=[project.slug])
    words = "examples" if n else "nothing imported yet"
    return Step("Import", state, count(n), words, imports, "Import pairs", imports)


def _scores(project: Project, n: int) -> Step:
    page = reverse("scores", args=[project.slug])
    words = "single response" if n == 1 else "single responses"
    return Step("Import", "done", count(n), words, page, "Import scores", page)


def _judging(project: Project, run: Run | None, n: int) -> Step:
    runs = reverse("runs", args=[project.slug])
    start = reverse("run_start", args=[project.slug])
    if run is None:
        state = "now" if n else "later"
        return Step("Judge", state, "0", "runs", runs, "Start a judge" if n else "", start)
    page = reverse("run", args=[project.slug, run.number])
    done = run.state == Run.State.DONE
    n_runs = project.runs.count()
    words = f"run{'' if n_runs == 1 else 's'}; {set_apart(run.name)}: {run.get_state_display()}"
    figure = count(n_runs)
    action = "" if done else "See its progress"
    return Step("Judge", "done" if done else "now", figure, words, page, action, page)


def _routing(project: Project, run: Run | None, n: int) -> Step:
    plan = reverse("plan", args=[project.slug])
    rounds = Round.objects.filter(project=project, kind=Round.Kind.ROUTED)
    items = Item.objects.filter(round__in=rounds).count()
    if items:
        words = f"items in {number_of(rounds.count(), 'round')}"
        return Step("Route", "done", count(items), words, plan, "Plan another round", plan)
    ready = run is not None and run.state == Run.State.DONE and n
    action = "Plan a round" if n else ""
    return Step("Route", "now" if ready else "later", "0", "items selected", plan, action, plan)


def _annotating(project: Project) -> Step:
    rounds = reverse("rounds", args=[project.slug])
    routed = Slot.objects.asked().filter(round__project=project, round__kind=Round.Kind.ROUTED)
    slots = routed.aggregate(
        asked=Count("pk"),
        given=Count("pk", filter=Q(vote__isnull=False)),
        closed=Count("pk", filter=Q(vote=None, round__state=Round.State.CLOSED)),
    )
    elsewhere = Vote.objects.filter(item__round__project=project, source=Vote.Source.IMPORT).count()
    if not slots["asked"]:
        words = f"votes imported: {count(elsewhere)}" if elsewhere else "votes"
        return Step("Annotate", "later", "0", words, rounds)
    missing = slots["asked"] - slots["given"] - slots["closed"]
    words = f"of {count(slots['asked'])} votes are in"
    given = count(slots["given"])
    if missing:
        return Step("Annotate", "now", given, words, rounds, "See the rounds", rounds)
    undecided = Item.objects.filter(
        round__project=project, round__kind=Round.Kind.ROUTED, state=Item.State.ADJUDICATE
    ).count()
    if undecided:
        action = f"Decide {number_of(undecided, 'item')}"
        return Step("Annotate", "now", given, words, rounds, action, rounds)
    return Step("Annotate", "done", given, words, rounds)


def _merging(project: Project, run: Run | None, n: int, settled: int) -> Step:
    results = reverse("results", args=[project.slug])
    if run is None or run.ranked_at is None:
        return Step("Merge", "later", "0", "labels by people", results)
    words = f"of {count(n)} labels by people, for {set_apart(run.name)}"
    return Step("Merge", "done", count(settled), words, results)


def _exporting(project: Project, n: int) -> Step:
    page = reverse("results", args=[project.slug]) + "#export"
    made = project.exports.count()
    state = "done" if made else "later"
    return Step("Export", state, count(made), "files made", page, "Export" if n else "", page)


@require_safe
def project(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug)
    if not access.at_least(Role.RESEARCHER):
        return redirect("annotate")
    context = {"overview": overview(access.project), **access.under("overview")}
    template = "results/_overview.html" if request.htmx else "results/overview.html"
    return render(request, template, context)


class NewProject(forms.Form):
    name = forms.CharField(
        max_length=200,
        label="Name of the new project",
        help_text="For example “Vicuna 80”. Annotators see it, so don't name a model in it. "
        "You can change it later.",
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
            "deletions": deletions_of(request.user),
            "may_create": may_research(request.user),
        },
        status=422 if form.errors else 200,
    )


def _managed(request: HttpRequest) -> QuerySet[Project]:
    """Return the projects that this person manages, newest first, with counts of their content."""
    projects = projects_of(request.user)
    if not request.user.is_superuser:
        managing = [Role.OWNER, Role.RESEARCHER]
        projects = projects.filter(memberships__user=request.user, memberships__role__in=managing)
    of_project = {"project": OuterRef("pk")}
    runs = Run.objects.filter(**of_project)
    running = runs.filter(state__in=[Run.State.QUEUED, Run.State.RUNNING])
    return projects.annotate(
        n_examples=count_of(Example.objects.visible().filter(**of_project), "project"),
        n_runs=count_of(runs, "project"),
        n_running=count_of(running, "project"),
        n_rounds=count_of(Round.objects.filter(**of_project), "project"),
    ).order_by("-created_at")
