"""A run's page: first who wins, then what to do next, the rest under More."""

import pytest
from django.utils import timezone

from judging.runs.models import Run
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import make_examples, make_run
from tests.judging.runs.recorded_files import record_scores

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(project):
    """Of four examples atlas wins two, one is a tie, and one is lost in the second order alone."""
    run = make_run(project, k=1, ranked_at=None, concurrency=1)
    scores = [((9, 5), (9, 5)), ((8, 5), (8, 5)), ((7, 7), (7, 7)), ((8, 6), (5, 8))]
    examples = make_examples(project, 4, model_1="atlas-2", model_2="borealis-7b")
    for example, pair in zip(examples, scores, strict=True):
        for part, score in zip(run.orders, pair, strict=True):
            record_scores(run, example, part, [score])
    rebuild_verdicts(run)
    run.refresh_from_db()
    return run


def page_of(client):
    return " ".join(client.get("/p/vicuna/runs/1").text.split())


def test_a_finished_run_says_who_wins_and_leads_to_a_review(as_researcher, run):
    page = page_of(as_researcher)
    head = page.split("</header>")[1]
    assert "<bdi>atlas-2</bdi> wins more often" in head
    assert "<bdi>atlas-2</bdi> wins 2 · tie 1 · <bdi>borealis-7b</bdi> wins 1 (n = 4)" in head
    assert "examples judged in both orders (n = 4)" in head
    assert "25.0 %" in head
    primary = head.split('class="button primary"')
    assert len(primary) == 2
    assert "Plan a review" in primary[1][:80]
    assert "Resume" not in head
    # Settings, repeating and re-parsing are under More.
    for text in ("Settings", "Re-parse", "Start a similar run"):
        assert text in page.split('<details id="more"')[1]
        assert f">{text}<" not in page.split('<details id="more"')[0]


def test_a_run_that_is_done_with_unparsed_replies_is_not_to_be_resumed_first(as_researcher, run):
    record_scores(run, make_examples(run.project, 1)[0], "original", [None])
    rebuild_verdicts(run)
    head = page_of(as_researcher).split('<header class="head">')[1].split("</header>")[0]
    assert "Resume" not in head
    assert "Plan a review" in head


def test_a_paused_run_is_resumed_first(as_researcher, run):
    Run.objects.update(state=Run.State.PAUSED, reason="paused by hand")
    record_scores(run, make_examples(run.project, 1)[0], "original", [None])
    page = page_of(as_researcher)
    head = page.split('<header class="head">')[1].split("</header>")[0]
    assert 'class="button primary" href="#go-on"' in head
    assert 'id="go-on"' in page.split('<details id="more"')[0]


@pytest.mark.parametrize(
    ("scores", "said", "not_said"),
    [
        ([], "No reply was recorded.", "None of the recorded replies"),
        ([None], "None of the recorded replies gives a verdict.", "No reply was recorded."),
        ([(8, 5)], "aren't ranked yet", "None of the recorded replies"),
    ],
)
def test_why_there_are_no_verdicts_is_what_is_recorded(
    as_researcher, project, scores, said, not_said
):
    run = make_run(project, ranked_at=None, state=Run.State.FAILED, finished_at=timezone.now())
    for example in make_examples(project, 1):
        if scores:
            record_scores(run, example, "original", scores)
    page = page_of(as_researcher)
    assert said in page
    assert not_said not in page
