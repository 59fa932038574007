"""What became of one's own vote: changed, sent again, or standing since a round was closed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from annotation.models import Draft, Vote
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from tests.annotation.screen.posting import first_item, post, text_of


def test_posting_twice_stores_one_vote(ana, round_):
    token = first_item(ana, round_)
    for _ in range(2):
        assert post(ana, token, overall="left", seconds="1").status_code == 302
    assert Vote.objects.count() == 1


def test_an_edit_keeps_what_the_vote_was_and_its_time_goes_on(ana, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left")
    page = text_of(ana.get(f"/annotate/{token}"))
    assert "You voted: Left is better" in page
    Draft.objects.update(updated_at=timezone.now() - timedelta(seconds=60))
    post(ana, token, overall="tie", edit="1", comment="No, equal.", seconds="20")
    vote = Vote.objects.get()
    assert (vote.label, vote.comment) == ("tie", "No, equal.")
    assert vote.active_seconds == pytest.approx(20, abs=1)
    assert vote.revisions.get().answer == {"overall": "left"}


@pytest.mark.databases
def test_back_leads_to_the_last_vote_and_from_there_to_the_one_before(ana, round_):
    first = first_item(ana, round_)
    post(ana, first, overall="left")
    second = first_item(ana, round_)
    post(ana, second, overall="left")
    third = first_item(ana, round_)
    assert post(ana, third, "back", comment="kept").url == f"/annotate/{second}"
    assert Draft.objects.get(token=third).comment == "kept"
    assert post(ana, second, "back").url == f"/annotate/{first}"
    answer = post(ana, first, "back")
    assert answer.status_code == 422
    assert "no earlier vote" in text_of(answer)


def test_a_vote_that_a_closed_round_counts_stands(ana, project, round_):
    other = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=4))
    token = first_item(ana, round_)
    post(ana, token, overall="left")
    changes.close(other, None)
    assert "This vote can&#x27;t be changed" in text_of(ana.get(f"/annotate/{token}"))
    answer = post(ana, token, overall="right", edit="1")
    assert answer.status_code == 409
    assert Vote.objects.get().answer == {"overall": "left"}
    changes.reopen(other, None)
    assert post(ana, token, overall="right", edit="1").status_code == 302


def test_a_vote_on_a_closed_round_is_refused_and_kept_as_a_draft(ana, round_):
    token = first_item(ana, round_)
    changes.close(round_, None)
    answer = post(ana, token, overall="left", comment="too late")
    assert answer.status_code == 409
    assert "closed" in text_of(answer)
    assert Draft.objects.get(token=token).comment == "too late"


def test_a_vote_from_a_second_tab_that_says_something_else_changes_the_first(ana, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left")
    assert post(ana, token, overall="right", comment="Rather.").status_code == 302
    vote = Vote.objects.get()
    assert (vote.answer, vote.comment) == ({"overall": "right"}, "Rather.")
    assert vote.revisions.get().answer == {"overall": "left"}
    changes.close(round_, None)
    # What was stored is not refused when it is sent once more.
    assert post(ana, token, overall="right", comment="Rather.").status_code == 302
    assert post(ana, token, overall="tie").status_code == 409
    vote.refresh_from_db()
    assert vote.answer == {"overall": "right"}


@pytest.mark.parametrize("edit", [{}, {"edit": "1"}])
def test_a_vote_that_waited_for_a_connection_does_not_undo_what_was_said_later(ana, round_, edit):
    token = first_item(ana, round_)
    post(ana, token, overall="right", comment="From my laptop.")
    Vote.objects.update(updated_at=timezone.now() - timedelta(minutes=1))
    waited = {"overall": "left", "comment": "From my phone."} | edit
    taken = post(ana, token, script=True, age="90", **waited)
    assert "1 of 3 done" in text_of(taken)
    vote, draft = Vote.objects.get(), Draft.objects.get(token=token)
    assert (vote.answer, vote.comment) == ({"overall": "right"}, "From my laptop.")
    assert (draft.answer, draft.comment) == (vote.answer, vote.comment)
    # The other way round it is what was said last.
    post(ana, token, script=True, age="30", **waited)
    vote.refresh_from_db()
    assert (vote.answer, vote.comment) == ({"overall": "left"}, "From my phone.")


@pytest.mark.parametrize("age", ["-5", "nan", "inf", "long", "1e300"])
def test_an_age_that_is_none_changes_nothing(ana, round_, age):
    token = first_item(ana, round_)
    post(ana, token, overall="left")
    assert post(ana, token, script=True, overall="right", age=age).status_code == 200
