"""Inviting people by a link that is signed, expires, can be withdrawn, and has limited uses."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser, User
from django.core import signing
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import Invitation
from annotation.people.annotators import annotator_of, people_changed
from judging.core.errors import UserError
from judging.projects import access
from judging.projects.access import add_member
from judging.projects.models import LostRight, Membership, Project, Role

_SALT = "fairjudge.invitation"
# Events of the audit trail whose subject is the note of the link.
INVITED = ("invited", "invitation sent by mail", "invitation withdrawn")
MAX_DAYS = 365
MAX_USES = 1000
_NOT_VALID = _lazy(
    "This invitation link is no longer valid. Ask an owner of the project for a new one."
)
_LOST = {
    LostRight.How.REMOVED: _lazy("You were removed from this project."),
    LostRight.How.LEFT: _lazy("You left this project."),
    LostRight.How.LOWERED: _lazy("Your role in this project was changed."),
}


@dataclass(frozen=True)
class Terms:
    """The role that a link gives, to how many people, and for how long."""

    role: str = Role.ANNOTATOR
    uses: int = 1
    days: int = 14
    note: str = ""


def invite(project: Project, by: AbstractUser | None, terms: Terms) -> Invitation:
    """Make an invitation. Raises UserError that says what is out of range."""
    if terms.role not in Role.values:
        raise UserError(access.NO_SUCH_ROLE)
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
        made_after=last_lost_right(project),
    )
    access.record_event(
        project, by, "invited", terms.note, role=terms.role, uses=terms.uses, days=terms.days
    )
    return invitation


def last_lost_right(project: Project) -> int:
    """Return what a link that is made now keeps as `made_after`."""
    return project.lost_rights.aggregate(last=Max("pk"))["last"] or 0


def usable_invitations(project: Project) -> QuerySet[Invitation]:
    """Return the invitations whose link still works, the latest first."""
    still = {"revoked_at": None, "expires_at__gte": timezone.now(), "uses__lt": F("max_uses")}
    return project.invitations.filter(maker_may_invite(), **still).order_by("-pk")


def maker_may_invite(project_of: str = "project") -> Q:
    """A link's maker may invite people today, and never lost that right since making it.

    Args:
        project_of: The link's field that leads to the project.
    """
    maker, project = OuterRef("created_by"), OuterRef(project_of)
    makers = User.objects.filter(pk=maker, is_active=True)
    owns = Membership.objects.filter(project=project, user=maker, role=Role.OWNER)
    owns = owns.filter(user__is_active=True)
    lost = LostRight.objects.filter(project=project, user=maker, pk__gt=OuterRef("made_after"))
    may = Exists(makers.filter(is_superuser=True)) | Exists(owns)
    return Q(created_by=None) | (Q(may) & ~Exists(lost))


def link_of(invitation: Invitation, address: str = "") -> str:
    """Return the link to send. A mail's link holds its address, for who joins by it to keep."""
    named = (invitation.pk, invitation.nonce, *([address] if address else []))
    token = signed_link(*named, salt=_SALT)
    return settings.FAIRJUDGE_URL.rstrip("/") + reverse("invite", args=[token])


def signed_link(*named: int | str, salt: str) -> str:
    """Return the token of a link. It stays the same, and so does an answer that shows it."""
    return signing.Signer(salt=salt).sign_object(list(named))


def unsigned_link(token: str, salt: str) -> Any:
    """Return what a link names. Raises BadSignature."""
    # Links of earlier releases also hold the second in which they were shown.
    if token.count(":") == 2:
        return signing.loads(token, salt=salt)
    return signing.Signer(salt=salt).unsign_object(token)


def open_invitation(token: str, user: AbstractUser | AnonymousUser | None = None) -> Invitation:
    """Return the invitation of a link, if it works for this user or somebody without a login.

    Raises UserError that says why it does not work.
    """
    try:
        named = unsigned_link(token, _SALT)
    except signing.BadSignature:
        raise UserError(
            _("This invitation link is incomplete. Copy the whole link again.")
        ) from None
    # A link of an older version names the number alone, which may be another invitation's by now.
    number, nonce = named[:2] if isinstance(named, list) else (named, "")
    invitation = Invitation.objects.select_related("project").filter(pk=number).first()
    if invitation is None or not constant_time_compare(invitation.nonce, nonce):
        raise UserError(_NOT_VALID)
    if user is not None and user.is_authenticated:
        _refuse_who_lost_a_right(invitation, user)
    _refuse_dead(invitation)
    return invitation


def address_of_link(token: str) -> str:
    """Return the address to which the link of a valid token was mailed, or ""."""
    named = unsigned_link(token, _SALT)
    return str(named[2]) if isinstance(named, list) and len(named) > 2 else ""


def _refuse_dead(invitation: Invitation) -> None:
    if invitation.revoked_at is not None:
        raise UserError(
            _("This invitation was withdrawn. Ask the person who sent it for a new one.")
        )
    if invitation.expires_at < timezone.now():
        raise UserError(_("This invitation has expired. Ask the person who sent it for a new one."))
    if invitation.uses >= invitation.max_uses:
        raise UserError(_("This invitation was used up. Ask the person who sent it for a new one."))
    if not usable_invitations(invitation.project).filter(pk=invitation.pk).exists():
        raise UserError(
            _(
                "The person who made this invitation can no longer invite people. Ask an owner of "
                "the project for a new one."
            )
        )


def _refuse_who_lost_a_right(invitation: Invitation, user: AbstractUser) -> None:
    """People who lost a right after the link was made, and are no members, need a newer one."""
    if Membership.objects.filter(project=invitation.project_id, user=user).exists():
        return
    lost = LostRight.objects.filter(project=invitation.project_id, user=user)
    last = lost.filter(pk__gt=invitation.made_after).order_by("pk").last()
    if last is not None:
        how = _LOST[LostRight.How(last.how)]
        raise UserError(
            _("%(how)s Ask an owner for a new link. Votes that you gave are kept.") % {"how": how}
        )


def accept_invitation(invitation: Invitation, user: User) -> Membership:
    """Join the project. A member who opens the link again does not use it up."""
    project = invitation.project
    with transaction.atomic():
        # Locked first, so that a person who asks twice at once uses it once.
        locked = Invitation.objects.select_for_update(no_key=True).filter(pk=invitation.pk).first()
        if locked is None:
            # Its maker was erased, or the project deleted, at this very moment.
            raise UserError(_NOT_VALID)
        membership = Membership.objects.filter(project=project, user=user).first()
        if membership is None:
            # Checked after the membership: whatever ended that has left a row by now.
            _refuse_who_lost_a_right(locked, user)
            # Conditional, so that the last use is given once even if many ask at the same time.
            if usable_invitations(project).filter(pk=invitation.pk).update(uses=F("uses") + 1) != 1:
                if locked.uses < locked.max_uses:
                    _refuse_dead(locked)
                raise UserError(
                    _("This invitation was used up just now. Ask the sender for a new one.")
                )
            add_member(project, user, user, invitation.role)
            membership = Membership.objects.get(project=project, user=user)
        annotator_of(project, user)
    people_changed(project)
    return membership


def revoke_invitation(invitation: Invitation, by: AbstractUser) -> None:
    """Withdraw the link; people who joined by it stay."""
    changed = Invitation.objects.filter(pk=invitation.pk, revoked_at=None)
    if changed.update(revoked_at=timezone.now()):
        access.record_event(invitation.project, by, "invitation withdrawn", invitation.note)
