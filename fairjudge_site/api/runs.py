"""Judge runs: what one would cost, starting and steering it, how far it is, and its report."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.core.exceptions import PermissionDenied
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query, Router, Schema
from pydantic import AfterValidator, Field

from annotation.models import Job
from annotation.results.data.figures import NEEDS_CONVERTER, as_png, as_svg, can_draw, to_json
from annotation.results.delivery.package import open_report
from annotation.results.report.cache import kept_people, shown_report
from annotation.results.report.report import plots
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
    storable,
)
from fairjudge_site.api.gate import READ, SPEND, WRITE, access_to, answer, once, once_made
from fairjudge_site.api.jobs import JobOut, Prefer, is_large, is_left, left
from fairjudge_site.api.projects import address_of
from judging.core.errors import UserError
from judging.llm.own_templates import TemplateRefused, custom_template
from judging.projects.access import Access
from judging.projects.models import Role
from judging.runs import lifecycle, templates
from judging.runs.endpoints import default_endpoint_name, endpoint_names, models_at
from judging.runs.engine import rereading
from judging.runs.engine.progress import progress_of
from judging.runs.forms.portia import PortiaOptions
from judging.runs.models import Parse, Run
from judging.runs.pages.runs import MAY_NOT_START
from judging.runs.pages.templates import LONGEST_REPLY, LONGEST_TEXT
from judging.runs.planning.estimate import estimate_run
from judging.runs.planning.start import LARGEST_SEED, start_run

router = Router(tags=["runs"])

Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000_000, max_digits=20, decimal_places=10)]
Whole = Annotated[int, Field(ge=1, le=10_000_000)]
Name = Annotated[Text, Field(max_length=200)]


class TemplateIn(Schema):
    """A judge template, with the keys that a file for `judge --template` has."""

    name: Annotated[str, Field(pattern="^[-a-zA-Z0-9_]+$", max_length=80)]
    form: Annotated[Text, Field(max_length=20)]
    reply: Annotated[Text, Field(max_length=40)] = ""
    text: Annotated[Text, Field(min_length=1, max_length=LONGEST_TEXT)]
    scale: list[Annotated[Decimal, Field(max_digits=12, decimal_places=2)]] | None = Field(
        None, min_length=2, max_length=2, description="The lowest and the highest score."
    )
    sample_reply: Annotated[Text, Field(min_length=1, max_length=LONGEST_REPLY)] = Field(
        description="As the judge would write it, with a verdict that FairJudge can read."
    )


class TemplateOut(Schema):
    """A version of a template. Its name means the newest version that is not retired."""

    id: int
    name: str
    form: str
    text: str
    created_at: datetime
    retired_at: datetime | None


class PriceIn(Schema):
    """USD per million tokens."""

    prompt: Dollars
    completion: Dollars


class PortiaIn(Schema):
    parts: Annotated[int, Field(ge=1, le=100)] | None = None
    tokens: Name = ""
    unsplit_first: bool = False
    without: Name = ""


class RunIn(SubsetIn):
    """What `manage.py judge` takes. What is left out has the same default as there."""

    name: Name = ""
    endpoint: Name = Field("", description="As the operator named it. No request takes a URL.")
    model: Name = ""
    method: Name = ""
    form: Annotated[Text, Field(max_length=20)] = "score"
    template: Name = ""
    criteria: Annotated[Text, Field(max_length=20_000)] = ""
    scale: Name = Field("", description="pointwise: the range of scores, such as 1,10.")
    k: Annotated[int, Field(ge=1, le=99)] | None = None
    max_tokens: Whole | None = None
    temperature: Annotated[Decimal, Field(ge=0, le=10, max_digits=6)] | None = None
    price: PriceIn | None = None
    budget_usd: Dollars | None = None
    concurrency: Whole | None = None
    rpm: Whole | None = None
    tpm: Whole | None = None
    batch: bool = False
    reuse: bool = Field(
        False, description="Copy answers to identical calls of other runs, at no cost."
    )
    json_replies: bool | None = Field(
        None,
        description="Hold replies to a JSON schema, if the endpoint takes one. Default: as the "
        "template asks.",
    )
    cache_marks: bool = Field(
        False, description="Mark what prompts share, for Anthropic's models behind gateways."
    )
    adaptive: Annotated[float, Field(gt=0, lt=1)] | None = None
    portia: PortiaIn | None = None
    permutations: Annotated[int, Field(ge=1, le=4)] | None = None
    ids: Name = ""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None = None
    unread_calls: Annotated[int, Field(ge=0, le=10_000)] | None = None

    def judge(self) -> dict[str, Any]:
        """Return the arguments of `choose_judge`."""
        names = ("endpoint", "model", "method", "form", "template", "criteria", "scale", "k",
                 "max_tokens", "adaptive", "permutations", "ids")  # fmt: skip
        # What is empty is left out, so that the defaults of the command hold here too.
        settings = {name: getattr(self, name) for name in names if getattr(self, name)}
        settings |= {name: True for name in ("batch", "cache_marks") if getattr(self, name)}
        settings |= {} if self.json_replies is None else {"json_replies": self.json_replies}
        if self.price is not None:
            settings["price"] = (self.price.prompt, self.price.completion)
        if self.portia is not None:
            settings["portia"] = PortiaOptions(**self.portia.dict())
        return settings

    def pace(self) -> dict[str, Any]:
        names = ("temperature", "concurrency", "rpm", "tpm")
        settings = {name: getattr(self, name) for name in names}
        settings |= {"name": self.name, "budget": self.budget_usd}
        return settings | {"subset": self.subset(self.seed), "reuse": self.reuse}


class EstimateOut(Schema):
    """What a run would need. Dollars are null if the price is unknown."""

    examples: int
    frame: str = Field(description="Which examples these are; empty for all.")
    reused: int = Field(description="Samples copied from other runs, in no other figure.")
    calls: int
    calls_most: int
    prompt_tokens: int
    completion_tokens: int
    usd: Decimal | None
    usd_most: Decimal | None
    seconds: float | None
    batch_hours: int | None
    model: str
    endpoint: str
    basis: str


class RunOut(Schema):
    number: int
    name: str
    method: str
    form: str
    endpoint: str
    model: str
    k: int
    state: str = Field(
        description="queued, running, pausing, paused, cancelling, cancelled, done or failed."
    )
    reason: str
    budget_usd: Decimal | None
    created_at: datetime
    finished_at: datetime | None
    ranked: bool = Field(description="If there is a report.")
    frame: str | None = Field(description="Which examples it is about; null for all.")


class ProgressOut(RunOut):
    """A run and how far it is, in samples. It tells nothing that the judge said."""

    examples: int
    expected: int
    settled: int
    examples_ranked: int = Field(description="How many examples the ranking has done.")
    examples_to_rank: int = Field(description="How many it ranks; 0 if no ranking is under way.")
    statuses: dict[str, int]
    in_flight: int
    eta_seconds: float | None
    spent_usd: Decimal | None
    reused: int = Field(description="Samples copied from other runs, at no cost.")
    worker_missing: bool
    workers: list[str] = Field(description="The processes that work on it, the leading one first.")


class ResumeIn(Schema):
    retry: list[Annotated[Text, Field(max_length=20)]] = Field(
        default_factory=list, max_length=10, description="Statuses to repeat besides errors."
    )
    max_tokens: Whole | None = None
    budget_usd: Dollars | None = None


class BudgetIn(Schema):
    budget_usd: Dollars


class ModelsOut(Schema):
    endpoints: list[str] = Field(description="All that the operator named.")
    endpoint: str
    models: list[str] = Field(description="What this endpoint offers now.")


@router.get("/projects/{slug}/models", auth=READ, response=ModelsOut)
def list_models(
    request: HttpRequest,
    slug: str,
    endpoint: Annotated[
        str,
        Query(max_length=200, description="Default: the one that runs take."),
        AfterValidator(storable),
    ] = "",
) -> dict[str, Any]:
    """Ask an endpoint for its models. It costs nothing."""
    starter_of(request, slug)
    chosen = endpoint or default_endpoint_name()
    return {"endpoints": endpoint_names(), "endpoint": chosen, "models": models_at(chosen)}


@router.post("/projects/{slug}/runs/estimate", auth=READ, response=EstimateOut)
def estimate(request: HttpRequest, slug: str, body: RunIn) -> HttpResponse:
    """Estimate what such a run costs. Nothing is started."""
    access = starter_of(request, slug)

    def work(keep: Any) -> None:
        priced = estimate_run(access.project, **body.judge(), **body.pace())
        keep(
            answer(
                EstimateOut(
                    examples=priced.n_examples,
                    calls=priced.n_calls,
                    calls_most=priced.n_calls_most,
                    **{name: getattr(priced, name) for name in EstimateOut.model_fields
                       if hasattr(priced, name)},
                )
            )
        )  # fmt: skip

    # Not `once`: no transaction is open while the endpoint is asked for its models.
    return once_made(request, work)


@router.post("/projects/{slug}/runs", auth=SPEND, response={202: RunOut})
def new_run(request: HttpRequest, slug: str, body: RunIn) -> HttpResponse:
    """Start a run, which may cost money. A worker asks the judge: poll `Location`."""
    access = starter_of(request, slug)

    def work(keep: Any) -> None:
        start_run(
            access.project, access.user, seed=body.seed, unread_calls=body.unread_calls,
            made=lambda run: keep(_accepted(run)), **body.judge(), **body.pace(),
        )  # fmt: skip

    return once_made(request, work)


@router.get("/projects/{slug}/runs", auth=READ, response=Page[RunOut])
def list_runs(
    request: HttpRequest, slug: str, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the runs, the oldest first."""
    access = access_to(request, slug, Role.OBSERVER)
    # Without the templates, which may be long and aren't in a list.
    rows = Run.objects.filter(project=access.project).defer("template_text", "schema")
    rows = rows.select_related("frame")
    return page_of(rows, cursor, limit, run_out, by="number")


@router.get("/projects/{slug}/runs/{number}", auth=READ, response=ProgressOut)
def get_run(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Say how far a run is."""
    return _progress(_run_of(access_to(request, slug, Role.OBSERVER), number))


def _changed(
    request: HttpRequest,
    access: Access,
    number: int,
    change: Callable[[Run], object],
    *,
    queued: bool = False,
) -> HttpResponse:
    """Change a run, and answer with the run as it is then; 202 if a worker goes on with it."""
    run = _run_of(access, number)

    def work() -> HttpResponse:
        change(run)
        run.refresh_from_db()
        return _accepted(run) if queued else answer(RunOut(**run_out(run)))

    return once(request, work)


@router.post("/projects/{slug}/runs/{number}/pause", auth=WRITE, response=RunOut)
def pause_run(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Send nothing more. Answers on their way are still recorded."""
    access = access_to(request, slug, Role.RESEARCHER)
    return _changed(request, access, number, lambda run: lifecycle.pause(run, user=access.user))


@router.post("/projects/{slug}/runs/{number}/cancel", auth=WRITE, response=RunOut)
def cancel_run(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Stop the run. Its answers are kept, and it can be resumed."""
    access = access_to(request, slug, Role.RESEARCHER)
    return _changed(request, access, number, lambda run: lifecycle.cancel(run, access.user))


@router.post("/projects/{slug}/runs/{number}/resume", auth=SPEND, response={202: RunOut})
def resume_run(request: HttpRequest, slug: str, number: Number, body: ResumeIn) -> HttpResponse:
    """Ask for what has no answer yet, which may cost money."""
    access = starter_of(request, slug)

    def resume(run: Run) -> None:
        # Errors are always asked again, because they hold no answer.
        retry = {Parse.Status.ERROR, *body.retry}
        most, budget = body.max_tokens, body.budget_usd
        lifecycle.resume(run, access.user, retry=retry, max_tokens=most, budget=budget)

    return _changed(request, access, number, resume, queued=True)


@router.post("/projects/{slug}/runs/{number}/budget", auth=SPEND, response=RunOut)
def raise_budget(request: HttpRequest, slug: str, number: Number, body: BudgetIn) -> HttpResponse:
    """Change the budget, which may cost money. A run that paused for it has to be resumed."""
    access = starter_of(request, slug)

    def change(run: Run) -> None:
        lifecycle.raise_budget(run, body.budget_usd, access.user)

    return _changed(request, access, number, change)


@router.post("/projects/{slug}/runs/{number}/primary", auth=WRITE, response=RunOut)
def choose_primary(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Make this the project's primary run, by which labels are merged."""
    access = access_to(request, slug, Role.RESEARCHER)
    return _changed(request, access, number, lambda run: lifecycle.choose_primary(run, access.user))


@router.post("/projects/{slug}/runs/{number}/reparse", auth=WRITE, response={202: RunOut})
def reparse_run(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Have a worker read the stored replies again by today's parser. No request is sent."""
    access = access_to(request, slug, Role.RESEARCHER)
    return _changed(
        request, access, number, lambda run: rereading.begin(run, access.user), queued=True
    )


@router.post("/projects/{slug}/runs/{number}/reparse/stop", auth=WRITE, response={202: RunOut})
def stop_reparsing(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """End a reading of replies early. What was read is kept, and another one goes on from there."""
    access = access_to(request, slug, Role.RESEARCHER)
    return _changed(
        request, access, number, lambda run: rereading.stop(run, access.user), queued=True
    )


@router.get("/projects/{slug}/runs/{number}/report", auth=READ, response=dict[str, Any])
def get_report(request: HttpRequest, slug: str, number: Number) -> HttpResponse | dict[str, Any]:
    """Return the report, as docs/report.md describes it. It shows what the judge said.

    While a worker computes the figures of a large project, the answer is 202 with `Retry-After`.
    """
    access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    report = _report(access, _run_of(access, number))
    return report if isinstance(report, HttpResponse) else to_json(report)


_FILES = {
    "html": "text/html", "zip": "application/zip", "tex": "application/x-tex",
    "pdf": "application/pdf",
}  # fmt: skip


@router.get(
    "/projects/{slug}/runs/{number}/report.{kind}",
    auth=READ,
    response={200: None, 202: JobOut},
    openapi_extra=file_in_schema(*_FILES.values()),
)
def get_report_file(
    request: HttpRequest,
    slug: str,
    number: Number,
    kind: Literal["html", "pdf", "zip", "tex"],
    prefer: Prefer = "",
) -> HttpResponse | FileResponse | StreamingHttpResponse:
    """Return the report as one page, as a PDF, for LaTeX, or as a ZIP that `verify` checks."""
    access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    run = _run_of(access, number)
    if request.is_head and run.ranked_at is not None:  # type: ignore[attr-defined]
        # The tables within would go on record.
        return StreamingHttpResponse((), content_type=_FILES[kind])
    is_ready = run.ranked_at is not None
    if prefer and is_ready and is_left(prefer, large=is_large(access.project, run.frame_id)):
        return left(access, Job.Kind.REPORT, {"run": number, "kind": kind}, again=False)
    file = open_report(access.project, run, access.user, kind)
    return FileResponse(file, content_type=_FILES[kind])


_DRAWINGS = {"svg": "image/svg+xml", "png": "image/png"}


@router.get(
    "/projects/{slug}/runs/{number}/plots/{name}.{kind}",
    auth=READ,
    response={200: None},
    openapi_extra=file_in_schema(*_DRAWINGS.values()),
)
def get_plot(
    request: HttpRequest, slug: str, number: Number, name: str, kind: Literal["svg", "png"]
) -> HttpResponse:
    """Return a plot of the report as a file for a paper."""
    access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    report = _report(access, _run_of(access, number))
    if isinstance(report, HttpResponse):
        return report
    chosen = next((plot for plot in plots(report) if plot.name == name), None)
    if chosen is None:
        names = ", ".join(plot.name for plot in plots(report))
        raise UserError(f"There is no such plot. Plots: {names}.")
    if not can_draw():
        raise UserError(NEEDS_CONVERTER)
    drawn = as_svg(chosen).encode() if kind == "svg" else as_png(chosen)
    return HttpResponse(drawn, content_type=_DRAWINGS[kind])


@router.get("/projects/{slug}/runs/{number}/certificate", auth=READ, response=dict[str, Any])
def get_certificate(
    request: HttpRequest, slug: str, number: Number
) -> HttpResponse | dict[str, Any]:
    """Return what the audit certifies: the part `certificate` of the report."""
    access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    report = _report(access, _run_of(access, number))
    if isinstance(report, HttpResponse):
        return report
    part: dict[str, Any] = to_json(report)["certificate"]
    return part


@router.get("/projects/{slug}/report/people", auth=READ, response=dict[str, Any])
def get_people_report(request: HttpRequest, slug: str) -> dict[str, Any]:
    """Return what people alone say, which needs no run: labels, agreement and costs.

    It shows nothing that a judge said, so that it unblinds nobody.
    """
    project = access_to(request, slug, Role.OBSERVER).project
    alone = kept_people(project)
    if alone is None:
        raise UserError(f"{slug} has no votes that count. Open a round or import votes.")
    figures: dict[str, Any] = to_json(alone)
    return figures


@router.get("/projects/{slug}/templates", auth=READ, response=Page[TemplateOut], tags=["templates"])
def list_templates(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the versions of the project's own judge templates, the oldest first."""
    access = access_to(request, slug, Role.RESEARCHER)
    return page_of(access.project.templates.all(), cursor, limit, TemplateOut.from_orm)


@router.post(
    "/projects/{slug}/templates", auth=WRITE, response={201: TemplateOut}, tags=["templates"]
)
def new_template(request: HttpRequest, slug: str, body: TemplateIn) -> HttpResponse:
    """Keep a judge template. A name that the project has already gets a new version."""
    access = access_to(request, slug, Role.RESEARCHER)
    try:
        written = custom_template(body.name, body.dict(exclude_none=True))
    except TemplateRefused as refused:
        raise UserError(f"{refused} Nothing was kept.") from None

    def work() -> HttpResponse:
        version = templates.keep(access.project, access.user, written, body.sample_reply)
        return answer(TemplateOut.from_orm(version), 201)

    return once(request, work)


@router.post(
    "/projects/{slug}/templates/{number}/retire",
    auth=WRITE,
    response=TemplateOut,
    tags=["templates"],
)
def retire_template(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Take a version out of the choice for new runs. Its name means the one before it."""
    return _retired(request, slug, number, retired=True)


@router.post(
    "/projects/{slug}/templates/{number}/restore",
    auth=WRITE,
    response=TemplateOut,
    tags=["templates"],
)
def restore_template(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Put a retired version back."""
    return _retired(request, slug, number, retired=False)


def _retired(request: HttpRequest, slug: str, number: int, *, retired: bool) -> HttpResponse:
    access = access_to(request, slug, Role.RESEARCHER)
    versions = access.project.templates.select_related("project")
    version = first_of(versions.filter(pk=number), "template")

    def work() -> HttpResponse:
        templates.set_retired(version, access.user, retired=retired)
        version.refresh_from_db()
        return answer(TemplateOut.from_orm(version))

    return once(request, work)


def _report(access: Access, run: Run) -> Any:
    run.require_ranking()
    shown = shown_report(access.project, run, here=True)
    # A program can't see that figures are being renewed, so it never gets outdated ones.
    if shown.report is None or shown.renewing:
        return being_computed()
    return shown.report


def being_computed() -> HttpResponse:
    """Return the answer while a worker computes the figures of a large project."""
    headers = {"Retry-After": "5"}
    return HttpResponse("{}", status=202, content_type="application/json", headers=headers)


def starter_of(request: HttpRequest, slug: str) -> Access:
    access = access_to(request, slug, Role.RESEARCHER)
    if not access.may_start_runs:
        raise PermissionDenied(MAY_NOT_START)
    return access


def run_named(access: Access, number: int | None) -> Run | None:
    """Return the run of this number, or without one the project's primary run."""
    return access.project.primary_run if number is None else _run_of(access, number)


RunNumber = Annotated[Number | None, Query(description="Default: the project's primary run.")]


def _run_of(access: Access, number: int) -> Run:
    return first_of(Run.objects.filter(project=access.project, number=number), "run")


def _accepted(run: Run) -> HttpResponse:
    where = address_of(run.project.slug, "runs", run.number)
    return answer(RunOut(**run_out(run)), 202, location=where)


def run_out(run: Run) -> dict[str, Any]:
    names = ("number", "name", "method", "form", "endpoint", "model", "k", "state", "reason",
             "budget_usd", "created_at", "finished_at")  # fmt: skip
    fields = {name: getattr(run, name) for name in names}
    frame = run.frame.words if run.frame else None
    return fields | {"ranked": run.ranked_at is not None, "frame": frame}


def _progress(run: Run) -> dict[str, Any]:
    progress = progress_of(run)
    names = ProgressOut.model_fields.keys() - RunOut.model_fields.keys()
    return run_out(run) | {name: getattr(progress, name) for name in names}
