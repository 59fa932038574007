"""Making projects and keeping their members: an owner always stays."""

from collections.abc import Iterable

from django.contrib.auth.models import AbstractUser, User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.text import slugify

from judging.core.errors import UserError
from judging.projects import audit
from judging.projects.access import is_smaller, may_research
from judging.projects.models import LostRight, Membership, PasswordLink, Project, Role

LONGEST_SLUG = Project._meta.get_field("slug").max_length


def create_project(
    user: AbstractUser | None, name: str, slug: str = "", **fields: object
) -> Project:
    """A new project, owned by `user`. Raises UserError when they may not, or the slug is taken."""
    if user is not None and not may_research(user):
        raise UserError("Creating projects needs the researcher permission. Ask an operator.")
    slug = slug or slugify(name)[:LONGEST_SLUG].strip("-")
    if not slug or slug != slugify(slug):
        raise UserError(
            f"“{slug or name}” cannot stand in an address. Use letters, digits and hyphens."
        )
    if len(slug) > LONGEST_SLUG:
        raise UserError(f"A slug has at most {LONGEST_SLUG} characters, not {len(slug)}.")
    try:
        with transaction.atomic():
            project = Project.objects.create(slug=slug, name=name, created_by=user, **fields)
            if user is not None:
                Membership.objects.create(project=project, user=user, role=Role.OWNER)
                end_password_links([user.pk])
            audit.record(project, user, "project created", slug)
    except IntegrityError:
        raise UserError(f"A project “{slug}” exists already. Choose another name.") from None
    return project


def project_for_command(slug: str, owner: str | None = None, *, create: bool = False) -> Project:
    """The project of a command line; made when new and `create` is set."""
    project = Project.objects.filter(slug=slug).first()
    if project is not None:
        return project
    if not create:
        known = ", ".join(Project.objects.order_by("slug").values_list("slug", flat=True)[:20])
        raise UserError(f"There is no project “{slug}”. Known: {known or 'none yet'}.")
    return create_project(owner_for_command(owner), slug, slug)


def owner_for_command(name: str | None) -> User | None:
    """Whoever owns what a command creates: the named user, or the only superuser.

    With no superuser yet there is nobody to own it; the first one that is created takes over
    (`adopt_projects`).
    """
    if name:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise UserError(f"There is no user “{name}”. Make one: manage.py create_user {name}")
        return user
    superusers = list(User.objects.filter(is_superuser=True, is_active=True)[:2])
    if len(superusers) > 1:
        raise UserError("There are several superusers. Say who owns the project: --owner NAME")
    return superusers[0] if superusers else None


def adopt_projects(user: AbstractUser) -> int:
    """Give projects that nobody owns, made before there were users, to the first superuser."""
    orphans = Project.objects.exclude(memberships__role=Role.OWNER)
    for project in orphans:
        Membership.objects.update_or_create(
            project=project, user=user, defaults={"role": Role.OWNER}
        )
        end_password_links([user.pk])
        audit.record(project, user, "ownership taken over", project.slug)
    return len(orphans)


def add_member(project: Project, by: AbstractUser | None, user: AbstractUser, role: str) -> None:
    """Add a member. Somebody who is one already keeps their role."""
    with transaction.atomic():
        _, created = Membership.objects.get_or_create(
            project=project, user=user, defaults={"role": role}
        )
        if created:
            end_password_links([user.pk])
            audit.record(project, by, "member added", user.get_username(), role=role)


def change_role(membership: Membership, by: AbstractUser, role: str) -> None:
    """Raises UserError where the project would be left without an owner."""
    if role not in Role.values:
        raise UserError("Choose owner, researcher or annotator.")
    with transaction.atomic():
        _keep_an_owner(membership, leaving=role != Role.OWNER)
        before, membership.role = membership.role, role
        membership.save(update_fields=["role"])
        if is_smaller(role, than=before):
            _lose_right(membership, LostRight.How.LOWERED)
        if role != before:
            end_password_links([membership.user_id])
        audit.record(
            membership.project,
            by,
            "role changed",
            membership.user.get_username(),
            before=before,
            now=role,
        )


def remove_member(membership: Membership, by: AbstractUser) -> None:
    """Their votes stay. Raises UserError for the last owner."""
    with transaction.atomic():
        _keep_an_owner(membership, leaving=True)
        name = membership.user.get_username()
        by_themselves = by.pk == membership.user_id
        _lose_right(membership, LostRight.How.LEFT if by_themselves else LostRight.How.REMOVED)
        end_password_links([membership.user_id])
        membership.delete()
        audit.record(membership.project, by, "member removed", name)


def end_password_links(users: Iterable[int]) -> None:
    """End the password links that owners made for these people, and those that these made.

    Such a link rests on who belongs where: any change of that ends it. The operator's stay.
    """
    keys = list(users)
    by_owners = PasswordLink.objects.exclude(made_by=None)
    by_owners.filter(Q(user__in=keys) | Q(made_by__in=keys)).delete()


def _lose_right(membership: Membership, how: str) -> None:
    LostRight.objects.create(project_id=membership.project_id, user_id=membership.user_id, how=how)


def owned_alone(user: AbstractUser) -> list[str]:
    """Slugs of the projects that would be left without an owner."""
    owners = Membership.objects.filter(role=Role.OWNER)
    mine = owners.filter(user=user).values("project")
    others = owners.exclude(user=user).values("project")
    alone = Project.objects.filter(pk__in=mine).exclude(pk__in=others)
    return list(alone.order_by("slug").values_list("slug", flat=True))


def _keep_an_owner(membership: Membership, *, leaving: bool) -> None:
    """Raises UserError for the last owner, and where the membership ended meanwhile."""
    # Locked, so that two owners cannot remove each other at once; not its key, which votes are
    # stored with meanwhile.
    Project.objects.select_for_update(no_key=True).get(pk=membership.project_id)
    try:
        membership.refresh_from_db(fields=["role"])
    except Membership.DoesNotExist:
        raise UserError("They are no member of the project any more.") from None
    if not leaving or membership.role != Role.OWNER:
        return
    others = Membership.objects.filter(project=membership.project_id, role=Role.OWNER)
    if not others.exclude(pk=membership.pk).exists():
        raise UserError("This is the last owner. Make somebody else an owner first.")
