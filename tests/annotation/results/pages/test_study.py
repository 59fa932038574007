"""The pages of the demo's study: recorded judges, labels that allow ties, and each reason once."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import User

from annotation.results.demo import OWNER, STUDY, finished_study
from annotation.results.planner.cheapest import Wish, find_cheapest
from judging.projects.models import Project


@pytest.fixture
def page(client, db, tmp_path, settings):
    settings.MEDIA_ROOT = tmp_path
    finished_study()
    client.force_login(User.objects.get(username=OWNER))

    def page(name=""):
        return unescape(client.get(f"/p/{STUDY}/{name}").text)

    return page


def test_a_recorded_judge_is_cited_without_a_temperature_that_nobody_knows(page):
    said = page("results/verdict")
    assert "(recorded elsewhere, both orders, k = 2 samples per order)." in said
    assert "temperature" not in said


def test_people_who_labelled_everything_are_no_audit(page):
    assert "corrects them by people's labels" in page("results/models")
    assert "weighted up" not in page("results/judge")


def test_the_review_says_how_a_judges_tie_counts(page):
    """Accuracy takes it as wrong, since people could say tie; what learns takes it as a half."""
    said = page("results/review")
    assert "found 20 errors" in said
    assert "on 26 of them, if a tie that people didn't give counts as half an error" in said
    assert "Accuracy if the known labels have no ties" not in said


def test_a_reason_is_given_once_and_not_in_each_cell(page):
    review = page("results/review")
    assert review.count("none of these examples has two votes that count") == 1
    assert review.count("the label of every example is known") == 1
    assert page("results/trust").count("needs a VANILLA run of this judge") == 1


def test_no_p_value_of_the_review_is_0(page):
    review = page("results/review")
    assert '<td class="num">< .001</td>' in review
    assert '<td class="num">.000</td>' not in review


def test_a_certificate_that_failed_speaks_of_the_labels_it_was_about(page):
    why = "more than 10\u202f% of the unreviewed labels that are as certain may be wrong"
    assert why in page("results/trust")
    overview = page()
    assert why in overview
    assert '<th scope="row">Accuracy of the judge alone</th>' in overview


def test_a_plan_without_a_ranking_denies_no_judge(page):
    said = page("plan?how=all&votes=1")
    assert "All 100 examples" in said
    assert "none with a judge's label yet" not in said


def test_judges_without_a_price_are_not_said_to_miss_the_goal(page):
    told = find_cheapest(Project.objects.get(slug=STUDY), Wish())
    assert len(told["left_out"]) == 2
    assert told["sentence"].startswith(
        "No plan with a judge could be compared, so people label everything for $37.50 ("
    )


def test_a_round_says_first_how_far_it_is(page):
    said = page("rounds/2")
    assert re.search(r'<p class="lead">(.*?)</p>', said)[1] == "All items are done."
    assert "Items were selected by the ranking of" in said.split("Settings of this round")[1]


def test_an_import_says_first_what_it_added(page):
    assert "<h1>Import 1: 100 examples imported</h1>" in page("imports/1")
