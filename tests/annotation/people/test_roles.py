"""What reviewers and observers may do, and what not."""

import json

import pytest
from django.urls import reverse

from annotation.models import Item, Vote
from annotation.people.annotators import annotator_of, voters_of
from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, open_round
from judging.projects.access import change_role, lacks_rights
from judging.projects.models import Membership, Role
from tests.factories import make_annotator, make_examples, make_member, make_run, make_vote

pytestmark = pytest.mark.django_db


@pytest.fixture
def round_(project):
    make_examples(project, 2)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))


def split_one(round_):
    """Leave one item to be decided."""
    item = round_.items.order_by("position").first()
    for name, label in (("ana", "win"), ("ben", "lose")):
        make_vote(item, make_annotator(round_.project, name), label)
    return Item.objects.get(pk=item.pk, state=Item.State.ADJUDICATE)


def test_a_reviewer_decides_and_stays_blind_to_the_judge(client, project, round_):
    make_run(project)
    reviewer = make_member(project, Role.REVIEWER, "rene")
    client.force_login(reviewer)
    assert "Nothing waits for a decision." in client.get("/").text
    item = split_one(round_)
    home = client.get("/").text
    assert "1 item needs a decision." in home
    assert reverse("adjudication", args=[project.slug, round_.number]) in home
    assert client.get(f"/p/{project.slug}/").url == reverse("rounds", args=[project.slug])
    page = reverse("round_item", args=[project.slug, round_.number, item.pk])
    client.post(page, {"first": "1", "choice": "left"})
    client.post(page, {"label": "tie", "reason": "both are right"})
    item.refresh_from_db()
    assert item.state == Item.State.COMPLETE
    assert Membership.objects.get(user=reviewer).unblinded_at is None
    for closed in ("results/verdict", "runs/", "examples", "plan", "settings", "people"):
        assert client.get(f"/p/{project.slug}/{closed}").status_code == 403
    assert client.post(f"/p/{project.slug}/rounds/1/close").status_code == 403
    # A reviewer labels, too.
    assert claim_next(round_, annotator_of(project, reviewer)) is not None


def test_an_observer_never_labels(client, project, round_):
    observer = make_member(project, Role.OBSERVER, "oona")
    client.force_login(observer)
    assert "Start" not in client.get("/annotate/").text
    assert voters_of(round_) == (set(), 0)
    make_member(project, Role.ANNOTATOR)
    assert voters_of(round_) == (set(), 1)
    assert client.get(f"/p/{project.slug}/").status_code == 200
    assert client.post(f"/p/{project.slug}/runs/start").status_code == 403
    assert client.post(f"/p/{project.slug}/leave").status_code == 302
    assert not Membership.objects.filter(user=observer).exists()


def test_who_becomes_an_observer_loses_what_they_had_in_hand(client, owner, project, round_):
    ana = make_annotator(project, "ana")
    client.force_login(ana.user)
    draft = claim_next(round_, ana)
    page = reverse("annotate_item", args=[draft.token])
    assert client.get(page).status_code == 200
    membership = Membership.objects.get(user=ana.user)
    change_role(membership, owner, Role.OBSERVER)
    assert client.get(page).status_code == 403
    sent = {"overall": "left"}
    assert client.post(reverse("annotate_vote", args=[draft.token]), sent).status_code == 403
    assert not Vote.objects.filter(annotator=ana).exists()
    # Nobody waits for their vote, and they can't be chosen for a round.
    assert ana.pk not in voters_of(round_)[0]


def test_roles_are_compared_by_what_they_include():
    assert lacks_rights(Role.REVIEWER, of=Role.OBSERVER)
    assert lacks_rights(Role.OBSERVER, of=Role.REVIEWER)
    assert lacks_rights(Role.OBSERVER, of=Role.ANNOTATOR)
    assert not lacks_rights(Role.RESEARCHER, of=Role.OBSERVER)
    assert not lacks_rights(Role.REVIEWER, of=Role.ANNOTATOR)


def test_exports_with_names_are_not_for_observers(client, project, round_):
    client.force_login(make_member(project, Role.OBSERVER))
    address = f"/p/{project.slug}/export"
    assert "names" not in client.get(f"/p/{project.slug}/results/export").text.partition("<form")[2]
    assert client.post(address, {"what": "votes"}).status_code == 200
    assert client.post(address, {"what": "votes", "names": "on"}).status_code == 403


def test_the_audit_trail_is_a_file_for_owners_alone(client, owner, project, round_):
    address, sent = f"/p/{project.slug}/export", {"what": "trail", "format": "jsonl"}
    for role in (Role.OBSERVER, Role.RESEARCHER):
        client.force_login(make_member(project, role))
        assert client.post(address, sent).status_code == 403
        assert "<option>trail" not in client.get(f"/p/{project.slug}/results/export").text
    client.force_login(owner)
    assert "<option>trail" in client.get(f"/p/{project.slug}/results/export").text
    response = client.post(address, sent)
    rows = [json.loads(line) for line in response.getvalue().decode().splitlines()]
    assert [row["action"] for row in rows if row["action"] == "round opened"]
    assert list(rows[0]) == ["at", "actor", "action", "subject", "detail"]
    assert all(isinstance(json.loads(row["detail"]), dict) for row in rows)
    assert rows == sorted(rows, key=lambda row: row["at"])
    # It goes on record itself.
    trail = client.get(reverse("trail", args=[project.slug])).text
    assert "vicuna-trail.jsonl" in trail
