"""The results of a run: the report, its plots, the downloads, and two fragments of other pages.

One fragment is the pace of annotators on the page of people. The other says how many items the
run's rounds would select differently now: a better parser changes verdicts and ranks, and items
stay selected by their old rank until you decide otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from annotation.models import Item, Job, Round, Selection
from annotation.results.data.figures import NEEDS_CONVERTER, Sentence, as_png, as_svg, can_draw
from annotation.results.data.runs import project_costs, run_totals
from annotation.results.delivery.jobs import (
    cancel_file,
    export_asked,
    files_of,
    is_left,
    leave_to_worker,
    open_file,
    role_of,
    shows_judge,
    table_asked,
)
from annotation.results.delivery.package import open_report
from annotation.results.report.cache import Shown, kept_for, kept_people, shown_report
from annotation.results.report.page import citation, page_context, parts_of, who_wins_alone
from annotation.results.report.report import CHAPTERS, plots
from annotation.results.sections.people import answer as people_answer
from annotation.results.sections.people import by_person, pace_plot, times_of
from annotation.results.tables.exports import (
    BLIND_KINDS,
    CONTENT_TYPES,
    FORMATS,
    KINDS,
    ExportRequest,
    export,
    file_name,
    role_for,
)
from annotation.rounds.changes import COVERS
from judging.core.errors import UserError
from judging.dataset.models import frame_of, has_examples
from judging.methods.intervals.estimates import Undefined
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import Form, Method, Run, Verdict, find_run, run_to_show


@dataclass(frozen=True)
class Reselection:
    """A round whose ranks changed: `differ` of its `m` items are no longer among the first m."""

    round: Round
    m: int
    differ: int


def reselections(run: Run) -> list[Reselection]:
    """Return the rounds whose selection would differ now. It takes a few queries per round."""
    if run.ranked_at is None:
        return []
    # A round that learns selects by a score of its own, which new ranks don't change.
    rounds = Round.objects.filter(
        run=run, kind=Round.Kind.ROUTED, stage=Round.Stage.ONLY, opened_at__lt=run.ranked_at
    ).exclude(paper_mode=True)
    compared = [_compare(run, round_) for round_ in rounds.order_by("number")]
    return [comparison for comparison in compared if comparison.differ]


def _compare(run: Run, round_: Round) -> Reselection:
    top = Selection.objects.filter(round=round_, kind=Selection.Kind.TOP)
    covered = [pk for selection in top for pk in selection.parameters.get(COVERS, ())]
    items = Item.objects.filter(Q(selection__in=top) | Q(pk__in=covered))
    m = items.count()
    ranked = Verdict.objects.filter(
        run=run, rank__isnull=False, example__in=frame_of(run.project, round_.frame_id)
    )
    # Ranks also count examples outside of the frame, so the m-th one in it may be larger than m.
    last = list(ranked.order_by("rank").values_list("rank", flat=True)[max(m - 1, 0) : max(m, 1)])
    if not m or not last:
        return Reselection(round_, m, m)
    within = Verdict.objects.filter(run=run, rank__lte=last[0]).values("example")
    return Reselection(round_, m, items.exclude(example__in=within).count())


@require_safe
def reselection(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show counts only, so that it unblinds nobody; nothing if no selection differs."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    run = get_object_or_404(Run, project=access.project, number=number)
    context = {"project": access.project, "run": run, "changed": reselections(run)}
    return render(request, "results/_reselection.html", context)


@require_safe
def pace(request: HttpRequest, slug: str) -> HttpResponse:
    """Show how fast annotators vote. No judge output is in it, so that it unblinds nobody."""
    access = project_for(request.user, slug, Role.OBSERVER)
    times = times_of(access.project)
    people = [] if isinstance(times, Undefined) else by_person(times)
    context = {"report": {"pace": people}, "project": access.project}
    if people:
        context["plot"] = pace_plot(people)
    return render(request, "results/_people_pace.html", context)


@require_POST
def download(request: HttpRequest, slug: str) -> HttpResponse | StreamingHttpResponse:
    """Send an export, by POST since it is recorded. All but votes and people unblind."""
    sent = request.POST
    what = sent.get("what", "labels")
    wanted = ExportRequest(
        what=what,
        format=sent.get("format", "csv"),
        names="names" in sent,
        escape="no_escape" not in sent,
        background="background" in sent and what == "people",
        model=sent.get("model", ""),
    )
    project = project_for(request.user, slug, role_for(wanted)).project
    try:
        run = find_run(project, sent["run"]) if sent.get("run") else project.primary_run
        # Labels of people alone name the models next to their responses. The question comes before
        # the export, which goes on record.
        if what not in BLIND_KINDS:
            project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
        if is_left(project, run, wanted.format):
            asked = table_asked(run, wanted)
            return _left(request, project, Job.Kind.TABLE, asked)
        pieces = export(project, run, request.user, wanted)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("results_page", project.slug, EXPORT)
    response = StreamingHttpResponse(pieces, content_type=CONTENT_TYPES[wanted.format])
    response["Content-Disposition"] = f'attachment; filename="{file_name(project, run, wanted)}"'
    return response


@require_POST
def report_file(request: HttpRequest, slug: str, kind: str) -> HttpResponse | FileResponse:
    """Send the report of a run as one page, or as a ZIP that can be verified."""
    access = project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
    project = access.project
    try:
        run = find_run(project, request.POST.get("run", "latest"))
        if run.ranked_at is not None and is_left(project, run, kind):
            return _left(request, project, Job.Kind.REPORT, {"run": run.number, "kind": kind})
        return FileResponse(open_report(project, run, request.user, kind), as_attachment=True)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("results_page", project.slug, EXPORT)


def _left(
    request: HttpRequest, project: Project, kind: str, asked: Mapping[str, Any]
) -> HttpResponse:
    leave_to_worker(project, request.user, kind, asked, again=False)
    messages.success(request, "A worker writes the file. It will be in the list below.")
    return redirect(reverse("results_page", args=[project.slug, EXPORT]) + "#files")


def _job_for(request: HttpRequest, slug: str, number: int) -> tuple[Access, Job]:
    access = project_for(request.user, slug, Role.OBSERVER)
    job = get_object_or_404(files_of(access.project), pk=number)
    return project_for(request.user, slug, role_of(job)), job


@require_safe
def made_file(request: HttpRequest, slug: str, number: int) -> HttpResponse | FileResponse:
    """Send a report or table that a worker has written."""
    _, job = _job_for(request, slug, number)
    project_for(request.user, slug, Role.OBSERVER, shows_judge=shows_judge(job))
    try:
        return FileResponse(open_file(job), as_attachment=True)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("results_page", slug, EXPORT)


@require_POST
def cancel_made_file(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Have no worker write it any more."""
    access, job = _job_for(request, slug, number)
    try:
        cancel_file(access, job)
        messages.success(request, "Cancelled. Nothing of the file is kept.")
    except UserError as error:
        messages.error(request, str(error))
    return redirect("results_page", slug, EXPORT)


_EXPORTS_SHOWN = 20
_PICTURES = {"svg": "image/svg+xml", "png": "image/png"}


EXPORT = "export"
_TITLES = {chapter.name: chapter.title for chapter in CHAPTERS} | {EXPORT: "Export"}


@dataclass(frozen=True)
class RailPage:
    """A link of the rail. places: the anchors of the one long page of old that are on this one."""

    name: str
    title: str
    url: str
    places: str


@require_safe
def results(request: HttpRequest, slug: str) -> HttpResponse:
    """Lead the old address to the first page. Nothing of a judge is shown here."""
    project_for(request.user, slug, Role.OBSERVER)
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    return redirect(f"{reverse('results_page', args=[slug, CHAPTERS[0].name])}{query}")


@require_safe
def results_page(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """Until a run is ranked, no judge output is shown, so that viewing the page unblinds nobody."""
    access = project_for(request.user, slug, Role.OBSERVER)
    project = access.project
    if name not in _TITLES:
        raise Http404
    methods = _runs_of_methods(project)
    run = chosen_run(request, access)
    if name in _METHODS and not (run and run in methods.get(name, ())):
        run = next(iter(methods.get(name, ())), None)
        if run is None:
            raise Http404
    context = {
        **access.under("results"),
        "runs": project.runs.order_by("-number"),
        "run": run,
        "chapter": name,
        "title": _TITLES[name],
        "rail": _rail(request, project, run, methods),
    }
    if name == EXPORT:
        context |= _exporting(access)
    elif run is not None and run.ranked_at is not None:
        # Not before: this puts on record that the person has seen the judge.
        project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
        shown = shown_report(project, run, here="here" in request.GET)
        # The part that waits asks for itself. Once the report is there, the whole page is new.
        if request.htmx and not shown.renewing:  # type: ignore[attr-defined]
            return HttpResponseClientRefresh()
        context |= _figures(run, shown, name)
    else:
        context |= _without_report(project, run, name)
    return render(request, "results/results.html", context)


_METHODS = tuple(chapter.name for chapter in CHAPTERS if chapter.method)


def _runs_of_methods(project: Project) -> dict[str, list[Run]]:
    """Return the ranked runs that each page of a method can be about, the newest first."""
    ranked = list(project.runs.filter(ranked_at__isnull=False).order_by("-number"))
    context = {
        "portia": [run for run in ranked if run.method == Method.PORTIA],
        "calibration": [run for run in ranked if run.form == Form.CHOICE],
        "likelihood": ranked if project.likelihoods.exists() else [],
    }
    return {name: runs for name, runs in context.items() if runs}


def _rail(
    request: HttpRequest, project: Project, run: Run | None, methods: dict[str, list[Run]]
) -> list[RailPage]:
    pages = []
    for chapter in CHAPTERS:
        theirs = run
        if chapter.method:
            runs = methods.get(chapter.name)
            if runs is None:
                continue
            # A method's page is about a run of that method, also if another run is chosen.
            theirs = run if run in runs else runs[0]
        names_run = theirs and (chapter.method or "run" in request.GET)
        asked = f"?run={theirs.number}" if names_run else ""
        places = " ".join((chapter.name, *(section.place for section in chapter.sections)))
        url = reverse("results_page", args=[project.slug, chapter.name])
        pages.append(RailPage(chapter.name, chapter.title, f"{url}{asked}", places))
    asked = f"?run={run.number}" if run and "run" in request.GET else ""
    url = reverse("results_page", args=[project.slug, EXPORT])
    # Export comes after the pages that every run has, and before those of methods.
    seven = len([page for page in pages if page.name not in _METHODS])
    return [*pages[:seven], RailPage(EXPORT, "Export", f"{url}{asked}", EXPORT), *pages[seven:]]


def _exporting(access: Access) -> dict[str, Any]:
    project = access.project
    made = project.exports.select_related("run", "created_by").order_by("-pk")
    left = files_of(project)[:_EXPORTS_SHOWN]
    files = [job for job in left if access.includes(role_of(job))]
    text = "Download the labels, votes and samples as tables, or the whole report as one file."
    return {
        "answer": Sentence(text, EXPORT),
        "exports": made[:_EXPORTS_SHOWN],
        "files": [
            (job, export_asked(job.asked) if job.kind == Job.Kind.TABLE else None) for job in files
        ],
        "files_wait": any(job.state == Job.State.WAITING for job in files),
        "kinds": [kind for kind in KINDS if access.includes(role_for(ExportRequest(kind)))],
        "formats": FORMATS,
    }


def _figures(run: Run, shown: Shown, name: str) -> dict[str, Any]:
    """Return the chapter for the template, as far as the report is computed."""
    context = {"renewing": shown.renewing, "shown": shown}
    if shown.report is None:
        return context | {"answer": Sentence("The figures are not there yet.", name)}
    chapter = next(known for known in CHAPTERS if known.name == name)
    lead, *more = parts_of(chapter, shown.report)
    context |= page_context(run, shown.report) | {
        "answer": chapter.answer(shown.report),
        "lead": lead,
        "more": more,
        "can_draw": can_draw(),
        "needs_converter": NEEDS_CONVERTER,
    }
    if context["no_people"]:
        context["rounds"] = run.rounds.exists()
    if name == CHAPTERS[0].name:
        context["citation"] = citation(shown.report)
    return context


def _without_report(project: Project, run: Run | None, name: str) -> dict[str, Any]:
    """Say why there are no figures of a judge, with what people say alone."""
    if run is not None and run.form == Form.POINTWISE:
        url = reverse("run", args=[project.slug, run.number])
        text = "This run scored single responses. Its results are on the run's own page."
        return {"answer": Sentence(text, name), "action": {"url": url, "label": "See the run"}}
    alone = kept_people(project)
    context: dict[str, Any] = {"report": alone, "alone": alone is not None}
    if run is not None:
        waits = run.why_unranked
    else:
        page, label, waits = "run_start", "Start a run", "No judge has run yet."
        if not has_examples(project) and not project.point_items.exists():
            page, label, waits = "imports", "Import pairs", "This project has no pairs yet."
        waits += " Results compare a judge with people."
        context["action"] = {"url": reverse(page, args=[project.slug]), "label": label}
    # Only these two pages have figures that need no judge.
    if alone is None or name not in ("verdict", "people"):
        return context | {"answer": Sentence(waits, name), "report": None, "alone": False}
    people = kept_for(project, f"totals:{run.pk if run else 0}", lambda: run_totals(project, run))
    context["costs"] = project_costs(project, run, people)
    text = who_wins_alone(project, alone)
    if name == "people":
        return context | text | {"answer": people_answer(alone.people)}
    answer = Sentence(f"{text['answer'].text} {waits}", name)
    return context | text | {"answer": answer}


@require_safe
def plot(request: HttpRequest, slug: str, name: str, kind: str) -> HttpResponse:
    """Send one plot as a file for a paper."""
    access = project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
    run = chosen_run(request, access)
    report = shown_report(access.project, run).report if run and run.ranked_at else None
    chosen = next((row for row in plots(report) if row.name == name), None) if report else None
    if chosen is None:
        raise Http404
    # The request is right, and this server lacks an optional package: hence 501.
    if not can_draw():
        return HttpResponse(f"{NEEDS_CONVERTER}\n", content_type="text/plain", status=501)
    drawn = as_svg(chosen).encode() if kind == "svg" else as_png(chosen)
    response = HttpResponse(drawn, content_type=_PICTURES[kind])
    file = f"{access.project.slug}-run{run.number}-{name}.{kind}"
    response["Content-Disposition"] = f'attachment; filename="{file}"'
    return response


def chosen_run(request: HttpRequest, access: Access) -> Run | None:
    """Return the run in the address, else the primary one, else the newest."""
    project = access.project
    try:
        return find_run(project, request.GET["run"])
    except (KeyError, UserError):
        return run_to_show(project)
