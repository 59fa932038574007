"""Downloads of labels, votes and samples."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from annotation.results.exports import Wanted, export, file_name
from judging.access import project_for
from judging.errors import UserError
from judging.models import Role
from judging.runs.finding import find_run

CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


@require_POST
def download(request: HttpRequest, slug: str) -> HttpResponse | StreamingHttpResponse:
    """A POST, since each export goes on record. Labels and samples show the judge's output."""
    sent = request.POST
    what = sent.get("what", "labels")
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=what != "votes")
    project = access.project
    wanted = Wanted(
        what=what,
        format=sent.get("format", "csv"),
        names="names" in sent,
        escape="no_escape" not in sent,
    )
    try:
        run = find_run(project, sent["run"]) if sent.get("run") else project.primary_run
        pieces = export(project, run, request.user, wanted)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("results", project.slug)
    response = StreamingHttpResponse(pieces, content_type=CONTENT_TYPES[wanted.format])
    response["Content-Disposition"] = f'attachment; filename="{file_name(project, run, wanted)}"'
    return response
