"""The figures of single responses on a run's page: once for each state, and never for minutes."""

import pytest
from django.core.cache import caches

from judging.dataset.models import HumanScore
from judging.dataset.scores import import_scores
from judging.runs.pages import run as pages_run
from judging.runs.pages.run import shown_points
from tests.judging.runs.judging import judged, loopback
from tests.loopback import PointJudge

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(project, settings, tmp_path):
    rows = [f"<x>{n}</x>,Output {n}.,fluency,ana,{1 + n % 5}" for n in range(6)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["input,output,criterion,rater,score", *rows]) + "\n")
    import_scores(project, None, path)
    caches["reports"].clear()
    with loopback(settings, judge=PointJudge(low=0, high=4)):
        return judged(project, form="pointwise")


def test_they_are_computed_once_for_each_state_of_the_data(run, monkeypatch):
    asked = []
    whole = pages_run.whole_report
    monkeypatch.setattr(pages_run, "whole_report", lambda one: asked.append(1) or whole(one))
    before = shown_points(run)
    assert shown_points(run) == before
    assert len(asked) == 1
    HumanScore.objects.filter(point_item__number=0).update(value=5)
    after = shown_points(run)
    assert after.criteria["fluency"].human_mean > before.criteria["fluency"].human_mean
    assert len(asked) == 2


def test_of_many_items_the_page_says_where_the_rest_is(run, client, researcher, monkeypatch):
    monkeypatch.setattr(pages_run, "MOST_ON_PAGE", 5)
    figures = shown_points(run)
    assert figures.criteria["fluency"].judged == 6
    assert "above 5 items the correlations take minutes" in figures.likelihood.reason
    client.force_login(researcher)
    page = client.get(f"/p/{run.project.slug}/runs/{run.number}").content.decode()
    assert "manage.py report" in page


def test_the_page_says_when_the_judge_meant_to_write_no_score(
    run, project, settings, client, researcher
):
    client.force_login(researcher)
    page = client.get(f"/p/{project.slug}/runs/{run.number}").content.decode()
    assert shown_points(run).score_mass > 0.5
    assert "of the probability." in page
    assert "mostly about" not in page
    with loopback(settings, judge=PointJudge(shares={4: 0.03, 3: 0.01})):
        doubtful = judged(project, form="pointwise", name="doubtful")
    assert shown_points(doubtful).score_mass == pytest.approx(0.04)
    page = client.get(f"/p/{project.slug}/runs/{doubtful.number}").content.decode()
    assert "the judge was about to write something else" in page
