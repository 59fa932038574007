"""Members and annotators of a project, and the links that let people in, for owners alone."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation.letters import invite_by_mail
from annotation.models import Annotator, CrowdLink, CrowdSubmission, Invitation, Round, Team
from annotation.pages.crowd import CrowdForm, translations_in_lines
from annotation.people import crowds
from annotation.people.annotators import leave_project
from annotation.people.background import in_lines
from annotation.people.invitations import (
    MAX_DAYS,
    MAX_USES,
    Terms,
    invite,
    link_of,
    revoke_invitation,
    usable_invitations,
)
from annotation.people.teams import (
    LONGEST_TAG,
    MOST_TAGS,
    add_to_project,
    delete_team,
    rename_team,
    set_team,
    team_for,
    team_named,
    teams_of,
)
from annotation.votes.aside import REJECTED, put_aside_all, rejected_with_votes
from fairjudge_site.api.bodies import (
    Cursor,
    Language,
    Limit,
    Number,
    Page,
    Text,
    first_of,
    page_of,
    stored_body,
)
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once, once_made, token_of
from fairjudge_site.api.problems import Refusal, refusal_of_form
from judging.projects.access import Access, change_role
from judging.projects.accounts import link_again, new_reset
from judging.projects.models import Membership, Role

router = Router(tags=["people"])


_Role = Annotated[str, Field(pattern="^(owner|researcher|reviewer|observer|annotator)$")]


class AnnotatorOut(Schema):
    number: int
    name: str
    pseudonym: str = Field(description="As exports name them.")
    has_login: bool
    left_at: datetime | None


class InvitationIn(Schema):
    role: _Role = "annotator"
    uses: Annotated[int, Field(ge=1, le=MAX_USES)] = 1
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 14
    note: Annotated[Text, Field(max_length=200)] = ""
    mail_to: Annotated[Text, Field(max_length=254)] = Field(
        default="",
        description="Send the link there, if the site sends mail. The address isn't kept.",
    )


class InvitationOut(Schema):
    id: int
    link: str = Field(description="Anybody who has it can join.")
    role: str
    uses: int
    most_uses: int
    expires_at: datetime
    note: str


class MemberOut(Schema):
    id: int
    user: str
    role: str
    joined_at: datetime


class PasswordLinkOut(Schema):
    user: str
    link: str = Field(description="Anybody who has it can set the password, once.")


class RoleIn(Schema):
    role: _Role


@router.get("/projects/{slug}/members", auth=READ, response=Page[MemberOut])
def list_members(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List who belongs to the project, with their roles."""
    access = access_to(request, slug, Role.OWNER)
    rows = access.project.memberships.select_related("user")
    return page_of(rows, cursor, limit, _member)


@router.post("/projects/{slug}/members/{number}/role", auth=WRITE, response=MemberOut)
def change_member(request: HttpRequest, slug: str, number: Number, body: RoleIn) -> HttpResponse:
    """Change a member's role. A project keeps an owner."""
    access = access_to(request, slug, Role.OWNER)
    membership = _membership(access, number)

    def work() -> HttpResponse:
        change_role(membership, access.user, body.role)
        return answer(MemberOut(**_member(membership)))

    return once(request, work)


@router.post("/projects/{slug}/members/{number}/remove", auth=WRITE, response=MemberOut)
def remove_member(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Remove a member. Their votes stay."""
    access = access_to(request, slug, Role.OWNER)

    def work() -> HttpResponse:
        # Looked for here, so that a repeat is told what the first request was.
        membership = _membership(access, number)
        was = _member(membership)
        leave_project(membership, access.user)
        return answer(MemberOut(**was))

    return once(request, work)


@router.post(
    "/projects/{slug}/members/{number}/password-link", auth=WRITE, response=PasswordLinkOut
)
def new_password_link(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Make a link by which a member sets a new password, if their login opens this project alone.

    The answer alone tells it.
    """
    access = access_to(request, slug, Role.OWNER)
    membership = _membership(access, number)

    # What is kept for a repeat is the number of the link, of which the site alone makes the link.
    def work() -> HttpResponse:
        made = new_reset(membership, access.user)
        return answer(PasswordLinkOut(user=made.user.get_username(), link=str(made.pk)))

    def unsealed(kept: dict[str, Any]) -> dict[str, Any]:
        return kept | {"link": link_again(int(kept["link"]))}

    return once(request, work, unsealed=unsealed)


def _membership(access: Access, number: int) -> Membership:
    rows = access.project.memberships.select_related("user", "project")
    return first_of(rows.filter(pk=number), "member")


def _member(membership: Membership) -> dict[str, Any]:
    named = {name: getattr(membership, name) for name in ("id", "role", "joined_at")}
    return named | {"user": membership.user.get_username()}


@router.get("/projects/{slug}/annotators", auth=READ, response=Page[AnnotatorOut])
def list_annotators(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List who labels, and whose votes were imported."""
    access = access_to(request, slug, Role.OWNER)
    rows = Annotator.objects.filter(project=access.project)
    return page_of(rows, cursor, limit, _annotator, by="number")


@router.get("/projects/{slug}/invitations", auth=READ, response=Page[InvitationOut])
def list_invitations(
    request: HttpRequest, slug: str, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List the invitations whose link still works."""
    access = access_to(request, slug, Role.OWNER)
    return page_of(usable_invitations(access.project), cursor, limit, _invitation)


@router.post("/projects/{slug}/invitations", auth=WRITE, response={201: InvitationOut})
def new_invitation(request: HttpRequest, slug: str, body: InvitationIn) -> HttpResponse:
    """Make a link that lets people join."""
    access = access_to(request, slug, Role.OWNER)

    def work() -> HttpResponse:
        terms = Terms(**body.dict(exclude={"mail_to"}))
        if body.mail_to:
            made = invite_by_mail(access.project, access.user, terms, body.mail_to)
        else:
            made = invite(access.project, access.user, terms)
        return answer(InvitationOut(**_invitation(made)), 201)

    return once(request, work)


@router.post("/projects/{slug}/invitations/{number}/revoke", auth=WRITE, response=InvitationOut)
def withdraw_invitation(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Withdraw a link. People who joined by it stay."""
    access = access_to(request, slug, Role.OWNER)
    links = Invitation.objects.filter(project=access.project)
    invitation = first_of(links.filter(pk=number), "invitation")

    def work() -> HttpResponse:
        revoke_invitation(invitation, access.user)
        return answer(InvitationOut(**_invitation(invitation)))

    return once(request, work)


class TeamMemberIn(Schema):
    user: Annotated[Text, Field(min_length=1, max_length=150)]
    tags: list[Annotated[Text, Field(max_length=LONGEST_TAG)]] = Field(
        default_factory=list, max_length=MOST_TAGS, description="Languages and skills."
    )


class TeamIn(Schema):
    name: Annotated[Text, Field(min_length=1, max_length=80)]
    people: list[TeamMemberIn] = Field(default_factory=list, max_length=10_000)


class TeamMemberOut(Schema):
    user: str
    tags: list[str]


class TeamOut(Schema):
    id: int
    name: str
    owner: str
    people: list[TeamMemberOut]


class TeamNewNameIn(Schema):
    name: Annotated[Text, Field(min_length=1, max_length=80)]


class TeamDeletedOut(Schema):
    deleted: str


class TeamNameIn(Schema):
    team: Annotated[Text, Field(min_length=1, max_length=240)]


class TeamAddedOut(Schema):
    joined: int
    already: int = Field(description="They were members already, and keep their roles.")
    to_invite: int = Field(description="They left, and need an invitation to come back.")


@router.get("/teams", auth=READ, response=Page[TeamOut])
def list_teams(request: HttpRequest, limit: Limit = 50, cursor: Cursor = "") -> dict[str, Any]:
    """List your teams with their people. A superuser gets all teams."""
    rows = teams_of(_of_all_projects(request)).prefetch_related("members__user")
    return page_of(rows, cursor, limit, _team)


@router.post("/teams", auth=WRITE, response=TeamOut)
def set_team_people(request: HttpRequest, body: TeamIn) -> HttpResponse:
    """Make a team of people of your projects, or change the people and tags of yours."""
    user = _of_all_projects(request)

    def work() -> HttpResponse:
        team = set_team(user, body.name, {person.user: person.tags for person in body.people})
        return answer(TeamOut(**_team(team)))

    return once(request, work)


@router.post("/teams/{number}/rename", auth=WRITE, response=TeamOut)
def change_name_of_team(request: HttpRequest, number: Number, body: TeamNewNameIn) -> HttpResponse:
    """Rename one of your teams. Rounds that asked it keep the people that they asked."""
    user = _of_all_projects(request)

    def work() -> HttpResponse:
        team = team_for(user, number)
        rename_team(team, user, body.name)
        return answer(TeamOut(**_team(team)))

    return once(request, work)


@router.post("/teams/{number}/delete", auth=WRITE, response=TeamDeletedOut)
def remove_team(request: HttpRequest, number: Number) -> HttpResponse:
    """Delete one of your teams. Its people stay in their projects and rounds."""
    user = _of_all_projects(request)

    def work() -> HttpResponse:
        team = team_for(user, number)
        delete_team(team, user)
        return answer(TeamDeletedOut(deleted=team.name))

    return once(request, work)


@router.post("/projects/{slug}/teams", auth=WRITE, response=TeamAddedOut)
def add_team(request: HttpRequest, slug: str, body: TeamNameIn) -> HttpResponse:
    """Make the people of one of your teams annotators of the project."""
    access = access_to(request, slug, Role.OWNER)

    def work() -> HttpResponse:
        team = team_named(access.project, body.team, access.user)
        return answer(TeamAddedOut(**asdict(add_to_project(team, access.project, access.user))))

    return once(request, work)


def _of_all_projects(request: HttpRequest) -> Any:
    """Return the token's user. Teams hold people of several projects."""
    token = token_of(request)
    if token.project is not None:
        detail = f"This token opens {token.project.slug} alone, and a team is of all your projects."
        raise Refusal("role_too_small", detail)
    return token.user


def _team(team: Team) -> dict[str, Any]:
    members = team.members.all()
    people = [{"user": member.user.get_username(), "tags": member.tags} for member in members]
    owner = team.owner.get_username()
    return {"id": team.pk, "name": team.name, "owner": owner, "people": people}


def _annotator(annotator: Annotator) -> dict[str, Any]:
    names = ("number", "name", "pseudonym", "left_at")
    fields = {name: getattr(annotator, name) for name in names}
    return fields | {"has_login": annotator.user_id is not None}


def _invitation(invitation: Invitation) -> dict[str, Any]:
    names = ("id", "role", "uses", "expires_at", "note")
    fields = {name: getattr(invitation, name) for name in names}
    return fields | {"link": link_of(invitation), "most_uses": invitation.max_uses}


# People of a panel, by the crowd link of a round

_URL = Annotated[Text, Field(max_length=500)]
_WORD = Annotated[Text, Field(max_length=100)]
_PARAMETER = Annotated[Text, Field(max_length=40)]
_AT_MOST = Annotated[int, Field(ge=1, le=100_000)]
_QUESTION = Annotated[Text, Field(max_length=2_000)]


class CrowdTexts(Schema):
    """What people read in one language. Each has all that the terms have by default."""

    consent: Annotated[Text, Field(min_length=1, max_length=100_000)]
    questions: list[_QUESTION] = Field(
        [], max_length=100, description="The same lines in other words."
    )
    completion_text: Annotated[Text, Field(max_length=100_000)] = ""
    screened_text: Annotated[Text, Field(max_length=100_000)] = ""


class CrowdIn(Schema):
    """The terms of a crowd link. What is left out stays as it is, or has the page's default."""

    consent: Annotated[Text, Field(min_length=1, max_length=100_000)] | None = None
    translations: dict[Language, CrowdTexts] | None = Field(
        None, description="All texts in other languages, instead of all that is stored."
    )
    completion_text: Annotated[Text, Field(max_length=100_000)] | None = None
    screened_text: Annotated[Text, Field(max_length=100_000)] | None = None
    questions: list[_QUESTION] | None = Field(
        None, max_length=100, description="Such as “choice: Do you read English? | yes | no!”."
    )
    max_people: _AT_MOST | None = None
    max_pairs: _AT_MOST | None = None
    completion_code: _WORD | None = None
    completion_url: _URL | None = None
    screened_code: _WORD | None = None
    screened_url: _URL | None = None
    worker_name: _PARAMETER | None = None
    study_name: _PARAMETER | None = None
    session_name: _PARAMETER | None = None
    version: Annotated[Text, Field(max_length=100)] | None = Field(
        None, description="Refuse with 409 if the terms have another version by now."
    )


class CrowdOut(Schema):
    link: str | None = Field(description="For the panel; null while it lets nobody in.")
    version: str
    consent: str
    translations: dict[str, CrowdTexts]
    questions: list[str]
    completion_text: str
    screened_text: str
    max_people: int
    max_pairs: int
    completion_code: str
    completion_url: str
    screened_code: str
    screened_url: str
    worker_name: str
    study_name: str
    session_name: str
    submissions: dict[str, int] = Field(description="How many are in each state.")
    rejected_with_votes: int = Field(description="Rejected people of whom votes still count.")


class SubmissionOut(Schema):
    """A person of a panel. Only the file for paying holds the panel's ids."""

    id: int
    annotator: int | None = Field(description="Null for those who were screened out.")
    pseudonym: str
    state: str = Field(
        description="working, left, complete, screened, nothing, returned, rejected or approved."
    )
    votes: int
    active_minutes: float | None
    started_at: datetime
    ended_at: datetime | None


class MarkedOut(Schema):
    changed: int
    unknown: int = Field(description="Rows about people who never used the link.")
    votes_aside: int


class VotesAsideOut(Schema):
    votes: int


_CSV = {"text/csv": {"schema": {"type": "string"}}}


@router.get("/projects/{slug}/rounds/{number}/crowd", auth=READ, response=CrowdOut)
def get_crowd(request: HttpRequest, slug: str, number: Number) -> dict[str, Any]:
    """Return a round's crowd link with its terms, and how many people are in which state."""
    return _crowd(*_crowd_of(request, slug, number)[1:])


@router.post("/projects/{slug}/rounds/{number}/crowd", auth=WRITE, response=CrowdOut)
def set_crowd(request: HttpRequest, slug: str, number: Number, body: CrowdIn) -> HttpResponse:
    """Make the link, or change its terms. One that was withdrawn gets a new address."""
    access, round_ = _panel_round(request, slug, number)

    def work() -> HttpResponse:
        link = CrowdLink.objects.filter(round=round_).first() or CrowdLink(round=round_)
        # The form of the page checks these, so that both accept the same. It takes questions as
        # lines.
        data = {name: getattr(link, name) for name in CrowdForm.Meta.fields}
        sent = body.dict(exclude_none=True, exclude={"version"})
        data |= {"questions": in_lines(link.questions)} | sent
        data["translations"] = sent.get("translations", translations_in_lines(link))
        for texts in (data, *data["translations"].values()):
            if isinstance(lines := texts.get("questions"), list):
                texts["questions"] = "\n".join(lines)
        data |= CrowdForm.base_fields["translations"].prepare_value(data.pop("translations"))
        form = CrowdForm(data, instance=link)
        if form.errors:
            raise refusal_of_form(form.errors)
        made = crowds.set_up(round_, access.user, form.cleaned_data, body.version)
        return answer(CrowdOut(**_crowd(round_, made)))

    return once(request, work)


@router.post("/projects/{slug}/rounds/{number}/crowd/withdraw", auth=WRITE, response=CrowdOut)
def withdraw_crowd(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Let nobody new in. People who are at work may finish, and `set_crowd` opens a new link."""
    access, round_, link = _crowd_of(request, slug, number)

    def work() -> HttpResponse:
        crowds.withdraw(link, access.user)
        return answer(CrowdOut(**_crowd(round_, link)))

    return once(request, work)


@router.get(
    "/projects/{slug}/rounds/{number}/crowd/submissions", auth=READ, response=Page[SubmissionOut]
)
def list_submissions(
    request: HttpRequest, slug: str, number: Number, limit: Limit = 100, cursor: Cursor = ""
) -> dict[str, Any]:
    """List who came by the link, the first one first."""
    _, round_ = _panel_round(request, slug, number)
    return page_of(crowds.submissions_with_votes(round_), cursor, limit, _submission)


@router.get(
    "/projects/{slug}/rounds/{number}/crowd/submissions.csv",
    auth=READ,
    response={200: None},
    openapi_extra={"responses": {200: {"content": _CSV}}},
)
def get_submissions_file(request: HttpRequest, slug: str, number: Number) -> StreamingHttpResponse:
    """Return the file for paying, with the panel's ids and codes. Each download is on record."""
    access, round_ = _panel_round(request, slug, number)
    # Written once it is read, so that HEAD puts nothing on record.
    made: Callable[[], str] = lambda: crowds.file_for_paying(round_, access.user)  # noqa: E731
    return StreamingHttpResponse((made().encode() for _ in "1"), content_type="text/csv")


@router.post(
    "/projects/{slug}/rounds/{number}/crowd/marks",
    auth=WRITE,
    response=MarkedOut,
    openapi_extra={"requestBody": {"required": True, "content": _CSV}},
)
def mark_submissions(
    request: HttpRequest, slug: str, number: Number, aside: bool = False
) -> HttpResponse:
    """Take the panel's CSV of approved, rejected and returned submissions, all of it or nothing.

    `aside` also puts the votes of rejected submissions aside.
    """
    access, round_ = _panel_round(request, slug, number)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        marked = crowds.mark(round_, access.user, content)
        n = _put_rejected_aside(access, round_) if aside else 0
        made = MarkedOut(changed=marked.changed, unknown=marked.unknown, votes_aside=n)
        keep(answer(made))

    with stored_body(request, "marks") as (path, _, digest, _):
        with path.open("rb") as file:
            # One byte too many is enough to refuse a file that is too large.
            content = file.read(crowds.MOST_BYTES + 1)
        return once_made(request, work, body_digest=digest, alone=True)


@router.post("/projects/{slug}/rounds/{number}/crowd/aside", auth=WRITE, response=VotesAsideOut)
def put_rejected_aside(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Put the votes of all rejected submissions aside. `count_again` takes that back."""
    access, round_ = _panel_round(request, slug, number)

    def work(keep: Callable[[HttpResponse], None]) -> None:
        keep(answer(VotesAsideOut(votes=_put_rejected_aside(access, round_))))

    return once_made(request, work, alone=True)


def _put_rejected_aside(access: Access, round_: Round) -> int:
    return put_aside_all(round_, rejected_with_votes(round_), access.user, REJECTED)


def _panel_round(request: HttpRequest, slug: str, number: int) -> tuple[Access, Round]:
    access = access_to(request, slug, Role.OWNER)
    # Imported votes have a round as well, in which nobody labels.
    rounds = Round.objects.select_related("project", "protocol").exclude(kind=Round.Kind.IMPORT)
    round_ = first_of(rounds.filter(project=access.project, number=number), "round")
    return access, round_


def _crowd_of(request: HttpRequest, slug: str, number: int) -> tuple[Access, Round, CrowdLink]:
    access, round_ = _panel_round(request, slug, number)
    link = first_of(CrowdLink.objects.select_related("round__project").filter(round=round_), "link")
    return access, round_, link


def _crowd(round_: Round, link: CrowdLink) -> dict[str, Any]:
    # First, so that people who have been gone too long aren't counted as working.
    crowds.release_absent(CrowdLink.objects.filter(pk=link.pk))
    link.refresh_from_db()
    names = [name for name in CrowdForm.Meta.fields if name != "questions"]
    translations = {
        code: texts | {"questions": texts.get("questions", "").splitlines()}
        for code, texts in translations_in_lines(link).items()
    }
    return {name: getattr(link, name) for name in names} | {
        "translations": translations,
        "link": crowds.link_of(link) if crowds.is_usable(link) else None,
        "version": crowds.terms_version(round_),
        "questions": in_lines(link.questions).splitlines(),
        "submissions": dict(crowds.counts_by_state(round_)),
        "rejected_with_votes": len(rejected_with_votes(round_)),
    }


def _submission(submission: CrowdSubmission) -> dict[str, Any]:
    fields = {name: getattr(submission, name) for name in ("id", "state", "started_at", "ended_at")}
    return fields | {
        "annotator": submission.annotator.number if submission.annotator else None,
        "pseudonym": submission.annotator.pseudonym if submission.annotator else "",
        "votes": submission.n_votes,  # type: ignore[attr-defined]
        "active_minutes": submission.minutes,  # type: ignore[attr-defined]
    }
