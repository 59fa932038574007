"""What is posted about an item: the vote, the draft and its time, a skip, a flag."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from annotation.models import Draft, Flag, Skip, Vote
from annotation.screen.hand import address_of
from tests.annotation.screen.posting import first_item, post, text_of


@pytest.mark.databases
def test_the_way_through_a_round_with_plain_forms(ana, round_):
    labels = []
    for _ in range(3):
        token = first_item(ana, round_)
        assert ana.get(f"/annotate/{token}").status_code == 200
        answer = post(ana, token, overall="left", comment="Clear.\r\nShort.", seconds="2")
        assert answer.url == address_of(round_)
        labels.append(Vote.objects.get(item__drafts__token=token).comment)
    assert labels == ["Clear.\nShort."] * 3
    page = text_of(ana.get(address_of(round_)))
    assert "You are done" in page
    assert f'href="/annotate/{token}">Change my last vote' in page


def test_a_vote_counts_for_the_response_that_stood_on_that_side(ana, round_):
    token = first_item(ana, round_)
    draft = Draft.objects.get(token=token)
    post(ana, token, overall="left")
    expected = "win" if draft.left_response == 1 else "lose"
    assert Vote.objects.get().label == expected


def test_a_vote_for_another_pair_than_the_addressed_one_is_refused(ana, round_):
    token = first_item(ana, round_)
    answer = ana.post(f"/annotate/{token}/vote", {"token": "another", "overall": "left"})
    assert answer.status_code == 409
    assert "belong to the same pair" in text_of(answer)
    assert not Vote.objects.exists()


def test_an_incomplete_vote_comes_back_with_a_sentence_and_the_comment(ana, round_):
    token = first_item(ana, round_)
    answer = post(ana, token, comment="Hard to say")
    assert answer.status_code == 422
    assert "Choose which response is better" in text_of(answer)
    assert "Hard to say" in text_of(answer)
    assert Draft.objects.get(token=token).comment == "Hard to say"


def test_a_draft_is_there_again(ana, round_):
    token = first_item(ana, round_)
    answer = post(ana, token, "draft", overall="right", comment="<b>so far</b>")
    assert answer.status_code == 204
    page = text_of(ana.get(f"/annotate/{token}"))
    assert '<input type="radio" name="overall" value="right" checked' in page
    assert "&lt;b&gt;so far&lt;/b&gt;" in page


def test_time_adds_up_over_drafts_and_never_beyond_what_has_passed(ana, round_):
    token = first_item(ana, round_)
    an_hour_ago = timezone.now() - timedelta(minutes=40)
    Draft.objects.update(updated_at=an_hour_ago)
    post(ana, token, "draft", seconds="30")
    began = timezone.now()
    Draft.objects.update(updated_at=began - timedelta(seconds=100))
    post(ana, token, "draft", seconds="12.5")
    assert Draft.objects.get(token=token).active_seconds == 42.5
    # The same post once more: its answer was lost on the way.
    post(ana, token, "draft", seconds="12.5")
    for wrong in ("-50", "nan", "inf", "soon"):
        post(ana, token, "draft", seconds=wrong)
    most = 42.5 + (timezone.now() - began).total_seconds()
    assert 42.5 <= Draft.objects.get(token=token).active_seconds <= most
    post(ana, token, overall="tie", seconds="0")
    assert 42.5 <= Vote.objects.get().active_seconds <= most


def test_a_skip_hides_the_pair_from_me_and_can_be_undone(ana, round_, other_annotator):
    token = first_item(ana, round_)
    answer = post(ana, token, "skip")
    page = text_of(ana.get(answer.url, follow=True))
    assert f"/annotate/{token}/unskip" in page
    assert Skip.objects.count() == 1
    assert post(ana, token, "unskip").url == f"/annotate/{token}"
    assert not Skip.objects.exists()
    assert ana.get(f"/annotate/{token}").status_code == 200


@pytest.mark.databases
def test_characters_that_no_database_keeps_are_dropped(ana, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left", comment="be\x00fore")
    assert Vote.objects.get().comment == "before"
    assert ana.get("/annotate/%00").status_code == 404
    assert ana.post(reverse("annotate_preferences"), {"token": "a/b"}).url == "/annotate/"


def test_a_flag_needs_a_reason_and_the_pair_stays(ana, round_):
    token = first_item(ana, round_)
    assert post(ana, token, "flag", reason=" ").status_code == 422
    assert post(ana, token, "flag", reason="Cut off").url == f"/annotate/{token}"
    assert Flag.objects.get().reason == "Cut off"
    assert "Flagged" in text_of(ana.get(f"/annotate/{token}"))


def test_the_script_gets_a_sentence_or_the_new_count_instead_of_a_page(ana, round_):
    token = first_item(ana, round_)
    refused = post(ana, token, script=True)
    assert refused.status_code == 422
    assert refused["Content-Type"].startswith("text/plain")
    taken = post(ana, token, script=True, overall="left")
    assert "1 of 3 done" in text_of(taken)
    assert "<html" not in text_of(taken)
