"""One run's page: live while it runs, the judge's page afterwards, and the actions on it.

The figures of single responses are computed once for each state of the data: thousands of resamples
of each correlation take seconds for a thousand items, and minutes for ten thousand, for which a
page does not wait.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Max, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRefresh

from judging.core.caching import cached
from judging.core.errors import UserError
from judging.dataset.models import HumanScore, PointItem
from judging.methods.intervals.estimates import Undefined, to_json
from judging.projects.access import Access, project_for, version_of
from judging.projects.models import Role
from judging.runs import lifecycle
from judging.runs.endpoints import LOCAL
from judging.runs.engine import rereading
from judging.runs.engine.progress import RunProgress, progress_of
from judging.runs.forms.likelihood import PointwiseReport, ShotsComparison, pointwise_report
from judging.runs.forms.point_shots import whole_report
from judging.runs.forms.portia import stage_calls
from judging.runs.lifecycle import RETRIABLE, choose_primary
from judging.runs.models import BY_LOGPROBS, Form, Parse, Run
from judging.runs.pages.runs import MAY_NOT_START
from judging.runs.pages.start_form import MOST_TOKENS, dollars, plainly, whole
from judging.runs.verdicts.judge_figures import Bar, awaits_worker, report_on


class BudgetForm(forms.Form):
    budget = dollars("Budget, USD", required=True)

    def __init__(self, run: Run, data: Any = None) -> None:
        super().__init__(data, initial={"budget": plainly(run.budget_usd)})


class ResumeForm(forms.Form):
    """Samples with errors are always repeated, other statuses only if a person chooses them."""

    retry = forms.MultipleChoiceField(
        label="Repeat samples with this status", required=False, widget=forms.CheckboxSelectMultiple
    )
    max_tokens = whole(
        "Max tokens per sample", MOST_TOKENS, "Applies to calls that are still to be sent."
    )
    budget = dollars("Budget, USD")

    def __init__(self, run: Run, statuses: Mapping[str, int], data: Any = None) -> None:
        super().__init__(data, initial={"budget": plainly(run.budget_usd)})
        self.fields["retry"].choices = [
            (status, f"{status.replace('_', ' ')}: {n}")
            for status, n in statuses.items()
            if status in RETRIABLE - {Parse.Status.ERROR}
        ]
        # The local judge costs nothing, so it needs no budget.
        self.priced = run.price is not None and run.endpoint != LOCAL

    def shown_fields(self) -> list[forms.BoundField]:
        shown = {"retry": bool(self.fields["retry"].choices), "budget": self.priced}
        return [field for field in self if shown.get(field.name, True)]

    @property
    def asked(self) -> dict[str, Any]:
        """Return the arguments of `resume`."""
        return {
            "retry": {Parse.Status.ERROR, *self.cleaned_data["retry"]},
            "max_tokens": self.cleaned_data["max_tokens"],
            "budget": self.cleaned_data["budget"] if self.priced else None,
        }


HEIGHT, TOP = 150, 18
GAP = 0.15


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """A bar of the plot: x values in percent of its width, y values in pixels.

    The selected part is at the bottom.
    """

    bar: Bar
    x: float
    width: float
    middle: float
    y: float
    height: float
    selected_y: float
    selected_height: float

    @property
    def label_y(self) -> float:
        return self.y - 4


def drawn(bars: Sequence[Bar]) -> list[DrawnBar]:
    step = 100 / len(bars)
    scale = HEIGHT / max(1, *(bar.n for bar in bars))
    bottom = TOP + HEIGHT
    return [
        DrawnBar(
            bar,
            x=round(step * (place + GAP / 2), 3),
            width=round(step * (1 - GAP), 3),
            middle=round(step * (place + 0.5), 3),
            y=round(bottom - bar.n * scale, 2),
            height=round(bar.n * scale, 2),
            selected_y=round(bottom - bar.selected * scale, 2),
            selected_height=round(bar.selected * scale, 2),
        )
        for place, bar in enumerate(bars)
    ]


MOST_ON_PAGE = 2_000
TOO_MANY = (
    "above {} items the correlations take minutes; get them with manage.py report {} --run {} "
    "--json"
)


def shown_points(run: Run) -> PointwiseReport:
    """Return `whole_report`; with many items a reason instead of what takes long."""
    items = PointItem.objects.filter(project=run.project_id).visible().count()
    if items > MOST_ON_PAGE:
        reason = TOO_MANY.format(f"{MOST_ON_PAGE:,}", run.project.slug, run.number)
        return pointwise_report(run, without_bias=Undefined(reason))
    return cached("points", run, state_of(run), lambda: whole_report(run))


def scatters(report: PointwiseReport) -> Iterator[dict[str, Any]]:
    """Yield a plot of LS and US for each criterion: before and after where two runs are compared,
    else of this run alone (Ohi et al., Figures 3 and 2)."""
    if isinstance(report.likelihood, Undefined):
        return
    compared = report.comparison
    changed = compared.criteria if isinstance(compared, ShotsComparison) else {}
    for number, (name, bias) in enumerate(report.likelihood.items()):
        points = changed[name].points if name in changed else bias.points
        if points:
            yield scatter_plot(f"scatter-{number}", name, to_json(points))


def scatter_plot(name: str, criterion: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    def axis(field: str, title: str) -> dict[str, Any]:
        kept = {"scale": {"zero": False}, "axis": {"tickCount": 6}}
        return {"field": field, "type": "quantitative", "title": title} | kept

    colour = {"field": "when", "type": "nominal", "title": None}
    colour["scale"] = {"domain": ["before", "after"]}
    point = {
        "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.6},
        "encoding": {
            "x": axis("likelihood", "likelihood score (LS)"),
            "y": axis("unfairness", "unfairness score (US)"),
            "tooltip": [{"field": field} for field in rows[0]],
        }
        | ({"color": colour} if "when" in rows[0] else {}),
    }
    even = {
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--quiet)"},
        "encoding": {"y": {"datum": 0}},
    }
    size = {"width": "container", "height": 280, "data": {"values": rows}}
    return {
        "name": name,
        "title": f"Likelihood and unfairness, {criterion}",
        "caption": "Each point is a response. On the line, the judge agrees with people; a slope "
        "means likelihood bias.",
        "spec": size | {"layer": [even, point]},
        "table": rows,
        "columns": list(rows[0]),
    }


def state_of(run: Run) -> str:
    """Return a hash that changes with every reply, score and likelihood, and with the runs."""
    scores = HumanScore.objects.filter(point_item__project=run.project_id)
    state = [
        run.name,
        run.parameters,
        list(run.project.runs.order_by("pk").values_list("pk", "name", "state", "finished_at")),
        # The newest key and the number tell every change, since readings are added and never
        # edited.
        size(Parse.objects.filter(sample__call__run__project=run.project_id, current=True)),
        size(scores) | scores.aggregate(total=Sum("value")),
        size(run.project.likelihoods.all()),
    ]
    return hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()


def size(rows: QuerySet) -> dict[str, object]:
    return rows.aggregate(n=Count("pk"), last=Max("pk"))


BETA = Decimal(20)


def run_for(
    request: HttpRequest, slug: str, number: int, role: Role = Role.RESEARCHER
) -> tuple[Access, Run]:
    """Return the run, for pages that show what the judge said.

    A change shows nothing of it, so that somebody who is blind to the judge can pause its run.
    """
    shows_judge = request.method in ("GET", "HEAD")
    access = project_for(request.user, slug, role, shows_judge=shows_judge)
    run = get_object_or_404(
        Run.objects.select_related("created_by"), project=access.project, number=number
    )
    return access, run


@require_GET
def run(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show the run. `?here` computes the figures of a large run while somebody waits."""
    access, judge_run = run_for(request, slug, number, Role.OBSERVER)
    if "here" not in request.GET and awaits_worker(judge_run):
        context = {**access.under("runs"), "run": judge_run}
        return render(request, "judging/runs/awaited.html", context)
    return run_page(request, access, judge_run)


@require_GET
def run_progress(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Render the part of the page that changes; reload the page once the run has ended."""
    access, judge_run = run_for(request, slug, number, Role.OBSERVER)
    if awaits_worker(judge_run):
        return HttpResponse(status=204)
    progress = progress_of(judge_run)
    if progress.finished:
        # The whole page changes when a run ends, so htmx is told to load it again.
        asked_by_page = request.htmx  # type: ignore[attr-defined]
        return HttpResponseClientRefresh() if asked_by_page else redirect("run", slug, number)
    context = {"project": access.project, "run": judge_run, **shown(judge_run, progress)}
    return render(request, "judging/runs/_detail_progress.html", context)


@require_POST
def run_pause(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, judge_run = run_for(request, slug, number)
    lifecycle.pause(judge_run, user=access.user)
    return redirect("run", slug, number)


@require_POST
def run_cancel(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, judge_run = run_for(request, slug, number)
    lifecycle.cancel(judge_run, access.user)
    return redirect("run", slug, number)


@require_POST
def run_resume(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, judge_run = run_for(request, slug, number)
    form = ResumeForm(judge_run, progress_of(judge_run).statuses, request.POST)
    if not form.is_valid():
        return run_page(request, access, judge_run, resume_form=form, status=422)
    return spend(
        request, access, judge_run, lambda: lifecycle.resume(judge_run, access.user, **form.asked)
    )


@require_POST
def run_budget(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, judge_run = run_for(request, slug, number)
    form = BudgetForm(judge_run, request.POST)
    if not form.is_valid():
        return run_page(request, access, judge_run, budget_form=form, status=422)
    return spend(
        request,
        access,
        judge_run,
        lambda: lifecycle.raise_budget(
            judge_run,
            form.cleaned_data["budget"],
            access.user,
            made_for=request.POST.get("made_for"),
        ),
    )


@require_http_methods(["GET", "POST"])
def run_reparse(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Have the stored replies read again, stop that, or render how far it is. It costs nothing."""
    access, judge_run = run_for(request, slug, number)
    if request.method == "POST":
        try:
            change = rereading.stop if "stop" in request.POST else rereading.begin
            change(judge_run, access.user)
        except UserError as error:
            return refused(request, access, judge_run, error)
        return redirect("run", slug, number)
    reading = rereading.rereading_of(judge_run)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("run", slug, number)
    if reading is None or not reading.under_way:
        return HttpResponseClientRefresh()
    context = {"project": access.project, "run": judge_run, "reading": reading}
    return render(request, "judging/runs/_detail_rereading.html", context)


@require_POST
def run_primary(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, judge_run = run_for(request, slug, number)
    try:
        choose_primary(judge_run, access.user, made_for=request.POST.get("made_for"))
    except UserError as error:
        return refused(request, access, judge_run, error)
    messages.success(request, f"{judge_run.name} is the primary run now.")
    return redirect("run", slug, number)


def spend(
    request: HttpRequest, access: Access, judge_run: Run, change: Callable[[], object]
) -> HttpResponse:
    """Make a change that may cost money, if the user may start runs."""
    if not access.may_start_runs:
        raise PermissionDenied(MAY_NOT_START)
    try:
        change()
    except UserError as error:
        return refused(request, access, judge_run, error)
    return redirect("run", access.project.slug, judge_run.number)


def refused(request: HttpRequest, access: Access, judge_run: Run, error: UserError) -> HttpResponse:
    messages.error(request, str(error))
    return run_page(request, access, judge_run, status=422)


def run_page(
    request: HttpRequest,
    access: Access,
    judge_run: Run,
    *,
    resume_form: ResumeForm | None = None,
    budget_form: BudgetForm | None = None,
    status: int = 200,
) -> HttpResponse:
    # Also comes back after a change that was refused.
    project_for(request.user, access.project.slug, Role.OBSERVER, shows_judge=True)
    progress = progress_of(judge_run)
    of_points = judge_run.form == Form.POINTWISE
    report = (
        report_on(judge_run, beta_of(request))
        if judge_run.ranked_at and progress.finished
        else None
    )
    points = shown_points(judge_run) if of_points and progress.finished else None
    context = {
        **access.under("runs"),
        "run": judge_run,
        **shown(judge_run, progress),
        "report": report,
        "stages": stage_calls(judge_run) if report and judge_run.stages else (),
        "points": points,
        "scatters": list(scatters(points)) if points else [],
        "bars": drawn(report.spread.bars) if report else (),
        "is_primary": access.project.primary_run_id == judge_run.pk,
        "resume_form": resume_form or ResumeForm(judge_run, progress.statuses),
        "n_readable": progress.statuses.get("valid", 0),
        # A run that was stopped may have more to ask than is sure yet, such as PORTIA's next stage.
        "all_valid": judge_run.state == Run.State.DONE
        and 0 < progress.expected <= progress.statuses.get("valid", 0),
        "budget_form": budget_form or BudgetForm(judge_run),
        "budget_version": version_of(judge_run.budget_usd),
        "reading": rereading.rereading_of(judge_run),
        # A run that is done may still lack verdicts, but going on with it is no longer its point.
        "stopped_early": progress.finished and judge_run.state != Run.State.DONE,
        "form_failed": resume_form is not None or budget_form is not None,
    }
    return render(request, "judging/runs/detail.html", context, status=status)


def shown(judge_run: Run, progress: RunProgress) -> dict[str, Any]:
    """Return the context of the progress fragment."""
    orders = progress.by_order.items()
    return {
        "progress": progress,
        "orders": [(part, counts, in_words(counts.failures)) for part, counts in orders],
        "statuses": in_words(progress.statuses),
        # A judge of these forms answers with one token.
        "writes_evidence": judge_run.form not in BY_LOGPROBS,
    }


def in_words(statuses: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(name.replace("_", " "), n) for name, n in statuses.items()]


def beta_of(request: HttpRequest) -> Decimal:
    """Return the share to review that the plot shows; the default unless it is a percentage."""
    try:
        beta = Decimal(request.GET.get("beta", ""))
    except InvalidOperation:
        return BETA
    # The address may hold anything, and a wrong share is no reason to refuse the page.
    return beta if beta.is_finite() and 0 <= beta <= 100 else BETA
