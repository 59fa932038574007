"""Projects, and who the token acts for."""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation import retention
from annotation.deletion import deletions_of, leave_to_worker
from annotation.pages.forms import SettingsForm, weights_in_lines
from annotation.pages.settings import change_settings
from annotation.people import teams
from annotation.people.annotators import leave_project
from fairjudge_site.api.bodies import Cursor, Language, Limit, Page, Text, page_of
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once, token_of
from fairjudge_site.api.problems import Refusal, refusal_of_form
from judging.core.errors import UserError
from judging.dataset.models import n_judged, number_judged
from judging.projects.access import LONGEST_SLUG, Access, may_research, projects_of
from judging.projects.models import Deletion, Membership, Project, Role

router = Router(tags=["projects"])


class TokenOut(Schema):
    prefix: str
    name: str
    scopes: list[str]
    project: str | None = Field(description="The only project that the token opens; null: all.")
    expires_at: datetime | None


class Me(Schema):
    """The user for whom the token acts, and what the token may do."""

    user: str
    may_create_projects: bool
    may_start_runs: bool
    token: TokenOut


class ProjectOut(Schema):
    slug: str
    name: str
    description: str
    role: str = Field(description="Your role: owner, researcher, reviewer, observer or annotator.")
    question_asked: str
    scale: str
    examples: int = Field(description="Pairs that judges are asked about, without checks.")
    primary_run: int | None = Field(description="The number of the run that decides labels.")
    created_at: datetime


class ProjectIn(Schema):
    name: Text = Field(min_length=1, max_length=200)
    slug: Text = Field("", max_length=LONGEST_SLUG, description="Default: made of the name.")
    description: Text = Field("", max_length=20_000)
    like: Text = Field("", description="A project that you own: its settings are copied.")
    people: bool = Field(False, description="The people of that project join with their roles.")


class Translation(Schema):
    question_asked: Annotated[Text, Field(max_length=300)]
    guidelines: Annotated[Text, Field(max_length=100_000)] = ""
    names: dict[Annotated[Text, Field(max_length=60)], Annotated[Text, Field(max_length=60)]] = (
        Field({}, description="How criteria and reasons are shown, by the names in the settings.")
    )


class SettingsOut(Schema):
    """What people are asked, how votes are merged, and what a vote costs. Rounds keep their own."""

    name: str
    description: str
    question_asked: str
    guidelines: str
    scale: str
    both_bad: bool
    cant_judge: bool
    criteria: list[str]
    overall_from: str = Field(description="“” if it is asked, else weighted or lexicographic.")
    criterion_weights: dict[str, str]
    tie_margin: Decimal
    ask_confidence: bool
    reason_tags: list[str]
    ask_spans: bool
    language: str = Field(description="Of the texts that are asked; “” if it isn't stated.")
    translations: dict[str, Translation] = Field(description="The same, by language.")
    content_language: str = Field(description="Of questions and responses, as a tag of BCP 47.")
    rendering: str
    hide_models: bool
    show_reference: bool
    no_majority: str
    label_rule: str
    leave_out_unblinded: bool
    annotator_advantage: Decimal
    wage_usd: Decimal
    minutes_per_vote: Decimal
    cost_basis: str


class EventOut(Schema):
    """An event of the audit trail."""

    id: int
    actor: str = Field(description="Empty for a command, and for a login that was deleted.")
    action: str
    subject: str
    detail: dict[str, Any]
    at: datetime


Weight = Annotated[Decimal, Field(ge=0, max_digits=10, decimal_places=4)]
Share = Annotated[Decimal, Field(ge=0, le=Decimal("0.5"), max_digits=4, decimal_places=3)]


class RetentionOut(Schema):
    what: str = Field(description="`comments`, `logins` or `texts`.")
    said: str = Field(description="What removing it means.")
    on: date | None = Field(description="The day on which it is removed; null: it is kept.")
    done_at: datetime | None
    n: int = Field(description="How many rows still hold something.")
    waits: bool = Field(description="The day is past, and a round or a run is still under way.")


class RetentionIn(Schema):
    comments: date | None = None
    logins: date | None = None
    texts: date | None = None


class SettingsIn(Schema):
    """What is left out stays as it is."""

    name: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    description: Annotated[Text, Field(max_length=20_000)] | None = None
    question_asked: Annotated[Text, Field(min_length=1, max_length=300)] | None = None
    guidelines: Annotated[Text, Field(max_length=100_000)] | None = None
    scale: Literal["three", "five"] | None = None
    both_bad: bool | None = None
    cant_judge: bool | None = None
    criteria: list[Annotated[Text, Field(min_length=1, max_length=60)]] | None = None
    overall_from: Literal["", "weighted", "lexicographic"] | None = Field(
        None, description="Whether the overall answer is asked (“”) or derived from the criteria."
    )
    criterion_weights: dict[Annotated[Text, Field(max_length=60)], Weight] | None = None
    tie_margin: Weight | None = Field(
        None, description="Sums of weights that differ by at most this are a tie."
    )
    ask_confidence: bool | None = Field(None, description="Whether people say how sure they are.")
    reason_tags: list[Annotated[Text, Field(min_length=1, max_length=40)]] | None = Field(
        None, description="Reasons that people may choose from, at most 9."
    )
    ask_spans: bool | None = Field(None, description="Whether people may mark text in responses.")
    language: Literal[""] | Language | None = None
    translations: dict[Language, Translation] | None = Field(
        None, description="All translations, by language. Each has all that is asked by default."
    )
    content_language: Annotated[Text, Field(max_length=35)] | None = None
    rendering: Literal["markdown", "plain"] | None = None
    hide_models: bool | None = None
    show_reference: bool | None = None
    no_majority: Literal["adjudicate", "tie", "judge"] | None = None
    label_rule: Literal["majority", "dawid_skene", "hierarchical"] | None = Field(
        None,
        description="What the votes on an example come to: their majority, or a model's label.",
    )
    leave_out_unblinded: bool | None = None
    annotator_advantage: Share | None = None
    wage_usd: Annotated[Decimal, Field(ge=0, le=10_000, max_digits=10, decimal_places=4)] | None = (
        None
    )
    minutes_per_vote: (
        Annotated[Decimal, Field(ge=0, le=600, max_digits=8, decimal_places=3)] | None
    ) = None
    cost_basis: Literal["assumed", "measured"] | None = None


@router.get("/me", auth=READ, response=Me, tags=["me"])
def me(request: HttpRequest) -> dict[str, Any]:
    """Say for whom the token acts and what it may do."""
    token = token_of(request)
    researcher = may_research(token.user)
    return {
        "user": token.user.get_username(),
        "may_create_projects": researcher and "write" in token.scopes and token.project is None,
        "may_start_runs": researcher and "spend" in token.scopes,
        "token": {
            "prefix": token.prefix,
            "name": token.name,
            "scopes": token.scopes,
            "project": token.project.slug if token.project else None,
            "expires_at": token.expires_at,
        },
    }


@router.get("/projects", auth=READ, response=Page[ProjectOut])
def list_projects(request: HttpRequest, limit: Limit = 50, cursor: Cursor = "") -> dict[str, Any]:
    """List the projects that the token opens, the oldest first."""
    token = token_of(request)
    rows = projects_of(token.user)
    if token.project is not None:
        rows = rows.filter(pk=token.project.pk)
    roles = dict(Membership.objects.filter(user=token.user).values_list("project", "role"))
    # Only superusers see projects without being members, and they act as owners.
    shown = _with_counts(rows)
    return page_of(shown, cursor, limit, lambda row: _out(row, roles.get(row.pk, Role.OWNER)))


@router.post("/projects", auth=WRITE, response={201: ProjectOut})
def new_project(request: HttpRequest, body: ProjectIn) -> HttpResponse:
    """Create a project that you own. It needs the site permission “researcher”."""
    token = token_of(request)
    if token.project is not None:
        raise Refusal(
            "role_too_small",
            f"This token opens {token.project.slug} alone, so it can't create projects.",
        )

    def work() -> HttpResponse:
        more = {"like": body.like, "people": body.people, "description": body.description}
        made = teams.new_project(token.user, body.name.strip(), body.slug, **more)
        return answer(
            ProjectOut(**_out(_with_counts(Project.objects.filter(pk=made.pk)).get(), Role.OWNER)),
            201,
            location=address_of(made.slug),
        )

    return once(request, work)


@router.get("/projects/{slug}", auth=READ, response=ProjectOut)
def get_project(request: HttpRequest, slug: str) -> dict[str, Any]:
    access = access_to(request, slug)
    return _counted(access)


@router.get("/projects/{slug}/settings", auth=READ, response=SettingsOut)
def get_settings(request: HttpRequest, slug: str) -> Project:
    return access_to(request, slug, Role.OWNER).project


@router.patch("/projects/{slug}/settings", auth=WRITE, response=SettingsOut)
def update_settings(request: HttpRequest, slug: str, body: SettingsIn) -> Project:
    """Change some settings. Open rounds keep what they asked, unless the settings page says so."""
    access = access_to(request, slug, Role.OWNER)
    sent = body.dict(exclude_none=True)

    # Called under a lock with the settings as they are then, so that programs don't undo each
    # other.
    def data(now: Project) -> dict[str, Any]:
        fields = {name: getattr(now, name) for name in SettingsOut.model_fields} | sent
        fields["criteria"] = "\n".join(fields["criteria"])
        fields["reason_tags"] = "\n".join(fields["reason_tags"])
        fields["criterion_weights"] = weights_in_lines(fields["criterion_weights"])
        inputs = SettingsForm.base_fields["translations"].prepare_value(fields.pop("translations"))
        fields |= inputs
        # A box that is not ticked is not sent.
        return {name: value for name, value in fields.items() if value is not False}

    form = change_settings(access.project, access.user, data)
    if form.errors:
        raise refusal_of_form(form.errors)
    return Project.objects.get(pk=access.project.pk)


@router.get("/projects/{slug}/retention", auth=READ, response=list[RetentionOut])
def get_retention(request: HttpRequest, slug: str) -> list[retention.Planned]:
    """List what is removed from the project, and on which day."""
    return retention.plan(access_to(request, slug, Role.OWNER).project)


@router.patch("/projects/{slug}/retention", auth=WRITE, response=list[RetentionOut])
def set_retention(request: HttpRequest, slug: str, body: RetentionIn) -> list[retention.Planned]:
    """Set days on which something is removed. `null` keeps it, and what isn't named stays."""
    access = access_to(request, slug, Role.OWNER)
    # A day that isn't named stays, and null removes it, so the two have to be told apart.
    retention.set_dates(access.project, access.user, body.dict(exclude_unset=True))
    return retention.plan(access.project)


@router.get("/projects/{slug}/trail", auth=READ, response=Page[EventOut])
def list_events(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the audit trail: who did what, the oldest first."""
    access = access_to(request, slug, Role.OWNER)
    return page_of(access.project.audit_events.all(), cursor, limit, EventOut.from_orm)


class ConfirmIn(Schema):
    confirm: Text = Field(max_length=LONGEST_SLUG, description="The project's slug.")


class DeletionOut(Schema):
    """A project that is being deleted. Nobody sees it any more."""

    id: int
    slug: str = Field(description="As the project was called.")
    done: int = Field(description="Items, calls, verdicts and examples that are gone.")
    total: int


@router.post("/projects/{slug}/delete", auth=WRITE, response={202: DeletionOut})
def delete_project(request: HttpRequest, slug: str, body: ConfirmIn) -> HttpResponse:
    """Delete the project for good. It is gone for everybody at once; a worker removes its rows.

    `Location` lists deletions under way. A token of this project alone ends with it.
    """

    # Looked for here, so that a repeat is told what the first request was.
    def work() -> HttpResponse:
        access = access_to(request, slug, Role.OWNER)
        if body.confirm != slug:
            raise UserError(f"Nothing was deleted. Send “{slug}” as `confirm` to delete it.")
        made = leave_to_worker(access.project, access.user)
        return answer(DeletionOut(**_deletion(made)), 202, location="/api/v1/deletions")

    return once(request, work)


@router.get("/deletions", auth=READ, response=Page[DeletionOut])
def list_deletions(request: HttpRequest, limit: Limit = 50, cursor: Cursor = "") -> dict[str, Any]:
    """List the deletions under way that you began. One that is done is no longer listed."""
    token = token_of(request)
    # A token of one project says nothing of others, and ends with its own.
    rows = deletions_of(token.user) if token.project is None else Deletion.objects.none()
    return page_of(rows, cursor, limit, _deletion)


@router.post("/projects/{slug}/leave", auth=WRITE, response=ProjectOut)
def leave(request: HttpRequest, slug: str) -> HttpResponse:
    """Leave the project yourself, and return it as it was. Your votes stay."""

    def work() -> HttpResponse:
        access = access_to(request, slug)
        if access.membership is None:
            raise UserError(f"You are no member of {slug}, so there is nothing to leave.")
        was = _counted(access)
        leave_project(access.membership, access.user)
        return answer(ProjectOut(**was))

    return once(request, work)


def _deletion(deletion: Deletion) -> dict[str, Any]:
    done, total = deletion.n_done, deletion.n_total
    return {"id": deletion.pk, "slug": deletion.slug, "done": done, "total": total}


def address_of(slug: str, *parts: object) -> str:
    """Return the address of a project or of something in it."""
    return "/".join([f"/api/v1/projects/{slug}", *map(str, parts)])


def _with_counts(projects: QuerySet[Project]) -> QuerySet[Project]:
    return projects.select_related("primary_run").annotate(n_examples=number_judged())


def _counted(access: Access) -> dict[str, Any]:
    project = Project.objects.select_related("primary_run").get(pk=access.project.pk)
    project.n_examples = n_judged(project.pk)  # type: ignore[attr-defined]
    return _out(project, access.role)


def _out(project: Project, role: str) -> dict[str, Any]:
    return {
        "slug": project.slug,
        "name": project.name,
        "description": project.description,
        "role": role,
        "question_asked": project.question_asked,
        "scale": project.scale,
        "examples": project.n_examples,  # type: ignore[attr-defined]
        "primary_run": project.primary_run.number if project.primary_run else None,
        "created_at": project.created_at,
    }
