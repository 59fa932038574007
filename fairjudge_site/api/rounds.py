"""Rounds: planned, opened and steered, and how far people are, without what a judge said."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from annotation.models import Adjudication, Annotator, Flag, Item, Round
from annotation.people.annotators import assignable
from annotation.people.teams import LONGEST_TAG, MOST_TAGS, Whom, assign_whom, read_tags, team_named
from annotation.queue.queue import settle_flag
from annotation.results.planner.planning import plan as plan_of
from annotation.results.planner.planning import problems
from annotation.results.planner.sizes import (
    MOST_EXAMPLES,
    MOST_VOTES,
    Pilot,
    Study,
    as_document,
    needs,
    pilot_of,
)
from annotation.results.report.cache import shown_report
from annotation.rounds import changes, growing
from annotation.rounds.opening import (
    CHECK_ACTIONS,
    LONGEST_CLAUSE,
    PASS_MARK,
    REPEAT_AFTER,
    CheckRule,
    Practice,
    RoundSettings,
    open_round,
    practice_of,
    rate_in,
    round_named,
)
from annotation.rounds.practice import practice_standing
from annotation.rounds.progress import round_progress
from annotation.votes import aside
from annotation.votes.voting import decide, withdraw
from fairjudge_site.api.bodies import Cursor, Limit, Number, Page, SubsetIn, Text, first_of, page_of
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once, once_made
from fairjudge_site.api.problems import FieldError, Refusal
from fairjudge_site.api.projects import address_of
from fairjudge_site.api.runs import being_computed, run_named
from judging.core.errors import UserError
from judging.methods.review.cost import HumanRate
from judging.projects.access import Access
from judging.projects.models import Project, Role
from judging.runs.models import Run, run_to_show

router = Router(tags=["rounds"])

Percent = Annotated[Decimal, Field(ge=0, le=100, max_digits=20, decimal_places=15)]


class CheckRuleIn(Schema):
    """What is done about a person who fails attention checks. `stop` puts their votes aside too."""

    after: Annotated[int, Field(ge=1, le=100_000)] = Field(description="Checks answered at least.")
    below: Percent = Field(description="The share of right answers under which the rule acts.")
    then: Annotated[str, Field(pattern=f"^({'|'.join(CHECK_ACTIONS)})$")]


class ShareIn(Schema):
    """How much one annotator labels. Give exactly one of `percent` and `items`."""

    annotator: Number
    percent: Annotated[Decimal, Field(gt=0, le=100, max_digits=7, decimal_places=4)] | None = Field(
        None, description="Of the round's votes."
    )
    items: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class PeopleIn(Schema):
    """Whom a round asks. If it names nobody, everybody may label.

    `teams` and `tags` are resolved now. Send the same again to follow teams that have changed.
    """

    annotators: list[Number] = Field(
        default_factory=list, max_length=10_000, description="Numbers of annotators."
    )
    teams: list[Annotated[Text, Field(max_length=240)]] = Field(
        default_factory=list,
        max_length=100,
        description="Teams of the project's owners, by name, or by owner/name.",
    )
    tags: list[Annotated[Text, Field(max_length=LONGEST_TAG)]] = Field(
        default_factory=list,
        max_length=MOST_TAGS,
        description="Only people of these teams, or of any team, who have all of these tags.",
    )
    limit: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="Items per person; null: no limit."
    )
    shares: list[ShareIn] = Field(
        default_factory=list, max_length=10_000, description="They are asked by this, too."
    )

    def whom(self, project: Project) -> Whom:
        named = {*self.annotators, *(share.annotator for share in self.shares)}
        people = {person.number: person for person in assignable(project).filter(number__in=named)}
        if unknown := sorted(named - people.keys()):
            raise _unusable("body.annotators", f"No annotator {unknown[0]} can be given items.")
        if any((share.percent is None) == (share.items is None) for share in self.shares):
            raise UserError("Give each share a percent or a number of items. Nothing was changed.")
        shares = {people[part.annotator]: part.percent or part.items or 0 for part in self.shares}
        teams = tuple(team_named(project, name) for name in self.teams)
        asked = tuple(people[number] for number in dict.fromkeys(self.annotators))
        return Whom(teams, tuple(read_tags(self.tags)), asked, self.limit, shares)


class RoundIn(SubsetIn):
    """What a round is opened with. Give exactly one of `beta`, `budget_usd` and `everything`.

    Training and a qualification take none of them, and no run: they ask about the checks that are
    marked for them.
    """

    kind: Literal["routed", "training", "qualification"] = "routed"
    pairs: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Of training, or of each try at a qualification."
    )
    pass_mark: Percent = Field(PASS_MARK, description="Percent right that passes a qualification.")
    tries: Annotated[int, Field(ge=1, le=20)] = Field(1, description="At a qualification.")
    repeat_percent: Annotated[int, Field(ge=0, le=50)] = Field(
        0, description="Of a person's pairs that come again, with the sides exchanged."
    )
    repeat_after: Annotated[int, Field(ge=1, le=1000)] = Field(
        REPEAT_AFTER, description="How many others come first."
    )
    after: Number | None = Field(
        None, description="A training or qualification that people pass before this round."
    )

    run: Number | None = Field(None, description="Default: the project's primary run.")
    beta: Percent | None = Field(None, description="Percent of all examples.")
    budget_usd: Annotated[Decimal, Field(ge=0, le=1_000_000_000, max_digits=20)] | None = None
    everything: bool = False
    votes: Annotated[int, Field(ge=1, le=99)] = 3
    audit: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    learn: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    partial: bool = False
    paper_mode: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    epsilon: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    looks: list[Annotated[int, Field(ge=1, le=100_000_000)]] = Field(
        default_factory=list, max_length=20
    )
    cite: Literal["narrower", "calibrated"] = Field(
        "narrower",
        description="Which win rate the results give to cite; fixed by the run's first audit.",
    )
    check_rules: list[CheckRuleIn] = Field(default_factory=list, max_length=10)
    people: PeopleIn | None = Field(None, description="Who labels. Default: everybody.")
    clause: Annotated[Text, Field(max_length=LONGEST_CLAUSE)] = Field(
        "", description="An owner adds this to the guidelines, and all of a part is asked again."
    )

    def settings(self, project: Project) -> RoundSettings:
        names = ("beta", "everything", "votes", "audit", "learn", "partial", "paper_mode", "seed",
                 "epsilon", "alpha", "cite", "repeat_percent", "repeat_after",
                 "clause")  # fmt: skip
        chosen = {name: getattr(self, name) for name in names}
        chosen |= {"budget": self.budget_usd, "looks": tuple(self.looks)}
        rules = (CheckRule(rule.after, rule.below, rule.then) for rule in self.check_rules)
        chosen |= {"check_rules": tuple(rules)}
        if self.people is not None:
            whom = self.people.whom(project)
            chosen |= {"annotators": whom.people, "teams": whom.teams, "tags": whom.tags}
            chosen |= {"limit": whom.limit, "shares": whom.shares}
        if self.after is not None:
            chosen["after"] = round_named(project, self.after)
        if self.kind != "routed":
            # Training is passed by finishing it, whatever mark was sent.
            mark = self.pass_mark if self.kind == "qualification" else PASS_MARK
            chosen["practice"] = Practice(self.kind, self.pairs, mark, self.tries)
        return RoundSettings(**chosen, subset=self.subset(self.seed))


class PlanOut(Schema):
    """What these settings select and cost. `problems` keep them from being a round."""

    selected: int
    audit: int
    frame: int
    beta: Decimal
    new_votes: int
    hours: Decimal
    usd: Decimal
    problems: list[FieldError]


class RoundOut(Schema):
    number: int
    kind: str = Field(description="routed, import, training or qualification.")
    after: int | None = Field(description="The round that people pass before this one.")
    state: str = Field(description="opening, open, paused or closed.")
    stage: str
    run: int | None
    votes_per_item: int
    frame_size: int
    frame: str | None = Field(description="Which examples it is about; null for all.")
    opened_at: datetime
    closed_at: datetime | None


class StandingOut(RoundOut):
    """A round and how far people are. The progress is null until it is written whole."""

    items: int | None
    done: int | None
    undecided: int | None
    in_work: int | None
    votes_asked: int | None
    votes_given: int | None
    usd: Decimal | None
    usd_left: Decimal | None
    can_vote: int | None
    out_of_reach: int | None
    flags: int | None


class ResultOut(Schema):
    """What came of a training, or of one try at a qualification."""

    number: int
    pairs: int
    right: int
    passed: bool
    at: datetime


class PractisedOut(Schema):
    """A person in training or in a qualification."""

    annotator: int
    state: str = Field(description="in progress, passed or not passed.")
    answered: int = Field(description="Pairs so far, in all tries.")
    seconds: float | None
    results: list[ResultOut]


class PracticeOut(Schema):
    """What came of a training or a qualification. Nobody else sees who passed."""

    kind: str
    pairs: int | None
    pass_mark: Decimal | None
    tries: int
    passed: int
    failed: int
    people: list[PractisedOut]


class ExtendIn(Schema):
    beta: Percent


class VotesIn(Schema):
    votes: Annotated[int, Field(ge=1, le=99)]


class AsideIn(Schema):
    reason: Annotated[Text, Field(min_length=1, max_length=aside.LONGEST_REASON)]
    stop: bool = Field(False, description="Also hand out nothing more of the round to them.")


class PersonOut(Schema):
    """A person in a round: the votes that they gave in it, and whether they may label on."""

    annotator: int
    round: int
    votes: int = Field(description="Votes given in this round that count.")
    votes_aside: int = Field(description="Votes given in this round that are put aside.")
    hold: str = Field(
        description="paused, stopped, failed (stopped by a rule about attention checks), or empty."
    )


class DecisionIn(Schema):
    external_id: Annotated[Text, Field(min_length=1, max_length=200)]
    label: Annotated[str, Field(pattern="^(win|tie|lose)$", description="Of response 1.")]
    reason: Annotated[Text, Field(min_length=1, max_length=5_000)]


class DecisionOut(Schema):
    id: int
    external_id: str
    label: str
    reason: str
    by: str = Field(description="Who decided. Empty for a login that was deleted.")
    decided_at: datetime


class UndecidedOut(Schema):
    """An item whose votes gave no majority. `new_decision` decides about it."""

    external_id: str


class FlagOut(Schema):
    """What an annotator says is wrong with an item."""

    id: int
    external_id: str
    annotator: int
    reason: str
    at: datetime
    settled_at: datetime | None


@router.post("/projects/{slug}/rounds/plan", auth=READ, response=PlanOut)
def plan_round(request: HttpRequest, slug: str, body: RoundIn) -> HttpResponse:
    """Say what a round with these settings selects and costs. Nothing is opened."""
    access = access_to(request, slug, Role.RESEARCHER)
    run, settings = _chosen(access, body)

    def work() -> HttpResponse:
        _refuse_two(body)
        if settings.practice is not None:
            raise _unusable("body.kind", "Training and a qualification have no plan. Open it.")
        plan = plan_of(access.project, run, settings)
        faults = [
            FieldError(field=name, detail=detail)
            for name, detail in problems(access.project, run, settings)
        ]
        return answer(
            PlanOut(
                selected=plan.m,
                audit=plan.audit,
                frame=plan.n_frame,
                beta=plan.beta,
                new_votes=plan.new_votes,
                hours=plan.hours,
                usd=plan.usd,
                problems=faults,
            )
        )

    return once(request, work)


@router.post("/projects/{slug}/rounds", auth=WRITE, response={202: RoundOut})
def new_round(request: HttpRequest, slug: str, body: RoundIn) -> HttpResponse:
    """Open a round. Annotators see it once it is written whole: poll `Location`."""
    # The guidelines are settings, which owners change.
    access = access_to(request, slug, Role.OWNER if body.clause else Role.RESEARCHER)
    run, settings = _chosen(access, body)
    _refuse_two(body)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        open_round(
            access.project,
            access.user,
            run,
            settings,
            background=True,
            made=lambda round_: keep(_accepted(round_)),
        )

    return once_made(request, work)


@router.get("/projects/{slug}/rounds", auth=READ, response=Page[RoundOut])
def list_rounds(
    request: HttpRequest, slug: str, limit: Limit = 50, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the rounds, the oldest first."""
    access = access_to(request, slug, Role.REVIEWER)
    # `every` has also the rounds that are still being written.
    rows = Round.every.filter(project=access.project).select_related("run", "frame", "after")
    return page_of(rows, cursor, limit, _out, by="number")


@router.get("/projects/{slug}/rounds/{number}/practice", auth=READ, response=PracticeOut)
def get_practice(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Say how people did in a training or a qualification. In other rounds nobody practises."""
    round_ = _round_of(access_to(request, slug, Role.RESEARCHER), number)
    if not round_.is_practice:
        nothing = {"pairs": None, "pass_mark": None, "tries": 0, "passed": 0, "failed": 0}
        return {"kind": round_.kind, **nothing, "people": []}
    practice, standing = practice_of(round_), practice_standing(round_)
    people = [
        {
            "annotator": person.annotator.number,
            "state": person.state,
            "answered": person.answered,
            "seconds": person.seconds,
            "results": [
                {name: getattr(result, name) for name in ("number", "right", "passed", "at")}
                | {"pairs": result.n}
                for result in person.results
            ],
        }
        for person in standing.people
    ]
    return {
        "kind": round_.kind,
        "pairs": practice.pairs,
        "pass_mark": None if practice.is_training else practice.pass_mark,
        "tries": practice.tries,
        "passed": standing.n_passed,
        "failed": standing.n_failed,
        "people": people,
    }


@router.get("/projects/{slug}/rounds/{number}", auth=READ, response=StandingOut)
def get_round(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Say how far people are in a round."""
    return _standing(_round_of(access_to(request, slug, Role.REVIEWER), number))


def _changed(request: HttpRequest, slug: str, number: int, change: Callable[..., Any]) -> Any:
    """Make a change of a round, and answer with the round as it is then."""
    access = access_to(request, slug, Role.RESEARCHER)
    round_ = _round_of(access, number)

    def work() -> HttpResponse:
        change(round_, access.user)
        # Read again, because a change may write more than the object that it was given.
        return answer(RoundOut(**_out(_round_of(access, number))))

    return once(request, work)


@router.post("/projects/{slug}/rounds/{number}/pause", auth=WRITE, response=RoundOut)
def pause_round(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Hand out no new items."""
    return _changed(request, slug, number, changes.pause)


@router.post("/projects/{slug}/rounds/{number}/resume", auth=WRITE, response=RoundOut)
def resume_round(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Hand out items again."""
    return _changed(request, slug, number, changes.resume)


@router.post("/projects/{slug}/rounds/{number}/close", auth=WRITE, response=RoundOut)
def close_round(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """End the round and settle its items."""
    # In the background, because settling the items of a large round outlasts a request.
    return _changed(request, slug, number, lambda *of: changes.close(*of, background=True))


@router.post("/projects/{slug}/rounds/{number}/reopen", auth=WRITE, response=RoundOut)
def reopen_round(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Go on with the items that didn't get all their votes."""
    return _changed(request, slug, number, lambda *of: changes.reopen(*of, background=True))


@router.post("/projects/{slug}/rounds/{number}/cancel", auth=WRITE, response=RoundOut)
def cancel_round(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Undo what is under way: opening or closing the round, more items, or more votes."""
    access = access_to(request, slug, Role.RESEARCHER)

    # Looked for here, since a round that was being opened goes, and a repeat is told of it.
    def work(keep: Callable[[HttpResponse], None]) -> None:
        round_ = _round_of(access, number)
        growing.cancel(round_, access.user, background=True)
        now = Round.every.filter(pk=round_.pk).select_related("run", "frame", "after").first()
        keep(answer(RoundOut(**_out(now or round_))))

    return once_made(request, work, alone=True)


@router.post("/projects/{slug}/rounds/{number}/extend", auth=WRITE, response=RoundOut)
def extend_round(request: HttpRequest, slug: str, number: Number, body: ExtendIn) -> HttpResponse:
    """Select up to a larger cut."""
    return _changed(
        request, slug, number, lambda *of: changes.extend(*of, body.beta, background=True)
    )


@router.post("/projects/{slug}/rounds/{number}/votes", auth=WRITE, response=RoundOut)
def raise_votes(request: HttpRequest, slug: str, number: Number, body: VotesIn) -> HttpResponse:
    """Ask for more votes per item."""
    return _changed(
        request, slug, number, lambda *of: changes.raise_votes(*of, body.votes, background=True)
    )


@router.post("/projects/{slug}/rounds/{number}/people", auth=WRITE, response=RoundOut)
def assign_people(request: HttpRequest, slug: str, number: Number, body: PeopleIn) -> HttpResponse:
    """Choose who labels in the round, and how much each. Votes that others gave stay."""
    access = access_to(request, slug, Role.RESEARCHER)
    whom = body.whom(access.project)
    return _changed(request, slug, number, lambda *of: assign_whom(*of, whom))


def _about_person(
    request: HttpRequest, slug: str, number: int, annotator: int, change: Callable[..., Any]
) -> HttpResponse:
    """Do something about a person of a round, and answer with how they stand then."""
    access = access_to(request, slug, Role.RESEARCHER)
    round_ = _round_of(access, number)
    person = Annotator.objects.filter(project=access.project, number=annotator).first()
    if person is None or round_.state == Round.State.OPENING:
        raise Http404("No such person in this round.")

    # A person's votes change in many short transactions, and a change that ended early goes on.
    def work(keep: Callable[[HttpResponse], None]) -> None:
        change(round_, person, access.user)
        standing = aside.standing_of(round_, person)
        out = PersonOut(
            annotator=person.number,
            round=round_.number,
            votes=standing.n_counting,
            votes_aside=standing.n_aside,
            hold=standing.hold,
        )
        keep(answer(out))

    return once_made(request, work, alone=True)


@router.post(
    "/projects/{slug}/rounds/{number}/people/{annotator}/aside", auth=WRITE, response=PersonOut
)
def put_aside(
    request: HttpRequest, slug: str, number: Number, annotator: Number, body: AsideIn
) -> HttpResponse:
    """Let the votes that a person gave in this round no longer count. Their cost stays."""
    return _about_person(
        request,
        slug,
        number,
        annotator,
        lambda *of: aside.put_aside(*of, body.reason, stop=body.stop),
    )


@router.post(
    "/projects/{slug}/rounds/{number}/people/{annotator}/count-again",
    auth=WRITE,
    response=PersonOut,
)
def count_again(request: HttpRequest, slug: str, number: Number, annotator: Number) -> HttpResponse:
    """Count votes again that were put aside, as far as their pairs still need votes."""
    return _about_person(request, slug, number, annotator, aside.count_again)


@router.post(
    "/projects/{slug}/rounds/{number}/people/{annotator}/release", auth=WRITE, response=PersonOut
)
def release_person(
    request: HttpRequest, slug: str, number: Number, annotator: Number
) -> HttpResponse:
    """Hand out items of this round again to a person who was stopped or paused."""
    return _about_person(request, slug, number, annotator, aside.let_go_on)


@router.post(
    "/projects/{slug}/rounds/{number}/decisions",
    auth=WRITE,
    response={201: DecisionOut},
    tags=["decisions"],
)
def new_decision(request: HttpRequest, slug: str, number: Number, body: DecisionIn) -> HttpResponse:
    """Decide about an item that votes did not settle."""
    access = access_to(request, slug, Role.REVIEWER)
    items = Item.objects.select_related("example", "round__project").filter(
        round=_round_of(access, number), example__external_id=body.external_id
    )
    item = first_of(items, "item")

    def work() -> HttpResponse:
        made = decide(item, access.user, body.label, body.reason)
        return answer(DecisionOut(**_decision(made)), 201)

    return once(request, work)


@router.get(
    "/projects/{slug}/rounds/{number}/decisions",
    auth=READ,
    response=Page[DecisionOut],
    tags=["decisions"],
)
def list_decisions(
    request: HttpRequest, slug: str, number: Number, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the decisions in a round, the oldest first. The last one about an item holds."""
    round_ = _round_of(access_to(request, slug, Role.REVIEWER), number)
    rows = Adjudication.objects.filter(item__round=round_).select_related("item__example")
    return page_of(rows, cursor, limit, _decision)


@router.get(
    "/projects/{slug}/rounds/{number}/undecided",
    auth=READ,
    response=Page[UndecidedOut],
    tags=["decisions"],
)
def list_undecided(
    request: HttpRequest, slug: str, number: Number, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the items of a round that wait for a decision."""
    round_ = _round_of(access_to(request, slug, Role.REVIEWER), number)
    rows = Item.objects.filter(round=round_, state=Item.State.ADJUDICATE)
    rows = rows.select_related("example")
    return page_of(rows, cursor, limit, lambda row: {"external_id": row.example.external_id})


@router.post(
    "/projects/{slug}/rounds/{number}/decisions/{decision}/undo",
    auth=WRITE,
    response=DecisionOut,
    tags=["decisions"],
)
def undo_decision(
    request: HttpRequest, slug: str, number: Number, decision: Number
) -> HttpResponse:
    """Take your own last decision on an item back, so that it waits again."""
    access = access_to(request, slug, Role.REVIEWER)
    rows = Adjudication.objects.select_related("item__example", "item__round__project")
    rows = rows.filter(item__round=_round_of(access, number), pk=decision)

    # Looked for here, so that a repeat is told what the first request was.
    def work() -> HttpResponse:
        row = first_of(rows, "decision")
        was = _decision(row)
        withdraw(row, access.user)
        return answer(DecisionOut(**was))

    return once(request, work)


@router.get("/projects/{slug}/rounds/{number}/flags", auth=READ, response=Page[FlagOut])
def list_flags(
    request: HttpRequest, slug: str, number: Number, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List what annotators say is wrong with items of a round, the oldest first."""
    rows = _flags_of(_round_of(access_to(request, slug, Role.REVIEWER), number))
    return page_of(rows, cursor, limit, _flag)


@router.post("/projects/{slug}/rounds/{number}/flags/{flag}/settle", auth=WRITE, response=FlagOut)
def settle_flag_of(request: HttpRequest, slug: str, number: Number, flag: Number) -> HttpResponse:
    """Note that somebody has dealt with a flag."""
    access = access_to(request, slug, Role.REVIEWER)
    rows = _flags_of(_round_of(access, number)).filter(pk=flag)
    row = first_of(rows, "flag")

    def work() -> HttpResponse:
        settle_flag(row, access.user)
        return answer(FlagOut(**_flag(rows.get())))

    return once(request, work)


def _flags_of(round_: Round) -> QuerySet[Flag]:
    named = ("annotator", "item__example", "item__round__project")
    return Flag.objects.filter(item__round=round_).select_related(*named)


def _flag(row: Flag) -> dict[str, Any]:
    named = {name: getattr(row, name) for name in ("id", "reason", "at", "settled_at")}
    about = {"external_id": row.item.example.external_id}
    return named | about | {"annotator": row.annotator.number}


def _decision(row: Adjudication) -> dict[str, Any]:
    named = {name: getattr(row, name) for name in ("id", "label", "reason")}
    about = {"external_id": row.item.example.external_id}
    return named | about | {"by": row.decider, "decided_at": row.at}


def _chosen(access: Access, body: RoundIn) -> tuple[Run | None, RoundSettings]:
    is_practice = body.kind != "routed" and body.run is None
    run = None if is_practice else run_named(access, body.run)
    return run, body.settings(access.project)


def _refuse_two(body: RoundIn) -> None:
    n_given = (body.beta is not None) + (body.budget_usd is not None) + body.everything
    if body.kind == "routed" and n_given != 1:
        raise _unusable("body.beta", "Give exactly one of beta, budget_usd and everything.")


def _unusable(field: str, detail: str) -> Refusal:
    wrong = FieldError(field=field, detail=detail)
    return Refusal("field_unusable", f"{detail} Nothing was changed.", errors=[wrong])


def _round_of(access: Access, number: int) -> Round:
    # `every` has also the rounds that are still being written, which a program polls.
    rounds = Round.every.select_related("project", "run", "protocol", "frame", "after")
    return first_of(rounds.filter(project=access.project, number=number), "round")


def _accepted(round_: Round) -> HttpResponse:
    where = address_of(round_.project.slug, "rounds", round_.number)
    return answer(RoundOut(**_out(round_)), 202, location=where)


def _out(round_: Round) -> dict[str, Any]:
    names = ("number", "kind", "state", "stage", "votes_per_item", "frame_size", "opened_at",
             "closed_at")  # fmt: skip
    fields = {name: getattr(round_, name) for name in names}
    fields["frame"] = round_.frame.words if round_.frame else None
    fields["after"] = round_.after.number if round_.after else None
    return fields | {"run": round_.run.number if round_.run else None}


def _standing(round_: Round) -> dict[str, Any]:
    names = StandingOut.model_fields.keys() - RoundOut.model_fields.keys()
    if round_.state == Round.State.OPENING:
        return _out(round_) | dict.fromkeys(names)
    progress = round_progress(round_)
    renamed = {"items": "n_items", "usd": "cost", "usd_left": "cost_left", "flags": "n_flags"}
    return _out(round_) | {name: getattr(progress, renamed.get(name, name)) for name in names}


Share = Annotated[float, Field(ge=0, le=1)]


class StudyIn(Schema):
    """What is expected of a study, and what it is to show. What is left out has its default."""

    win_rate: Share | None = Field(None, description="Of model 1, by people.")
    ties: Share | None = Field(None, description="Share of people's labels.")
    accuracy: Share | None = Field(None, description="Of the judge's labels.")
    kappa: Share | None = Field(None, description="Of the judge's labels and people's.")
    wrong: Share | None = Field(None, description="Wrong labels where nobody reviews.")
    within: Share | None = Field(None, description="Half the width of intervals.")
    power: Share | None = Field(None, description="Probability to show what is true.")
    epsilon: Share | None = Field(None, description="Largest share of wrong labels to certify.")
    examples: Annotated[int, Field(ge=1, le=MOST_EXAMPLES)] | None = Field(
        None, description="Examples that the judge labels."
    )
    votes: Annotated[int, Field(ge=1, le=MOST_VOTES)] | None = None
    minutes_per_vote: Annotated[Decimal, Field(gt=0, le=1000, max_digits=20)] | None = None
    wage_usd: Annotated[Decimal, Field(gt=0, le=10_000, max_digits=20)] | None = None


class StudyOut(Schema):
    win_rate: float
    ties: float
    accuracy: float
    kappa: float
    wrong: float
    within: float
    power: float
    epsilon: float
    examples: int | None
    votes: int
    minutes_per_vote: Decimal
    wage_usd: Decimal


class NeedOut(Schema):
    """A goal, and the labels that it takes."""

    goal: Literal["better", "win_rate", "accuracy", "kappa", "certificate"]
    question: str
    labels: int | None = Field(description="Examples that people label; null: see `reason`.")
    reason: str
    reached: float | None = Field(description="What `reaches` names, with these labels.")
    reaches: str
    cautious: int | None = Field(
        description="Labels if a pilot's values are at the worse end of their intervals."
    )
    votes: int | None
    hours: Decimal | None
    usd: Decimal | None


class SizesOut(Schema):
    """How many labels a study needs. docs/pages.md says what each goal means."""

    study: StudyOut
    measured: list[str] = Field(description="The values that come from the pilot.")
    goals: list[NeedOut]


@router.get("/sizes", auth=READ, response=SizesOut)
def get_sizes(request: HttpRequest, study: Annotated[StudyIn, Query()]) -> dict[str, Any]:
    """Say how many labels a study needs, from what you expect. No project is needed."""
    return _sizes(study, Study(), None)


@router.get("/projects/{slug}/sizes", auth=READ, response=SizesOut)
def get_project_sizes(
    request: HttpRequest, slug: str, study: Annotated[StudyIn, Query()]
) -> HttpResponse | dict[str, Any]:
    """Say it with what the primary run has measured so far. It shows what the judge said.

    While a worker computes the figures of a large project, the answer is 202 with `Retry-After`.
    """
    access = access_to(request, slug, Role.OBSERVER, shows_judge=True)
    project, run = access.project, run_to_show(access.project)
    usual = Study(rate=rate_in(project))
    if run is None or run.ranked_at is None:
        return _sizes(study, usual, None)
    shown = shown_report(project, run, here=True)
    if shown.report is None:
        return being_computed()
    return _sizes(study, usual, pilot_of(shown.report, usual))


def _sizes(asked: StudyIn, usual: Study, pilot: Pilot | None) -> dict[str, Any]:
    values = {name: value for name, value in asked.dict().items() if value is not None}
    start = pilot.study if pilot else usual
    minutes = values.pop("minutes_per_vote", start.rate.minutes)
    rate = HumanRate(minutes, values.pop("wage_usd", start.rate.wage))
    study = replace(start, **values, rate=rate)
    return as_document(study, needs(study, pilot), pilot)
