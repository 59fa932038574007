"""Logins and the one-time links that set their passwords, so that no mail server is needed."""

import re
import unicodedata
from datetime import timedelta

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import AbstractUser, Permission, User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

from judging.core.errors import UserError
from judging.projects import access
from judging.projects.access import adopt_projects
from judging.projects.models import LoginSession, Membership, PasswordLink, Project, Role, SignOn

# A key of 18 digits fits into 64 bits. A database refuses longer ones with an error.
_TOKEN = re.compile(r"([0-9]{1,18})-(\w+-\w+)", re.ASCII)
# Cyrillic and Greek letters, and digits, that look like a Latin one.
_LOOKALIKES = str.maketrans("аеорсухіјѕԁһԛԝкмтвнαονρυικτ01l|", "aeopcyxijsdhqwkmtbhaovpyiktoiii")
LONGEST_NAME = User._meta.get_field("username").max_length


def create_login(
    name: str, *, researcher: bool = False, superuser: bool = False, email: str = ""
) -> User:
    """Create a login without a password. The first superuser adopts projects without an owner."""
    # Django's login page does the same to the name that a person enters.
    name = unicodedata.normalize("NFKC", name.strip())
    try:
        User.username_validator(name)
    except ValidationError:
        raise UserError(
            _("“%(name)s” can't be a user name. Use only letters, digits and @ . + - _")
            % {"name": name}
        ) from None
    if len(name) > LONGEST_NAME:
        raise UserError(
            _("A user name has at most %(most)s characters, not %(n)s.")
            % {"most": LONGEST_NAME, "n": len(name)}
        )
    if (other := look_alike(name)) and other != name:
        raise UserError(
            _("“%(name)s” looks like the user “%(other)s”. Choose another name.")
            % {"name": name, "other": other}
        )
    try:
        with transaction.atomic():
            user = User.objects.create_user(name, email, is_staff=superuser, is_superuser=superuser)
            if researcher:
                grant_research(user)
            if superuser and User.objects.filter(is_superuser=True).count() == 1:
                adopt_projects(user)
    except IntegrityError:
        raise UserError(_("A user “%(name)s” exists already.") % {"name": name}) from None
    return user


def expect_sign_on(user: AbstractUser, email: str) -> None:
    """Let the person with this mail address, which the provider must verify, log in as `user`."""
    email = email.lower()
    if SignOn.objects.filter(subject="", email=email).exists():
        raise UserError(f"Another login expects {email} already. Nothing was changed.")
    SignOn.objects.create(user_id=user.pk, email=email)


def look_alike(name: str) -> str | None:
    """Return the login that people would take this name for, which may be of that very name."""
    seen = _seen(name)
    names = User.objects.values_list("username", flat=True)
    return next((other for other in names if _seen(other) == seen), None)


def _seen(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().translate(_LOOKALIKES)


def grant_research(user: AbstractUser) -> None:
    """Give the site permission to create projects and start runs, which cost money."""
    user.user_permissions.add(
        Permission.objects.get(codename="researcher", content_type__app_label="judging")
    )


def set_research(user: AbstractUser, may: bool, by: AbstractUser) -> str:
    """Grant or withdraw the site permission. Returns what is true now, as a sentence."""
    name = user.get_username()
    if may:
        grant_research(user)
    else:
        user.user_permissions.remove(*user.user_permissions.filter(codename="researcher"))
    access.record_event(None, by, f"research {'granted' if may else 'withdrawn'}", name)
    # Django keeps permissions with the object that was asked, so another one is asked.
    if not may and access.may_research(type(user).objects.get(pk=user.pk)):
        return f"{name} may still create projects and start runs, as an operator of the site."
    return f"{name} may {'now' if may else 'no longer'} create projects and start runs."


def set_active(user: AbstractUser, active: bool, by: AbstractUser) -> str:
    """Let a login in again, or end it with its sessions, tokens and links; its votes stay.

    Returns what is true now, as a sentence. Raises UserError for one's own login, so that a
    superuser is always left.
    """
    name = user.get_username()
    if user.pk == by.pk:
        raise UserError("You can't deactivate your own login. Nothing was changed.")
    with transaction.atomic():
        changed = User.objects.filter(pk=user.pk).exclude(is_active=active).update(is_active=active)
        if changed:
            did = "login activated" if active else "login deactivated"
            access.record_event(None, by, did, name)
    if active:
        return f"{name} can log in again."
    return f"{name} can't log in any more, and none of their links or tokens work. Votes stay."


def password_link(user: AbstractUser) -> str:
    """Make the operator's link that sets a password. It works once, for a limited time."""
    return _link_of(PasswordLink.objects.create(user=user))


def reset_link(membership: Membership, by: AbstractUser) -> str:
    """Make a password link for a member, as `new_reset` does, and return it."""
    return _link_of(new_reset(membership, by))


def link_again(key: int) -> str:
    """Return a password link that was made before. Raises UserError once it is used or ended."""
    link = PasswordLink.objects.select_related("user").filter(pk=key).first()
    if link is None:
        raise UserError(_("This password link was used, or it has ended. Make a new one."))
    return _link_of(link)


def new_reset(membership: Membership, by: AbstractUser) -> PasswordLink:
    """Let a member set a new password. Raises UserError if the login opens more than the project.

    With the link one can log in as that person. It is therefore allowed only for logins that open
    nothing but this project. This is checked again when the link is used, and any change of its
    maker's or the member's memberships ends it.
    """
    user, project = membership.user, membership.project
    if not _may_reset(by, user, project):
        raise UserError(
            f"The login {user.get_username()} opens more than this project, or is inactive. Only "
            "an operator can reset its password: manage.py password_link NAME. Nothing was changed."
        )
    access.record_event(project, by, "password link made", user.get_username())
    return PasswordLink.objects.create(user=user, made_by=by, project=project)


def _may_reset(by: AbstractUser, user: AbstractUser, project: Project) -> bool:
    """A superuser may do it for every member, an owner for members of this project alone."""
    theirs = Membership.objects.filter(user=user)
    if not by.is_active or not theirs.filter(project=project).exists():
        return False
    if by.is_superuser:
        return True
    owns = Membership.objects.filter(project=project, user=by, role=Role.OWNER).exists()
    more = (
        not user.is_active
        or user.is_superuser
        or user.is_staff
        or theirs.exclude(project=project).exists()
        # With the link its maker can log in, and must not get a right that they lack.
        or bool(user.get_all_permissions() - by.get_all_permissions())
    )
    return owns and not more


class PasswordLinks(PasswordResetTokenGenerator):
    """The check with which Django's page for a new password accepts a link."""

    def check_token(self, user: AbstractUser | None, token: str | None) -> bool:
        return password_link_behind(user, token) is not None


def password_link_behind(user: AbstractUser | None, token: str | None) -> PasswordLink | None:
    """Return the row of a link if it still works for this user."""
    parts = _TOKEN.fullmatch(token or "")
    if user is None or parts is None:
        return None
    links = PasswordLink.objects.select_related("user", "made_by", "project")
    link = links.filter(pk=int(parts[1]), user=user).first()
    if link is None or not _Signature(link).check_token(link.user, parts[2]):
        return None
    if link.made_by is not None and not _may_reset(link.made_by, link.user, link.project):
        return None
    return link


def use_up(link: PasswordLink) -> bool:
    """Use the link, and end the user's other links. Call it within a transaction.

    Returns False if somebody else used or ended the link at the same time.
    """
    # By the nonce, too: after a restore, the number may belong to another link.
    if not PasswordLink.objects.filter(pk=link.pk, nonce=link.nonce).delete()[0]:
        return False
    PasswordLink.objects.filter(user=link.user_id).delete()
    return True


class _Signature(PasswordResetTokenGenerator):
    """A signature of the row's nonce and, as Django's, of the password and the last login.

    Password and last login change when the link is used, which ends it.
    """

    # A salt of its own, so that no other signature of Django's passes for one of these.
    key_salt = "fairjudge.password_link"

    def __init__(self, link: PasswordLink) -> None:
        super().__init__()
        self._link = link

    def _make_hash_value(self, user: AbstractUser, timestamp: int) -> str:
        state = super()._make_hash_value(user, timestamp)
        return f"{self._link.pk}.{self._link.nonce}.{state}"


def _link_of(link: PasswordLink) -> str:
    past = timezone.now() - timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    PasswordLink.objects.filter(user=link.user_id, created_at__lt=past).delete()
    token = f"{link.pk}-{_Signature(link).make_token(link.user)}"
    uid = urlsafe_base64_encode(force_bytes(link.user_id))
    path = reverse("password_reset_confirm", args=[uid, token])
    return settings.FAIRJUDGE_URL.rstrip("/") + path


def forget_logins() -> None:
    """Delete sessions that are over, and failed logins with their addresses once they lock nobody.

    An address is stored for nothing but this protection.
    """
    now = timezone.now()
    Session.objects.filter(expire_date__lt=now).delete()
    LoginSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
    AccessAttempt.objects.filter(attempt_time__lt=now - settings.AXES_COOLOFF_TIME).delete()
