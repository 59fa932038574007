"""Labels, votes, samples and preferences: whole tables as streams, or page by page; votes in."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query, Router, Schema
from pydantic import AfterValidator, Field

from annotation.results.tables.exports import ExportRequest, export, rows_as_json
from annotation.votes.imports import import_votes
from fairjudge_site.api.bodies import rows_in_schema, stored_body
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once_made
from fairjudge_site.api.paging import Cursor, Page, decoded, encoded, storable
from fairjudge_site.api.runs import RunNumber, run_named
from judging.dataset.models import Frame
from judging.dataset.records import codes_of
from judging.dataset.subsets import Subset, freeze
from judging.projects.access import Access
from judging.projects.models import Role
from judging.runs.models import Run

router = Router(tags=["tables"])

_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


Where = Annotated[
    list[Annotated[str, Field(max_length=220), AfterValidator(storable)]] | None,
    Query(max_length=100, description="Only examples that fit, such as `category=math`."),
]


def _frame(access: Access, run: Run | None, where: list[str] | None) -> Frame | None:
    return freeze(access.project, Subset.chosen(where or ()), within=run.frame if run else None)


class VotesOut(Schema):
    added: int
    known: int = Field(description="Votes that the project has already.")
    conflicts: list[str]
    annotators: list[str]
    protocol: str
    filled: int = Field(description="Votes for which open rounds were waiting.")


_STREAMS = {
    "responses": {
        200: {
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            }
        }
    }
}


@router.get(
    "/projects/{slug}/{what}.{kind}", auth=READ, response={200: None}, openapi_extra=_STREAMS
)
def get_table(
    request: HttpRequest,
    slug: str,
    what: Literal["labels", "votes", "samples", "preferences"],
    kind: Literal["csv", "jsonl"],
    run: RunNumber = None,
    names: Annotated[bool, Query(description="People's names, not pseudonyms.")] = False,
    escape: Annotated[bool, Query(description="Protect spreadsheets, in CSV.")] = True,
    where: Where = None,
) -> StreamingHttpResponse:
    """Stream a whole table; docs/files.md has its columns. Preferences are always JSON lines.

    The export goes on record. All but votes show judge output or the names of models.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=what != "votes")
    chosen = run_named(access, run)
    frame = _frame(access, chosen, where)
    wanted = ExportRequest(what=what, format=kind, names=names, escape=escape, frame=frame)
    pieces = export(access.project, chosen, access.user, wanted)
    return StreamingHttpResponse(pieces, content_type=_TYPES[wanted.format])


@router.get("/projects/{slug}/tables/{what}", auth=READ, response=Page[dict[str, Any]])
def list_rows(
    request: HttpRequest,
    slug: str,
    what: Literal["labels", "votes", "samples", "preferences"],
    run: RunNumber = None,
    names: bool = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Cursor = "",
    where: Where = None,
) -> dict[str, Any]:
    """Return a page of a table, with the keys that JSON lines have."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=what != "votes")
    chosen = run_named(access, run)
    frame = _frame(access, chosen, where)
    wanted = ExportRequest(what=what, format="jsonl", names=names, frame=frame)
    start = decoded(cursor) or 0
    rows = rows_as_json(access.project, chosen, wanted, start, start + limit + 1)
    more = encoded(start + limit) if len(rows) > limit else None
    return {"items": rows[:limit], "next_cursor": more}


@router.post(
    "/projects/{slug}/votes",
    auth=WRITE,
    response={201: VotesOut},
    openapi_extra=rows_in_schema("One vote a line; docs/files.md has the columns."),
)
def new_votes(
    request: HttpRequest,
    slug: str,
    annotator: Annotated[str, Query(max_length=200), AfterValidator(storable)] = "",
    protocol: Annotated[str, Query(max_length=120), AfterValidator(storable)] = "",
    labels: Annotated[
        str,
        Query(max_length=200, description="Such as 1=win,2=lose."),
        AfterValidator(storable),
    ] = "",
) -> HttpResponse:
    """Import votes that were given elsewhere, as NDJSON or CSV: all of them or none."""
    access = access_to(request, slug, Role.RESEARCHER)
    with stored_body(request, "votes") as (path, file_format, digest, _):

        def work(keep: Any) -> None:
            done = import_votes(
                access.project,
                access.user,
                path,
                file_format=file_format,
                annotator=annotator,
                protocol=protocol or None,
                labels=codes_of(labels),
            )
            names = VotesOut.model_fields
            keep(answer(VotesOut(**{name: getattr(done, name) for name in names}), 201))

        return once_made(request, work, body_digest=digest)
