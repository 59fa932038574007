"""Downloads of tables and of the whole report."""

from pathlib import Path
from tempfile import TemporaryDirectory

from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from annotation.results.delivery import deliver
from annotation.results.exports import Wanted, export, file_name
from judging.access import project_for
from judging.errors import UserError
from judging.models.projects import Role
from judging.models.runs import Form, Run
from judging.runs.finding import find_run

CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


@require_POST
def download(request: HttpRequest, slug: str) -> HttpResponse | StreamingHttpResponse:
    """A POST, since each export goes on record. Of a run, all but votes show the judge's output."""
    sent = request.POST
    what = sent.get("what", "labels")
    project = project_for(request.user, slug, Role.RESEARCHER).project
    wanted = Wanted(
        what=what,
        format=sent.get("format", "csv"),
        names="names" in sent,
        escape="no_escape" not in sent,
    )
    try:
        run = find_run(project, sent["run"]) if sent.get("run") else project.primary_run
        pieces = export(project, run, request.user, wanted)
        if run is not None and what != "votes":
            project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("results", project.slug)
    response = StreamingHttpResponse(pieces, content_type=CONTENT_TYPES[wanted.format])
    response["Content-Disposition"] = f'attachment; filename="{file_name(project, run, wanted)}"'
    return response


@require_POST
def report_file(request: HttpRequest, slug: str, kind: str) -> HttpResponse | FileResponse:
    """The report of a run as one page, or as a ZIP that can be verified."""
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    project = access.project
    try:
        run = find_run(project, request.POST.get("run", "latest"))
        if run.ranked_at is None:
            raise UserError(_why_no_report(run))
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{project.slug}-run{run.number}-report.{kind}"
            deliver(project, run, request.user, path)
            # Opened before the folder goes: the file lives until it is sent.
            return FileResponse(path.open("rb"), as_attachment=True, filename=path.name)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("results", project.slug)


def _why_no_report(run: Run) -> str:
    if run.form == Form.POINTWISE:
        return f"{run.name} scored single responses. Its figures stand on its own page."
    return f"{run.name} is not ranked yet. Wait until it is done, or pause it."
