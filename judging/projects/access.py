"""The one place that fetches a project and asks "may this user?".

A view that got its project here has asked; there is no other way to one. A stranger gets 404,
so that names of projects tell nothing; a member whose role is too small gets 403.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from judging.core.sql.prepared import prepared
from judging.projects.models import Membership, Project, Role

_ORDER = {Role.ANNOTATOR: 0, Role.RESEARCHER: 1, Role.OWNER: 2}


@dataclass(frozen=True)
class Access:
    """A project in the hands of someone who may. `membership` is None only for a superuser."""

    project: Project
    user: AbstractUser
    role: Role
    membership: Membership | None

    def at_least(self, role: Role) -> bool:
        return _ORDER[self.role] >= _ORDER[role]

    @property
    def may_start_runs(self) -> bool:
        """Runs cost: the site permission is asked for beside the role."""
        return self.at_least(Role.RESEARCHER) and may_research(self.user)

    def under(self, tab: str) -> dict[str, Any]:
        """What every page of the project takes, under the tab that leads to it."""
        return {"project": self.project, "access": self, "tab": tab}


def is_smaller(role: str, than: str) -> bool:
    return _ORDER[Role(role)] < _ORDER[Role(than)]


def may_research(user: AbstractUser | AnonymousUser) -> bool:
    """The site permission: create projects, start runs that cost."""
    return user.has_perm("judging.researcher")


def projects_of(user: AbstractUser) -> QuerySet[Project]:
    """The projects that a user may know of."""
    if user.is_superuser:
        return Project.objects.all()
    return Project.objects.filter(memberships__user=user)


@prepared
def _memberships(slug: Any, user: Any) -> QuerySet[Membership]:
    found = Membership.objects.select_related("project")
    return found.filter(project__slug=slug, user=user)


def project_for(
    user: AbstractUser | AnonymousUser,
    slug: str,
    role: Role = Role.ANNOTATOR,
    *,
    shows_judge: bool = False,
) -> Access:
    """The project, if the user's role in it is at least `role`.

    `shows_judge` says that the page shows judge output: from the first such view on, the
    member's votes are marked as unblinded. Raises Http404 or PermissionDenied.
    """
    if not isinstance(user, AbstractUser) or not user.is_active:
        raise Http404("No such project.")
    membership = _memberships.first(slug=slug, user=user.pk)
    if membership is not None:
        access = Access(membership.project, user, Role(membership.role), membership)
    elif user.is_superuser:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            raise Http404("No such project.")
        access = Access(project, user, Role.OWNER, None)
    else:
        raise Http404("No such project.")
    if user.is_superuser and not access.at_least(role):
        access = Access(access.project, user, Role.OWNER, membership)
    if not access.at_least(role):
        raise PermissionDenied("Your role in this project does not include this page.")
    if shows_judge and membership is not None and membership.unblinded_at is None:
        Membership.objects.filter(pk=membership.pk, unblinded_at=None).update(
            unblinded_at=timezone.now()
        )
    return access
