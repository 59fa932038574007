"""Gates and comparisons of runs, with the verdict that the commands `gate` and `compare` give."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation.models import Round
from annotation.results.delivery.drift import MARGIN, compare_runs
from annotation.results.delivery.gate import VOTES, decide_gate, open_needed
from annotation.results.delivery.requirements import parse
from fairjudge_site.api.bodies import Number, Text
from fairjudge_site.api.gate import WRITE, access_to, answer, once_made
from fairjudge_site.api.runs import run_named
from judging.core.errors import UserError
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


@router.post("/projects/{slug}/gate", auth=WRITE, response=GateOut)
def gate(request: HttpRequest, slug: str, body: GateIn) -> HttpResponse:
    """Say by intervals if a run keeps bounds, and what it takes if that is not decided.

    It shows what the judge said. A look at new data is recorded, so it needs the scope `write`.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    wanted = [parse(text) for text in body.require]
    run = _ranked(access, body.run)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        found = decide_gate(access.project, run, wanted, votes=body.votes, restart=body.restart)
        needed = found.needed
        if not body.open_round or needed is None or needed.settings is None:
            keep(answer(GateOut(**found.document())))
            return

        def opened(round_: Round) -> None:
            asking = replace(needed, round=round_.number, settings=None)
            keep(answer(GateOut(**replace(found, needed=asking).document())))

        open_needed(access.project, run, needed, access.user, background=True, made=opened)

    return once_made(request, work, alone=True)


@router.post("/projects/{slug}/compare", auth=WRITE, response=CompareOut)
def compare(request: HttpRequest, slug: str, body: CompareIn) -> HttpResponse:
    """Say if run B is as good as run A on the same examples, and what changed by category.

    It shows what the judge said. A look at new data is recorded, so it needs the scope `write`.
    """
    access = access_to(request, slug, Role.RESEARCHER, shows_judge=True)
    before, after = _ranked(access, body.before), _ranked(access, body.after)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        found = compare_runs(access.project, before, after, body.margin, restart=body.restart)
        keep(answer(CompareOut(**found.document())))

    return once_made(request, work, alone=True)


def _ranked(access: Access, number: int | None) -> Run:
    run = run_named(access, number)
    if run is None:
        raise UserError(f"{access.project.slug} has no run yet. Nothing was decided.")
    if run.ranked_at is None:
        raise UserError(f"{run.why_unranked} Nothing was decided.")
    return run
