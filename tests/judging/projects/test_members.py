"""Projects and their members: an owner always stays, and what nobody owned is adopted."""

import pytest
from django.core.management import CommandError, call_command

from judging.core.errors import UserError
from judging.projects.access import (
    add_member,
    change_role,
    create_project,
    owner_for_command,
    project_for_command,
    remove_member,
)
from judging.projects.accounts import create_login
from judging.projects.models import AuditEvent, Membership, Project, Role
from tests.factories import make_member, make_user


def test_creating_needs_the_researcher_permission(db):
    with pytest.raises(UserError, match="permission"):
        create_project(make_user(), "Vicuna 80")
    project = create_project(make_user(researcher=True), "Vicuna 80")
    assert project.slug == "vicuna-80"
    assert project.memberships.get().role == Role.OWNER
    assert AuditEvent.objects.get(action="project created").project == project


@pytest.mark.parametrize("name", ["", "???", "../etc"])
def test_a_name_that_makes_no_address_is_refused(db, name):
    with pytest.raises(UserError):
        create_project(None, name, name)


def test_a_slug_is_taken_once(db):
    create_project(None, "Vicuna")
    with pytest.raises(UserError, match="exists already"):
        create_project(None, "Vicuna")


def test_the_last_owner_stays(project, owner, researcher):
    mine = Membership.objects.get(user=owner)
    with pytest.raises(UserError, match="last owner"):
        remove_member(mine, owner)
    with pytest.raises(UserError, match="last owner"):
        change_role(mine, owner, Role.RESEARCHER)
    change_role(Membership.objects.get(user=researcher), owner, Role.OWNER)
    remove_member(mine, owner)
    assert list(project.memberships.values_list("user", flat=True)) == [researcher.pk]


def test_who_was_removed_meanwhile_is_told_so(project, owner, researcher):
    # As a second click finds them.
    looked_at = Membership.objects.get(user=researcher)
    remove_member(Membership.objects.get(user=researcher), owner)
    with pytest.raises(UserError, match="no longer a member"):
        remove_member(looked_at, owner)
    with pytest.raises(UserError, match="no longer a member"):
        change_role(looked_at, owner, Role.ANNOTATOR)
    assert AuditEvent.objects.filter(action="member removed").count() == 1


def test_adding_a_member_twice_keeps_the_role(project, owner):
    person = make_member(project, Role.RESEARCHER)
    add_member(project, owner, person, Role.ANNOTATOR)
    assert Membership.objects.get(user=person).role == Role.RESEARCHER


def test_commands_own_as_the_only_superuser(db):
    assert owner_for_command(None) is None
    orphan = project_for_command("early", create=True)
    assert not orphan.memberships.exists()
    admin = create_login("admin", superuser=True)
    assert orphan.memberships.get().user == admin
    assert owner_for_command(None) == admin
    create_login("second", superuser=True)
    with pytest.raises(UserError, match="--owner"):
        owner_for_command(None)
    assert owner_for_command("second").username == "second"


def test_an_unknown_project_names_the_known_ones(db):
    Project.objects.create(slug="here", name="here")
    with pytest.raises(UserError, match="here"):
        project_for_command("there")


@pytest.mark.django_db(transaction=True)
def test_the_printed_link_sets_a_password_once(client, capsys, transactional_db):
    call_command("create_user", "nina", "--researcher")
    link = capsys.readouterr().out.splitlines()[1]
    path = link[link.index("/password/") :]
    form = client.get(path, follow=True)
    assert 'You will log in as <strong dir="auto">nina</strong>' in form.content.decode()
    new = {"new_password1": "a long enough one", "new_password2": "a long enough one"}
    assert client.post(form.redirect_chain[-1][0], new)["Location"] == "/"
    assert client.session["_auth_user_id"]
    client.logout()
    assert client.login(username="nina", password="a long enough one", request=form.wsgi_request)
    client.logout()
    assert "password1" not in client.get(path, follow=True).content.decode()
    with pytest.raises(CommandError, match="exists already"):
        call_command("create_user", "nina")


def test_a_slug_longer_than_its_column_is_refused_and_a_long_name_is_shortened(db):
    with pytest.raises(UserError, match="at most 80 characters, not 81"):
        create_project(None, "long", "a" * 81)
    assert create_project(None, "a" * 81).slug == "a" * 80
