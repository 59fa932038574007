"""Who may do what in a project, the audit trail of it, and changes of members.

`project_for` fetches a project and checks the user's role in one call, and views have no other way
to a project, so none can forget to check. A stranger gets 404, so that nobody can find out which
projects exist. A member whose role doesn't include it gets 403. A project always keeps an owner.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AbstractUser, AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Max, Model, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import Http404
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _lazy

from judging.core import waking
from judging.core.errors import Overtaken, UserError
from judging.core.formatting import duration
from judging.core.sql.statements import insert_one, prepared
from judging.projects.models import (
    AuditEvent,
    Delivery,
    EarlierLook,
    LostRight,
    Membership,
    PasswordLink,
    Preferences,
    Project,
    Role,
    Webhook,
)

# A reviewer labels, sees how rounds go and decides what votes leave open, as blind to the judge as
# an annotator. An observer reads data and results, changes nothing and never votes.
_INCLUDED = {
    Role.ANNOTATOR: {Role.ANNOTATOR},
    Role.REVIEWER: {Role.ANNOTATOR, Role.REVIEWER},
    Role.OBSERVER: {Role.OBSERVER},
    Role.RESEARCHER: {*Role} - {Role.OWNER},
    Role.OWNER: {*Role},
}
NO_SUCH_ROLE = "Choose owner, researcher, reviewer, observer or annotator."


class StillBlind(PermissionDenied):
    """Judge output, or models' names, were asked for by somebody who hasn't confirmed that yet.

    The site answers with a page that says what it means for their votes, and asks once.
    """

    def __init__(self, access: "Access", *, names_models: bool = False) -> None:
        shown = "which model wrote what" if names_models else "what the judge said"
        super().__init__(
            f"This shows {shown}. Open it in a browser once and confirm there: from then on, your "
            "votes in this project are marked as unblinded."
        )
        self.access, self.names_models = access, names_models


@dataclass(frozen=True)
class Access:
    """A project and the user who may use it. `membership` is None only for a superuser."""

    project: Project
    user: AbstractUser
    role: Role
    membership: Membership | None

    def includes(self, role: Role) -> bool:
        """Return True if this person may do what somebody with `role` may do."""
        return role in _INCLUDED[self.role]

    @property
    def may_manage(self) -> bool:
        return self.includes(Role.RESEARCHER)

    @property
    def may_review(self) -> bool:
        return self.includes(Role.REVIEWER)

    @property
    def may_read(self) -> bool:
        return self.includes(Role.OBSERVER)

    @property
    def has_seen_judge(self) -> bool:
        """Return True if a page has shown them judge output. Members cost no query."""
        if self.membership is not None:
            return self.membership.unblinded_at is not None
        return EarlierLook.objects.filter(project=self.project, user=self.user).exists()

    @property
    def may_start_runs(self) -> bool:
        """Runs cost money, so the role alone is not enough."""
        return self.may_manage and may_research(self.user)

    def under(self, tab: str) -> dict[str, Any]:
        """Return what the templates of all the project's pages need."""
        return {"project": self.project, "access": self, "tab": tab}


def lacks_rights(role: str, of: str) -> bool:
    """Return True if somebody with `role` may not do all that somebody with the role `of` may."""
    return not _INCLUDED[Role(of)] <= _INCLUDED[Role(role)]


def who_may(role: Role) -> QuerySet[Membership]:
    """Return the memberships whose role includes `role`, of all projects."""
    roles = [name for name, included in _INCLUDED.items() if role in included]
    return Membership.objects.filter(role__in=roles)


def who_label() -> QuerySet[Membership]:
    """Return the memberships whose role includes labelling, of all projects."""
    return who_may(Role.ANNOTATOR)


def owned_by(user: AbstractUser) -> QuerySet[Project]:
    return Project.objects.filter(memberships__user=user, memberships__role=Role.OWNER)


def may_research(user: AbstractUser | AnonymousUser) -> bool:
    """Return True if the user has the site permission to create projects and start runs."""
    return user.has_perm("judging.researcher")


def projects_of(user: AbstractUser) -> QuerySet[Project]:
    """Return the projects of which a user may know."""
    if user.is_superuser:
        return Project.objects.all()
    return Project.objects.filter(memberships__user=user)


@prepared
def _memberships(slug: Any, user: Any) -> QuerySet[Membership]:
    memberships = Membership.objects.select_related("project")
    return memberships.filter(project__slug=slug, user=user)


def project_for(
    user: AbstractUser | AnonymousUser,
    slug: str,
    role: Role | None = None,
    *,
    shows_judge: bool = False,
    names_models: bool = False,
    is_told: bool = False,
) -> Access:
    """Return the project if the user is a member and their role includes `role`, if one is named.

    Args:
        shows_judge: the page shows judge output. From the first such view on, the user's votes are
            marked as unblinded, in this membership and in any later one.
        names_models: the page shows responses with the names of their models, which does the same.
        is_told: the user knows that and goes on, so that this call marks them.

    Raises:
        Http404: the project doesn't exist, or the user isn't a member.
        PermissionDenied: the user's role does not include it.
        StillBlind: it would be the first view, and nobody told them. The site asks them.
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
    is_enough = role is None or access.includes(role)
    if user.is_superuser and not is_enough:
        # The membership stays, since it says whether this person has seen the judge.
        access = Access(access.project, user, Role.OWNER, membership)
    elif not is_enough:
        raise PermissionDenied(_lazy("Your role in this project doesn't include it."))
    if (shows_judge or names_models) and not access.has_seen_judge:
        if not is_told:
            raise StillBlind(access, names_models=names_models)
        _unblind(access)
    return access


def _unblind(access: Access) -> None:
    now, theirs = timezone.now(), {"project": access.project, "user": access.user}
    member = Membership.objects.filter(**theirs)
    # Without a membership, or if it ended at this very moment, the look is kept for the next one.
    if not member.update(unblinded_at=Coalesce("unblinded_at", now)):
        EarlierLook.objects.get_or_create(**theirs, defaults={"at": now})


_LONGEST_SUBJECT = AuditEvent._meta.get_field("subject").max_length


def record_event(
    project: Project | None,
    user: AbstractBaseUser | AnonymousUser | None,
    action: str,
    subject: str = "",
    **detail: Any,
) -> AuditEvent:
    """Add an event to the audit trail. `user` is None for commands. Details hold no secrets.

    An AnonymousUser with a name is another source of changes, such as single sign-on.
    """
    known = user is not None and user.is_authenticated
    event = AuditEvent(
        project=project,
        project_slug=project.slug if project else "",
        user=user if known else None,
        # The name is kept as a text, which outlives the login.
        actor=(user.get_username() if user is not None else "") or "command line",
        action=action,
        # A long name must not fail the action, which is in the same transaction.
        subject=subject[:_LONGEST_SUBJECT],
        detail=detail,
    )
    insert_one(event)
    return event


def tell(project: Project, event: str, data: Callable[[], Mapping[str, Any]]) -> None:
    """Queue an event for the webhooks that want it. Call it in the transaction of the event.

    Args:
        data: What the event says besides the project. It is called only if somebody listens.
    """
    hooks = listening(project, event)
    if hooks:
        with transaction.atomic():
            queue_deliveries(hooks, event, project, data())


def listening(project: Project, *events: str) -> list[Webhook]:
    """Return the project's webhooks that are on and are told of one of these events."""
    hooks = Webhook.objects.filter(project=project.pk, state=Webhook.State.ON).order_by("pk")
    return [hook for hook in hooks if not set(events).isdisjoint(hook.events)]


def queue_deliveries(
    hooks: Collection[Webhook], event: str, project: Project, data: Mapping[str, Any]
) -> list[Delivery]:
    """Write what each webhook is to be sent, and wake a worker once that is committed."""
    message = f"msg_{secrets.token_hex(12)}"
    now = timezone.now()
    body = {
        "type": event,
        "timestamp": now.isoformat().replace("+00:00", "Z"),
        "data": {"project": project.slug} | dict(data),
    }
    # It is kept as a text, so that each attempt sends and signs the same bytes.
    text = json.dumps(body, ensure_ascii=False, default=str)
    rows = [
        Delivery(
            webhook=hook, message=message, event=event, body=text, at=now, began_at=now, next_at=now
        )
        for hook in hooks
    ]
    Delivery.objects.bulk_create(rows)
    for hook in hooks:
        wake_sender(hook)
    return rows


def wake_sender(hook: Webhook) -> None:
    """Wake a worker to send what waits for this webhook, once the transaction is committed."""
    waking.wake_on_commit(waking.SEND_WEBHOOKS, hook.pk)


def version_of(value: object) -> str:
    """Return what a form carries of a value that it may change (see `overtaken`)."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def overtaken(by: str, user: AbstractUser | None, did: str, at: datetime) -> Overtaken:
    """Return the error for a form that was made for what somebody has changed since then.

    The page shows the form again, now made for what holds, so that sending it again decides.
    """
    who = "You" if user is not None and user.get_username() == by else by
    since = duration((timezone.now() - at).total_seconds())
    return Overtaken(
        f"{who} {did} {since} ago, after this page was loaded. Your change was not saved. Leave "
        "the page to keep theirs, or send the form again to replace it."
    )


def refuse_for_last(
    events: QuerySet[AuditEvent], user: AbstractUser | None, did: Callable[[AuditEvent], str]
) -> None:
    """Raise Overtaken for the last of these events, if there is one. `did` says what it was."""
    last = events.order_by("-pk").first()
    if last is not None:
        raise overtaken(last.actor, user, did(last), last.at)


def need_texts(project: Project, why: str) -> None:
    """Raise UserError if the project's texts were removed. why: a sentence on who needs them."""
    if at := project.texts_removed_at:
        raise UserError(
            f"The texts of this project were removed on {at:%Y-%m-%d}, as an owner had set. {why} "
            "Nothing was changed."
        )


BRINGS_TEXTS = "An import would bring texts back."


def next_number(project: Project, model: type[Model]) -> int:
    """Return the next free number for a row of this model in the project.

    Call it in the transaction that makes the row: the project stays locked until that ends, so
    that two rows never get the same number.
    """
    # The lock spares the primary key, so that rows that refer to the project can still be stored.
    Project.objects.select_for_update(no_key=True).only("pk").get(pk=project.pk)
    # A row that is still hidden has a number too.
    rows = model._base_manager.filter(project=project)
    return int(rows.aggregate(last=Max("number"))["last"] or 0) + 1


LONGEST_SLUG = Project._meta.get_field("slug").max_length


# What a project has of its own; all else of it are settings.
_OWN = {
    "id", "slug", "name", "description", "is_demo", "primary_run", "created_by", "created_at",
    "deleted_at", "texts_removed_at",
}  # fmt: skip


def settings_of(project: Project) -> dict[str, object]:
    """Return what another project takes over that is to be like this one."""
    fields = (field.name for field in Project._meta.concrete_fields if field.name not in _OWN)
    return {name: getattr(project, name) for name in fields}


def create_project(
    user: AbstractUser | None, name: str, slug: str = "", **fields: object
) -> Project:
    """Create a project that `user` owns.

    Raises UserError if the user may not create projects, or if the slug is taken or not usable.
    """
    if user is not None and not may_research(user):
        raise UserError("Creating projects needs the researcher permission. Ask an operator.")
    slug = slug or slugify(name)[:LONGEST_SLUG].strip("-")
    if not slug or slug != slugify(slug):
        raise UserError(
            f"“{slug or name}” can't be part of an address. Use letters, digits and hyphens."
        )
    if len(slug) > LONGEST_SLUG:
        raise UserError(f"A slug has at most {LONGEST_SLUG} characters, not {len(slug)}.")
    try:
        with transaction.atomic():
            project = Project.objects.create(slug=slug, name=name, created_by=user, **fields)
            if user is not None:
                Membership.objects.create(project=project, user=user, role=Role.OWNER)
                end_password_links([user.pk])
            record_event(project, user, "project created", slug)
    # If two choose the same slug at once, the database lets one have it.
    except IntegrityError:
        raise UserError(f"A project “{slug}” exists already. Choose another name.") from None
    return project


def project_for_command(slug: str, owner: str | None = None, *, create: bool = False) -> Project:
    """Return the project that a command names. If it is new and `create` is set, create it."""
    project = Project.objects.filter(slug=slug).first()
    if project is not None:
        return project
    if not create:
        known = ", ".join(Project.objects.order_by("slug").values_list("slug", flat=True)[:20])
        raise UserError(f"There is no project “{slug}”. Known projects: {known or 'none yet'}.")
    return create_project(owner_for_command(owner), slug, slug)


def user_named(name: str, then: str = "Nothing was changed.") -> User:
    """Return the user that a command names. Raises UserError that ends with what follows."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise UserError(f"There is no user “{name}”. {then}")
    return user


def owner_for_command(name: str | None) -> User | None:
    """Return the owner of what a command creates: the named user, or the only superuser.

    If there is no superuser yet, nobody owns it until the first one is created (`adopt_projects`).
    """
    if name:
        return user_named(name, f"Create the login: manage.py create_user {name}")
    superusers = list(User.objects.filter(is_superuser=True, is_active=True)[:2])
    if len(superusers) > 1:
        raise UserError("There are several superusers. Say who owns the project: --owner NAME")
    return superusers[0] if superusers else None


def adopt_projects(user: AbstractUser) -> int:
    """Give projects without an owner, made before there were users, to the first superuser."""
    orphans = Project.objects.exclude(memberships__role=Role.OWNER)
    for project in orphans:
        Membership.objects.update_or_create(
            project=project, user=user, defaults={"role": Role.OWNER}
        )
        end_password_links([user.pk])
        record_event(project, user, "ownership taken over", project.slug)
    return len(orphans)


def add_member(project: Project, by: AbstractUser | None, user: AbstractUser, role: str) -> None:
    """Add a member. An existing member keeps their role."""
    with transaction.atomic():
        _, created = Membership.objects.get_or_create(
            project=project, user=user, defaults={"role": role}
        )
        if created:
            end_password_links([user.pk])
            record_event(project, by, "member added", user.get_username(), role=role)


def change_role(
    membership: Membership, by: AbstractUser, role: str, *, made_for: str | None = None
) -> None:
    """Change a member's role. Raises UserError if the project would be left without an owner.

    Args:
        made_for: The role that the form showed. Raises Overtaken if it is another by now.
    """
    if role not in Role.values:
        raise UserError(NO_SUCH_ROLE)
    with transaction.atomic():
        # This locks the project and reads the role again: what follows is about the role that holds
        # now.
        _keep_an_owner(membership, leaving=role != Role.OWNER)
        # Somebody who made the same change meanwhile contradicts nothing.
        if role != membership.role:
            _refuse_overtaken(membership, by, made_for)
        before, membership.role = membership.role, role
        membership.save(update_fields=["role"])
        if lacks_rights(role, of=before):
            _lose_right(membership, LostRight.How.LOWERED)
        if role != before:
            end_password_links([membership.user_id])
        record_event(
            membership.project,
            by,
            "role changed",
            membership.user.get_username(),
            before=before,
            now=role,
        )


def _refuse_overtaken(membership: Membership, by: AbstractUser, made_for: str | None) -> None:
    """Raise Overtaken if somebody gave the member another role after the form was made."""
    if made_for not in (None, membership.role):
        name = membership.user.get_username()
        events = membership.project.audit_events.filter(action="role changed", subject=name)
        refuse_for_last(events, by, lambda _: f"made {name} {membership.role}")


def remove_member(membership: Membership, by: AbstractUser, *, made_for: str | None = None) -> None:
    """Remove a member, whose votes stay. Raises UserError for the last owner.

    Args:
        made_for: The role that the form showed. Raises Overtaken if it is another by now.
    """
    with transaction.atomic():
        _keep_an_owner(membership, leaving=True)
        _refuse_overtaken(membership, by, made_for)
        name = membership.user.get_username()
        by_themselves = by.pk == membership.user_id
        _lose_right(membership, LostRight.How.LEFT if by_themselves else LostRight.How.REMOVED)
        end_password_links([membership.user_id])
        _keep_look(membership)
        membership.delete()
        record_event(membership.project, by, "member removed", name)


def end_password_links(users: Iterable[int]) -> None:
    """End the password links that owners made for these users, or that these users made.

    Such a link depends on memberships, so any change of them ends it. The operator's links stay.
    """
    keys = list(users)
    by_owners = PasswordLink.objects.exclude(made_by=None)
    by_owners.filter(Q(user__in=keys) | Q(made_by__in=keys)).delete()


def _lose_right(membership: Membership, how: str) -> None:
    LostRight.objects.create(project_id=membership.project_id, user_id=membership.user_id, how=how)


def _keep_look(membership: Membership) -> None:
    # Read again in the statement that locks the row: a page may unblind them at this very moment.
    now = Membership.objects.select_for_update().get(pk=membership.pk)
    if now.unblinded_at is not None:
        theirs = {"project_id": now.project_id, "user_id": now.user_id}
        EarlierLook.objects.get_or_create(**theirs, defaults={"at": now.unblinded_at})


def owned_alone(user: AbstractUser) -> list[str]:
    """Return the slugs of the projects whose only owner is this user."""
    owners = Membership.objects.filter(role=Role.OWNER)
    mine = owners.filter(user=user).values("project")
    others = owners.exclude(user=user).values("project")
    alone = Project.objects.filter(pk__in=mine).exclude(pk__in=others)
    return list(alone.order_by("slug").values_list("slug", flat=True))


def _keep_an_owner(membership: Membership, *, leaving: bool) -> None:
    """Raise UserError for the last owner, or if the membership has ended in the meantime."""
    # The lock keeps two owners from removing each other at the same time. It spares the primary
    # key, so that votes can still be stored.
    Project.objects.select_for_update(no_key=True).get(pk=membership.project_id)
    try:
        membership.refresh_from_db(fields=["role"])
    except Membership.DoesNotExist:
        raise UserError("This person is no longer a member of the project.") from None
    if not leaving or membership.role != Role.OWNER:
        return
    others = Membership.objects.filter(project=membership.project_id, role=Role.OWNER)
    if not others.exclude(pk=membership.pk).exists():
        raise UserError("This is the last owner. Make another member an owner first.")


def language_of_projects(user: AbstractUser) -> str:
    """Return the language that all projects of a user state, or "" if they state no common one."""
    projects = Project.objects.filter(memberships__user=user.pk)
    stated = set(projects.values_list("language", flat=True))
    return stated.pop() if len(stated) == 1 else ""


def preferences_of(user: AbstractUser) -> Preferences:
    """Return the user's own settings, unsaved defaults until they are changed."""
    stored: Preferences | None = _preferences.first(user=user.pk)
    return stored or Preferences(user=user)


@prepared
def _preferences(user: Any) -> QuerySet[Preferences]:
    return Preferences.objects.filter(user=user)
