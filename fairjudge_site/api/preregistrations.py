"""Preregistrations: plans that are stored with a hash, and files of them that are checked."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation.models import Preregistration
from annotation.results.planner.registration import (
    LONGEST,
    MOST_HYPOTHESES,
    Plan,
    as_markdown,
    check_file,
    register,
    rests_on_judge,
    versions,
)
from annotation.results.planner.sizes import Study
from annotation.rounds.opening import ALPHA, EPSILON, rate_in
from fairjudge_site.api.bodies import Number, Text
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once
from fairjudge_site.api.projects import address_of
from fairjudge_site.api.rounds import StudyIn
from judging.methods.review.cost import HumanRate
from judging.projects.access import Access
from judging.projects.models import Project, Role

router = Router(tags=["preregistrations"])

Words = Annotated[Text, Field(max_length=LONGEST)]
_NAME = Annotated[Text, Field(max_length=200)]
Goal = Literal["better", "win_rate", "accuracy", "kappa", "certificate"]
Share = Annotated[float, Field(gt=0, lt=1)]


class PreregistrationIn(Schema):
    """What a study plans. What is left out isn't promised."""

    goal: Annotated[Text, Field(min_length=1, max_length=LONGEST)]
    hypotheses: list[Words] = Field(default=[], max_length=MOST_HYPOTHESES)
    study: StudyIn | None = Field(None, description="What the sizes start from, as `GET /sizes`.")
    aim: Goal = Field("better", description="With `study`: the goal whose labels count.")
    examples: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    beta: Annotated[Decimal, Field(ge=0, le=100, max_digits=20)] | None = Field(
        None, description="Percent to review by rank."
    )
    budget: Annotated[Decimal, Field(gt=0, le=10**9, max_digits=20)] | None = None
    everything: bool = False
    route: Literal["bpde", "learned"] = "bpde"
    learn: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    audit: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    votes: Annotated[int, Field(ge=1, le=99)] = 3
    epsilon: Share = EPSILON
    alpha: Share = ALPHA
    looks: list[Annotated[int, Field(ge=1, le=10_000_000)]] = Field(default=[], max_length=20)
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None
    templates: list[_NAME] = Field(default=[], max_length=50)
    analyses: list[_NAME] = Field(default=[], max_length=50)


class PreregistrationOut(Schema):
    """One version of a plan. docs/files.md describes the document."""

    number: int
    sha256: str = Field(description="Of the document as JSON: sorted keys, no spaces, UTF-8.")
    made_at: datetime
    by: str = Field(description="Empty for a command, and for a login that was deleted.")
    preregistration: dict[str, Any]
    markdown: str


class PreregistrationList(Schema):
    items: list[PreregistrationOut]


class PreregistrationFile(Schema):
    """A file of a plan, as it was downloaded."""

    preregistration: dict[str, Any]
    sha256: Annotated[Text, Field(max_length=64)]


class PreregistrationCheck(Schema):
    holds: bool = Field(description="The document has the hash that the file names.")
    sha256: str
    number: int | None = Field(description="The version of this project; null: it has none.")
    sentence: str


@router.get("/projects/{slug}/preregistrations", auth=READ, response=PreregistrationList)
def list_preregistrations(request: HttpRequest, slug: str) -> dict[str, Any]:
    """List all versions of the plan, the newest first."""
    _, made = _versions(request, slug)
    return {"items": [_out(version) for version in made]}


@router.post("/projects/{slug}/preregistrations", auth=WRITE, response={201: PreregistrationOut})
def new_preregistration(request: HttpRequest, slug: str, body: PreregistrationIn) -> HttpResponse:
    """Register a plan, or an amendment if there is one. It can't be changed or deleted."""
    access = access_to(request, slug, Role.RESEARCHER)

    def work() -> HttpResponse:
        made = register(access.project, access.user, _plan(access.project, body))
        where = address_of(slug, "preregistrations", made.number)
        return answer(PreregistrationOut(**_out(made)), 201, location=where)

    return once(request, work)


@router.post("/projects/{slug}/preregistrations/check", auth=READ, response=PreregistrationCheck)
def check_preregistration(
    request: HttpRequest, slug: str, body: PreregistrationFile
) -> HttpResponse:
    """Say whether a file is a version of this project's plan that nobody changed."""
    access = access_to(request, slug, Role.OBSERVER)

    def work() -> HttpResponse:
        check = check_file(json.dumps(body.dict()), access.project)
        number = check.stored.number if check.stored else None
        document = PreregistrationCheck(
            holds=check.holds, sha256=check.sha256, number=number, sentence=check.sentence
        )
        return answer(document)

    return once(request, work)


@router.get("/projects/{slug}/preregistrations/{number}", auth=READ, response=PreregistrationOut)
def get_preregistration(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    _, made = _versions(request, slug)
    chosen = next((version for version in made if version.number == number), None)
    if chosen is None:
        raise Http404("No such version.")
    return _out(chosen)


def _versions(request: HttpRequest, slug: str) -> tuple[Access, list[Preregistration]]:
    """Return the versions. If sizes in them come from a pilot, asking for them is recorded."""
    access = access_to(request, slug, Role.OBSERVER)
    made = versions(access.project)
    if any(map(rests_on_judge, made)):
        access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    return access, made


def _plan(project: Project, body: PreregistrationIn) -> Plan:
    fields = body.dict()
    study = None
    if body.study is not None:
        values = {name: value for name, value in body.study.dict().items() if value is not None}
        usual = rate_in(project)
        minutes = values.pop("minutes_per_vote", usual.minutes)
        study = Study(**values, rate=HumanRate(minutes, values.pop("wage_usd", usual.wage)))
    for name in ("hypotheses", "looks", "templates", "analyses"):
        fields[name] = tuple(fields[name])
    return Plan(**fields | {"study": study})


def _out(made: Preregistration) -> dict[str, Any]:
    return {
        "number": made.number,
        "sha256": made.sha256,
        "made_at": made.made_at,
        "by": made.made_by.get_username() if made.made_by else "",
        "preregistration": json.loads(made.text),
        "markdown": as_markdown(made),
    }
