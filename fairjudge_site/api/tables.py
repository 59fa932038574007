"""Labels, votes, people and other tables: as whole streams, or page by page.

Votes, recorded judgments and scores come in here, and what was exported is listed.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query, Router, Schema
from pydantic import AfterValidator, Field

from annotation.models import Job
from annotation.results.delivery.jobs import import_asked, table_asked
from annotation.results.tables.exports import (
    BLIND_KINDS,
    CONTENT_TYPES,
    STREAMED,
    ExportRequest,
    export,
    role_for,
    rows_as_json,
)
from fairjudge_site.api.bodies import (
    Cursor,
    Limit,
    Page,
    decoded,
    encoded,
    file_in_schema,
    page_of,
    rows_in_schema,
    storable,
    stored_body,
)
from fairjudge_site.api.examples import OneText
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once, once_made
from fairjudge_site.api.jobs import (
    LARGE_BODY,
    JobOut,
    Prefer,
    ScoresOut,
    VotesOut,
    is_large,
    is_left,
    left,
)
from fairjudge_site.api.projects import address_of
from fairjudge_site.api.runs import RunNumber, RunOut, run_named, run_out
from judging.dataset.models import Frame
from judging.dataset.records import codes_of
from judging.dataset.subsets import Subset, freeze
from judging.dataset.uploads import share, stored_name
from judging.projects.access import Access
from judging.projects.models import Export, Role
from judging.runs.models import Run

router = Router(tags=["tables"])

What = Literal["labels", "votes", "samples", "preferences", "criteria", "people", "trail"]


class Filters(Schema):
    """Only rows that have these values. A table without such a column refuses it."""

    external_id: OneText = ""
    category: OneText = ""
    final_label: OneText = ""
    label: OneText = ""
    source: OneText = ""
    selection: OneText = ""
    annotator: OneText = ""
    status: OneText = ""

    def values(self) -> dict[str, str]:
        return {name: value for name, value in self.dict().items() if value}


Chosen = Annotated[Filters, Query()]


class ExportOut(Schema):
    """A file that was exported, also by a page or a command."""

    id: int
    what: str
    format: str
    run: int | None
    rows: int
    sha256: str
    by: str = Field(description="Empty for a command, and for a login that was deleted.")
    created_at: datetime


Where = Annotated[
    list[Annotated[str, Field(max_length=220), AfterValidator(storable)]] | None,
    Query(max_length=100, description="Only examples that fit, such as `category=math`."),
]


Names = Annotated[bool, Query(description="People's names, not pseudonyms.")]
Background = Annotated[
    bool, Query(description="`people`: add what those of a panel said about themselves.")
]
ModelOfVotes = Annotated[
    Literal["", "dawid_skene", "hierarchical"],
    Query(description="`labels`: probabilities by this model, if majorities are final."),
]


def _frame(access: Access, run: Run | None, where: list[str] | None) -> Frame | None:
    return freeze(access.project, Subset.chosen(where or ()), within=run.frame if run else None)


Labels = Annotated[
    str, Query(max_length=200, description="Such as 1=win,2=lose."), AfterValidator(storable)
]
Sheet = Annotated[
    str,
    Query(max_length=200, description="Of a workbook. Default: the first one."),
    AfterValidator(storable),
]
_STREAMS = {
    "responses": {
        200: {
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
                **{
                    CONTENT_TYPES[name]: {"schema": {"type": "string", "format": "binary"}}
                    for name in ("arrow", "xlsx", "dataset")
                },
            }
        }
    }
}


def _streamed(
    request: HttpRequest,
    slug: str,
    run: int | None,
    wanted: ExportRequest,
    where: list[str] | None,
    prefer: str = "",
) -> HttpResponse | StreamingHttpResponse:
    shows_judge = wanted.what not in BLIND_KINDS
    access = access_to(request, slug, role_for(wanted), shows_judge=shows_judge)
    chosen = run_named(access, run)
    wanted = replace(wanted, frame=_frame(access, chosen, where))
    # Formats of text begin at once, so only the others are worth a worker.
    if prefer and not request.is_head and wanted.format not in STREAMED:  # type: ignore[attr-defined]
        about = wanted.frame or (chosen.frame if chosen else None)
        if is_left(prefer, large=is_large(access.project, about.pk if about else None)):
            return left(access, Job.Kind.TABLE, table_asked(chosen, wanted), again=False)
    if request.is_head and wanted.format == "xlsx":  # type: ignore[attr-defined]
        # A workbook is written before its first piece. What refuses a table is found without it.
        export(access.project, chosen, access.user, replace(wanted, format="csv"))
        return StreamingHttpResponse((), content_type=CONTENT_TYPES["xlsx"])
    pieces = export(access.project, chosen, access.user, wanted)
    return StreamingHttpResponse(pieces, content_type=CONTENT_TYPES[wanted.format])


# Before the other formats, whose address has the same shape.
@router.get(
    "/projects/{slug}/{what}.parquet",
    auth=READ,
    response={200: None, 202: JobOut},
    openapi_extra=file_in_schema(CONTENT_TYPES["parquet"]),
)
def get_parquet(
    request: HttpRequest,
    slug: str,
    what: What,
    filters: Chosen,
    run: RunNumber = None,
    names: Names = False,
    where: Where = None,
    background: Background = False,
    model: ModelOfVotes = "",
    prefer: Prefer = "",
) -> HttpResponse | StreamingHttpResponse:
    """Stream a whole table as a Parquet file, with typed columns. The export goes on record."""
    wanted = ExportRequest(
        what=what, format="parquet", names=names, values=filters.values(),
        background=background and what == "people", model=model,
    )  # fmt: skip
    return _streamed(request, slug, run, wanted, where, prefer)


@router.get(
    "/projects/{slug}/{what}.{kind}",
    auth=READ,
    response={200: None, 202: JobOut},
    openapi_extra=_STREAMS,
)
def get_table(
    request: HttpRequest,
    slug: str,
    what: What,
    kind: Literal["csv", "jsonl", "arrow", "xlsx", "zip"],
    filters: Chosen,
    run: RunNumber = None,
    names: Names = False,
    escape: Annotated[bool, Query(description="Protect spreadsheets, in CSV.")] = True,
    where: Where = None,
    background: Background = False,
    model: ModelOfVotes = "",
    prefer: Prefer = "",
) -> HttpResponse | StreamingHttpResponse:
    """Stream a whole table; docs/files.md has its columns. Preferences are no CSV.

    `zip` holds the folder of a data set, as `datasets.load_dataset` opens it once it is unpacked.
    The export goes on record. All but votes and people show judge output or models' names.
    """
    file_format = "dataset" if kind == "zip" else kind
    wanted = ExportRequest(
        what=what, format=file_format, names=names, escape=escape, values=filters.values(),
        background=background and what == "people", model=model,
    )  # fmt: skip
    return _streamed(request, slug, run, wanted, where, prefer)


@router.get(
    "/projects/{slug}/for/{tool}.json",
    auth=READ,
    response={200: None},
    openapi_extra={
        "responses": {
            200: {"content": {CONTENT_TYPES["json"]: {"schema": {"type": "array", "items": {}}}}}
        }
    },
)
def get_tool_file(
    request: HttpRequest,
    slug: str,
    tool: Literal["label_studio", "argilla", "alpaca_eval"],
    run: RunNumber = None,
    where: Where = None,
) -> HttpResponse | StreamingHttpResponse:
    """Stream tasks for Label Studio or Argilla, or annotations for alpaca_eval, as one JSON array.

    The export goes on record.
    """
    return _streamed(request, slug, run, ExportRequest(what=tool), where)


@router.get("/projects/{slug}/tables/{what}", auth=READ, response=Page[dict[str, Any]])
def list_rows(
    request: HttpRequest,
    slug: str,
    what: What,
    filters: Chosen,
    run: RunNumber = None,
    names: bool = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Cursor = "",
    where: Where = None,
) -> dict[str, Any]:
    """Return a page of a table, with the keys that JSON lines have."""
    values = filters.values()
    wanted = ExportRequest(what=what, format="jsonl", names=names, values=values)
    access = access_to(request, slug, role_for(wanted), shows_judge=what not in BLIND_KINDS)
    chosen = run_named(access, run)
    wanted = replace(wanted, frame=_frame(access, chosen, where))
    start = decoded(cursor) or 0
    # One row more says whether another page follows.
    rows = rows_as_json(access.project, chosen, wanted, start, start + limit + 1)
    more = encoded(start + limit) if len(rows) > limit else None
    return {"items": rows[:limit], "next_cursor": more}


@router.get("/projects/{slug}/exports", auth=READ, response=Page[ExportOut])
def list_exports(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List what was exported, the oldest first."""
    access = access_to(request, slug, Role.OBSERVER)
    rows = access.project.exports.select_related("run", "created_by")
    return page_of(rows, cursor, limit, _export)


def _export(row: Export) -> dict[str, Any]:
    names = ("id", "what", "format", "sha256", "created_at")
    return {name: getattr(row, name) for name in names} | {
        "run": row.run.number if row.run else None,
        "rows": row.n_rows,
        "by": row.created_by.get_username() if row.created_by else "",
    }


@router.post(
    "/projects/{slug}/votes",
    auth=WRITE,
    response={201: VotesOut, 202: JobOut},
    openapi_extra=rows_in_schema("One vote a line; docs/files.md has the columns."),
)
def new_votes(
    request: HttpRequest,
    slug: str,
    annotator: Annotated[str, Query(max_length=200), AfterValidator(storable)] = "",
    protocol: Annotated[str, Query(max_length=120), AfterValidator(storable)] = "",
    labels: Labels = "",
    sheet: Sheet = "",
    prefer: Prefer = "",
) -> HttpResponse:
    """Import votes that were given elsewhere, as NDJSON or CSV: all of them or none."""
    asked = {"annotator": annotator, "protocol": protocol, "labels": labels, "sheet": sheet}

    def made(outcome: dict[str, Any], access: Access) -> HttpResponse:
        return answer(VotesOut(**outcome), 201)

    return _imported(request, slug, Job.Kind.VOTES, asked, made, prefer)


def _imported(
    request: HttpRequest,
    slug: str,
    kind: str,
    asked: dict[str, Any],
    made: Callable[[dict[str, Any], Access], HttpResponse],
    prefer: str,
) -> HttpResponse:
    """Import the rows of the body once, or leave them to a worker if the program prefers that."""
    access = access_to(request, slug, Role.RESEARCHER)
    # What is misspelt is refused before a worker is woken.
    codes_of(asked.get("labels", ""))
    with stored_body(request, kind) as (path, _, digest, kept):
        asked |= {"file": stored_name(path)}

        def leave() -> HttpResponse:
            # The worker may be on another machine.
            share([path])
            response = left(access, kind, asked)
            kept.append(True)
            return response

        def work(keep: Callable[[HttpResponse], None]) -> None:
            import_asked(
                access.project, access.user, kind, asked, lambda done: keep(made(done, access))
            )

        if is_left(prefer, large=path.stat().st_size > LARGE_BODY):
            try:
                return once(request, leave, body_digest=digest)
            except BaseException:
                # The transaction was rolled back, so no job needs the file.
                kept.clear()
                raise
        # Two that write the same judgments would make two runs.
        is_run = kind == Job.Kind.JUDGMENTS
        return once_made(request, work, body_digest=digest, alone=is_run)


@router.post(
    "/projects/{slug}/judgments",
    auth=WRITE,
    response={201: RunOut, 202: JobOut},
    openapi_extra=rows_in_schema("One recorded sample a line; docs/files.md has the columns."),
)
def new_judgments(
    request: HttpRequest,
    slug: str,
    name: Annotated[str, Query(max_length=200), AfterValidator(storable)] = "",
    labels: Labels = "",
    sheet: Sheet = "",
    prefer: Prefer = "",
) -> HttpResponse:
    """Make a run of judgments that were given elsewhere, as NDJSON or CSV. No judge is asked.

    After a crash in the middle, the run has failed. Send the same rows again under its name.
    """
    asked = {"name": name, "labels": labels, "sheet": sheet}

    def made(outcome: dict[str, Any], access: Access) -> HttpResponse:
        run = run_named(access, outcome["run"])
        assert run is not None
        where = address_of(slug, "runs", run.number)
        return answer(RunOut(**run_out(run)), 201, location=where)

    return _imported(request, slug, Job.Kind.JUDGMENTS, asked, made, prefer)


@router.post(
    "/projects/{slug}/scores",
    auth=WRITE,
    response={201: ScoresOut, 202: JobOut},
    openapi_extra=rows_in_schema("One score a line; docs/files.md has the columns."),
)
def new_scores(
    request: HttpRequest,
    slug: str,
    rater: Annotated[str, Query(max_length=200), AfterValidator(storable)] = "",
    sheet: Sheet = "",
    prefer: Prefer = "",
) -> HttpResponse:
    """Import people's scores of single responses, as NDJSON or CSV: all of them or none."""
    asked = {"rater": rater, "sheet": sheet}

    def made(outcome: dict[str, Any], access: Access) -> HttpResponse:
        return answer(ScoresOut(**outcome), 201)

    return _imported(request, slug, Job.Kind.SCORES, asked, made, prefer)
