"""Examples: pages of them, and many at once by their ids, written by a worker."""

import pathlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Path, Query, Router, Schema
from pydantic import AfterValidator, Field

from annotation.rounds.practice import change_check
from fairjudge_site.api.bodies import (
    Cursor,
    Limit,
    Number,
    Page,
    SubsetIn,
    Text,
    file_in_schema,
    first_of,
    page_of,
    rows_in_schema,
    storable,
    stored_body,
)
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once, once_made
from fairjudge_site.api.problems import FieldError, Refusal
from fairjudge_site.api.projects import address_of
from judging.core.conversations import unpacked
from judging.core.errors import UserError
from judging.dataset import writing
from judging.dataset.models import Example, Import, TagChange, tags_of_examples
from judging.dataset.reading import one_mapping
from judging.dataset.records import CONVERSATION, Place, codes_of
from judging.dataset.scores import undo_scores
from judging.dataset.subsets import change_tag, condition_of, undo_tag
from judging.dataset.uploads import FirstPass, first_pass, record_checked, refused_files_of
from judging.dataset.wide import LARGEST_SEED, PairDesign
from judging.projects.access import Access
from judging.projects.models import Role
from judging.runs.planning.estimate import price_of_pairs

router = Router(tags=["examples"])


class ExampleOut(Schema):
    external_id: str
    question: str
    response_1: str
    response_2: str
    model_1: str
    model_2: str
    category: str
    reference: str
    gold_label: str | None
    is_check: bool
    check_for: str = Field(description="training, qualification, or empty: an attention check.")
    explanation: str = Field(description="What people read after they practised on it.")
    tags: list[str]
    fairjudge_conversation: dict[str, list[dict[str, Any]]] | None = Field(
        description="The lists of messages behind the texts, by field; null if all are plain texts."
    )


class ImportOut(Schema):
    """An import. Its rows are seen once all of them are written: then `state` is `done`."""

    number: int
    kind: str = Field(description="examples, points (scores), judgments or votes.")
    state: str = Field(description="checked, writing, interrupted, done, undone or failed.")
    rows: int
    written: int = Field(description="New examples.")
    known: int = Field(description="Rows that the project has already, with the same content.")
    conflicts: int = Field(description="Ids that it has with other content, which stays.")
    refused: int = Field(description="Invalid rows, left out by `skip_invalid`.")
    conflicting: list[str]
    reason: str
    created_at: datetime
    refused_files: list[str] = Field(
        default_factory=list, description="Files of refused rows, unchanged."
    )


class BeginIn(Schema):
    skip_invalid: bool = False
    hide_models: bool = Field(
        False, description="Hide models' names from annotators from now on. For owners alone."
    )


class PairsOut(Schema):
    """What an import would add, and what a judge would need for it. Nothing is written."""

    rows: int = Field(description="Pairs that can be imported.")
    new: int
    known: int
    conflicts: int
    questions: int | None = Field(description="Of rows with several responses; else null.")
    models: list[str] = Field(description="Models of such rows.")
    design: str
    calls: int | None = Field(description="Null if no run says it.")
    usd: Decimal | None
    basis: str
    columns: dict[str, str] | None = Field(
        None, description="Which column each field is read from."
    )
    file_columns: list[str] = Field(
        default_factory=list, description="All columns, of which `columns` maps others."
    )


OneText = Annotated[str, Query(max_length=200), AfterValidator(storable)]


class RowOptions(Schema):
    """How the rows of a body are read."""

    skip_invalid: bool = False
    design: Annotated[str, AfterValidator(storable)] = Field(
        "", max_length=220, description="all, baseline=MODEL, random=2 or blocks=2."
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Of the design.")
    sheet: Annotated[str, AfterValidator(storable)] = Field(
        "", max_length=200, description="Of a workbook. Default: the first one."
    )
    columns: list[Annotated[str, Field(max_length=300), AfterValidator(storable)]] = Field(
        default_factory=list,
        max_length=100,
        description="How columns are read, such as prompt=question. Default: by their names.",
    )
    labels: Annotated[str, AfterValidator(storable)] = Field(
        "", max_length=200, description="What codes of gold labels mean, such as 1=win,2=lose."
    )


ReadAs = Annotated[RowOptions, Query()]


@router.get("/projects/{slug}/examples", auth=READ, response=Page[ExampleOut])
def list_examples(
    request: HttpRequest,
    slug: str,
    limit: Limit = 100,
    cursor: Cursor = "",
    external_id: OneText = "",
    category: OneText = "",
    model: OneText = "",
    label: Annotated[str, Query(pattern="^(|win|tie|lose|none)$")] = "",
    tag: OneText = "",
) -> dict[str, Any]:
    """List examples in import order. Filter by id, category, tag, either model, or gold label.

    It shows which model wrote which response, so that your later votes are marked as unblinded.
    """
    access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    rows = Example.objects.filter(project=access.project).visible()
    if external_id:
        rows = rows.filter(external_id=external_id)
    for name, value in (("category", category), ("tag", tag), ("model", model)):
        if value:
            rows = rows.filter(condition_of(name, [value]))
    if label:
        rows = rows.filter(gold_label=None if label == "none" else label)
    page = page_of(rows, cursor, limit, lambda row: row, by="number")
    tags = tags_of_examples([row.pk for row in page["items"]])
    names = [name for name in ExampleOut.model_fields if hasattr(Example, name) and name != "tags"]
    page["items"] = [
        {name: getattr(row, name) for name in names}
        | {"tags": tags.get(row.pk, [])}
        | {CONVERSATION: unpacked(row.conversation) if row.conversation else None}
        for row in page["items"]
    ]
    return page


class TagIn(SubsetIn):
    """A tag for the examples that are chosen; for all of them if none are."""

    tag: Annotated[Text, Field(min_length=1, max_length=200)]
    add: bool = Field(True, description="false takes the tag away.")


class TagChangeOut(Schema):
    change: int | None = Field(description="To undo it; null if nothing changed.")
    tag: str
    added: bool
    examples: int = Field(description="How many examples changed.")


@router.post("/projects/{slug}/tags", auth=WRITE, response={201: TagChangeOut})
def tag_examples(request: HttpRequest, slug: str, body: TagIn) -> HttpResponse:
    """Give a tag to examples, or take it from them. Attention checks are left out."""
    access = access_to(request, slug, Role.RESEARCHER)

    def work() -> HttpResponse:
        keys = body.subset().members(access.project)
        change = change_tag(access.project, access.user, body.tag, keys, added=body.add)
        n = len(change.examples) if change else 0
        done = {"change": change.pk if change else None, "tag": body.tag, "added": body.add}
        return answer(TagChangeOut(**done, examples=n), 201)

    return once(request, work)


class CheckIn(Schema):
    external_id: Annotated[Text, Field(min_length=1, max_length=200)]
    check_for: Literal["", "training", "qualification"] = Field(
        "", description="Empty for an attention check."
    )
    gold_label: Literal["win", "tie", "lose"] = Field(description="The known label, of response 1.")
    explanation: Text = Field(
        "", max_length=20_000, description="What people read after they answered it in training."
    )


class CheckOut(CheckIn):
    pass


@router.post("/projects/{slug}/checks", auth=WRITE, response=CheckOut)
def change_known_label(request: HttpRequest, slug: str, body: CheckIn) -> HttpResponse:
    """Change what a check is for, its known label, and its explanation.

    Once a round has the check, only its explanation changes: answers were judged by the rest.
    """
    access = access_to(request, slug, Role.RESEARCHER)
    rows = Example.objects.filter(project=access.project).visible()
    example = first_of(rows.filter(external_id=body.external_id), "example")

    def work() -> HttpResponse:
        change_check(example, access.user, body.check_for, body.gold_label, body.explanation)
        return answer(CheckOut(**body.dict()))

    return once(request, work)


@router.post("/projects/{slug}/tags/{number}/undo", auth=WRITE, response=TagChangeOut)
def undo_tags(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Take a change of tags back."""
    access = access_to(request, slug, Role.RESEARCHER)
    change = first_of(TagChange.objects.filter(project=access.project, pk=number), "change")

    def work() -> HttpResponse:
        undo_tag(change, access.user)
        done = {"change": change.pk, "tag": change.name, "added": not change.added}
        return answer(TagChangeOut(**done, examples=len(change.examples)))

    return once(request, work)


@router.post(
    "/projects/{slug}/examples/estimate",
    auth=WRITE,
    response=PairsOut,
    openapi_extra=rows_in_schema("One example a row; docs/files.md has the columns."),
)
def estimate_examples(
    request: HttpRequest,
    slug: str,
    options: ReadAs,
    run: Annotated[Number | None, Query(description="Default: the primary run.")] = None,
) -> HttpResponse:
    """Say what the same rows would add, and what a judge would need for them. Nothing is written.

    Calls and cost are those of a run for its own examples, on average.
    """
    access = access_to(request, slug, Role.RESEARCHER)
    runs = access.project.runs
    by = access.project.primary_run if run is None else get_object_or_404(runs, number=run)

    def work() -> HttpResponse:
        checked = _checked(access, path, file_format, options)
        compared, wide = checked.comparison, checked.summary.wide
        price = price_of_pairs(compared.n_new, by)
        return answer(
            PairsOut(
                rows=checked.summary.n_rows,
                new=compared.n_new,
                known=compared.n_known,
                conflicts=compared.n_conflicts,
                questions=wide.get("questions"),
                models=wide.get("models", []),
                design=wide.get("words", ""),
                calls=price.calls,
                usd=price.usd,
                basis=price.words,
                columns=checked.summary.columns,
                file_columns=list(checked.summary.names),
            )
        )

    with stored_body(request, "examples") as (path, file_format, digest, _):
        return once_made(request, lambda keep: keep(work()), body_digest=digest)


def _checked(
    access: Access, path: pathlib.Path, file_format: str, options: RowOptions
) -> FirstPass:
    """Read the rows of a body. Raises Refusal or UserError for what can't be imported."""
    design = PairDesign.read(options.design, options.seed) if options.design else None
    mapping = dict(one_mapping(text) for text in options.columns)
    labels = codes_of(options.labels) if options.labels else None
    checked = first_pass(
        access.project, [path], file_format, mapping, labels, sheet=options.sheet, design=design
    )
    _refuse_invalid(checked, options.skip_invalid)
    writing.refuse_undesigned(checked.summary.wide)
    return checked


@router.post(
    "/projects/{slug}/examples",
    auth=WRITE,
    response={202: ImportOut},
    openapi_extra=rows_in_schema(
        "One example a row; docs/files.md has the columns. The question and the responses are "
        "texts or lists of messages."
    ),
)
def upsert_examples(request: HttpRequest, slug: str, options: ReadAs) -> HttpResponse:
    """Add examples by their ids. What the project has already stays as it is.

    Send NDJSON, CSV, Excel, Parquet or Arrow, also compressed. All rows are checked first. If one
    is invalid, nothing is imported and the answer names each problem by line; `skip_invalid` leaves
    such rows out. A worker writes: poll `Location`. Rows with the responses of several models need
    a `design`.
    """
    access = access_to(request, slug, Role.RESEARCHER)
    with stored_body(request, "examples") as (path, file_format, digest, kept):
        checked = _checked(access, path, file_format, options)

        def work() -> HttpResponse:
            imported = record_checked(access.project, access.user, checked)
            writing.refuse_invalid(imported, options.skip_invalid)
            writing.begin(imported, skip_invalid=options.skip_invalid)
            imported.refresh_from_db()
            # The file stays for the worker, whose import is on record now.
            kept.append(True)
            where = address_of(slug, "imports", imported.number)
            return answer(ImportOut(**_out(imported)), 202, location=where)

        try:
            return once(request, work, body_digest=digest)
        except BaseException:
            # The transaction was rolled back, so nobody needs the file.
            kept.clear()
            raise


@router.get("/projects/{slug}/imports/{number}", auth=READ, response=ImportOut)
def get_import(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Say how far an import is."""
    access = access_to(request, slug, Role.RESEARCHER)
    return _out(writing.look_after(_import_of(access, number)))


@router.post("/projects/{slug}/imports/{number}/begin", auth=WRITE, response={202: ImportOut})
def begin_import(request: HttpRequest, slug: str, number: Number, body: BeginIn) -> HttpResponse:
    """Write an import that a page has checked, or go on with one that was interrupted."""
    # Hiding names is a setting of the project, which owners change.
    access = access_to(request, slug, Role.OWNER if body.hide_models else Role.RESEARCHER)
    imported = _import_of(access, number)
    if imported.kind != Import.Kind.EXAMPLES:
        raise UserError("Only an import of examples is begun. Nothing was changed.")

    def work() -> HttpResponse:
        if imported.state not in (Import.State.CHECKED, Import.State.INTERRUPTED):
            state = imported.get_state_display()
            raise UserError(f"Import {number} is {state}, so there is nothing to begin.")
        skip = imported.skip_invalid or body.skip_invalid
        writing.refuse_invalid(imported, skip)
        if body.hide_models:
            writing.hide_models(access.project, access.user)
        writing.begin(imported, skip_invalid=skip)
        imported.refresh_from_db()
        where = address_of(slug, "imports", number)
        return answer(ImportOut(**_out(imported)), 202, location=where)

    return once(request, work)


@router.get(
    "/projects/{slug}/imports/{number}/refused/{index}",
    auth=READ,
    response={200: None},
    openapi_extra=file_in_schema("application/octet-stream"),
)
def get_refused(
    request: HttpRequest, slug: str, number: Number, index: Annotated[int, Path(ge=0, le=1000)]
) -> FileResponse:
    """Return the refused rows of a file, unchanged: the place of the file in `refused_files`."""
    # Rows name the models that wrote the responses.
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    with refused_files_of(_import_of(access, number)) as copies:
        if index >= len(copies):
            raise Http404("No such file.")
        name, stream = copies[index].name, copies[index].open("rb")
    return FileResponse(stream, filename=name, content_type="application/octet-stream")


@router.get("/projects/{slug}/imports", auth=READ, response=Page[ImportOut])
def list_imports(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List what was imported, the oldest first."""
    access = access_to(request, slug, Role.RESEARCHER)
    return page_of(access.project.imports.all(), cursor, limit, _out, by="number")


@router.post("/projects/{slug}/imports/{number}/undo", auth=WRITE, response=ImportOut)
def undo_import(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Undo an import of examples or scores. What was judged, selected or voted on stays."""
    access = access_to(request, slug, Role.RESEARCHER)
    imported = _import_of(access, number)
    undo = _UNDO.get(imported.kind)
    if undo is None:
        kind = imported.get_kind_display()
        raise UserError(f"An import of {kind} can't be undone. Nothing was changed.")

    # Many rows go in short transactions, and a repeat goes on.
    def work(keep: Callable[[HttpResponse], None]) -> None:
        undo(imported, access.user)
        imported.refresh_from_db()
        keep(answer(ImportOut(**_out(imported))))

    return once_made(request, work, alone=True)


_UNDO = {Import.Kind.EXAMPLES.value: writing.undo, Import.Kind.POINTS.value: undo_scores}


def _import_of(access: Access, number: int) -> Import:
    return first_of(Import.objects.filter(project=access.project, number=number), "import")


def _refuse_invalid(checked: FirstPass, skip_invalid: bool) -> None:
    summary = checked.summary
    if not summary.n_problems or (skip_invalid and not summary.fatal and summary.n_rows):
        return
    errors = [
        FieldError(field=problem.column or "row", detail=problem.sentence, line=line(problem.place))
        for problem in summary.problems
    ]
    first = summary.problems[0]
    more = "" if summary.n_problems == 1 else f" There are {summary.n_problems} problems."
    here = first.place.here
    detail = f"{here[0].upper()}{here[1:]}: {first.sentence}{more} Nothing was imported."
    raise Refusal("rows_invalid", detail, errors=errors)


def line(place: Place) -> int:
    return place.line


def _out(imported: Import) -> dict[str, Any]:
    return {
        "number": imported.number,
        "kind": imported.kind,
        "state": imported.state,
        "rows": imported.n_rows,
        "written": imported.n_written,
        "known": imported.n_known,
        "conflicts": imported.n_conflicts,
        "refused": imported.n_refused,
        "conflicting": imported.summary.get("conflicts", []),
        "reason": imported.reason,
        "created_at": imported.created_at,
        "refused_files": imported.summary.get("refused_files", []),
    }
