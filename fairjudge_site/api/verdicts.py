"""Gates, comparisons, escalations and cheapest plans, with what the commands of these names say."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation.models import Job
from annotation.results.delivery.drift import MARGIN
from annotation.results.delivery.gate import VOTES
from annotation.results.delivery.jobs import answer_asked, leave_to_worker
from annotation.results.delivery.requirements import parse
from annotation.results.planner.cheapest import CONFIDENCE, DEFAULTS, MOST_EXAMPLES, Wish, checked
from fairjudge_site.api.bodies import Cursor, Limit, Number, Page, Text, first_of, page_of
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once, once_made
from fairjudge_site.api.jobs import Prefer, accepted, is_large, is_left, standing_of
from fairjudge_site.api.runs import run_named
from judging.core.errors import UserError
from judging.methods.review.pipelines import Goal
from judging.projects.access import Access
from judging.projects.models import Role
from judging.runs.models import Run

router = Router(tags=["gates"])

Said = Literal["pass", "fail", "inconclusive"]
Figure = Annotated[
    dict[str, Any], Field(description="`value`, `low`, `high` and `n`; or null and a `reason`.")
]
Restart = Annotated[
    bool, Field(description="If examples changed since the last look, begin with the present ones.")
]


class GateIn(Schema):
    """What a run has to keep."""

    require: list[Annotated[Text, Field(max_length=500)]] = Field(
        min_length=1,
        max_length=50,
        description="Such as `accuracy>=0.85`; docs/gate.md has the figures.",
    )
    run: Number | None = Field(None, description="Default: the project's primary run.")
    votes: Annotated[int, Field(ge=1, le=99)] = Field(
        VOTES, description="Votes per example of a round that would decide."
    )
    restart: Restart = False
    open_round: bool = Field(
        False, description="If the verdict is inconclusive, open the round that decides."
    )


class CompareIn(Schema):
    """Two runs on the same examples."""

    before: Number = Field(description="The earlier run, A.")
    after: Number = Field(description="The later run, B.")
    margin: Annotated[Decimal, Field(gt=0, lt=1, max_digits=20)] = Field(
        MARGIN, description="The loss that you would accept."
    )
    restart: Restart = False


class RequirementOut(Schema):
    requirement: str
    meaning: str
    verdict: Said
    bound: Decimal
    at_least: bool
    figure: Figure
    reason: str = Field(description="Why there is no interval, or why it is not decided.")


class NeededOut(Schema):
    """What it takes to decide, as far as the present values tell."""

    sentence: str
    votes: int
    examples: list[str] | None = Field(description="Their ids; null if votes can't decide.")
    usd: Decimal
    round: int | None = Field(description="The open round that asks for these votes already.")
    opens_round: bool = Field(description="If `open_round` would open a round.")
    more_examples: int | None = Field(description="How many more would decide, if votes can't.")


class GateOut(Schema):
    """A verdict by interval. A look at new data goes on record and spends its part of the error."""

    project: str
    run: int
    name: str
    other: int | None = Field(description="Run A of a comparison.")
    verdict: Said
    look: int
    confidence: float
    alpha: float = Field(description="The error of all looks together.")
    examples: int
    requirements: list[RequirementOut]
    needed: NeededOut | None


class CategoryOut(Schema):
    category: str
    n: int
    changed: Figure
    shift: Figure
    p_holm: float | None = Field(description="Adjusted for the number of categories.")


class CompareOut(GateOut):
    """A verdict on run B against run A, and what changed."""

    judged_by_both: int
    changed: Figure
    shift: Figure
    accuracy_difference: Figure
    p: float | None
    by_category: list[CategoryOut]


class EscalateIn(Schema):
    """Judges in a row, and how often people have to agree with what they keep."""

    runs: list[Number] = Field(
        default_factory=list, max_length=10, description="In order. Default: the primary run."
    )
    agreement: Annotated[Decimal, Field(gt=0, lt=1, max_digits=20)]
    confidence: Annotated[Decimal, Field(gt=0, lt=1, max_digits=20)] = Decimal("0.9")
    score: Literal["bpde", "learned", "simulated"] = "bpde"
    labels: bool = Field(False, description="Also say who labels each example.")


class LabelledOut(Schema):
    external_id: str
    label_from: str | None = Field(description="people, a run's name, or null: left to people.")
    label: str | None


class EscalationOut(Schema):
    """Which labels judges may keep, and how many examples are left to people."""

    confidence: float
    plan: dict[str, Any] = Field(description="As `escalation.plans[]` of docs/report.md.")
    labels: list[LabelledOut] | None


class CheapestIn(Schema):
    """A goal, for which the cheapest plan of judges and people is searched."""

    goal: Literal["accuracy", "win_rate", "certificate"] = "accuracy"
    value: Annotated[Decimal, Field(gt=0, lt=1, max_digits=20)] | None = Field(
        None, description="A share. Default: 0.9, 0.05 and 0.1 for the three goals."
    )
    confidence: Annotated[Decimal, Field(ge=Decimal("0.5"), le=Decimal("0.99"), max_digits=20)] = (
        Field(CONFIDENCE, description="That the plan reaches the goal.")
    )
    examples: Annotated[int, Field(ge=1, le=MOST_EXAMPLES)] | None = Field(
        None, description="Price plans for this many. Default: all of the project."
    )
    prices: dict[Number, Annotated[Decimal, Field(ge=0, le=1000, max_digits=20)]] = Field(
        default_factory=dict,
        max_length=50,
        description="USD per example of runs, by number, where it was not recorded.",
    )
    open_round: bool = Field(False, description="Open the round of the plan.")
    plan: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The plan to open, by its number. Default: the recommended one."
    )


class CheapPlanOut(Schema):
    """A way to label, with its cost and what it is predicted to reach."""

    number: int
    words: str
    runs: list[int] = Field(description="The judges, in the order in which they are asked.")
    route: Literal["bpde", "learned", "random", "row", "people"]
    orders: int
    k: int = Field(description="Samples in each order; 0 for judges in a row and people alone.")
    adaptive: bool
    whole: bool = Field(description="If these are all the samples of the run.")
    threshold: float | None = Field(description="Up to which judges in a row keep a label.")
    share: float = Field(description="Of the examples, labelled by people.")
    votes: int = Field(description="Per example.")
    audit: int = Field(description="Labels of an audit that the goal needs; in the cost.")
    check: int | None = Field(description="Labels of an audit that checks the goal.")
    usd: Decimal
    judge_usd: Decimal
    people_usd: Decimal
    value: float = Field(description="The goal's figure, as it is predicted.")
    low: float
    high: float
    shown: bool = Field(description="If the goal is shown to be reached.")
    frontier: bool = Field(description="If no cheaper plan equals it.")


class CheapestOut(Schema):
    """The cheapest plans for a goal. docs/methods/cheapest.md says how they are compared."""

    goal: str
    value: float
    confidence: float
    examples: int
    sentence: str
    takes: str = Field(description="What would show that a cheaper plan reaches the goal.")
    labels: int = Field(description="Of the learning sample.")
    votes: int | None = Field(description="Per label of the learning sample.")
    plans: int = Field(description="How many were compared.")
    level: float | None = Field(description="One-sided error of each limit.")
    best: int | None = Field(description="The number of the recommended plan.")
    second: int | None = Field(description="The next cheapest that is shown to reach the goal.")
    hoped: int | None = Field(description="A cheaper plan that may reach it, and is not shown to.")
    labels_needed: int | None = Field(
        description="The learning sample that would show it, or that is needed to begin."
    )
    rows: list[CheapPlanOut]
    left_out: list[str] = Field(description="Runs that were not searched, and why.")
    reason: str = Field(description="Why nothing was compared.")
    round: int | None = Field(description="The round that was opened.")


class GateRequestOut(Schema):
    """What was left to a worker. Poll it until `state` is no longer waiting."""

    id: int
    kind: str = Field(description="gate, compare, escalate or cheapest.")
    state: str = Field(description="waiting, done or refused.")
    at_work: bool = Field(description="If a worker computes the figures now.")
    reason: str = Field(description="Why it was refused. Nothing was decided then.")
    created_at: datetime
    ended_at: datetime | None
    gate: GateOut | None = Field(description="The verdict of a gate that is done.")
    comparison: CompareOut | None = Field(description="The verdict of a comparison that is done.")
    escalation: EscalationOut | None = Field(description="The plan, once it is done.")
    cheapest: CheapestOut | None = Field(description="The plans, once they are compared.")


@router.post("/projects/{slug}/gate", auth=WRITE, response={200: GateOut, 202: GateRequestOut})
def gate(request: HttpRequest, slug: str, body: GateIn, prefer: Prefer = "") -> HttpResponse:
    """Say by intervals if a run keeps bounds, and what it takes if that is not decided.

    It shows what the judge said. A look at new data is recorded, so it needs the scope `write`.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    # What can't be read is refused before a worker is woken.
    for text in body.require:
        parse(text)
    run = _ranked(access, body.run)
    asked = body.dict() | {"run": run.number}
    return _decided(request, access, run, Job.Kind.GATE, asked, prefer)


@router.post(
    "/projects/{slug}/compare", auth=WRITE, response={200: CompareOut, 202: GateRequestOut}
)
def compare(request: HttpRequest, slug: str, body: CompareIn, prefer: Prefer = "") -> HttpResponse:
    """Say if run B is as good as run A on the same examples, and what changed by category.

    It shows what the judge said. A look at new data is recorded, so it needs the scope `write`.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    _ranked(access, body.before)
    run = _ranked(access, body.after)
    # A job holds JSON, which has no exact decimals.
    asked = body.dict() | {"margin": str(body.margin)}
    return _decided(request, access, run, Job.Kind.COMPARE, asked, prefer)


@router.post(
    "/projects/{slug}/escalate", auth=READ, response={200: EscalationOut, 202: GateRequestOut}
)
def escalate(
    request: HttpRequest, slug: str, body: EscalateIn, prefer: Prefer = ""
) -> HttpResponse:
    """Say which labels judges may keep, so that people agree with them as often as you ask.

    Labels of people that were drawn at random choose the threshold. Nothing is changed.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    runs = [_ranked(access, number) for number in body.runs or [None]]
    asked = body.dict() | {"runs": [run.number for run in runs]}
    asked |= {name: str(asked[name]) for name in ("agreement", "confidence")}
    return _decided(request, access, runs[0], Job.Kind.ESCALATE, asked, prefer)


@router.post(
    "/projects/{slug}/cheapest", auth=WRITE, response={200: CheapestOut, 202: GateRequestOut}
)
def cheapest(
    request: HttpRequest, slug: str, body: CheapestIn, prefer: Prefer = ""
) -> HttpResponse:
    """Search the cheapest plan of judges and people that is shown to reach a goal.

    It replays recorded judgments on the labels of a random sample, so no judge is asked. It shows
    what the judge said, and can open the round of a plan, so it needs the scope `write`.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    goal = Goal(body.goal)
    wish = checked(
        Wish(
            goal=goal,
            value=DEFAULTS[goal] if body.value is None else body.value,
            confidence=body.confidence,
            examples=body.examples,
            prices=body.prices,
        )
    )
    asked = wish.to_json() | {"open_round": body.open_round, "plan": body.plan}
    return _decided(request, access, None, Job.Kind.CHEAPEST, asked, prefer)


@router.get("/projects/{slug}/gates", auth=READ, response=Page[GateRequestOut])
def list_gates(
    request: HttpRequest, slug: str, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List what was left to a worker, the oldest first."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    return page_of(access.project.jobs.filter(kind__in=Job.GATES), cursor, limit, _request_out)


@router.get("/projects/{slug}/gates/{number}", auth=READ, response=GateRequestOut)
def get_gate(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Say whether a worker has decided, and what."""
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    gates = access.project.jobs.filter(kind__in=Job.GATES)
    return _request_out(first_of(gates.filter(pk=number), "gate"))


_ANSWERS: dict[str, type[Schema]] = {
    Job.Kind.GATE: GateOut,
    Job.Kind.COMPARE: CompareOut,
    Job.Kind.ESCALATE: EscalationOut,
    Job.Kind.CHEAPEST: CheapestOut,
}


def _decided(
    request: HttpRequest,
    access: Access,
    run: Run | None,
    kind: str,
    asked: dict[str, Any],
    prefer: str,
) -> HttpResponse:
    """Decide now, or leave it to a worker if the program prefers that and the project is large."""
    project, user = access.project, access.user

    def left() -> HttpResponse:
        made = leave_to_worker(project, user, kind, asked)
        return accepted(made, GateRequestOut(**_request_out(made)), "gates")

    # Without a run, plans are searched, which takes long in every project.
    if prefer and is_left(prefer, large=run is None or is_large(project, run.frame_id)):
        return once(request, left)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        kind_of_answer = _ANSWERS[kind]
        answer_asked(
            project, user, kind, asked, lambda fields: keep(answer(kind_of_answer(**fields)))
        )

    # A look spends its part of the error, so a repeat waits for the first instead of looking again.
    return once_made(request, work, alone=True)


def _request_out(job: Job) -> dict[str, Any]:
    by_kind = {kind.label: job.result if job.kind == kind else None for kind in Job.GATES}
    return standing_of(job) | by_kind


def _ranked(access: Access, number: int | None) -> Run:
    run = run_named(access, number)
    if run is None:
        raise UserError(f"{access.project.slug} has no run yet. Nothing was decided.")
    run.require_ranking("Nothing was decided.")
    return run
