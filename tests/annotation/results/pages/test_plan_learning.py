"""The planner's choice of what people first see, and of a second judge."""

import pytest

from annotation.models import Item, Round
from tests.annotation.results.learning import biased_run, gold
from tests.factories import make_run, make_verdict


@pytest.fixture
def run(project, tmp_path):
    return biased_run(project, tmp_path, n=40)


@pytest.fixture
def settings_of(project, run):
    def settings_of(**fields):
        chosen = {"run": run.pk, "how": "beta", "beta": 50, "votes": 1, "audit": 4, "looks": ""}
        return chosen | {"route": "learned", "learn": 12} | fields

    return settings_of


@pytest.fixture
def page(client, researcher, project):
    client.force_login(researcher)
    client.post(f"/p/{project.slug}/look")
    return f"/p/{project.slug}/plan"


def text_of(answer):
    return " ".join(answer.content.decode().split())


def test_a_round_that_learns_opens_from_the_planner(client, page, settings_of):
    answer = client.post(page, settings_of())
    assert answer.status_code == 302
    round_ = Round.objects.get()
    assert round_.stage == Round.Stage.LEARN
    assert Item.objects.filter(round=round_).count() == 12
    assert round_.parameters["route"] == "learned"


def test_the_default_is_bpde_whatever_the_sample_size_says(client, page, settings_of):
    assert client.post(page, settings_of(route="bpde")).status_code == 302
    assert Round.objects.get().stage == Round.Stage.ONLY


def test_a_cut_that_learning_uses_up_is_refused_with_the_smallest_that_works(
    client, page, settings_of
):
    answer = client.post(page, settings_of(beta=20))
    assert answer.status_code == 422
    assert "The smallest β that works is 31.25 %" in text_of(answer)
    assert not Round.objects.exists()
    preview = client.get(f"{page}/preview", settings_of(beta=20))
    assert "The smallest β that works is 31.25 %" in text_of(preview)


def test_the_preview_tells_the_sample_and_leaves_out_what_goes_by_rank(client, page, settings_of):
    preview = text_of(client.get(f"{page}/preview", settings_of()))
    assert "20 by a score learned from 12 of them + 4 audit = 24 of 40" in preview
    assert "Drawn at random first" in preview
    assert "examples covered" not in preview
    by_bpde = text_of(client.get(f"{page}/preview", settings_of(route="bpde")))
    assert "Drawn at random first" not in by_bpde
    assert "examples covered" in by_bpde


def test_a_second_judge_is_shown_with_what_it_would_cost(client, page, settings_of, project):
    other = make_run(project, name="<wise & dear>")
    for example in project.examples.all():
        example.gold_label = gold(example)
        example.save()
        make_verdict(other, example, 0.0, label=gold(example), rank=1)
    preview = text_of(client.get(f"{page}/preview", settings_of(second=other.pk)))
    assert "&lt;wise &amp; dear&gt;" in preview
    assert "Accuracy without people" in preview
    assert "unknown" in preview
    assert "Accuracy without people" not in text_of(client.get(f"{page}/preview", settings_of()))


def test_money_beyond_all_bounds_is_refused(client, page, settings_of):
    answer = client.post(page, settings_of(how="budget", budget="1e999999"))
    assert answer.status_code == 422
    assert "less than or equal to 1000000000" in text_of(answer)
    assert not Round.objects.exists()
