"""Teams of people across projects, and whom a round asks: teams, tags, names, limits and shares.

A team belongs to the user who made it, and holds people who are members of a project that this
user owns. It can be used in all projects that they own. People learn of no team.

A round keeps in which words people were chosen. They are resolved when the round is assigned: who
joins a team later gets items only once it is assigned again.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import Any

from django.contrib.auth.models import AbstractUser, User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404

from annotation.models import Annotator, Round, Seat, Selection, Slot, Team, TeamMember
from annotation.people.annotators import annotator_of, assign, people_changed, seat_people
from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.projects import access
from judging.projects.access import owned_by, who_label
from judging.projects.models import LostRight, Membership, Project, Role

MOST_TAGS, LONGEST_TAG = 20, 40
_LONGEST_NAME = Team._meta.get_field("name").max_length or 0
_SHARE = re.compile(r"(\d{1,7}(?:\.\d{1,4})?)\s*+(%?)", re.ASCII)


def may_have_teams(user: AbstractUser) -> bool:
    """Return True if this user owns a project, and can therefore make teams."""
    return user.is_active and owned_by(user).exists()


def teams_of(user: AbstractUser) -> QuerySet[Team]:
    """Return the teams that a user may see and change: their own, or all for a superuser."""
    teams = Team.objects.select_related("owner").order_by("name", "pk")
    return teams if user.is_superuser else teams.filter(owner=user)


def team_for(user: AbstractUser, number: int) -> Team:
    """Return the team. Raises Http404 if there is none, or if it is somebody else's."""
    team = teams_of(user).filter(pk=number).first()
    if team is None or not user.is_active:
        raise Http404("No such team.")
    return team


def teams_in(project: Project) -> QuerySet[Team]:
    """Return the teams that rounds of this project can ask: those of the project's owners."""
    owners = project.memberships.filter(role=Role.OWNER, user__is_active=True).values("user")
    return Team.objects.filter(owner__in=owners).select_related("owner").order_by("name", "pk")


def teams_for(project: Project, by: AbstractUser) -> QuerySet[Team]:
    """Return the teams that a user can add to this project: theirs, or for a superuser all."""
    return teams_of(by) & teams_in(project)


def team_named(project: Project, name: str, by: AbstractUser | None = None) -> Team:
    """Return the team of this name. OWNER/NAME tells apart teams of several owners.

    Args:
        by: Look only in the teams that this user may add to the project.
    """
    teams = [*(teams_in(project) if by is None else teams_for(project, by))]
    same_name = [team for team in teams if team.name == name]
    if not same_name:
        # The short name first, since a team may itself be called by a name with a slash.
        full = {f"{team.owner.get_username()}/{team.name}": team for team in teams}
        same_name = [full[name]] if name in full else []
    if len(same_name) == 1:
        return same_name[0]
    if same_name:
        owners = ", ".join(f"{team.owner.get_username()}/{name}" for team in same_name)
        raise UserError(f"Several owners have a team “{name}”. Name one of: {owners}.")
    known = ", ".join(team.name for team in teams[:20]) or "none yet"
    raise UserError(f"No owner of {project.slug} has a team “{name[:80]}”. Known teams: {known}.")


def reachable(owner: AbstractUser) -> QuerySet[User]:
    """Return whom the owner can have in a team: the members of the projects that they own."""
    members = Membership.objects.filter(project__in=owned_by(owner).values("pk"))
    return User.objects.filter(pk__in=members.values("user"), is_active=True).order_by("username")


def members_shown(team: Team) -> list[tuple[TeamMember, list[str]]]:
    """Return the people of a team by name, each with the owner's projects in which they are."""
    there = Membership.objects.filter(project__in=owned_by(team.owner), user__in_teams__team=team)
    projects: dict[int, list[str]] = defaultdict(list)
    for user, name in there.order_by("project__name").values_list("user", "project__name"):
        projects[user].append(name)
    rows = team.members.select_related("user").order_by("user__username")
    return [(row, projects[row.user_id]) for row in rows]


def read_tags(text: str | Iterable[str]) -> list[str]:
    """Return the tags, from a text in which commas divide them. Raises UserError."""
    parts = text.split(",") if isinstance(text, str) else text
    # The same word typed on two systems may differ in its code points, and must be one tag.
    words = (unicodedata.normalize("NFC", " ".join(part.split())).lower() for part in parts)
    tags = sorted(filter(None, set(words)))
    if len(tags) > MOST_TAGS:
        raise UserError(f"A person has at most {MOST_TAGS} tags.")
    for tag in tags:
        if len(tag) > LONGEST_TAG or not tag.isprintable() or "," in tag:
            raise UserError(f"“{tag[:LONGEST_TAG]}” can't be a tag. Use a short word, like german.")
    return tags


def _name(text: str) -> str:
    name = " ".join(text.split())
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UserError(f"Give the team a name of 1 to {_LONGEST_NAME} characters.")
    return name


def make_team(by: AbstractUser, name: str) -> Team:
    """Make an empty team. Raises UserError if the user owns no project, or has such a team."""
    if not may_have_teams(by):
        raise UserError("Only owners of a project have teams.")
    team = Team(owner=by)
    _save(team, name)
    _record(team, by, "team made")
    return team


def rename_team(team: Team, by: AbstractUser, name: str) -> None:
    before = team.name
    with transaction.atomic():
        _save(team, name)
        _record(team, by, "team renamed", before=before)


def _save(team: Team, name: str) -> None:
    team.name = _name(name)
    try:
        with transaction.atomic():
            team.save()
    except IntegrityError:
        raise UserError(f"There is a team “{team.name}” already. Choose another name.") from None


def delete_team(team: Team, by: AbstractUser) -> None:
    """Delete the team. Its people stay in their projects and in the rounds that asked them."""
    with transaction.atomic():
        _record(team, by, "team deleted")
        team.delete()


def put_in(team: Team, by: AbstractUser, people: Iterable[User], tags: Iterable[str]) -> None:
    """Put people into the team with these tags, or change the tags of those who are in it."""
    new_tags = read_tags(tags)
    with transaction.atomic():
        allowed = set(reachable(team.owner).values_list("pk", flat=True))
        for user in people:
            members = team.members.filter(user=user)
            if user.pk not in allowed and not members.exists():
                raise UserError(
                    f"{user.get_username()} is in no project that {team.owner.get_username()} "
                    "owns. Invite them to one first. Nothing was changed."
                )
            _, made = team.members.get_or_create(user=user, defaults={"tags": new_tags})
            if made:
                _record(team, by, "added to a team", user)
            elif members.exclude(tags=new_tags).update(tags=new_tags):
                _record(team, by, "tags in a team changed", user)


def set_team(by: AbstractUser, name: str, people: Mapping[str, Sequence[str]]) -> Team:
    """Make the user's team of this name, or change it, so that it holds exactly these people.

    Args:
        people: tags by the name of the login.
    """
    with transaction.atomic():
        team = Team.objects.filter(owner=by, name=_name(name)).first() or make_team(by, name)
        there = {
            member.user.username: member.user for member in team.members.select_related("user")
        }
        known = {user.username: user for user in reachable(by)} | there
        # Sorted, so that the same call always names the same person first.
        for unknown in sorted(people.keys() - known.keys()):
            raise UserError(
                f"“{unknown[:150]}” is in no project that you own. Invite them to one first. "
                "Nothing was changed."
            )
        for gone in sorted(there.keys() - people.keys()):
            take_out(team, by, there[gone])
        for login, tags in people.items():
            put_in(team, by, [known[login]], tags)
    return team


def take_out(team: Team, by: AbstractUser, user: User) -> None:
    """Take a person out of the team. They stay in their projects and rounds."""
    with transaction.atomic():
        if team.members.filter(user=user).delete()[0]:
            _record(team, by, "removed from a team", user)


def _record(
    team: Team, by: AbstractUser, action: str, user: User | None = None, **detail: str
) -> None:
    """Write the change into the trail of the owner's projects in which the people are.

    Tags are left out, since they tell about a person and the trail is never changed.
    """
    people = [user] if user else team.members.values("user")
    there = Membership.objects.filter(user__in=people).values("project")
    projects = list(owned_by(team.owner).filter(pk__in=there).order_by("pk"))
    # A person who is in no project any more still leaves a row in the site's trail.
    for project in projects or [None]:
        access.record_event(
            project,
            by,
            action,
            user.get_username() if user else team.name,
            team=team.name,
            **detail,
        )


@dataclass(frozen=True)
class Added:
    """How many people of a team joined, were members already, and have to be invited by a link."""

    joined: int
    already: int
    to_invite: int


def add_to_project(team: Team, project: Project, by: AbstractUser | None) -> Added:
    """Make the people of a team annotators of another project of the team's owner.

    People who left this project or were removed from it come back by an invitation only. People
    who are in none of the owner's projects any more are not added either.
    """
    if not owned_by(team.owner).filter(pk=project.pk).exists():
        raise UserError(f"{team.owner.get_username()} doesn't own this project. Nobody was added.")
    users = list(User.objects.filter(in_teams__team=team).order_by("in_teams__pk"))
    allowed = set(reachable(team.owner).values_list("pk", flat=True))
    members = set(project.memberships.values_list("user", flat=True))
    ended = (LostRight.How.LEFT, LostRight.How.REMOVED)
    # Who left by their own decision must not be fetched back by a list that somebody else keeps.
    gone = set(project.lost_rights.filter(how__in=ended).values_list("user", flat=True))
    new = [user for user in users if user.pk in allowed - members - gone]
    with transaction.atomic():
        for user in new:
            access.add_member(project, by, user, Role.ANNOTATOR)
            annotator_of(project, user)
        event = {"team": team.name, "people": len(new)}
        access.record_event(project, by, "team added", team.name, **event)
    people_changed(project)
    n_already = sum(user.pk in members for user in users)
    return Added(len(new), n_already, len(users) - len(new) - n_already)


@transaction.atomic
def new_project(
    user: AbstractUser, name: str, slug: str = "", like: str = "", people: bool = False, **more: Any
) -> Project:
    """Create a project that the user owns, by default or as another project of theirs is.

    Args:
        like: Slug of a project that the user owns, for all settings.
        people: Its people join, so that a round can be given to them by name.
    """
    other = owned_by(user).filter(slug=like).first() if like else None
    if other is None and (like or people):
        raise UserError("Choose a project that you own to copy from. Nothing was created.")
    fields = (access.settings_of(other) if other else {}) | more
    project = access.create_project(user, name, slug, **fields)
    members = other.memberships.filter(user__is_active=True) if other and people else None
    for member in members.select_related("user") if members else ():
        access.add_member(project, user, member.user, member.role)
        annotator_of(project, member.user)
    return project


@dataclass(frozen=True)
class Whom:
    """Whom a round asks. Nothing but a limit means everybody.

    teams, tags: members of any of these teams, or of any team, who have all of these tags.
    people: more people, by name.
    limit: items per person.
    shares: how much some people label, who are asked by this as well: percent of the round's votes
        as Decimal, or a number of items as int.
    """

    teams: tuple[Team, ...] = ()
    tags: tuple[str, ...] = ()
    people: tuple[Annotator, ...] = ()
    limit: int | None = None
    shares: Mapping[Annotator, Decimal | int] = field(default_factory=dict)

    @property
    def is_everybody(self) -> bool:
        return not (self.teams or self.tags or self.people or self.shares)

    @property
    def words(self) -> dict[str, Any]:
        """What the round keeps, if more than names tells who is asked. People are numbers."""
        if not (self.teams or self.tags or self.shares):
            return {}
        return {
            "teams": [[team.pk, team.name] for team in self.teams],
            "tags": list(self.tags),
            "people": [person.number for person in self.people],
            "shares": [[person.number, say_share(share)] for person, share in self.shares.items()],
        }


def read_share(text: str) -> Decimal | int:
    """Read “30 %” as a share of the round's votes, and “40” as a number of items."""
    match = _SHARE.fullmatch(text.strip())
    if match is not None and match[2] and 0 < (percent := Decimal(match[1])) <= 100:
        return percent
    if match is not None and not match[2] and match[1].isdecimal() and int(match[1]) > 0:
        return int(match[1])
    raise UserError(
        f"“{text[:40]}” isn't a share. Write 30 % for a share of the votes, or 40 for "
        f"a number of items."
    )


def say_share(share: Decimal | int) -> str:
    return str(share) if isinstance(share, int) else f"{share.normalize():f} %"


def read_shares(lines: Iterable[str], find: Mapping[str, Annotator]) -> dict[Annotator, Any]:
    """Read lines such as `ada: 30 %` or `ada=30%`. Raises UserError that names the line."""
    shares = dict[Annotator, Decimal | int]()
    for line in filter(str.strip, lines):
        name, _, share = (part.strip() for part in re.sub("=(?=[^=]*$)", ":", line).rpartition(":"))
        if name not in find:
            raise UserError(f"“{line[:80]}”: there is no annotator “{name[:80]}” to give a share.")
        shares[find[name]] = read_share(share)
    return shares


def _users(project: Project, teams: Collection[int], tags: Iterable[str]) -> set[int]:
    """Return the users who are in a team, have all of the tags, and may label in the project."""
    members = who_label().filter(project=project, user__is_active=True)
    rows = TeamMember.objects.filter(team__in=teams, user__in=members.values("user"))
    tags_of: dict[int, set[str]] = defaultdict(set)
    for user, theirs in rows.values_list("user", "tags"):
        # Tags of several teams count together: one team may know the language, another the field.
        tags_of[user] |= set(theirs)
    return {user for user, theirs in tags_of.items() if theirs >= set(tags)}


def _asked_teams(project: Project, teams: Collection[Team]) -> list[int]:
    """Return the teams to look in: with tags alone, all teams that the project can use."""
    usable = set(teams_in(project).values_list("pk", flat=True))
    if gone := [team.name for team in teams if team.pk not in usable]:
        raise UserError(f"No owner of {project.slug} has the team {gone[0]}. Nothing was changed.")
    return [team.pk for team in teams] or sorted(usable)


def _resolved(project: Project, whom: Whom) -> list[Annotator]:
    """Return the people, each once, made annotators. Call it in the transaction that seats them."""
    people = list(whom.people)
    if whom.teams or whom.tags:
        keys = _users(project, _asked_teams(project, whom.teams), whom.tags)
        users = User.objects.filter(pk__in=keys).order_by("username")
        people += [annotator_of(project, user) for user in users]
        if not users:
            raise UserError(
                f"Nobody in {project.slug} is {say(whom)}. Add the team to the project, or choose "
                "others. Nothing was changed."
            )
    return list(dict.fromkeys([*people, *whom.shares]))


def say(whom: Whom) -> str:
    """Say which teams and tags are asked, without names of people."""
    teams = " or ".join(f"team {team.name}" for team in whom.teams) or "any team"
    tags = " and ".join(whom.tags)
    return f"in {teams}" + (f" with the tag{'s' * (len(whom.tags) > 1)} {tags}" if tags else "")


def limits_by_share(
    whom: Whom, people: Sequence[Annotator], n_items: int, votes: int, n_taken: int = 0
) -> dict[int, int]:
    """Return the items of each person with a share, by their keys.

    A share is rounded up, so that shares of 100 % give all votes. If everybody has at most as many
    items as there are and all limits add up to the votes asked for, each item can get its votes
    from different people.

    Args:
        n_taken: votes by people who are no longer asked.

    Raises UserError, with the numbers, if somebody would vote on an item twice or votes lack.
    """
    asked, limits = n_items * votes, dict[int, int]()
    if whom.shares and not votes:
        raise UserError("Training and a qualification have no shares. Nothing was changed.")
    for person, share in whom.shares.items():
        if isinstance(share, int):
            limits[person.pk] = share
            continue
        part = asked * share / 100
        if part > n_items:
            raise UserError(
                f"{say_share(share)} of {number_of(asked, 'vote')} is more than one vote on each "
                f"of {number_of(n_items, 'item')}. {person.name} can give at most "
                f"{Decimal(100) / votes:.4g} %. Nothing was changed."
            )
        limits[person.pk] = int(part.to_integral_value(ROUND_CEILING))
    if not limits:
        return limits
    # Who has no share may still have the limit of everybody.
    most = (limits.get(person.pk, whom.limit) for person in people)
    can = sum(n_items if limit is None else min(limit, n_items) for limit in most)
    if can < asked - n_taken:
        raise UserError(
            f"With these shares and limits, the {count(len(people))} people who are asked can give "
            f"{number_of(can, 'vote')}, but {count(asked - n_taken)} are needed "
            f"({number_of(n_items, 'item')} with {number_of(votes, 'vote')} each"
            + (f", {count(n_taken)} given by others" if n_taken else "")
            + "). Raise a share or the limit, or ask more people. Nothing was changed."
        )
    return limits


def seat_whom(round_: Round, whom: Whom, n_items: int) -> None:
    """Seat the people of a round that is being made. See `assign_whom`."""
    people = _resolved(round_.project, whom)
    limits = limits_by_share(whom, people, n_items, round_.votes_per_item)
    seat_people(round_, people, whom.limit, limits, whom.words)


def assign_whom(round_: Round, by: AbstractUser | None, whom: Whom) -> int:
    """Hand out items to these people only, or to everybody. Returns how many people they are.

    Shares become limits by the round's size of today.
    """
    with transaction.atomic():
        people = _resolved(round_.project, whom)
        n_items = sum(Selection.every.filter(round=round_).values_list("n_items", flat=True))
        others = Slot.objects.filter(round=round_, vote__isnull=False)
        n_taken = others.exclude(vote__annotator__in=people).count() if whom.shares else 0
        limits = limits_by_share(whom, people, n_items, round_.votes_per_item, n_taken)
    assign(round_, by, people, whom.limit, limits=limits, words=whom.words)
    return len(people)


def whom_of(round_: Round) -> Whom | None:
    """Return whom the round asks in words, or None if it asks everybody or people by name.

    Raises UserError if a team is gone.
    """
    words = round_.parameters.get("assigned")
    if not words:
        return None
    keys = [key for key, _ in words["teams"]]
    teams = Team.objects.in_bulk(keys)
    if gone := [name for key, name in words["teams"] if key not in teams]:
        raise UserError(
            f"The team {gone[0]} was deleted. Choose again who labels. Nothing was changed."
        )
    numbers = [*words["people"], *(number for number, _ in words["shares"])]
    here = Annotator.objects.filter(project=round_.project_id, number__in=numbers)
    people = {person.number: person for person in here}
    shares = {people[number]: read_share(share) for number, share in words["shares"]}
    named = tuple(people[number] for number in words["people"])
    limit = round_.parameters.get("limit")
    return Whom(tuple(teams[key] for key in keys), tuple(words["tags"]), named, limit, shares)


@dataclass(frozen=True)
class PeopleAsked:
    """Whom a round asks, for its page.

    joined, left: people whom assigning again would add, and from whom it would take the items.
    problem: why it can't be assigned again.
    """

    teams: list[str]
    tags: list[str]
    people: list[str]
    shares: list[tuple[str, str]]
    joined: int = 0
    left: int = 0
    problem: str = ""


def asked_in(round_: Round) -> PeopleAsked | None:
    """Return whom the round asks if its words are more than names."""
    words = round_.parameters.get("assigned")
    if not words:
        return None
    teams = [name for _, name in words["teams"]]
    try:
        whom = whom_of(round_)
        assert whom is not None
        keys = _asked_teams(round_.project, whom.teams)
    except UserError as error:
        return PeopleAsked(teams, words["tags"], [], [], problem=str(error))
    there = [*whom.people, *whom.shares]
    wanted = {person.user_id for person in there}
    if whom.teams or whom.tags:
        wanted |= _users(round_.project, keys, whom.tags)
    seats = Seat.objects.filter(round=round_, annotator__is_crowd=False)
    rows = list(seats.values_list("annotator__user", "left_at", "hold"))
    seated = {user for user, _, _ in rows}
    may_label = {user for user, left_at, hold in rows if left_at is None and not hold}
    shares = [(person.name, say_share(share)) for person, share in whom.shares.items()]
    named = [person.name for person in whom.people]
    joined, left = len(wanted - seated), len(may_label - wanted)
    return PeopleAsked(teams, words["tags"], named, shares, joined, left)
