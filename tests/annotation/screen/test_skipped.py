"""Pairs that a person skipped can be reached again, from the list of work and from the end."""

import re

import pytest

from annotation.models import Item, Skip, Slot, Vote
from annotation.people.annotators import leave_project
from annotation.rounds import changes
from annotation.screen.hand import address_of
from judging.projects.models import Membership
from tests.annotation.screen.posting import first_item, post, text_of
from tests.factories import make_annotator, make_vote

pytestmark = pytest.mark.databases


def skipped_all(client, round_):
    tokens = []
    for _ in range(3):
        tokens.append(first_item(client, round_))
        post(client, tokens[-1], "skip")
    return tokens


def taken_up(client, url):
    page = client.get(url, follow=True).text
    form = re.search(r'action="(/annotate/[^"]*/unskip)".*?name="token" value="([^"]*)"', page)
    return page, client.post(form.group(1), {"token": form.group(2)}).url


def test_skipped_pairs_are_counted_and_the_last_comes_first(ana, project, round_):
    make_annotator(project, "cem")
    tokens = skipped_all(ana, round_)
    page = text_of(ana.get("/annotate/"))
    assert "Take up a skipped pair" in page
    assert "(3)" in page
    for left, token in ((2, tokens[2]), (1, tokens[1]), (0, tokens[0])):
        assert taken_up(ana, "/annotate/")[1] == f"/annotate/{token}"
        post(ana, token, overall="left")
        assert Skip.objects.count() == left
    assert Vote.objects.count() == 3
    assert "skipped pair" not in text_of(ana.get("/annotate/"))


def test_the_end_of_a_round_leads_to_what_was_skipped(ana, project, round_):
    make_annotator(project, "cem")
    skipped = first_item(ana, round_)
    post(ana, skipped, "skip")
    for _ in range(2):
        post(ana, first_item(ana, round_), overall="left")
    page, url = taken_up(ana, address_of(round_))
    assert "You skipped 1 pair that you can still take up." in page
    assert url == f"/annotate/{skipped}"
    assert ana.get(url).status_code == 200


def test_a_skipped_pair_that_others_completed_is_not_offered(ana, project, round_):
    other = make_annotator(project, "cem")
    skipped_all(ana, round_)
    for item in Item.objects.select_related("example", "round__protocol"):
        for person in (other, make_annotator(project)):
            if item.slots.filter(vote=None).exists():
                make_vote(item, person, "win")
    assert "skipped pair" not in text_of(ana.get("/annotate/"))
    assert "You skipped" not in text_of(ana.get(address_of(round_), follow=True))


def test_a_paused_round_offers_nothing(ana, project, round_):
    make_annotator(project, "cem")
    skipped_all(ana, round_)
    changes.pause(round_, None)
    assert "skipped pair" not in text_of(ana.get("/annotate/"))
    assert "You skipped" not in text_of(ana.get(address_of(round_), follow=True))


def test_what_is_said_of_a_skipped_pair_is_what_becomes_of_it(ana, project, round_):
    """Others voted while it was on the screen, somebody else is left for it, or nobody is."""
    cem = make_annotator(project, "cem")
    token = first_item(ana, round_)
    assert "Someone else can label that pair." in post(ana, token, "skip", script=True).text
    token = first_item(ana, round_)
    Slot.objects.update(annotator=None, lease_until=None)
    make_vote(Item.objects.get(drafts__token=token), cem, "win")
    assert "needs no more votes" in post(ana, token, "skip", script=True).text
    leave_project(Membership.objects.get(user=cem.user), cem.user)
    assert "Nobody else is left" in post(ana, first_item(ana, round_), "skip", script=True).text


def test_a_flag_offers_only_what_can_be_done(ana, project, round_):
    token = first_item(ana, round_)
    said = ana.post(f"/annotate/{token}/flag", {"token": token, "reason": "Cut."}, follow=True)
    assert "Flagged. You can still vote on this pair, or skip it." in said.text
    post(ana, token, overall="left")
    said = ana.post(f"/annotate/{token}/flag", {"token": token, "reason": "Cut!"}, follow=True)
    assert "Flagged." in said.text
    assert "You can still vote" not in said.text
