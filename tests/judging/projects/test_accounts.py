"""Logins, and one-time links that set a password."""

import pytest
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command

from annotation.pages.forms import JoinForm
from judging.core.errors import UserError
from judging.projects.accounts import create_login, password_link, reset_link
from judging.projects.models import AuditEvent, Membership, Role
from tests.factories import make_project, make_user

PASSWORD = "correct horse battery staple"
pytestmark = pytest.mark.django_db


def membership_of(project, user):
    return Membership.objects.get(project=project, user=user)


def path_of(link, settings):
    return link.removeprefix(settings.FAIRJUDGE_URL)


def test_a_link_sets_a_password_once(client, settings):
    user = create_login("ida")
    path = path_of(password_link(user), settings)
    form = client.get(path, follow=True)
    new = "a long enough one"
    done = client.post(form.request["PATH_INFO"], {"new_password1": new, "new_password2": new})
    assert done.status_code == 302
    user.refresh_from_db()
    assert user.check_password(new)
    assert "new_password1" not in client.get(path, follow=True).text


def test_an_owner_makes_a_link_for_a_member_and_it_is_on_record(project, owner, annotator):
    assert "/password/" in reset_link(membership_of(project, annotator), owner)
    assert AuditEvent.objects.get().subject == "ana"


@pytest.mark.parametrize("role", Role.values)
def test_no_link_into_projects_that_are_not_the_owners(project, owner, annotator, role):
    # The owner belongs there too, in every role but the one that counts.
    elsewhere = make_project()
    Membership.objects.create(project=elsewhere, user=annotator, role=role)
    Membership.objects.create(project=elsewhere, user=make_user(), role=Role.OWNER)
    mine = Membership.objects.create(project=elsewhere, user=owner, role=Role.RESEARCHER)
    with pytest.raises(UserError, match="Only an operator"):
        reset_link(membership_of(project, annotator), owner)
    # Nor where the owner owns both: one of them may end at any time.
    Membership.objects.filter(pk=mine.pk).update(role=Role.OWNER)
    with pytest.raises(UserError, match="Only an operator"):
        reset_link(membership_of(project, annotator), owner)


def test_no_link_into_rights_that_the_owner_does_not_have(project, owner, annotator):
    may = Permission.objects.get(codename="researcher")
    annotator.user_permissions.add(may)
    assert reset_link(membership_of(project, annotator), owner)
    owner.user_permissions.clear()
    owner = type(owner).objects.get(pk=owner.pk)
    with pytest.raises(UserError, match="Only an operator"):
        reset_link(membership_of(project, annotator), owner)


def test_no_link_for_a_superuser(project, owner):
    chief = make_user(is_superuser=True)
    Membership.objects.create(project=project, user=chief, role=Role.ANNOTATOR)
    with pytest.raises(UserError, match="Only an operator"):
        reset_link(membership_of(project, chief), owner)


def test_the_command_prints_a_link(capsys, settings):
    make_user("ida")
    call_command("password_link", "ida")
    assert capsys.readouterr().out.startswith(f"{settings.FAIRJUDGE_URL}/password/")
    with pytest.raises(CommandError, match="no user “odo”"):
        call_command("password_link", "odo")


def test_a_name_longer_than_its_column_is_refused(db):
    with pytest.raises(UserError, match="at most 150 characters, not 151"):
        create_login("a" * 151)


@pytest.mark.parametrize("name", ["Ana", "аna", "αna", "ＡＮＡ", "anа"])
def test_a_name_that_looks_like_another_is_refused(name, client, project):
    create_login("ana")
    with pytest.raises(UserError, match=r"looks like the user “ana”|exists already"):
        create_login(name)
    form = JoinForm({"username": name, "password1": PASSWORD, "password2": PASSWORD})
    assert form.errors["username"]


def test_names_that_differ_to_the_eye_are_all_taken():
    for name in ("ana", "anna", "ána", "ana.b", "анна", "ana-2", "ana-3"):
        create_login(name)
        with pytest.raises(UserError, match="exists already"):
            create_login(name)
