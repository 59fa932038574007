"""Inviting people by a link: signed, expiring, revocable, with a limit on uses."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import AbstractUser, User
from django.core import signing
from django.db import transaction
from django.db.models import F, QuerySet
from django.urls import reverse
from django.utils import timezone

from annotation.annotators import annotator_of, people_changed
from annotation.models import Invitation
from judging import audit
from judging.errors import UserError
from judging.models.projects import Membership, Project, Role
from judging.projects import add_member

_SALT = "fairjudge.invitation"
MAX_DAYS = 365
MAX_USES = 1000


@dataclass(frozen=True)
class Terms:
    """What a link gives, to how many people, and for how long."""

    role: str = Role.ANNOTATOR
    uses: int = 1
    days: int = 14
    note: str = ""


def invite(project: Project, by: AbstractUser | None, terms: Terms) -> Invitation:
    """Make an invitation. Raises UserError with what is out of range."""
    if terms.role not in Role.values:
        raise UserError("Choose owner, researcher or annotator.")
    if not 1 <= terms.uses <= MAX_USES:
        raise UserError(f"A link can be used between 1 and {MAX_USES} times.")
    if not 1 <= terms.days <= MAX_DAYS:
        raise UserError(f"A link is valid between 1 and {MAX_DAYS} days.")
    invitation = Invitation.objects.create(
        project=project,
        role=terms.role,
        note=terms.note[:200],
        max_uses=terms.uses,
        expires_at=timezone.now() + timedelta(days=terms.days),
        created_by=by,
    )
    audit.record(
        project, by, "invited", terms.note, role=terms.role, uses=terms.uses, days=terms.days
    )
    return invitation


def usable(project: Project) -> QuerySet[Invitation]:
    """Invitations whose link still works, the latest first."""
    still = {"revoked_at": None, "expires_at__gte": timezone.now(), "uses__lt": F("max_uses")}
    return project.invitations.filter(**still).order_by("-pk")


def link_of(invitation: Invitation) -> str:
    """The link to send. It carries a signed number, so the database holds no secret."""
    token = signing.dumps(invitation.pk, salt=_SALT)
    return settings.FAIRJUDGE_URL.rstrip("/") + reverse("invite", args=[token])


def open_invitation(token: str) -> Invitation:
    """The invitation of a link that still works. Raises UserError that says why it does not."""
    try:
        number = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        raise UserError("This invitation link is incomplete. Copy the whole link again.") from None
    invitation = Invitation.objects.select_related("project").filter(pk=number).first()
    if invitation is None or invitation.revoked_at is not None:
        raise UserError("This invitation was withdrawn. Ask whoever sent it for a new one.")
    if invitation.expires_at < timezone.now():
        raise UserError("This invitation has expired. Ask whoever sent it for a new one.")
    if invitation.uses >= invitation.max_uses:
        raise UserError("This invitation was used up. Ask whoever sent it for a new one.")
    return invitation


def accept(invitation: Invitation, user: User) -> Membership:
    """Join the project. A member who opens the link again uses nothing up."""
    project = invitation.project
    with transaction.atomic():
        # Locked first: the same person who asks twice at once uses it up once.
        Invitation.objects.select_for_update(no_key=True).get(pk=invitation.pk)
        membership = Membership.objects.filter(project=project, user=user).first()
        if membership is None:
            # Conditional, so that the last use is given once however many ask at the same time.
            if usable(project).filter(pk=invitation.pk).update(uses=F("uses") + 1) != 1:
                raise UserError(
                    "This invitation was used up just now. Ask whoever sent it for a new one."
                )
            add_member(project, user, user, invitation.role)
            membership = Membership.objects.get(project=project, user=user)
        annotator_of(project, user)
    people_changed(project)
    return membership


def revoke(invitation: Invitation, by: AbstractUser) -> None:
    """Withdraw the link; people who joined by it stay."""
    changed = Invitation.objects.filter(pk=invitation.pk, revoked_at=None)
    if changed.update(revoked_at=timezone.now()):
        audit.record(invitation.project, by, "invitation withdrawn", invitation.note)
