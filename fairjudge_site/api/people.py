"""Members and annotators of a project, and the links that invite people, for owners alone."""

from datetime import datetime
from typing import Annotated, Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import Field

from annotation.models import Annotator, Invitation
from annotation.people.annotators import leave_project
from annotation.people.invitations import (
    MAX_DAYS,
    MAX_USES,
    Terms,
    invite,
    link_of,
    revoke_invitation,
    usable_invitations,
)
from fairjudge_site.api.bodies import Cursor, Limit, Number, Page, Text, page_of
from fairjudge_site.api.gate import READ, WRITE, access_to, answer, once
from judging.projects.access import Access, change_role
from judging.projects.models import Membership, Role

router = Router(tags=["people"])


class AnnotatorOut(Schema):
    number: int
    name: str
    pseudonym: str = Field(description="As exports name them.")
    has_login: bool
    left_at: datetime | None


class InvitationIn(Schema):
    role: Annotated[str, Field(pattern="^(owner|researcher|annotator)$")] = "annotator"
    uses: Annotated[int, Field(ge=1, le=MAX_USES)] = 1
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 14
    note: Annotated[Text, Field(max_length=200)] = ""


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


class RoleIn(Schema):
    role: Annotated[str, Field(pattern="^(owner|researcher|annotator)$")]


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
    found = _membership(access, number)

    def work() -> HttpResponse:
        change_role(found, access.user, body.role)
        return answer(MemberOut(**_member(found)))

    return once(request, work)


@router.post("/projects/{slug}/members/{number}/remove", auth=WRITE, response=MemberOut)
def remove_member(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Remove a member. Their votes stay."""
    access = access_to(request, slug, Role.OWNER)

    def work() -> HttpResponse:
        # Looked for here, so that a repeat is told what the first request was.
        found = _membership(access, number)
        was = _member(found)
        leave_project(found, access.user)
        return answer(MemberOut(**was))

    return once(request, work)


def _membership(access: Access, number: int) -> Membership:
    rows = access.project.memberships.select_related("user", "project")
    found = rows.filter(pk=number).first()
    if found is None:
        raise Http404("No such member.")
    return found


def _member(one: Membership) -> dict[str, Any]:
    named = {name: getattr(one, name) for name in ("id", "role", "joined_at")}
    return named | {"user": one.user.get_username()}


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
        made = invite(access.project, access.user, Terms(**body.dict()))
        return answer(InvitationOut(**_invitation(made)), 201)

    return once(request, work)


@router.post("/projects/{slug}/invitations/{number}/revoke", auth=WRITE, response=InvitationOut)
def withdraw_invitation(request: HttpRequest, slug: str, number: Number) -> HttpResponse:
    """Withdraw a link. People who joined by it stay."""
    access = access_to(request, slug, Role.OWNER)
    found = Invitation.objects.filter(project=access.project, pk=number).first()
    if found is None:
        raise Http404("No such invitation.")

    def work() -> HttpResponse:
        revoke_invitation(found, access.user)
        return answer(InvitationOut(**_invitation(found)))

    return once(request, work)


def _annotator(one: Annotator) -> dict[str, Any]:
    names = ("number", "name", "pseudonym", "left_at")
    return {name: getattr(one, name) for name in names} | {"has_login": one.user_id is not None}


def _invitation(one: Invitation) -> dict[str, Any]:
    names = ("id", "role", "uses", "expires_at", "note")
    found = {name: getattr(one, name) for name in names}
    return found | {"link": link_of(one), "most_uses": one.max_uses}
