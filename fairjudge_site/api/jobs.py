"""Jobs: what a program left to a worker instead of waiting for the answer.

Programs of earlier releases read the answer to their request, also if it takes long. So a worker
does it only for those that ask for it, as RFC 7240 says.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from ninja import Header, Router, Schema
from pydantic import Field

from annotation.models import Job
from annotation.results.delivery.jobs import (
    cancel_file,
    leave_to_worker,
    open_file,
    role_of,
    shows_judge,
)
from annotation.results.report.cache import MOST_AT_ONCE
from fairjudge_site.api.bodies import Cursor, Limit, Number, Page, file_in_schema, first_of, page_of
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once
from fairjudge_site.api.projects import address_of
from judging.core.models import Worker
from judging.dataset.models import n_judged
from judging.projects.access import Access
from judging.projects.models import Project, Role

router = Router(tags=["jobs"])

_ASYNC = "respond-async"
Prefer = Annotated[
    str,
    Header(
        alias="Prefer",
        description="`respond-async` leaves long work to a worker: the answer is then 202.",
    ),
]


class VotesOut(Schema):
    added: int
    known: int = Field(description="Votes that the project has already.")
    conflicts: list[str]
    annotators: list[str]
    protocol: str
    filled: int = Field(description="Votes for which open rounds were waiting.")


class ScoresOut(Schema):
    items: int = Field(description="New single responses.")
    added: int
    known: int
    conflicts: list[str]


class JobOut(Schema):
    """What was left to a worker. Poll it until `state` is no longer waiting."""

    id: int
    kind: str = Field(description="votes, judgments, scores, report, table or lesson.")
    state: str = Field(description="waiting, done, refused, or stopped if it was cancelled.")
    at_work: bool = Field(description="If a worker is at it now.")
    rows: int = Field(description="Of a report as ZIP or a table: how many rows are written.")
    reason: str = Field(description="Why it was refused, with the lines that are wrong.")
    created_at: datetime
    ended_at: datetime | None
    votes: VotesOut | None = Field(description="What an import of votes did.")
    scores: ScoresOut | None = Field(description="What an import of scores did.")
    run: int | None = Field(description="The run that recorded judgments became.")
    lesson: int | None = Field(description="The lesson whose rubric was drafted.")
    file: str | None = Field(description="Where a report or table is read, for a week.")


# In bytes: some thousand votes, which take about a second.
LARGE_BODY = 2**18


def is_large(project: Project, frame_id: int | None) -> bool:
    """Return True if figures or files about these examples take seconds."""
    return n_judged(project.pk, frame_id) > MOST_AT_ONCE


def is_left(prefer: str, *, large: bool) -> bool:
    """Return True if a worker does it: the program prefers that, and there is one."""
    asked = _ASYNC in [preference.strip().lower() for preference in prefer.split(",")]
    return asked and large and Worker.objects.take_long_work()


def accepted(made: Job, body: Schema, resource: str = "jobs") -> HttpResponse:
    """Return the 202 that leads to a job."""
    where = address_of(made.project.slug, resource, made.pk)
    return answer(body, 202, location=where, **{"Preference-Applied": _ASYNC})


def left(
    access: Access, kind: str, asked: Mapping[str, Any], *, again: bool = True
) -> HttpResponse:
    """Leave it to a worker."""
    made = leave_to_worker(access.project, access.user, kind, asked, again=again)
    return accepted(made, JobOut(**job_out(made)))


@router.get("/projects/{slug}/jobs", auth=READ, response=Page[JobOut])
def list_jobs(
    request: HttpRequest, slug: str, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List imports and files that were left to a worker, the oldest first.

    Observers see files only. Gates are in a list of their own.
    """
    access = access_to(request, slug, Role.OBSERVER)
    rows = _jobs(access)
    if not access.may_manage:
        rows = rows.exclude(kind__in=(*Job.IMPORTS, Job.Kind.LESSON))
    return page_of(rows, cursor, limit, job_out)


@router.get("/projects/{slug}/jobs/{number}", auth=READ, response=JobOut)
def get_job(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Say whether a worker has done it, and what came of it."""
    return job_out(_job(request, slug, number))


@router.get(
    "/projects/{slug}/jobs/{number}/file",
    auth=READ,
    response={200: None},
    openapi_extra=file_in_schema("application/octet-stream"),
)
def get_job_file(request: HttpRequest, slug: str, number: Number) -> FileResponse:
    """Return the report or table that a worker has written."""
    job = _job(request, slug, number)
    if job.kind not in Job.FILES:
        raise Http404("It has no file.")
    # What the file holds decides who may read it, and whether reading it unblinds.
    access_to(request, slug, role_of(job), shows_judge=shows_judge(job))
    return FileResponse(open_file(job), as_attachment=True, content_type="application/octet-stream")


@router.post("/projects/{slug}/jobs/{number}/cancel", auth=WRITE, response=JobOut)
def cancel_job(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Have no worker write a report or table any more. What was written of it is removed."""
    job = _job(request, slug, number)
    access = access_to(request, slug, role_of(job) if job.kind in Job.FILES else Role.RESEARCHER)

    def cancelled() -> HttpResponse:
        cancel_file(access, job)
        return answer(JobOut(**job_out(_job(request, slug, number))))

    return once(request, cancelled)


def _jobs(access: Access) -> QuerySet[Job]:
    return access.project.jobs.select_related("project").exclude(kind__in=Job.GATES)


def _job(request: HttpRequest, slug: str, number: int) -> Job:
    access = access_to(request, slug, Role.OBSERVER)
    job = first_of(_jobs(access).filter(pk=number), "job")
    # Observers see files, and nothing of imports and lessons.
    if job.kind in (*Job.IMPORTS, Job.Kind.LESSON):
        access_to(request, slug, Role.RESEARCHER)
    return job


def standing_of(job: Job) -> dict[str, Any]:
    """Return what every job says of itself, whatever it was for."""
    names = ("id", "kind", "state", "reason", "created_at", "ended_at")
    return {name: getattr(job, name) for name in names} | {"at_work": bool(job.holder)}


def job_out(job: Job) -> dict[str, Any]:
    done = job.result or {}
    has_file = "file" in done
    return standing_of(job) | {
        "rows": job.n_done,
        "votes": job.result if job.kind == Job.Kind.VOTES else None,
        "scores": job.result if job.kind == Job.Kind.SCORES else None,
        "run": done.get("run"),
        "lesson": done.get("lesson"),
        "file": address_of(job.project.slug, "jobs", job.pk, "file") if has_file else None,
    }
