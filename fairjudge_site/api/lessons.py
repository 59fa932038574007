"""Lessons: what people's labels teach a judge, its approval, and its test."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation.models import Job, Lesson
from annotation.results.delivery import teaching
from annotation.results.delivery.jobs import leave_to_worker
from fairjudge_site.api.bodies import Cursor, Limit, Number, Page, Text, first_of, page_of
from fairjudge_site.api.gate import READ, SPEND, WRITE, access_to, answer, once, once_made
from fairjudge_site.api.jobs import JobOut, Prefer, accepted, is_left, job_out
from fairjudge_site.api.projects import address_of
from fairjudge_site.api.runs import Dollars, Name, PriceIn, run_named, starter_of
from judging.core.errors import UserError
from judging.projects.access import Access
from judging.projects.models import Role
from judging.runs.models import Run

router = Router(tags=["lessons"])


class LessonIn(Schema):
    """What `manage.py teach --by` takes."""

    way: Literal["examples", "rubric", "both", "annotators"]
    run: Number | None = Field(None, description="Whose errors teach. Default: the primary run.")
    shots: Annotated[int, Field(ge=1, le=teaching.MOST_SHOTS)] | None = Field(
        None,
        description=f"Solved examples per prompt. Default: {teaching.SHOTS}, or "
        f"{teaching.VOTES_OF_EACH} votes of each simulated annotator.",
    )
    annotators: Annotated[int, Field(ge=2, le=teaching.MOST_ANNOTATORS)] | None = Field(
        None, description=f"By annotators: how many are simulated. Default: {teaching.ANNOTATORS}."
    )
    name: Annotated[str, Field(pattern="^[-a-zA-Z0-9_]*$", max_length=80)] = Field(
        "", description="Of the taught template. Default: the old name with -taught."
    )
    endpoint: Name = Field("", description="What drafts the rubric. Default: the run's own.")
    model: Name = ""
    price: PriceIn | None = None
    budget_usd: Dollars | None = Field(None, description="The most that the draft may cost.")

    def plan(self, access: Access, run: Run) -> teaching.LessonPlan:
        price = (self.price.prompt, self.price.completion) if self.price else None
        names = ("shots", "annotators", "name", "endpoint", "model")
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        settings |= {"price": price, "budget": self.budget_usd}
        return teaching.plan_lesson(access.project, run, self.way, **settings)


class LessonPlanOut(Schema):
    """What would teach, and what drafting the rubric costs. Dollars are null without a price."""

    run: int
    way: str
    base: str
    name: str
    source: str = Field(description="Which labels teach, in words.")
    labels: int
    disagreements: int
    taught: int = Field(description="Examples that no run with the template will be about.")
    held_out: int = Field(description="Labels that are left to test by.")
    shown: int
    endpoint: str
    model: str
    prompt_tokens: int
    usd: Decimal | None
    usd_most: Decimal | None
    prompt: str = Field(description="What would be sent; empty without a rubric.")
    annotators: int = Field(description="How many annotators would be simulated.")


class SolvedOut(Schema):
    external_id: str
    label: str


class LessonTestOut(Schema):
    """One comparison with the old template, on labels that taught nothing."""

    run: int
    look: int
    n: int
    better: int
    worse: int
    difference: float = Field(description="Accuracy of the taught run less that of the old one.")
    low: float
    high: float
    confidence: float
    p: float | None
    verdict: str = Field(description="pass: better. fail: worse. inconclusive: not shown.")
    differs: list[str] = Field(description="Settings in which the two runs differ, too.")
    at: datetime


class LessonOut(Schema):
    number: int
    run: int
    way: str
    state: str = Field(description="waiting, failed, drafted, approved, kept or dropped.")
    base: str
    name: str
    shown: int
    pairs: list[SolvedOut]
    annotators: list[list[SolvedOut]] = Field(
        description="What each simulated annotator is shown: the votes of one person."
    )
    taught: int
    disagreements: int
    endpoint: str
    model: str
    budget_usd: Decimal | None
    usd: Decimal | None
    usd_most: Decimal | None
    prompt_tokens: int | None
    completion_tokens: int | None
    reason: str
    drafted: str = Field(description="The rubric as the model wrote it.")
    rubric: str
    template: int | None = Field(description="The version that it became.")
    in_use: bool
    runs: list[int] = Field(description="Runs that judged with the version, the newest first.")
    tests: list[LessonTestOut]
    created_at: datetime


class ApproveIn(Schema):
    rubric: Annotated[Text, Field(max_length=teaching.LONGEST_RUBRIC)] | None = Field(
        None, description="As you edited it. Default: the draft."
    )


class LessonCompareIn(Schema):
    run: Number | None = Field(None, description="Default: the newest run with the template.")


@router.post("/projects/{slug}/lessons/estimate", auth=READ, response=LessonPlanOut)
def estimate_lesson(request: HttpRequest, slug: str, body: LessonIn) -> HttpResponse:
    """Say what would teach, and what its draft costs. Nothing is sent. It shows judge output."""
    access = _teacher(request, slug)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        plan = body.plan(access, _source(access, body.run))
        keep(answer(LessonPlanOut(**teaching.plan_document(plan))))

    return once_made(request, work)


@router.post("/projects/{slug}/lessons", auth=SPEND, response={201: LessonOut, 202: JobOut})
def new_lesson(
    request: HttpRequest, slug: str, body: LessonIn, prefer: Prefer = ""
) -> HttpResponse:
    """Choose solved examples, and have a model draft a rubric, which may cost money.

    Nothing is judged before you have approved the lesson. It shows judge output.
    """
    access = _teacher(request, slug)
    project, user = access.project, access.user

    def work(keep: Callable[[HttpResponse], None]) -> None:
        plan = body.plan(access, _source(access, body.run))
        drafts = plan.request is not None
        # A draft waits for a model, so it counts as long work in every project.
        leaves = drafts and is_left(prefer, large=True)

        def made(lesson: Lesson) -> None:
            if leaves:
                job = leave_to_worker(project, user, Job.Kind.LESSON, {"lesson": lesson.number})
                keep(accepted(job, JobOut(**job_out(job))))
            elif not drafts:
                keep(_made(lesson))

        lesson = teaching.begin_lesson(project, user, plan, body.budget_usd, made)
        if drafts and not leaves:
            teaching.draft(lesson, lambda _: keep(_made(_lesson(access, lesson.number))))

    # A repeat waits for the first request, so that the draft is paid once.
    return once_made(request, work, alone=True)


@router.get("/projects/{slug}/lessons", auth=READ, response=Page[LessonOut])
def list_lessons(
    request: HttpRequest, slug: str, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the lessons, the oldest first. It shows judge output."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    rows = access.project.lessons.select_related("run", "version", "project")
    return page_of(rows, cursor, limit, teaching.document, by="number")


@router.get("/projects/{slug}/lessons/{number}", auth=READ, response=LessonOut)
def get_lesson(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Return a lesson. It shows judge output."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    return teaching.document(_lesson(access, number))


@router.post("/projects/{slug}/lessons/{number}/approve", auth=WRITE, response=LessonOut)
def approve_lesson(
    request: HttpRequest, slug: str, number: Number, body: ApproveIn
) -> HttpResponse:
    """Make a version of the template of what you have read. Nothing is judged by this."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)

    def work() -> HttpResponse:
        lesson = teaching.approve(_lesson(access, number), access.user, body.rubric)
        return answer(LessonOut(**teaching.document(lesson)))

    return once(request, work)


@router.post("/projects/{slug}/lessons/{number}/compare", auth=WRITE, response=LessonOut)
def compare_lesson(
    request: HttpRequest, slug: str, number: Number, body: LessonCompareIn
) -> HttpResponse:
    """Compare the taught run with the old one. The version is retired unless it is better."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        lesson = _lesson(access, number)
        newest = next(iter(teaching.runs_of(lesson)), None)
        run = run_named(access, body.run) if body.run else newest
        if run is None:
            raise UserError(f"No run has judged with the template of lesson {number} yet.")
        teaching.compare_lesson(
            lesson,
            access.user,
            run,
            lambda tested: keep(answer(LessonOut(**teaching.document(tested)))),
        )

    return once_made(request, work)


def _teacher(request: HttpRequest, slug: str) -> Access:
    """Return the project if the user may start what costs money."""
    # First, because a refusal here must not unblind anybody.
    starter_of(request, slug)
    return access_to(request, slug, Role.RESEARCHER, shows_judge=True)


def _source(access: Access, number: int | None) -> Run:
    run = run_named(access, number)
    if run is None:
        raise UserError(f"{access.project.slug} has no run yet. Nothing was sent.")
    return run


def _made(lesson: Lesson) -> HttpResponse:
    where = address_of(lesson.project.slug, "lessons", lesson.number)
    return answer(LessonOut(**teaching.document(lesson)), 201, location=where)


def _lesson(access: Access, number: int) -> Lesson:
    rows = access.project.lessons.select_related("run", "version", "project")
    return first_of(rows.filter(number=number), "lesson")
