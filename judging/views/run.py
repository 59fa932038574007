"""One run's page, live while it runs and the judge's page afterwards, and what is done there."""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRefresh

from judging.access import Access, project_for
from judging.errors import UserError
from judging.forms.resuming import BudgetForm, ResumeForm
from judging.models.projects import Role
from judging.models.runs import Form, Run
from judging.runs import rereading, states
from judging.runs.judge_report import report_on
from judging.runs.points_shown import shown_points
from judging.runs.portia.calls import stage_calls
from judging.runs.primary import choose_primary
from judging.runs.progress import Progress, progress_of
from judging.runs.usual import BY_LOGPROBS
from judging.views.bars import drawn
from judging.views.runs import MAY_NOT_START

BETA = Decimal(20)


def run_for(request: HttpRequest, slug: str, number: int) -> tuple[Access, Run]:
    """The run, on pages that show what the judge said."""
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    run = get_object_or_404(
        Run.objects.select_related("created_by"), project=access.project, number=number
    )
    return access, run


@require_GET
def run(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, found = run_for(request, slug, number)
    return run_page(request, access, found)


@require_GET
def run_progress(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """The part of the page that changes; the whole page once the run has ended."""
    access, found = run_for(request, slug, number)
    progress = progress_of(found)
    if progress.finished:
        asked_by_page = request.htmx  # type: ignore[attr-defined]
        return HttpResponseClientRefresh() if asked_by_page else redirect("run", slug, number)
    context = {"project": access.project, "run": found, **shown(found, progress)}
    return render(request, "judging/runs/_detail_progress.html", context)


@require_POST
def run_pause(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, found = run_for(request, slug, number)
    states.pause(found, user=access.user)
    return redirect("run", slug, number)


@require_POST
def run_cancel(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, found = run_for(request, slug, number)
    states.cancel(found, access.user)
    return redirect("run", slug, number)


@require_POST
def run_resume(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, found = run_for(request, slug, number)
    form = ResumeForm(found, progress_of(found).statuses, request.POST)
    if not form.is_valid():
        return run_page(request, access, found, resume_form=form, status=422)
    return spend(request, access, found, lambda: states.resume(found, access.user, **form.asked))


@require_POST
def run_budget(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, found = run_for(request, slug, number)
    form = BudgetForm(found, request.POST)
    if not form.is_valid():
        return run_page(request, access, found, budget_form=form, status=422)
    return spend(
        request,
        access,
        found,
        lambda: states.raise_budget(found, form.cleaned_data["budget"], access.user),
    )


@require_http_methods(["GET", "POST"])
def run_reparse(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Have the stored replies read again, which costs nothing; and the part that says how far."""
    access, found = run_for(request, slug, number)
    if request.method == "POST":
        try:
            rereading.begin(found, access.user)
        except UserError as error:
            return refused(request, access, found, error)
        return redirect("run", slug, number)
    reading = rereading.rereading_of(found)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("run", slug, number)
    if reading is None or not reading.under_way:
        return HttpResponseClientRefresh()
    context = {"project": access.project, "run": found, "reading": reading}
    return render(request, "judging/runs/_detail_rereading.html", context)


@require_POST
def run_primary(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, found = run_for(request, slug, number)
    try:
        choose_primary(found, access.user)
    except UserError as error:
        return refused(request, access, found, error)
    messages.success(request, f"{found.name} is the primary run now.")
    return redirect("run", slug, number)


def spend(
    request: HttpRequest, access: Access, found: Run, change: Callable[[], object]
) -> HttpResponse:
    """Do what may cost, for somebody who may."""
    if not access.may_start_runs:
        raise PermissionDenied(MAY_NOT_START)
    try:
        change()
    except UserError as error:
        return refused(request, access, found, error)
    return redirect("run", access.project.slug, found.number)


def refused(request: HttpRequest, access: Access, found: Run, error: UserError) -> HttpResponse:
    messages.error(request, str(error))
    return run_page(request, access, found, status=422)


def run_page(
    request: HttpRequest,
    access: Access,
    found: Run,
    *,
    resume_form: ResumeForm | None = None,
    budget_form: BudgetForm | None = None,
    status: int = 200,
) -> HttpResponse:
    progress = progress_of(found)
    of_points = found.form == Form.POINTWISE
    report = report_on(found, beta_of(request)) if found.ranked_at and progress.finished else None
    context = {
        **access.under("runs"),
        "run": found,
        **shown(found, progress),
        "report": report,
        "stages": stage_calls(found) if report and found.stages else (),
        "points": shown_points(found) if of_points and progress.finished else None,
        "bars": drawn(report.spread.bars) if report else (),
        "is_primary": access.project.primary_run_id == found.pk,
        "resume_form": resume_form or ResumeForm(found, progress.statuses),
        "all_valid": progress.statuses.get("valid", 0) >= progress.expected,
        "budget_form": budget_form or BudgetForm(found),
        "reading": rereading.rereading_of(found),
    }
    return render(request, "judging/runs/detail.html", context, status=status)


def shown(found: Run, progress: Progress) -> dict[str, Any]:
    """What the fragment of the progress takes."""
    orders = progress.by_order.items()
    return {
        "progress": progress,
        "orders": [(part, counts, in_words(counts.failures)) for part, counts in orders],
        "statuses": in_words(progress.statuses),
        # Such a judge answers with one token.
        "writes_evidence": found.form not in BY_LOGPROBS,
    }


def in_words(statuses: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(name.replace("_", " "), n) for name, n in statuses.items()]


def beta_of(request: HttpRequest) -> Decimal:
    """The share to route to people that the plot shows; whatever is no percentage is the usual."""
    try:
        beta = Decimal(request.GET.get("beta", ""))
    except InvalidOperation:
        return BETA
    return beta if beta.is_finite() and 0 <= beta <= 100 else BETA
