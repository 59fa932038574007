"""Logins: made with a one-time link to set the password, since no mail server is needed."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser, Permission, User
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from judging import audit
from judging.access import may_research
from judging.errors import UserError
from judging.models.projects import Membership, Preferences, Role
from judging.prepared import prepared
from judging.projects import adopt_projects

LONGEST_NAME = User._meta.get_field("username").max_length


def create_login(name: str, *, researcher: bool = False, superuser: bool = False) -> User:
    """A login whose password the one-time link sets. The first superuser adopts projects."""
    name = name.strip()
    try:
        User.username_validator(name)
    except ValidationError:
        raise UserError(
            f"“{name}” cannot be a user name. Use letters, digits and @ . + - _ only."
        ) from None
    if len(name) > LONGEST_NAME:
        raise UserError(f"A user name has at most {LONGEST_NAME} characters, not {len(name)}.")
    try:
        with transaction.atomic():
            user = User.objects.create_user(name, is_staff=superuser, is_superuser=superuser)
            if researcher:
                grant_research(user)
            if superuser and User.objects.filter(is_superuser=True).count() == 1:
                adopt_projects(user)
    except IntegrityError:
        raise UserError(f"A user “{name}” exists already.") from None
    return user


def grant_research(user: AbstractUser) -> None:
    """The site permission to create projects and start runs that cost."""
    user.user_permissions.add(
        Permission.objects.get(codename="researcher", content_type__app_label="judging")
    )


def password_link(user: AbstractUser) -> str:
    """A link that sets the password once: it stops working when used, or after a while."""
    path = reverse(
        "password_reset_confirm",
        args=[
            urlsafe_base64_encode(force_bytes(user.pk)),
            default_token_generator.make_token(user),
        ],
    )
    return settings.FAIRJUDGE_URL.rstrip("/") + path


def reset_link(membership: Membership, by: AbstractUser) -> str:
    """A password link made by an owner for a member. Raises UserError where it would give more.

    Whoever holds the link can log in as that person, so they must not be able to do anything
    that the owner could not do.
    """
    user = membership.user
    owned = Membership.objects.filter(user=by, role=Role.OWNER).values("project")
    elsewhere = Membership.objects.filter(user=user).exclude(project__in=owned)
    more = user.is_superuser or elsewhere.exists() or (may_research(user) and not may_research(by))
    if more and not by.is_superuser:
        raise UserError(
            f"{user.get_username()} may do things that you may not, so only an operator can reset "
            "this password: manage.py password_link NAME"
        )
    audit.record(membership.project, by, "password link made", user.get_username())
    return password_link(user)


def preferences_of(user: AbstractUser) -> Preferences:
    """The person's own settings, made with their defaults on first use."""
    found: Preferences | None = _preferences.first(user=user.pk)
    return found or Preferences.objects.get_or_create(user=user)[0]


@prepared
def _preferences(user: Any) -> QuerySet[Preferences]:
    return Preferences.objects.filter(user=user)
