"""The first page with your projects and open work, and a project's overview with its next step.

`standings` counts what waits in a project. `next_action` and `steps` read only these counts, so
that the list of projects and a project's own page can't differ in what is to be done.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractUser
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery, Sum
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone, translation
from django.views.decorators.http import require_http_methods, require_safe

from annotation.deletion import deletions_of
from annotation.models import CrowdLink, Item, Round, Slot, Vote
from annotation.people.teams import new_project
from annotation.queue.drafts import use_language
from annotation.results.data.runs import (
    Costs,
    drafts_cost,
    judge_cost,
    project_costs,
    run_totals,
    with_drafts,
)
from annotation.results.data.sheet import LABELS
from annotation.results.report.cache import (
    MOST_AT_ONCE,
    kept_agreements,
    kept_disagreements,
    kept_for,
    kept_people,
    ready_report,
    shown_report,
)
from annotation.results.report.page import overview_context, who_wins_alone
from annotation.results.report.report import Report
from annotation.rounds.progress import WAITS_FOR_VOTES, say_undecided, say_waiting, votes_usd
from annotation.screen.progress import open_work
from judging.core import languages
from judging.core.caching import kept_a_while
from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.core.models import Worker, count_of
from judging.core.processes import parts_down
from judging.dataset.models import Example, Import, PointItem, number_judged
from judging.methods.intervals.estimates import Figure
from judging.projects.access import (
    Access,
    language_of_projects,
    may_research,
    owned_by,
    project_for,
    projects_of,
)
from judging.projects.models import Export, Membership, Project, Role
from judging.runs.models import Run, run_to_show

DATA, JUDGE, REVIEW, RESULTS = "Data", "Judge", "Review", "Results"
STOPPED = (Run.State.PAUSED, Run.State.FAILED)
UNFINISHED = (Import.State.WRITING, Import.State.INTERRUPTED)


@dataclass(frozen=True)
class Action:
    """What is to be done next. step: the step it belongs to; label: of its button."""

    step: str
    text: str
    label: str
    url: str


@dataclass(frozen=True)
class Step:
    """A step from data to results.

    Attributes:
        state: `done`, `now` or `later`.
        figure: How far it is.
        url: Where it is done, or "" if this person's role doesn't include that page.
    """

    name: str
    state: str
    figure: str
    url: str


def standings(projects: QuerySet[Project]) -> QuerySet[Project]:
    """Annotate what is in each project and what waits, in subqueries that don't multiply."""
    of_project = {"project": OuterRef("pk")}
    in_round = {"round__project": OuterRef("pk"), "round__kind": Round.Kind.ROUTED}
    runs = Run.objects.filter(**of_project)
    newest = runs.order_by("-number")
    active = newest.at_work()
    rounds = Round.objects.filter(**of_project, kind=Round.Kind.ROUTED)
    items = Item.objects.filter(**in_round)
    undecided = items.filter(state=Item.State.ADJUDICATE)
    waiting = items.filter(WAITS_FOR_VOTES)
    closed = Q(state=Item.State.OPEN, round__state=Round.State.CLOSED)
    settled = items.filter(Q(state=Item.State.COMPLETE) | closed)
    unfinished = Import.objects.filter(**of_project, state__in=UNFINISHED)
    checked = Import.objects.filter(
        **of_project, kind=Import.Kind.EXAMPLES, state=Import.State.CHECKED
    )
    votes = Vote.objects.filter(example__project=OuterRef("pk"))
    voters = Membership.objects.filter(**of_project).exclude(role=Role.OBSERVER)
    return projects.annotate(
        n_examples=number_judged(),
        n_points=count_of(PointItem.objects.visible().filter(**of_project), "project"),
        is_importing=Exists(unfinished),
        checked_import=Subquery(checked.order_by("-number").values("number")[:1]),
        n_runs=count_of(runs, "project"),
        n_running=count_of(runs.at_work(), "project"),
        active_run=Subquery(active.values("number")[:1]),
        active_state=Subquery(active.values("state")[:1]),
        newest_run=Subquery(newest.values("number")[:1]),
        newest_state=Subquery(newest.values("state")[:1]),
        is_ranked=Exists(runs.filter(ranked_at__isnull=False)),
        n_rounds=count_of(rounds, "project"),
        n_items=count_of(items, "round__project"),
        n_settled=count_of(settled, "round__project"),
        n_undecided=count_of(undecided, "round__project"),
        undecided_round=_first_round(undecided),
        n_waiting=count_of(waiting, "round__project"),
        waiting_round=_first_round(waiting),
        n_voters=count_of(voters, "project"),
        has_panel=Exists(CrowdLink.objects.filter(**in_round, withdrawn_at=None)),
        has_votes=Exists(votes),
        n_exports=count_of(Export.objects.filter(**of_project), "project"),
    )


def _first_round(items: QuerySet[Item]) -> Subquery:
    return Subquery(items.order_by("round__number").values("round__number")[:1])


def next_action(project: Any) -> Action:
    """Return what is to be done next in a project that `standings` counted.

    What only a person can do comes before what FairJudge does by itself.
    """

    def at(step: str, text: str, label: str, page: str, *of: object) -> Action:
        return Action(step, text, label, reverse(page, args=[project.slug, *of]))

    n = project.n_undecided
    # Until its pairs are all there, no other step has anything to work on.
    if project.is_importing:
        text = "An import is unfinished. Its pairs count once it is finished."
        return at(DATA, text, "See the imports", "imports")
    if not project.n_examples and not project.n_points:
        if project.checked_import:
            text = "A file was checked. Nothing is imported yet."
            return at(DATA, text, "See the check", "import_detail", project.checked_import)
        text = "Import pairs of responses to begin."
        return at(DATA, text, "Import pairs", "imports")
    if n:
        text, label = f"{say_undecided(n)}.", f"Decide {count(n)}"
        return at(REVIEW, text, label, "adjudication", project.undecided_round)
    if project.newest_state in STOPPED:
        text = f"Run {project.newest_run} is {Run.State(project.newest_state).label}."
        return at(JUDGE, text, "See the run", "run", project.newest_run)
    if project.n_waiting:
        text = f"{say_waiting(project.n_waiting)}."
        return at(REVIEW, text, "See the round", "round", project.waiting_round)
    if not project.n_runs:
        text = "No judge has labelled these pairs yet."
        if not project.n_examples:
            text = f"No judge has scored {number_of(project.n_points, 'single response')} yet."
        return at(JUDGE, text, "Start a judge", "run_start")
    if project.n_running:
        state = Run.State(project.active_state).label
        text = f"Run {project.active_run} is {state}. You don't need to do anything."
        return at(JUDGE, text, "See its progress", "run", project.active_run)
    if not project.is_ranked:
        text = f"Run {project.newest_run} has no results."
        return at(JUDGE, text, "See the run", "run", project.newest_run)
    if not project.n_rounds and project.n_examples and not project.has_votes:
        text = "Judging has ended. Nobody has checked the judge's labels yet."
        return at(REVIEW, text, "Plan a review", "plan")
    text = "The results were exported." if project.n_exports else "The results are ready."
    return at(RESULTS, f"Nothing is left to do. {text}", "See the results", "results")


def action_for(role: Role, project: Any, action: Action) -> Action:
    """Return what somebody with this role can do next, where `action` is what is to be done."""
    if role == Role.REVIEWER:
        n = project.n_undecided
        if not n:
            url = reverse("rounds", args=[project.slug])
            return Action(REVIEW, "Nothing waits for a decision.", "See the rounds", url)
        url = reverse("adjudication", args=[project.slug, project.undecided_round])
        return Action(REVIEW, f"{say_undecided(n)}.", f"Decide {count(n)}", url)
    if role == Role.OBSERVER:
        return replace(action, label="See the results", url=reverse("results", args=[project.slug]))
    in_round = action.step == REVIEW and project.n_waiting and not project.n_undecided
    # A panel comes by a link of its own, so members alone don't tell who can vote.
    if role == Role.OWNER and in_round and project.n_voters < 2 and not project.has_panel:
        text = f"{action.text} Only one person can vote."
        return Action(REVIEW, text, "Invite annotators", reverse("people", args=[project.slug]))
    return action


def steps(project: Any, action: Action, role: Role) -> list[Step]:
    """A step is done when nothing in it waits. The current one is the one whose action is open."""
    closed = {Role.REVIEWER: (DATA, JUDGE, RESULTS), Role.OBSERVER: (REVIEW,)}.get(role, ())
    # A project of single responses has no pairs, and its data step is done by its scores.
    held = project.n_examples or project.n_points
    done = {
        DATA: held and not project.is_importing,
        JUDGE: project.is_ranked and not project.n_running and project.newest_state not in STOPPED,
        REVIEW: project.n_items and not project.n_waiting and not project.n_undecided,
        RESULTS: project.n_exports,
    }
    figures = {
        DATA: count(held) if held else "",
        JUDGE: number_of(project.n_runs, "run") if project.n_runs else "",
        REVIEW: f"{count(project.n_settled)}/{count(project.n_items)}" if project.n_items else "",
        RESULTS: number_of(project.n_exports, "export") if project.n_exports else "",
    }
    data = "examples" if project.n_examples or not project.n_points else "scores"
    pages = {DATA: data, JUDGE: "runs", REVIEW: "rounds", RESULTS: "results"}
    return [
        Step(
            name,
            "now" if name == action.step else "done" if done[name] else "later",
            figures[name],
            "" if name in closed else reverse(page, args=[project.slug]),
        )
        for name, page in pages.items()
    ]


@dataclass(frozen=True)
class Overview:
    action: Action
    steps: list[Step]
    costs: Costs
    run: Run | None
    has_votes: bool
    worker_missing: bool
    parts_down: dict[str, str]


def overview(access: Access) -> Overview:
    """Collect the steps and costs, in a constant number of queries for any size of project."""
    project = access.project
    run = run_to_show(project)
    standing = standings(Project.objects.filter(pk=project.pk)).get()
    # All votes are read for this. While people vote on a large project, it may be a minute old.
    name, make = f"totals:{run.pk if run else 0}", lambda: run_totals(project, run)
    if standing.n_examples > MOST_AT_ONCE:
        people = kept_a_while(f"recent-{name}", project, "", make, is_large=True)
    else:
        people = kept_for(project, name, make)
    action = next_action(standing)
    missing = not Worker.objects.alive().exists()
    down = parts_down(settings.FAIRJUDGE_DATA)
    costs = project_costs(project, run, people)
    done = steps(standing, action, access.role)
    action = action_for(access.role, standing, action)
    return Overview(action, done, costs, run, standing.has_votes, missing, down)


@require_safe
def project(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug)
    if not access.may_read:
        return redirect("rounds", slug) if access.may_review else redirect("annotate")
    shown = overview(access)
    context = {"overview": shown, **access.under("overview")}
    # While something is at work, the page asks for this part again and keeps the figures.
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "results/_overview.html", context)
    run = shown.run
    if run is not None and run.ranked_at is not None:
        # Who has seen nothing of the judge is not shown it by a page that merely opens.
        context["may_see"] = access.has_seen_judge
        # Only a report that is there already. The page itself loads another one as a fragment.
        report = ready_report(access.project, run) if access.has_seen_judge else None
        if report is not None:
            context |= _figures(run, report)
    else:
        context["may_see"] = shown.has_votes
    return render(request, "results/overview.html", context)


@require_safe
def project_figures(request: HttpRequest, slug: str) -> HttpResponse:
    """Who wins, how far to trust it, and where people disagree. It takes a while the first time."""
    access = project_for(request.user, slug, Role.OBSERVER)
    project = access.project
    run = run_to_show(project)
    context = {**access.under("overview"), "run": run}
    if run is not None and run.ranked_at is not None:
        project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
        report = shown_report(project, run).report
        context |= {"may_see": True} | (_figures(run, report) if report else {})
    elif alone := kept_people(project):
        context |= {"may_see": True, "people_alone": alone} | who_wins_alone(project, alone)
    return render(request, "results/_figures.html", context)


def _figures(run: Run, report: Report) -> dict[str, Any]:
    apart = kept_disagreements(run)
    first = {pair.example: pair for pair in apart.first} if apart else {}
    # Without the texts, which may be long and aren't shown here.
    examples = Example.objects.filter(pk__in=first).only(
        "external_id", "number", "model_1", "model_2", "project"
    )
    rows = [
        (example, LABELS[first[example.pk].judge], LABELS[first[example.pk].human])
        for example in sorted(examples, key=lambda example: list(first).index(example.pk))
    ]
    return overview_context(run, report) | {"apart": apart, "disagreements": rows}


@dataclass(frozen=True)
class Facts:
    """How one project of the first page is doing.

    at_work: people who have a pair in hand. pace: mean active seconds per vote.
    recent: votes in the last 24 hours.
    agreement: of two people, from the newest report that is kept.
    human_usd, judge_usd: spent so far; None if the judge's price is not known, or not shown.
    """

    at_work: int
    n_votes: int
    recent: int
    pace: float | None
    agreement: Figure | None
    human_usd: Decimal
    judge_usd: Decimal | None


def facts_of(projects: list[Project], roles: Mapping[int, Role]) -> dict[int, Facts]:
    """Return the facts by project, in at most five queries for any number of projects.

    A reviewer is told nothing about the judge. Agreement is people's alone, so it unblinds nobody.
    """
    now, keys = timezone.now(), [row.pk for row in projects]
    routed = {"item__round__project__in": keys, "item__round__kind": Round.Kind.ROUTED}
    # Votes that were put aside were paid all the same.
    counted = Vote.every.filter(**routed).order_by().values("item__round")
    recent = Count("pk", filter=Q(submitted_at__gte=now - timedelta(days=1)))
    votes = {
        row["item__round"]: row
        for row in counted.annotate(
            n=Count("pk"), timed=Count("active_seconds"), seconds=Sum("active_seconds"), day=recent
        )
    }
    hands = Slot.objects.filter(round__project__in=keys, vote=None, lease_until__gte=now)
    hands = hands.exclude(annotator=None).order_by()
    # Distinct, because one person may hold pairs of several rounds.
    at_work = Counter(pk for pk, _ in hands.values_list("round__project", "annotator").distinct())
    rounds: dict[int, list[Round]] = defaultdict(list)
    for round_ in Round.objects.filter(pk__in=votes):
        rounds[round_.project_id].append(round_)
    runs: dict[int, list[Run]] = defaultdict(list)
    of_runs = with_drafts(Run.objects.filter(project__in=keys).order_by("-number"))
    for run in of_runs.only("project", "created_at", "spent_usd", "price"):
        runs[run.project_id].append(run)

    def shown(project: Project) -> Run | None:
        primary = [run for run in runs[project.pk] if run.pk == project.primary_run_id]
        return next(iter(primary or runs[project.pk]), None)

    # Only reports that are kept: this page computes none.
    agreements = kept_agreements({project: shown(project) for project in projects})

    def of(project: Project) -> Facts:
        here = [(round_, votes[round_.pk]) for round_ in rounds[project.pk]]
        seconds = sum(row["seconds"] or 0.0 for _, row in here)
        timed = sum(row["timed"] for _, row in here)
        ours = runs[project.pk]
        spent = [cost for run in ours for cost in (judge_cost(run), drafts_cost(run))]
        unknown = None in spent or roles[project.pk] == Role.REVIEWER
        paid = (
            votes_usd(round_, row["n"], row["n"] - row["timed"], row["seconds"] or 0.0)
            for round_, row in here
        )
        return Facts(
            at_work=at_work[project.pk],
            n_votes=sum(row["n"] for _, row in here),
            recent=sum(row["day"] for _, row in here),
            pace=seconds / timed if timed else None,
            agreement=agreements[project],
            human_usd=sum(paid, Decimal(0)),
            judge_usd=None if unknown else sum(filter(None, spent), Decimal(0)),
        )

    return {project.pk: of(project) for project in projects}


class NewProject(forms.Form):
    name = forms.CharField(
        max_length=200,
        label="Name of the new project",
        help_text="For example “Vicuna 80”. Annotators see it, so don't name a model in it. "
        "You can change it later.",
    )
    like = forms.ChoiceField(
        label="Copy the settings of",
        required=False,
        help_text="Copies its question, guidelines, scale and all other settings.",
    )
    people = forms.BooleanField(
        label="Also add its people",
        required=False,
        help_text="Each person gets the role they have there.",
    )

    def __init__(self, user: AbstractUser, data: QueryDict | None = None) -> None:
        super().__init__(data)
        owned = owned_by(user).order_by("name", "slug")
        named = [(row.slug, f"{row.name} ({row.slug})") for row in owned]
        self.fields["like"].choices = [("", "none: default settings"), *named]
        if not named:
            # There is nothing yet whose settings could be copied.
            del self.fields["like"], self.fields["people"]

    def clean(self) -> None:
        if self.cleaned_data.get("people") and not self.cleaned_data.get("like"):
            self.add_error("like", "Choose the project whose people you want to add.")

    def create(self, user: AbstractUser) -> Project:
        asked = self.cleaned_data
        like, people = asked.get("like", ""), asked.get("people", False)
        return new_project(user, asked["name"], like=like, people=people)


@require_http_methods(["GET", "POST"])
def home(request: HttpRequest) -> HttpResponse:
    form = NewProject(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            project = form.create(request.user)
        except UserError as error:
            form.add_error("name", str(error))
        else:
            messages.success(request, "The project was created. Import pairs to begin.")
            return redirect("project", project.slug)
    projects = list(standings(_managed(request)).order_by("-created_at"))
    roles = dict(Membership.objects.filter(user=request.user).values_list("project", "role"))
    mine = [Role(roles.get(row.pk, Role.OWNER)) for row in projects]
    actions = [next_action(row) for row in projects]
    facts = facts_of(projects, {row.pk: role for row, role in zip(projects, mine, strict=True)})
    deletions = list(deletions_of(request.user))
    if projects or deletions or may_research(request.user):
        # A page about projects is in English. Somebody who only labels has no project on it.
        translation.activate(languages.ENGLISH)
    else:
        use_language(request.user, language_of_projects(request.user))
    work = open_work(request.user)
    return render(
        request,
        "results/home.html",
        {
            "form": form,
            "projects": projects,
            "rows": [
                (row, action_for(role, row, action), steps(row, action, role), facts[row.pk])
                for row, action, role in zip(projects, actions, mine, strict=True)
            ],
            "work": work,
            "has_work": work and not work[0].is_over,
            "has_teams": Role.OWNER in mine,
            "deletions": deletions,
            "may_create": may_research(request.user),
        },
        status=422 if form.errors else 200,
    )


def _managed(request: HttpRequest) -> QuerySet[Project]:
    """Return the projects in which this person does more than label."""
    projects = projects_of(request.user)
    if not request.user.is_superuser:
        mine = Membership.objects.filter(user=request.user).exclude(role=Role.ANNOTATOR)
        # Annotators find their work below, and see none of these pages.
        projects = projects.filter(pk__in=mine.values("project"))
    return projects
