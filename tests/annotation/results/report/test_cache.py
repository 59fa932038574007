"""Reports are computed once a state of the data, and a large one by a worker meanwhile."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from annotation.models import Draft, Item, Round, Vote
from annotation.queue.queue import claim_next
from annotation.results.report import cache
from annotation.results.report.cache import Shown, current_report, fingerprint, shown_report
from annotation.results.tasks import renew_report
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core.models import Worker
from judging.dataset.models import Example
from judging.projects.models import Project
from judging.runs.models import Run, Verdict
from tests.factories import make_annotator, make_examples, make_run, make_verdict


@pytest.fixture
def run(project):
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, 0.1, rank=example.number + 1)
    project.primary_run = run
    project.save()
    return run


@pytest.fixture
def large(monkeypatch):
    """Ten examples are many here, and a worker is alive."""
    monkeypatch.setattr(cache, "MOST_AT_ONCE", 9)
    now = timezone.now()
    Worker.objects.create(name="w", queues="runs,quick", started_at=now, seen_at=now)


def ranked_again(run):
    Verdict.objects.filter(run=run).update(label="lose")
    run.ranked_at = timezone.now()
    run.save()


def test_the_same_state_of_the_data_is_computed_once(project, run, django_assert_max_num_queries):
    first = current_report(project, run)
    with django_assert_max_num_queries(13):
        assert current_report(project, run) == first
    ranked_again(run)
    assert current_report(project, run).coverage.labels["lose"] == 10


def test_a_small_report_is_renewed_while_one_waits(project, run):
    assert shown_report(project, run) == Shown(current_report(project, run))


def test_a_large_one_shows_the_last_figures_until_a_worker_has_renewed_them(
    client, owner, project, run, large
):
    client.force_login(owner)
    assert shown_report(project, run) == Shown(None, renewing=True)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert "The figures are being computed" in page
    again = client.get("/p/vicuna/results/verdict", headers={"HX-Request": "true"})
    assert again.status_code == 200
    renew_report(run.pk)
    done = client.get("/p/vicuna/results/verdict", headers={"HX-Request": "true"})
    assert done["HX-Refresh"] == "true"
    assert shown_report(project, run).report.coverage.labels["win"] == 10
    ranked_again(run)
    before = shown_report(project, run)
    assert (before.renewing, before.report.coverage.labels["win"]) == (True, 10)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert "from before the latest votes or verdicts" in page
    renew_report(run.pk)
    assert shown_report(project, run).report.coverage.labels["lose"] == 10


def test_a_worker_that_is_too_busy_to_say_so_is_waited_for(project, run, large):
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert shown_report(project, run) == Shown(None, renewing=True)


def test_without_a_worker_the_page_says_so_and_computes_a_large_one_if_asked(
    client, owner, project, run, large
):
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    client.force_login(owner)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert "No worker is running" in page
    assert shown_report(project, run) == Shown(None, renewing=True, missing=True)
    plan = client.get("/p/vicuna/plan").content.decode()
    assert "No worker is running" in plan
    assert f'href="?run={run.number}&amp;here"' in page
    page = client.get(f"/p/vicuna/results/verdict?run={run.number}&here").content.decode()
    assert "No worker is running" not in page
    project.refresh_from_db()
    assert shown_report(project, run) == Shown(current_report(project, run))


def test_a_run_that_is_gone_needs_no_report(db):
    renew_report(12345)


def swap(rows, name, one, other):
    """Two rows exchange what they have: counts, sums and the latest of all stay the same."""
    first, second = list(rows.order_by("pk")[:2])
    rows.filter(pk=first.pk).update(**{name: one})
    rows.filter(pk=second.pk).update(**{name: other})


@pytest.mark.databases
@pytest.mark.parametrize(
    ("table", "name", "values"),
    [
        (Example, "gold_label", ("win", "lose")),
        (Example, "category", ("maths", "prose")),
        (Example, "model_1", ("maple", "birch")),
        (Example, "is_check", (True, False)),
        (Vote, "label", ("win", "tie")),
        (Vote, "left_response", (1, 2)),
        (Verdict, "label", ("win", "lose")),
        (Verdict, "rank", (1, 2)),
    ],
)
def test_an_update_of_many_rows_at_once_renews_the_report(project, run, table, name, values):
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=1))
    person = make_annotator(project)
    while isinstance(draft := claim_next(round_, person), Draft):
        record_vote(draft, {"overall": "left"})
    swap(table.objects, name, *values)
    states = [fingerprint(project)]
    swap(table.objects, name, *reversed(values))
    states.append(fingerprint(project))
    table.objects.update(**{name: values[0]})
    states.append(fingerprint(project))
    assert len(set(states)) == 3


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        (Round, "no_majority", "tie"),
        (Round, "votes_per_item", 5),
        (Round, "wage_usd", 20),
        (Item, "state", "complete"),
        (Run, "name", "another"),
        (Run, "price", {"prompt": 1}),
        (Project, "slug", "another"),
    ],
)
def test_another_setting_renews_the_report(project, run, table, name, value):
    open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=1))
    before = fingerprint(project)
    table.objects.update(**{name: value})
    project.refresh_from_db()
    assert fingerprint(project) != before
