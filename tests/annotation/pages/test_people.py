"""The page of people: members, roles, invitations, one-time password links."""

from html import unescape

import pytest
from django.urls import reverse

from annotation.models import Invitation
from annotation.people.annotators import annotator_named
from annotation.people.invitations import Terms, invite, link_of
from judging.projects.models import Membership, Role
from tests.factories import make_member, make_project

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(project):
    return reverse("people", args=[project.slug])


def change(client, project, user, **fields):
    member = Membership.objects.get(user=user)
    return client.post(reverse("member", args=[project.slug, member.pk]), fields, follow=True)


def test_the_page_names_members_links_and_imported_people(as_owner, project, annotator, page):
    annotator_named(project, "Rater Ruth")
    # Without the second in which it was signed.
    link = link_of(invite(project, None, Terms(note="class of May"))).rpartition("/join/")[2]
    link = link.partition(":")[0]
    text = as_owner.get(page).text
    for named in ("olga", "ana", link, "class of May", "Rater Ruth", "annotator-2"):
        assert named in text


def test_a_link_is_made_with_what_was_asked(as_owner, project, page):
    asked = {"role": "researcher", "uses": "3", "days": "7", "note": "the lab"}
    assert as_owner.post(page, asked).status_code == 302
    made = Invitation.objects.get()
    assert (made.role, made.max_uses, made.note) == (Role.RESEARCHER, 3, "the lab")
    # Without the second in which it was signed.
    link = link_of(made).rpartition("/join/")[2].partition(":")[0]
    assert link in as_owner.get(page).text


def test_terms_out_of_range_come_back_with_the_form(as_owner, page):
    refused = as_owner.post(page, {"role": "annotator", "uses": "0", "days": "7"})
    assert refused.status_code == 422
    assert not Invitation.objects.exists()


def test_a_withdrawn_link_leaves_the_page(as_owner, project, page):
    made = invite(project, None, Terms())
    as_owner.post(reverse("invitation_revoke", args=[project.slug, made.pk]))
    assert link_of(made) not in as_owner.get(page).text


def test_a_role_can_be_changed(as_owner, project, annotator):
    change(as_owner, project, annotator, role="researcher")
    assert Membership.objects.get(user=annotator).role == Role.RESEARCHER


@pytest.mark.parametrize("fields", [{"role": "annotator"}, {"remove": ""}])
def test_the_last_owner_stays(as_owner, project, owner, fields):
    assert "last owner" in change(as_owner, project, owner, **fields).text
    assert Membership.objects.get(user=owner).role == Role.OWNER


def test_somebody_who_was_removed_is_a_stranger(as_owner, client, project, annotator):
    change(as_owner, project, annotator, remove="")
    client.force_login(annotator)
    assert client.get(reverse("project", args=[project.slug])).status_code == 404


def test_a_password_link_is_shown_once_and_left_in_no_cookie(as_owner, project, annotator, page):
    shown = change(as_owner, project, annotator, link="")
    assert "/password/" in shown.text
    assert "no-store" in shown["Cache-Control"]
    assert not any("/password/" in cookie.value for cookie in as_owner.cookies.values())
    assert "/password/M" not in as_owner.get(page).text


def test_members_of_other_projects_cannot_be_reached(as_owner, project):
    stranger = make_member(make_project())
    assert change(as_owner, project, stranger, role="owner").status_code == 404
    elsewhere = invite(make_project(), None, Terms())
    address = reverse("invitation_revoke", args=[project.slug, elsewhere.pk])
    assert as_owner.post(address).status_code == 404


def test_the_page_takes_as_many_queries_for_fifty_as_for_one(
    as_owner, project, page, django_assert_num_queries
):
    def add(n):
        for number in range(n):
            make_member(project)
            invite(project, None, Terms(note=f"{number}"))
            annotator_named(project, f"rater {Membership.objects.count()}")

    add(1)
    with django_assert_num_queries(8):
        as_owner.get(page)
    add(49)
    with django_assert_num_queries(8):
        as_owner.get(page)


@pytest.mark.parametrize(
    ("invited", "said"), [(Role.RESEARCHER, True), (Role.OWNER, True), (Role.ANNOTATOR, False)]
)
def test_a_link_that_offers_a_member_a_larger_role_says_that_it_changes_none(
    client, project, owner, annotator, invited, said
):
    link = link_of(invite(project, owner, Terms(role=invited)))
    path = link[link.index("/", 8) :]
    client.force_login(annotator)
    words = f"doesn't change your role. Ask an owner to make you {invited}"
    assert (words in unescape(client.get(path).text)) is said
    assert (words in unescape(client.post(path, follow=True).text)) is said
    assert project.memberships.get(user=annotator).role == Role.ANNOTATOR
