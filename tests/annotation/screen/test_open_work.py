"""The list of one's rounds, and leaving a round or a project."""

import pytest

from annotation.models import Draft, Slot, Vote
from annotation.people.invitations import Terms, accept_invitation, invite
from annotation.queue.queue import claim_next, release, skip
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen import progress
from annotation.screen.hand import address_of
from annotation.votes.voting import record_vote
from judging.projects.models import Membership, Preferences, Project
from tests.annotation.screen.posting import first_item, post, text_of
from tests.factories import make_annotator, make_examples, make_member, make_project


@pytest.mark.databases
def test_open_work_has_one_button_a_round_and_counts_my_own_votes(ana, round_):
    page = text_of(ana.get("/annotate/"))
    assert page.count(f'href="{address_of(round_)}"') == 1
    assert "0 of 3 done" in page
    post(ana, first_item(ana, round_), overall="left")
    assert "1 of 3 done" in text_of(ana.get("/annotate/"))


def test_open_work_is_that_of_the_person(client, round_, outsider, annotator):
    client.force_login(outsider)
    assert "Nothing to label" in text_of(client.get("/annotate/"))
    changes.close(round_, None)
    client.force_login(annotator)
    assert "Nothing to label" in text_of(client.get("/annotate/"))


@pytest.mark.parametrize("page", ["/", "/annotate/"])
def test_open_work_is_in_the_language_of_all_their_projects(ana, project, round_, annotator, page):
    assert '<html lang="en"' in text_of(ana.get(page))
    Project.objects.filter(pk=project.pk).update(language="ar")
    assert '<html lang="ar" dir="rtl">' in text_of(ana.get(page))
    Preferences.objects.create(user=annotator, language="de")
    assert '<html lang="de"' in text_of(ana.get(page))
    Preferences.objects.all().delete()
    other = make_project(language="fr")
    Membership.objects.create(project=other, user=annotator, role="annotator")
    assert '<html lang="es"' in text_of(ana.get(page, headers={"Accept-Language": "es"}))


@pytest.mark.databases
def test_a_round_without_anything_left_is_not_offered(ana, client, project, round_, annotator):
    ben = make_annotator(project, "ben")
    own = annotator.annotators.get()
    both = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=4))
    empty = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=4))
    # Ana votes on two and skips one, so that what both of them fill has room for others only.
    for overall in ("left", "tie"):
        record_vote(claim_next(both, own), {"overall": overall})
    skip(claim_next(both, own))
    while isinstance(draft := claim_next(round_, ben), Draft):
        record_vote(draft, {"overall": "tie"})
    page = text_of(ana.get("/annotate/"))
    for one in (both, round_, empty):
        assert f'href="{address_of(one)}">Start' not in page
        assert f'href="{address_of(one)}">Continue' not in page
    assert page.count("nothing left for you") == 3
    client.force_login(make_member(project))
    assert f'href="{address_of(both)}">Start' in text_of(client.get("/annotate/"))


def test_where_nothing_is_left_no_count_says_that_something_is(ana, project, round_):
    """What was answered in one round is not asked for in the other."""
    other = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=4))
    post(ana, first_item(ana, round_), overall="left")
    for _ in range(2):
        post(ana, first_item(ana, other), overall="left")
    ended = text_of(ana.get(address_of(other)))
    assert "You are done" in ended
    assert "2 done" in ended
    assert "of 3 done" not in ended
    listed = text_of(ana.get("/annotate/"))
    assert "2 done" in listed
    assert "2 of 3 done" not in listed


def test_leaving_a_round_gives_back_what_is_in_hand_and_keeps_what_was_given(
    ana, project, round_, annotator
):
    post(ana, first_item(ana, round_), overall="left")
    token = first_item(ana, round_)
    post(ana, token, "draft", comment="Half a thought")
    page = text_of(ana.post(address_of(round_) + "leave", follow=True))
    assert "You left vicuna · round 1" in page
    assert "Come back" in page
    assert Vote.objects.count() == 1
    assert not Slot.objects.filter(annotator=annotator.annotators.get(), vote=None).exists()
    for address in (address_of(round_), f"/annotate/{token}"):
        assert "You left this round" in text_of(ana.get(address))
    late = post(ana, token, overall="left", comment="Half a thought")
    assert "You left this round" in text_of(late)
    assert Vote.objects.count() == 1
    ana.post(address_of(round_) + "return")
    assert "Half a thought" in text_of(ana.get(f"/annotate/{token}"))
    assert post(ana, token, overall="left").status_code == 302


def test_leaving_a_project_ends_the_membership_and_keeps_the_votes(ana, project, round_, annotator):
    post(ana, first_item(ana, round_), overall="left")
    token = first_item(ana, round_)
    assert "/p/vicuna/leave" in text_of(ana.get("/annotate/"))
    assert "Your votes stay" in text_of(ana.get("/p/vicuna/leave"))
    assert "You left vicuna" in text_of(ana.post("/p/vicuna/leave", follow=True))
    assert ana.get(f"/annotate/{token}").status_code == 404
    assert Vote.objects.count() == 1
    assert not Slot.objects.filter(annotator=annotator.annotators.get(), vote=None).exists()
    # Whoever joins again goes on as who they were.
    accept_invitation(invite(project, None, Terms()), annotator)
    assert ana.get(f"/annotate/{token}").status_code == 200
    assert annotator.annotators.count() == 1


def test_the_last_owner_cannot_leave(client, project, owner):
    client.force_login(owner)
    assert "last owner" in text_of(client.post("/p/vicuna/leave", follow=True))
    assert project.memberships.filter(user=owner).exists()


@pytest.mark.databases
def test_the_count_is_of_the_pairs_that_a_person_can_still_get(client, db):
    """What others have settled or hold is not left for them, and no time is said for it."""
    project = make_project()
    make_examples(project, 6)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=4))
    ben, cem = make_annotator(project), make_annotator(project)
    for _ in range(3):
        record_vote(claim_next(round_, ben), {"overall": "tie"})
    held = claim_next(round_, ben)
    client.force_login(cem.user)
    assert "0 of 2 done" in text_of(client.get("/annotate/"))
    token = first_item(client, round_)
    assert "0 of 2 done" in text_of(client.get(f"/annotate/{token}"))
    post(client, token, "skip")
    assert "0 of 1 done" in text_of(client.get("/annotate/"))
    release(held)
    # Given back, it lies behind the place that this person has reached, and is still theirs.
    post(client, first_item(client, round_), overall="left")
    assert f'href="{address_of(round_)}">Continue' in text_of(client.get("/annotate/"))
    token = first_item(client, round_)
    assert "1 of 2 done" in text_of(client.get(f"/annotate/{token}"))


def test_the_count_reads_only_so_many_pairs(client, db, monkeypatch):
    monkeypatch.setattr(progress, "_MOST_COUNTED", 2)
    project = make_project()
    make_examples(project, 5)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=4))
    record_vote(claim_next(round_, make_annotator(project)), {"overall": "tie"})
    client.force_login(make_annotator(project).user)
    assert "0 of 5 done" in text_of(client.get("/annotate/"))
