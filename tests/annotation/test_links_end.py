"""Links that let people in: make one, change somebody's rights, use it.

Each change that matters is tried on each kind of link, by the page, as a stranger would.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.contrib.auth.tokens import default_token_generator
from django.core import signing
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from annotation.deletion import delete_project
from annotation.models import CrowdLink, Invitation
from annotation.people import crowds, invitations
from annotation.people.annotators import leave_project
from annotation.people.invitations import (
    Terms,
    accept_invitation,
    invite,
    link_of,
    open_invitation,
    unsigned_link,
)
from annotation.people.personal_data import erase_person
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen import hand
from annotation.screen.hand import address_of, leave_address_of, return_address_of
from judging.core.errors import UserError
from judging.projects import accounts, mail
from judging.projects.access import adopt_projects, change_role, create_project
from judging.projects.accounts import password_link, password_link_behind, reset_link, use_up
from judging.projects.models import Membership, PasswordLink, Project, Role
from tests.factories import make_examples, make_member, make_project, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.system]
# Each change and each call is tried on both databases, and their combinations on one.
on_both = pytest.mark.databases

PASSWORD = "a long enough one"
REMOVED = "You were removed from this project. Ask an owner for a new link."
LEFT = "You left this project. Ask an owner for a new link."
NO_MORE = "can no longer invite people. Ask an owner of the project for a new one."


@dataclass
class Cast:
    project: Project
    maker: User
    keeper: User
    person: User

    def membership(self, user: User) -> Membership:
        return Membership.objects.get(project=self.project, user=user)

    def role(self, user: User, role: str) -> None:
        change_role(self.membership(user), self.keeper, role)

    def remove(self, user: User) -> None:
        leave_project(self.membership(user), self.keeper)

    def leave(self, user: User) -> None:
        leave_project(self.membership(user), user)

    def join(self, user: User, role: str = Role.ANNOTATOR) -> None:
        accept_invitation(invite(self.project, self.keeper, Terms(role=role)), user)

    def elsewhere(self, user: User, role: str = Role.ANNOTATOR) -> Project:
        another = make_project()
        accept_invitation(invite(another, None, Terms(role=role)), user)
        return another


@pytest.fixture
def cast(project, owner, annotator):
    """Olga makes the links, ana is who they are for, and kim, who stays, changes rights."""
    return Cast(project, owner, make_member(project, Role.OWNER, "kim"), annotator)


def path_of(link, settings):
    return link.removeprefix(settings.FAIRJUDGE_URL)


def set_password(client, address):
    fields = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    return client.post(address, fields)


def is_shut_out(client, user):
    user = User.objects.filter(pk=user.pk).first()
    return "_auth_user_id" not in client.session and (
        user is None or not user.check_password(PASSWORD)
    )


def update(user, **fields):
    User.objects.filter(pk=user.pk).update(**fields)


def joins_elsewhere_and_leaves(cast):
    another = cast.elsewhere(cast.person)
    leave_project(Membership.objects.get(project=another, user=cast.person), cast.person)


def leaves_and_comes_back(cast):
    cast.leave(cast.person)
    cast.join(cast.person)


def raised_and_lowered(cast):
    cast.role(cast.person, Role.RESEARCHER)
    cast.role(cast.person, Role.ANNOTATOR)


def may_do_what_the_maker_may_not(cast):
    cast.maker.user_permissions.clear()
    cast.person.user_permissions.add(Permission.objects.get(codename="researcher"))


def maker_lowered_and_raised(cast):
    cast.role(cast.maker, Role.RESEARCHER)
    cast.role(cast.maker, Role.OWNER)


def maker_removed_and_owner_again(cast):
    cast.remove(cast.maker)
    cast.join(cast.maker, Role.OWNER)


def row(project, user, role):
    Membership.objects.create(project=project, user=user, role=role)


OF_THE_PERSON: dict[str, Callable[[Cast], object]] = {
    "owns another project": lambda cast: cast.elsewhere(cast.person, Role.OWNER),
    "labels in another project": lambda cast: cast.elsewhere(cast.person),
    "joined another project and left it": joins_elsewhere_and_leaves,
    "is in another project by a row alone": lambda cast: row(make_project(), cast.person, "owner"),
    "left": lambda cast: cast.leave(cast.person),
    "was removed": lambda cast: cast.remove(cast.person),
    "left and came back": leaves_and_comes_back,
    "was raised": lambda cast: cast.role(cast.person, Role.OWNER),
    "was raised and lowered": raised_and_lowered,
    "made a project": lambda cast: (
        cast.person.user_permissions.add(Permission.objects.get(codename="researcher")),
        create_project(User.objects.get(pk=cast.person.pk), "Their own"),
    ),
    "is a superuser": lambda cast: update(cast.person, is_superuser=True),
    "is staff": lambda cast: update(cast.person, is_staff=True),
    "may do more than the maker": may_do_what_the_maker_may_not,
}
OF_THE_MAKER: dict[str, Callable[[Cast], object]] = {
    "was lowered": lambda cast: cast.role(cast.maker, Role.RESEARCHER),
    "was lowered and raised": maker_lowered_and_raised,
    "was removed": lambda cast: cast.remove(cast.maker),
    "was removed and is owner again": maker_removed_and_owner_again,
    "left": lambda cast: cast.leave(cast.maker),
    "is inactive": lambda cast: update(cast.maker, is_active=False),
    "was erased": lambda cast: erase_person(cast.maker, None),
    "is no member by a row alone": lambda cast: cast.membership(cast.maker).delete(),
}
# An invitation does not care about these, a password link does.
ELSEWHERE: dict[str, Callable[[Cast], object]] = {
    "joined another project": lambda cast: cast.elsewhere(cast.maker),
    "made a project": lambda cast: create_project(cast.maker, "Another"),
    "saw another project deleted": lambda cast: delete_project(
        cast.maker.memberships.exclude(project=cast.project).get().project, None
    ),
}
CHANGES = (
    [pytest.param(change, id=f"the person {name}") for name, change in OF_THE_PERSON.items()]
    + [pytest.param(change, id=f"the maker {name}") for name, change in OF_THE_MAKER.items()]
    + [pytest.param(change, id=f"the maker {name}") for name, change in ELSEWHERE.items()]
    + [
        pytest.param(lambda c: update(c.person, is_active=False), id="the person is inactive"),
        pytest.param(lambda c: delete_project(c.project, None), id="the project is deleted"),
    ]
)


def mostly_on_one(values):
    """The first of them on both databases."""
    first, *others = values
    return [pytest.param(first, marks=on_both), *others]


def changed_by(change):
    return pytest.mark.parametrize("change", change)


@on_both
@changed_by([pytest.param(lambda cast: None, id="nothing changes")])
def test_an_owners_link_sets_the_password_once(cast, settings, change):
    path = path_of(reset_link(cast.membership(cast.person), cast.maker), settings)
    change(cast)
    form = Client().get(path)
    assert form.status_code == 302
    client = Client()
    assert set_password(client, client.get(path).url).status_code == 302
    assert client.session["_auth_user_id"] == str(cast.person.pk)
    assert "no longer valid" in Client().get(path).text
    assert not PasswordLink.objects.exists()


@on_both
@changed_by(CHANGES)
def test_an_owners_link_ends_with_any_change_of_rights(cast, settings, change):
    if change is ELSEWHERE["saw another project deleted"]:
        cast.elsewhere(cast.maker)
    path = path_of(reset_link(cast.membership(cast.person), cast.maker), settings)
    under_way = Client()
    form = under_way.get(path).url
    assert "new_password1" in under_way.get(form).text
    change(cast)
    fresh = Client()
    assert "This link is no longer valid" in fresh.get(path, follow=True).text
    assert "This link is no longer valid" in set_password(under_way, form).text
    for client in (fresh, under_way):
        assert is_shut_out(client, cast.person)


@changed_by([change for change in CHANGES if change.id != "the maker was erased"])
def test_the_operators_link_stays_as_it_is(cast, settings, capsys, change):
    cast.elsewhere(cast.maker)
    call_command("password_link", cast.person.username)
    path = path_of(capsys.readouterr().out.strip(), settings)
    change(cast)
    client = Client()
    assert set_password(client, client.get(path).url).status_code == 302
    assert User.objects.get(pk=cast.person.pk).check_password(PASSWORD)


@on_both
@pytest.mark.parametrize("still", [True, False])
def test_a_superusers_link_needs_a_superuser_when_it_is_used(cast, settings, still):
    sue = make_user("sue", is_superuser=True)
    cast.elsewhere(cast.person)
    path = path_of(reset_link(cast.membership(cast.person), sue), settings)
    update(sue, is_superuser=still)
    assert Client().get(path).status_code == (302 if still else 200)


@on_both
def test_whoever_becomes_owner_of_orphans_ends_links(cast, settings):
    path = path_of(reset_link(cast.membership(cast.person), cast.maker), settings)
    make_project("orphan")
    adopt_projects(cast.person)
    assert "no longer valid" in Client().get(path).text


@on_both
def test_a_link_that_ends_while_it_is_used_sets_nothing(cast, settings):
    path = path_of(reset_link(cast.membership(cast.person), cast.maker), settings)
    token = path.rstrip("/").rpartition("/")[2]
    first = password_link_behind(cast.person, token)
    second = password_link_behind(cast.person, token)
    assert use_up(first)
    assert not use_up(second)


@on_both
@pytest.mark.parametrize("who", ["researcher", "annotator", "removed", "outsider"])
def test_nobody_but_owners_makes_links(cast, who, outsider):
    users = {
        "researcher": make_member(cast.project, Role.RESEARCHER),
        "annotator": make_member(cast.project),
        "removed": make_member(cast.project, Role.OWNER),
        "outsider": outsider,
    }
    cast.remove(users["removed"])
    client = Client()
    client.force_login(users[who])
    number = cast.membership(cast.person).pk
    status = 404 if who in ("removed", "outsider") else 403
    asked = client.post(reverse("member", args=[cast.project.slug, number]), {"link": ""})
    assert asked.status_code == status
    terms = {"role": "owner", "uses": 1, "days": 1}
    asked = client.post(reverse("people", args=[cast.project.slug]), terms)
    assert asked.status_code == status
    assert not PasswordLink.objects.exists()
    assert not Invitation.objects.filter(role=Role.OWNER).exists()
    # Nor by the function itself, whoever calls it.
    with pytest.raises(UserError):
        reset_link(cast.membership(cast.person), users[who])


# Invitations


def join(client, link, settings, **fields):
    path = path_of(link, settings)
    return client.get(path), client.post(path, fields)


def logged_in(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("role", mostly_on_one(Role.values))
@changed_by([pytest.param(change, id=name) for name, change in OF_THE_MAKER.items()])
def test_an_invitation_lets_nobody_in_once_its_maker_may_not_invite(
    cast, settings, outsider, role, change
):
    invitation = invite(cast.project, cast.maker, Terms(role=role, uses=9))
    link = link_of(invitation)
    opened = open_invitation(link.rstrip("/").rpartition("/")[2])
    change(cast)
    before = set(Membership.objects.values_list("user", flat=True))
    new = {"username": "nina", "password1": PASSWORD, "password2": PASSWORD}
    for client in (Client(), logged_in(outsider)):
        for answer in join(client, link, settings, **new):
            assert answer.status_code == 410
            assert "Ask an owner of the project for a new one." in answer.text
    # As by a page that found the link good just before.
    with pytest.raises(UserError, match="for a new one"):
        accept_invitation(opened, outsider)
    if Invitation.objects.exists():
        with pytest.raises(UserError, match=re.escape(NO_MORE)):
            accept_invitation(opened, outsider)
        page = logged_in(cast.keeper).get(reverse("people", args=[cast.project.slug]))
        assert page.status_code == 200
        # What comes after it tells the second in which the page was made.
        assert link.rpartition("/join/")[2].partition(":")[0] not in page.text
    assert set(Membership.objects.values_list("user", flat=True)) == before
    assert not User.objects.filter(username="nina").exists()


@on_both
@changed_by([pytest.param(change, id=name) for name, change in ELSEWHERE.items()])
def test_an_invitation_does_not_care_what_its_maker_does_elsewhere(
    cast, settings, outsider, change
):
    cast.elsewhere(cast.maker)
    link = link_of(invite(cast.project, cast.maker, Terms()))
    change(cast)
    _, joined = join(logged_in(outsider), link, settings)
    assert joined.status_code == 302


@on_both
@pytest.mark.parametrize("still", [True, False])
def test_a_superusers_invitation_needs_a_superuser_when_it_is_used(cast, settings, outsider, still):
    sue = make_user("sue", is_superuser=True)
    link = link_of(invite(cast.project, sue, Terms()))
    update(sue, is_superuser=still)
    _, joined = join(logged_in(outsider), link, settings)
    assert joined.status_code == (302 if still else 410)


# Removal


def lowered_and_left(cast, user):
    cast.role(user, Role.ANNOTATOR)
    cast.leave(user)


def removed_again(cast, user):
    cast.remove(user)
    cast.join(user)
    cast.remove(user)


ENDED = {
    "removed": (Cast.remove, REMOVED),
    "left": (Cast.leave, LEFT),
    "lowered and left": (lowered_and_left, LEFT),
    "removed a second time": (removed_again, REMOVED),
}


@pytest.mark.parametrize("role", mostly_on_one(Role.values))
@pytest.mark.parametrize("way", ["used", "never used", "of their own"])
@pytest.mark.parametrize("end", ENDED)
def test_who_was_removed_needs_a_new_link(cast, settings, outsider, role, way, end):
    ended, said = ENDED[end]
    link = link_of(invite(cast.project, cast.keeper, Terms(role=role, uses=9)))
    user = make_user("rita")
    if way == "used":
        join(logged_in(user), link, settings)
    else:
        cast.join(user, Role.OWNER)
    if way == "of their own":
        link = link_of(invite(cast.project, user, Terms(role=role, uses=9)))
    if end == "lowered and left" and role == Role.ANNOTATOR and way == "used":
        cast.role(user, Role.OWNER)
    ended(cast, user)

    for answer in join(logged_in(user), link, settings):
        assert answer.status_code == 410
        assert said in answer.text
    late = Client()
    path = path_of(link, settings)
    late.post(f"{reverse('login')}?next={path}", {"username": "rita", "password": "pw"})
    assert said in late.post(path).text
    with pytest.raises(UserError):
        accept_invitation(Invitation.objects.get(pk=signed_number(link)), user)
    assert not Membership.objects.filter(project=cast.project, user=user).exists()
    assert logged_in(user).get(reverse("project", args=[cast.project.slug])).status_code == 404

    _, other = join(logged_in(outsider), link, settings)
    assert other.status_code == (410 if way == "of their own" else 302)

    new = link_of(invite(cast.project, cast.keeper, Terms()))
    assert [answer.status_code for answer in join(logged_in(user), new, settings)] == [200, 302]
    # Back as an annotator: the old link raises nothing, now or after the next removal.
    join(logged_in(user), link, settings)
    assert cast.membership(user).role == Role.ANNOTATOR
    cast.leave(user)
    assert LEFT in join(logged_in(user), link, settings)[1].text


def signed_number(link):
    return unsigned_link(link.rstrip("/").rpartition("/")[2], "fairjudge.invitation")[0]


@on_both
def test_a_lowered_owner_does_not_come_back_as_one(cast, settings):
    link = link_of(invite(cast.project, cast.keeper, Terms(role=Role.OWNER, uses=9)))
    join(logged_in(cast.maker), link, settings)
    cast.role(cast.maker, Role.ANNOTATOR)
    join(logged_in(cast.maker), link, settings)
    assert cast.membership(cast.maker).role == Role.ANNOTATOR
    cast.leave(cast.maker)
    join(logged_in(cast.maker), link, settings)
    assert not Membership.objects.filter(project=cast.project, user=cast.maker).exists()


@on_both
def test_a_removal_says_nothing_about_other_projects(cast, settings):
    link = link_of(invite(make_project(), None, Terms()))
    cast.remove(cast.person)
    assert join(logged_in(cast.person), link, settings)[1].status_code == 302


# What a link names


@on_both
def test_a_number_that_is_signed_alone_opens_nothing(cast, settings, outsider):
    """As the links of the first release were."""
    invitation = invite(cast.project, cast.maker, Terms())
    token = signing.dumps(invitation.pk, salt="fairjudge.invitation")
    page = logged_in(outsider).get(reverse("invite", args=[token]))
    assert page.status_code == 410
    assert "This invitation link is no longer valid." in page.text

    uid = urlsafe_base64_encode(force_bytes(cast.person.pk))
    token = default_token_generator.make_token(cast.person)
    page = Client().get(reverse("password_reset_confirm", args=[uid, token]), follow=True)
    assert "This link is no longer valid" in page.text

    make_examples(cast.project, 1)
    round_ = open_round(cast.project, None, None, RoundSettings(everything=True, votes=1))
    token = signing.Signer(salt="fairjudge.round").sign_object(round_.pk)
    ana = logged_in(cast.person)
    names = {"annotate_round": "get", "annotate_leave": "post", "annotate_return": "post"}
    for name, method in names.items():
        page = getattr(ana, method)(reverse(name, args=[token]), follow=True)
        assert page.redirect_chain == [(reverse("annotate"), 302)]
        assert "This link is no longer valid. Your votes are safe." in page.text
        assert address_of(round_) in page.text
    waiting = ana.get(reverse("annotate_round", args=[token]), headers={"HX-Request": "true"})
    assert waiting["HX-Redirect"] == reverse("annotate")


@on_both
def test_a_link_opens_no_row_but_its_own(cast, settings, outsider):
    """As after a restore, when the number belongs to another row."""
    mine, other = (invite(cast.project, cast.maker, Terms()) for _ in range(2))
    mine.pk = other.pk
    with pytest.raises(UserError, match="no longer valid"):
        open_invitation(link_of(mine).rstrip("/").rpartition("/")[2])

    path = path_of(password_link(cast.person), settings)
    other = PasswordLink.objects.create(user=cast.person)
    number = PasswordLink.objects.exclude(pk=other.pk).get().pk
    assert "no longer valid" in Client().get(path.replace(f"/{number}-", f"/{other.pk}-")).text

    make_examples(cast.project, 1)
    first, second = (
        open_round(cast.project, None, None, RoundSettings(everything=True, votes=1))
        for _ in range(2)
    )
    first.pk = second.pk
    ana = logged_in(cast.person)
    assert ana.get(address_of(first)).url == reverse("annotate")
    for address in (leave_address_of(first), return_address_of(first)):
        assert ana.post(address).url == reverse("annotate")


@on_both
@pytest.mark.parametrize(
    "token", ["", "1", "1-a-b", "0-a-b", "9" * 18 + "-a-b", "9" * 40 + "-a-b", "١-a-b", "1-a-b-c"]
)
def test_what_is_no_password_link_opens_nothing(cast, token):
    PasswordLink.objects.create(user=cast.person)
    assert password_link_behind(cast.person, token) is None


def test_each_nonce_is_random_and_kept_once():
    tables = [model for model in apps.get_models() if hasattr(model, "nonce")]
    assert {model.__name__ for model in tables} == {
        "CrowdLink",
        "Invitation",
        "PasswordLink",
        "Round",
    }
    for model in tables:
        field = model._meta.get_field("nonce")
        assert field.unique
        assert len({field.get_default() for _ in range(100)}) == 100


def test_nothing_else_signs_links():
    """What comes new needs a nonce in the row that it names, and a test here."""
    ours = [Path(app.path) for app in apps.get_app_configs() if "site-packages" not in app.path]
    found = {
        file
        for folder in ours
        for file in folder.rglob("*.py")
        if re.search(r"signing\.dumps|Signer\(|make_token\(", file.read_text("utf-8"))
    }
    assert found == {Path(module.__file__) for module in (invitations, hand, accounts, mail)}


@on_both
def test_a_crowd_link_ends_with_a_restore_and_names_no_other_row():
    """What a restore does: each row gets a new nonce. A key without it opens nothing."""
    project = make_project("crowded")
    owner = make_member(project, Role.OWNER, "olga")
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    link = crowds.set_up(round_, owner, {"consent": "We pay.", "worker_name": "pid"})
    token = crowds.link_of(link).rstrip("/").split("/")[-1]
    assert crowds.open_link(token) == link
    made_up = signing.dumps([link.pk, "x" * 43], salt="fairjudge.crowd")
    number_alone = signing.dumps(link.pk, salt="fairjudge.crowd")
    CrowdLink.objects.update(nonce="y" * 43)
    for wrong in (token, made_up, number_alone, token[:-1]):
        with pytest.raises(UserError):
            crowds.open_link(wrong)
