"""A project at a glance: where it is on the way from import to export, and what to do next."""

from dataclasses import dataclass

from django.db.models import Count, Q
from django.urls import reverse

from annotation.models import Annotation, Item, Round, Slot
from annotation.results.costs import Costs, project_costs, run_totals
from annotation.results.names import set_apart
from annotation.results.report_cache import kept_for
from annotation.selecting import frame
from judging.figures import count
from judging.models.imports import Import
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.workers import Worker


@dataclass(frozen=True)
class Step:
    """One step of the flow. `state` is `done`, `now` or `later`; `action` what to do there."""

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


def overview(project: Project) -> Overview:
    """A constant number of queries, however large the project."""
    run = project.primary_run or project.runs.order_by("-number").first()
    people = kept_for(project, f"totals:{run.pk if run else 0}", lambda: run_totals(run))
    n = frame(project).count()
    points = 0 if n else project.point_items.visible().count()
    steps = (
        _scores(project, points) if points else _importing(project, n),
        _judging(project, run, n or points),
        _routing(project, run, n),
        _annotating(project),
        _merging(project, run, n, people.settled),
        _exporting(project, n),
    )
    return Overview(
        steps, project_costs(project, run, people), run, not Worker.objects.alive().exists()
    )


def _importing(project: Project, n: int) -> Step:
    busy = project.imports.filter(state__in=[Import.State.WRITING, Import.State.INTERRUPTED])
    state = "now" if busy.exists() or not n else "done"
    imports = reverse("imports", args=[project.slug])
    words = "examples" if n else "nothing imported yet"
    return Step("Import", state, count(n), words, imports, "Import pairs", imports)


def _scores(project: Project, n: int) -> Step:
    """Of a project that holds single responses alone."""
    page = reverse("scores", args=[project.slug])
    words = f"single response{'' if n == 1 else 's'}"
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
        n_rounds = rounds.count()
        words = f"items in {n_rounds} round{'' if n_rounds == 1 else 's'}"
        return Step("Route", "done", count(items), words, plan, "Plan another round", plan)
    ready = run is not None and run.state == Run.State.DONE and n
    action = "Plan a round" if n else ""
    return Step("Route", "now" if ready else "later", "0", "items selected", plan, action, plan)


def _annotating(project: Project) -> Step:
    rounds = reverse("rounds", args=[project.slug])
    routed = Slot.objects.filter(round__project=project, round__kind=Round.Kind.ROUTED)
    slots = routed.aggregate(
        asked=Count("pk"),
        given=Count("pk", filter=Q(vote__isnull=False)),
        closed=Count("pk", filter=Q(vote=None, round__state=Round.State.CLOSED)),
    )
    elsewhere = Annotation.objects.filter(
        item__round__project=project, source=Annotation.Source.IMPORT
    ).count()
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
        action = f"Decide {count(undecided)} item{'' if undecided == 1 else 's'}"
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
