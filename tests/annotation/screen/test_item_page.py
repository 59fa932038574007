"""The page of an item: its sides, its buttons, its views, the item after it."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.models import Draft, Vote
from annotation.rounds.opening import open_round
from tests.annotation.screen.posting import ALL, first_item, post, text_of
from tests.factories import make_annotator, make_examples, make_member, make_project


def test_each_side_shows_the_response_that_the_draft_says(ana, round_):
    for _ in range(3):
        token = first_item(ana, round_)
        left = "First" if Draft.objects.get(token=token).left_response == 1 else "Second"
        page = ana.get(f"/annotate/{token}").content.decode()
        sides = page.split('id="right"')
        assert f"{left} response" in sides[0]
        assert f"{left} response" not in sides[1]
        post(ana, token, overall="tie")


@pytest.mark.parametrize("blank", ["", " \n", "\u200b\u200b"])
def test_an_empty_response_is_said_to_be_empty(ana, project, blank):
    make_examples(project, 1, response_2=blank)
    token = first_item(ana, open_round(project, None, None, ALL))
    for view in ("rendered", "raw", "differences"):
        assert text_of(ana.get(f"/annotate/{token}?view={view}")).count("(empty)") == 1


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
    assert Vote.objects.get().answer == {
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
    assert (few["item"], few["open work"]) == (10, 5)
    # Claiming and settling are the queue's own affair.
    assert few["ahead"] <= 18
    assert few["vote"] <= 22
