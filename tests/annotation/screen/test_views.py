"""The annotator's pages as forms: what is handed out, stored, refused and told."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from annotation import changes
from annotation.invitations import Terms, accept, invite
from annotation.models import Annotation, Draft, Flag, Skip, Slot
from annotation.queue import LEASE, claim_next, skip
from annotation.rounds import RoundSettings, open_round
from annotation.screen.hand import address_of
from annotation.voting import record_vote
from tests.factories import make_annotator, make_examples, make_member, make_project

ALL = RoundSettings(everything=True, votes=1)


@pytest.fixture
def round_(project):
    make_examples(project, 3)
    return open_round(project, None, None, ALL)


@pytest.fixture
def ana(client, annotator):
    """The client, logged in as an annotator of the project."""
    client.force_login(annotator)
    return client


def first_item(client, round_):
    """The token of the item that is handed out."""
    answer = client.get(address_of(round_))
    assert answer.status_code == 302, answer.content.decode()
    return answer.url.split("/")[2].split("?")[0]


def post(client, token, what="vote", script=False, **fields):
    headers = {"X-Annotate": "1"} if script else {}
    fields = {"token": token} | fields
    return client.post(f"/annotate/{token}/{what}", fields, headers=headers)


def text_of(answer):
    return " ".join(answer.content.decode().split())


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
        assert f'href="{address_of(one)}">Go on' not in page
    assert page.count("nothing left for you") == 3
    client.force_login(make_member(project))
    assert f'href="{address_of(both)}">Start' in text_of(client.get("/annotate/"))


def test_an_ending_speaks_of_votes_only_where_there_are_some(ana, project, round_):
    ben = make_annotator(project, "ben")
    while isinstance(draft := claim_next(round_, ben), Draft):
        record_vote(draft, {"overall": "tie"})
    page = text_of(ana.get(address_of(round_)))
    assert "There is nothing left for you in this round." in page
    assert "You are done" not in page
    assert "stored" not in page
    changes.close(round_, None)
    assert "It takes no more votes." in (page := text_of(ana.get(address_of(round_))))
    assert "stored" not in page


def test_leaving_a_round_gives_back_what_is_in_hand_and_keeps_what_was_given(
    ana, project, round_, annotator
):
    post(ana, first_item(ana, round_), overall="left")
    token = first_item(ana, round_)
    post(ana, token, "draft", comment="Half a thought")
    page = text_of(ana.post(address_of(round_) + "leave", follow=True))
    assert "You left vicuna · round 1" in page
    assert "Come back" in page
    assert Annotation.objects.count() == 1
    assert not Slot.objects.filter(annotator=annotator.annotators.get(), vote=None).exists()
    for address in (address_of(round_), f"/annotate/{token}"):
        assert "You left this round" in text_of(ana.get(address))
    late = post(ana, token, overall="left", comment="Half a thought")
    assert "You left this round" in text_of(late)
    assert Annotation.objects.count() == 1
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
    assert Annotation.objects.count() == 1
    assert not Slot.objects.filter(annotator=annotator.annotators.get(), vote=None).exists()
    # Whoever joins again goes on as who they were.
    accept(invite(project, None, Terms()), annotator)
    assert ana.get(f"/annotate/{token}").status_code == 200
    assert annotator.annotators.count() == 1


def test_the_last_owner_cannot_leave(client, project, owner):
    client.force_login(owner)
    assert "last owner" in text_of(client.post("/p/vicuna/leave", follow=True))
    assert project.memberships.filter(user=owner).exists()


def test_a_vote_that_a_closed_round_counts_stands(ana, project, round_):
    other = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=4))
    token = first_item(ana, round_)
    post(ana, token, overall="left")
    changes.close(other, None)
    assert "This vote stands" in text_of(ana.get(f"/annotate/{token}"))
    answer = post(ana, token, overall="right", edit="1")
    assert answer.status_code == 409
    assert Annotation.objects.get().answer == {"overall": "left"}
    changes.reopen(other, None)
    assert post(ana, token, overall="right", edit="1").status_code == 302


@pytest.mark.databases
def test_the_way_through_a_round_with_plain_forms(ana, round_):
    labels = []
    for _ in range(3):
        token = first_item(ana, round_)
        assert ana.get(f"/annotate/{token}").status_code == 200
        answer = post(ana, token, overall="left", comment="Clear.\r\nShort.", seconds="2")
        assert answer.url == address_of(round_)
        labels.append(Annotation.objects.get(item__drafts__token=token).comment)
    assert labels == ["Clear.\nShort."] * 3
    page = text_of(ana.get(address_of(round_)))
    assert "You are done" in page
    assert f'href="/annotate/{token}">Change my last vote' in page


def test_a_vote_counts_for_the_response_that_stood_on_that_side(ana, round_):
    token = first_item(ana, round_)
    draft = Draft.objects.get(token=token)
    post(ana, token, overall="left")
    expected = "win" if draft.left_response == 1 else "lose"
    assert Annotation.objects.get().label == expected


def test_each_side_shows_the_response_that_the_draft_says(ana, round_):
    for _ in range(3):
        token = first_item(ana, round_)
        left = "First" if Draft.objects.get(token=token).left_response == 1 else "Second"
        page = ana.get(f"/annotate/{token}").content.decode()
        sides = page.split('id="right"')
        assert f"{left} response" in sides[0]
        assert f"{left} response" not in sides[1]
        post(ana, token, overall="tie")


def test_a_vote_for_another_pair_than_the_addressed_one_is_refused(ana, round_):
    token = first_item(ana, round_)
    answer = ana.post(f"/annotate/{token}/vote", {"token": "another", "overall": "left"})
    assert answer.status_code == 409
    assert "do not belong together" in text_of(answer)
    assert not Annotation.objects.exists()


def test_an_incomplete_vote_comes_back_with_a_sentence_and_the_comment(ana, round_):
    token = first_item(ana, round_)
    answer = post(ana, token, comment="Hard to say")
    assert answer.status_code == 422
    assert "Choose which response is better" in text_of(answer)
    assert "Hard to say" in text_of(answer)
    assert Draft.objects.get(token=token).comment == "Hard to say"


def test_posting_twice_stores_one_vote(ana, round_):
    token = first_item(ana, round_)
    for _ in range(2):
        assert post(ana, token, overall="left", seconds="1").status_code == 302
    assert Annotation.objects.count() == 1


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
    Draft.objects.update(updated_at=timezone.now() - timedelta(seconds=100))
    post(ana, token, "draft", seconds="12.5")
    assert Draft.objects.get(token=token).active_seconds == 42.5
    # The same post once more: its answer was lost on the way.
    post(ana, token, "draft", seconds="12.5")
    for wrong in ("-50", "nan", "inf", "soon"):
        post(ana, token, "draft", seconds=wrong)
    assert 42.5 <= Draft.objects.get(token=token).active_seconds < 44
    post(ana, token, overall="tie", seconds="0")
    assert 42.5 <= Annotation.objects.get().active_seconds < 44


def test_an_edit_keeps_what_the_vote_was_and_its_time_goes_on(ana, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left")
    page = text_of(ana.get(f"/annotate/{token}"))
    assert "You voted: Left is better" in page
    Draft.objects.update(updated_at=timezone.now() - timedelta(seconds=60))
    post(ana, token, overall="tie", edit="1", comment="No, equal.", seconds="20")
    vote = Annotation.objects.get()
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


def test_a_skip_hides_the_pair_from_me_and_can_be_undone(ana, round_, other_annotator):
    token = first_item(ana, round_)
    answer = post(ana, token, "skip")
    page = text_of(ana.get(answer.url, follow=True))
    assert f"/annotate/{token}/unskip" in page
    assert Skip.objects.count() == 1
    assert post(ana, token, "unskip").url == f"/annotate/{token}"
    assert not Skip.objects.exists()
    assert ana.get(f"/annotate/{token}").status_code == 200


def test_an_empty_response_is_said_to_be_empty(ana, project):
    make_examples(project, 1, response_2=" \n")
    token = first_item(ana, open_round(project, None, None, ALL))
    for view in ("rendered", "raw", "differences"):
        assert text_of(ana.get(f"/annotate/{token}?view={view}")).count("(empty)") == 1


@pytest.mark.databases
def test_characters_that_no_database_keeps_are_dropped(ana, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left", comment="be\x00fore")
    assert Annotation.objects.get().comment == "before"
    assert ana.get("/annotate/%00").status_code == 404
    assert ana.post(reverse("annotate_preferences"), {"token": "a/b"}).url == "/annotate/"


def test_a_flag_needs_a_reason_and_the_pair_stays(ana, round_):
    token = first_item(ana, round_)
    assert post(ana, token, "flag", reason=" ").status_code == 422
    assert post(ana, token, "flag", reason="Cut off").url == f"/annotate/{token}"
    assert Flag.objects.get().reason == "Cut off"
    assert "Flagged" in text_of(ana.get(f"/annotate/{token}"))


def test_a_token_is_its_owners_alone(ana, client, round_, other_annotator, outsider):
    token = first_item(ana, round_)
    for person in (other_annotator, outsider):
        client.force_login(person)
        assert client.get(f"/annotate/{token}").status_code == 404
        for what in ("vote", "draft", "skip", "unskip", "flag", "back", "beat"):
            assert post(client, token, what, overall="left").status_code == 404, what
        for what in ("ahead", "texts"):
            assert client.get(f"/annotate/{token}/{what}").status_code == 404, what
    assert not Annotation.objects.exists()


def test_a_round_is_its_members_alone_and_its_link_cannot_be_guessed(client, round_, outsider):
    client.force_login(outsider)
    assert client.get(address_of(round_)).status_code == 404
    assert client.get(f"/annotate/r/{round_.pk}/").status_code == 404


def test_who_left_the_project_can_go_on_with_nothing(ana, round_, annotator):
    token = first_item(ana, round_)
    annotator.memberships.all().delete()
    assert post(ana, token, overall="left").status_code == 404
    assert not Annotation.objects.exists()


def test_after_a_session_has_ended_the_login_leads_back_to_the_item(client, ana, round_, annotator):
    token = first_item(ana, round_)
    client.logout()
    answer = post(client, token, overall="left")
    assert answer.url == f"/login/?next=/annotate/{token}/vote"
    credentials = {"username": annotator.username, "password": "pw"}
    answer = client.post(answer.url, credentials)
    assert client.get(answer.url).url == f"/annotate/{token}"


@pytest.mark.parametrize(
    ("change", "title"),
    [(changes.pause, "This round is paused"), (changes.close, "This round is closed")],
)
def test_a_round_that_hands_out_nothing_says_so(ana, round_, change, title):
    token = first_item(ana, round_)
    change(round_, None)
    assert title in text_of(ana.get(address_of(round_)))
    assert title in text_of(ana.get(f"/annotate/{token}"))


def test_a_vote_on_a_closed_round_is_refused_and_kept_as_a_draft(ana, round_):
    token = first_item(ana, round_)
    changes.close(round_, None)
    answer = post(ana, token, overall="left", comment="too late")
    assert answer.status_code == 409
    assert "closed" in text_of(answer)
    assert Draft.objects.get(token=token).comment == "too late"


def test_all_in_work_by_others_names_the_time(client, project, annotator, other_annotator):
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    client.force_login(other_annotator)
    first_item(client, round_)
    client.force_login(annotator)
    page = text_of(client.get(address_of(round_)))
    until = Slot.objects.get().lease_until
    assert "in work by others" in page
    assert f'datetime="{until:%Y-%m-%dT%H:%M}' in page
    assert "Look again" in page


def test_a_round_for_others_and_a_full_share_say_so(client, project, annotator, other_annotator):
    make_examples(project, 2)
    ben = other_annotator.annotators.get()
    settings = RoundSettings(everything=True, votes=1, annotators=[ben], limit=1)
    round_ = open_round(project, None, None, settings)
    client.force_login(annotator)
    assert "assigned to you" in text_of(client.get(address_of(round_)))
    assert "Nothing to label" in text_of(client.get("/annotate/"))
    client.force_login(other_annotator)
    assert "0 of 1 done" in text_of(client.get("/annotate/"))
    post(client, first_item(client, round_), overall="tie")
    assert "done your share" in text_of(client.get(address_of(round_)))


def test_a_pair_that_others_completed_meanwhile_is_told_and_nothing_is_lost(
    client, project, annotator, other_annotator
):
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    client.force_login(annotator)
    token = first_item(client, round_)
    Slot.objects.update(lease_until=timezone.now() - LEASE)
    client.force_login(other_annotator)
    post(client, first_item(client, round_), overall="right")
    client.force_login(annotator)
    assert post(client, token, "beat", script=True).status_code == 409
    answer = post(client, token, overall="left", comment="mine")
    assert answer.status_code == 409
    assert "all the votes it needs" in text_of(answer)
    assert "settled" in text_of(client.get(f"/annotate/{token}"))
    assert Annotation.objects.count() == 1
    assert Draft.objects.get(token=token).comment == "mine"


def test_a_lease_that_ended_is_taken_up_again_when_nobody_else_came(ana, round_):
    token = first_item(ana, round_)
    Slot.objects.update(lease_until=timezone.now() - LEASE)
    assert ana.get(f"/annotate/{token}").status_code == 200
    slot = Slot.objects.get(annotator__isnull=False)
    assert slot.lease_until > timezone.now()


def test_the_next_pair_is_held_beside_the_one_in_hand(ana, round_):
    token = first_item(ana, round_)
    ahead = text_of(ana.get(f"/annotate/{token}/ahead"))
    assert 'id="item"' in ahead
    assert token not in ahead
    post(ana, token, overall="left")
    assert first_item(ana, round_) in ahead


def test_nothing_is_fetched_ahead_of_the_last_pair(ana, project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    token = first_item(ana, round_)
    assert ana.get(f"/annotate/{token}/ahead").status_code == 204


def test_the_script_gets_a_sentence_or_the_new_count_instead_of_a_page(ana, round_):
    token = first_item(ana, round_)
    refused = post(ana, token, script=True)
    assert refused.status_code == 422
    assert refused["Content-Type"].startswith("text/plain")
    taken = post(ana, token, script=True, overall="left")
    assert "1 of 3 done" in text_of(taken)
    assert "<html" not in text_of(taken)


def test_five_points_and_criteria_are_asked_and_all_are_needed(client, annotator, project):
    project.scale, project.both_bad = "five", True
    project.criteria = ["accuracy", "level of detail"]
    project.save()
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    client.force_login(annotator)
    token = first_item(client, round_)
    page = text_of(client.get(f"/annotate/{token}"))
    assert page.count('name="criterion-2"') == 5
    assert page.count('name="overall"') == 6
    answer = {"overall": "both_bad", "criterion-1": "left_much"}
    refused = post(client, token, **answer)
    assert "Missing: level of detail" in text_of(refused)
    post(client, token, **answer | {"criterion-2": "tie"})
    assert Annotation.objects.get().answer == {
        "overall": "both_bad",
        "criteria": {"accuracy": "left_much", "level of detail": "tie"},
    }


def test_raw_text_and_differences_also_work_as_pages(ana, project):
    make_examples(project, 1, response_1="**bold** oak", response_2="**bold** elm")
    token = first_item(ana, open_round(project, None, None, ALL))
    assert "<strong>bold</strong>" in text_of(ana.get(f"/annotate/{token}"))
    answer = post(ana, token, "draft", view="raw", overall="left")
    raw = text_of(ana.get(answer.url))
    assert "**bold** oak" in raw
    assert 'value="left" checked' in raw
    assert "<mark>elm</mark>" in text_of(ana.get(f"/annotate/{token}?view=differences"))
    parts = text_of(ana.get(f"/annotate/{token}/texts?view=raw"))
    assert parts.count("data-part=") == 3


def test_settings_are_personal_and_come_back_with_the_screen(ana, round_, annotator):
    token = first_item(ana, round_)
    ana.post(reverse("annotate_preferences"), {"token": token, "one_key_submit": "on"})
    page = text_of(ana.get(f"/annotate/{token}"))
    assert 'name="one_key_submit" checked' in page
    assert 'name="link_scroll" checked' not in page
    assert annotator.preferences.one_key_submit


def queries(client, n):
    """How many queries each page takes in a project of n people and n examples more than one."""
    project = make_project()
    make_examples(project, n + 1)
    round_ = open_round(project, None, None, ALL)
    user = make_annotator(project).user
    for _ in range(n - 1):
        make_member(project)
    client.force_login(user)
    token = first_item(client, round_)
    client.get(f"/annotate/{token}")
    asked = {}
    for name, ask in {
        "item": lambda: client.get(f"/annotate/{token}"),
        "ahead": lambda: client.get(f"/annotate/{token}/ahead"),
        "open work": lambda: client.get("/annotate/"),
        "vote": lambda: post(client, token, script=True, overall="left"),
    }.items():
        with CaptureQueriesContext(connection) as captured:
            assert ask().status_code == 200
        asked[name] = len(captured)
    return asked


def test_a_page_takes_the_same_few_queries_however_large_the_round(db, client):
    few, many = queries(client, 1), queries(client, 50)
    assert few == many
    assert (few["item"], few["open work"]) == (10, 4)
    # Claiming and settling are the queue's own affair.
    assert few["ahead"] <= 18
    assert few["vote"] <= 22
