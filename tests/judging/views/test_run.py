from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from judging.models import AuditEvent, Batch, Call, Membership, Run, Sample, Worker
from judging.runs import states
from judging.runs.working import work_on
from tests.factories import make_examples, make_run
from tests.judging.runs.judging import ENDPOINT, judged, loopback, started
from tests.loopback import BiasedJudge, completion

# The engine works in threads of its own, which must see what the test wrote.
pytestmark = pytest.mark.django_db(transaction=True)

MODEL = "loopback-judge"
HOSTILE = "<script>window.fired = 1</script>"


@pytest.fixture
def as_researcher(client, researcher):
    client.force_login(researcher)
    return client


@pytest.fixture
def examples(project):
    return make_examples(project, 4)


@pytest.fixture
def server(settings):
    with loopback(settings, judge=BiasedJudge(position_bias=2.0)) as server:
        yield server


@pytest.fixture
def page(as_researcher, project) -> Callable[..., str]:
    def page(name: str = "run", **query: Any) -> str:
        response = as_researcher.get(reverse(name, args=[project.slug, 1]), query)
        assert response.status_code == 200
        return response.content.decode()

    return page


@pytest.fixture
def act(as_researcher, project) -> Callable[..., Any]:
    def act(name: str, **data: Any) -> Any:
        return as_researcher.post(reverse(name, args=[project.slug, 1]), data)

    return act


def finish(project, **choices):
    """A judged run of the project, its price known."""
    return judged(project, k=2, price=(Decimal(10), Decimal(30)), model=MODEL, **choices)


ACTIONS = ["run_pause", "run_cancel", "run_resume", "run_budget", "run_reparse", "run_primary"]


@pytest.mark.parametrize("name", ["run", "run_progress", *ACTIONS])
def test_strangers_see_no_run_and_annotators_may_not(client, project, outsider, annotator, name):
    run = make_run(project, state=Run.State.RUNNING)
    url = reverse(name, args=[project.slug, 1])
    for user, status in [(outsider, 404), (annotator, 403)]:
        client.force_login(user)
        asked = client.post if name in ACTIONS else client.get
        assert asked(url).status_code == status
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


def test_seeing_a_run_unblinds(page, project, researcher):
    make_run(project)
    page()
    assert Membership.objects.get(user=researcher).unblinded_at is not None


def test_a_run_of_another_project_is_not_found(as_researcher, project):
    assert as_researcher.get(reverse("run", args=[project.slug, 1])).status_code == 404


def test_a_live_run_polls_and_says_how_far_it_is(page, project, examples, server):
    run = started(project, k=2, budget=Decimal(5), price=(Decimal(10), Decimal(30)), model=MODEL)
    html = page()
    assert f'hx-get="{reverse("run_progress", args=[project.slug, 1])}"' in html
    assert "0 of 16 samples" in html
    assert "No worker is running." in html
    assert "of $5.00" in html
    assert "Pause" in html
    assert run.state == Run.State.QUEUED


def test_a_worker_that_was_heard_of_is_not_missing(page, project, examples, server):
    started(project, model=MODEL)
    now = timezone.now()
    Worker.objects.create(name="w", queues="runs,quick", started_at=now, seen_at=now)
    assert "No worker is running." not in page()


def test_a_live_run_shows_waits_and_the_last_evidences(page, project, examples, server):
    run = started(project, k=2, model=MODEL, price=(Decimal(10), Decimal(30)))
    work_on(run)
    until = timezone.now() + timezone.timedelta(seconds=90)
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.RUNNING,
        progress={
            "in_flight": 3,
            "window": 4,
            "paused_until": until.isoformat(),
            "paused_why": f"HTTP 429: {HOSTILE}",
        },
        lease_until=until,
        holder="somewhere:1:1:x",
    )
    html = page("run_progress")
    assert html.lstrip().startswith('<div id="progress"')
    assert "The endpoint asked to wait" in html
    assert f"HTTP 429: {escape(HOSTILE)}" in html
    assert "16 of 16 samples" in html
    assert "3 <small>of 4</small>" in html
    assert html.count("<blockquote") == 3
    assert "they differ in detail and accuracy" in html


def test_polling_ends_with_the_whole_page(as_researcher, project, examples, server):
    finish(project)
    url = reverse("run_progress", args=[project.slug, 1])
    asked = as_researcher.get(url, headers={"HX-Request": "true"})
    assert asked.headers["HX-Refresh"] == "true"
    assert as_researcher.get(url).url == reverse("run", args=[project.slug, 1])
    html = as_researcher.get(reverse("run", args=[project.slug, 1])).content.decode()
    assert "every 2s" not in html


def test_the_judges_page_holds_what_its_verdicts_say(page, project, examples, server):
    run = finish(project)
    html = page()
    assert "4 <small>of 4 examples judged</small>" in html
    conflicts = run.verdicts.filter(conflict=True).count()
    assert conflicts
    assert f"{conflicts / 4:.3f}".removeprefix("0") in html
    assert run.template_hash in html
    assert escape(run.template_text) in html
    assert "An example judged" in html
    assert "the project’s primary run" in html
    assert f"{reverse('examples', args=[project.slug])}?run=1&amp;sort=rank" in html


def test_the_cut_is_the_readers(page, project, examples, server):
    finish(project)
    assert "Filled: the top 20 %, 1 example" in page()
    assert "Filled: the top 50 %, 2 examples" in page(beta="50")
    assert "Filled: the top 20 %" in page(beta="sNaN")


def test_failures_are_counted_by_kind_and_never_as_verdicts(page, project, examples, settings):
    with loopback(settings, [completion("I would rather not say.", "No.")] * 2):
        judged(project, k=2, model=MODEL)
    html = page()
    assert "<span>12 valid</span>, <span>4 unparsed</span>" in html
    assert "unknown" in html


def test_what_a_judge_wrote_runs_nowhere(page, project, examples, settings):
    text = (
        f"Evaluation evidence: {HOSTILE}\nThe score of Assistant 1: 9\nThe score of Assistant 2: 8"
    )
    with loopback(settings, [completion(text)] * 4):
        run = judged(project, method="ec", model=MODEL, name=HOSTILE)
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.RUNNING, reason=HOSTILE, lease_until=timezone.now(), template_text=HOSTILE
    )
    for html in [page(), page("run_progress")]:
        assert HOSTILE not in html
        assert "&lt;script&gt;window.fired" in html
    Run.objects.filter(pk=run.pk).update(state=Run.State.DONE)
    assert HOSTILE not in page()


@pytest.mark.parametrize("n", [1, 50])
def test_the_page_takes_as_many_queries_for_one_example_as_for_fifty(
    as_researcher, project, server, django_assert_num_queries, n
):
    make_examples(project, n)
    finish(project)
    url = reverse("run", args=[project.slug, 1])
    with django_assert_num_queries(22):
        as_researcher.get(url)


def test_pausing_stopping_and_resuming(act, project, examples, server):
    run = started(project, model=MODEL)
    act("run_pause")
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    act("run_resume")
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED
    act("run_cancel")
    act("run_cancel")
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions)[-3:] == ["run paused", "run resumed", "run stopped"]


def test_a_status_is_asked_again_only_when_a_person_says_so(act, project, examples, settings):
    with loopback(settings, [completion("No.")]) as server:
        run = judged(project, method="ec", model=MODEL, concurrency=1)
        asked = server.requests
        act("run_resume")
        work_on(run)
        assert server.requests == asked
        act("run_resume", retry=["unparsed"], max_tokens="700")
        work_on(run)
        assert server.requests == asked + 1
    run.refresh_from_db()
    assert run.max_tokens == 700
    assert Sample.objects.filter(call__run=run, attempt=1).count() == 1


def test_a_status_that_cannot_be_asked_again_changes_nothing(act, project, examples, server):
    run = finish(project)
    assert act("run_resume", retry=["valid"]).status_code == 422
    run.refresh_from_db()
    assert run.state == Run.State.DONE


def test_resuming_at_another_address_is_refused_with_the_reason(act, project, examples, settings):
    with loopback(settings):
        judged(project, model=MODEL)
    settings.FAIRJUDGE_ENDPOINTS = {ENDPOINT: {"base_url": "http://else/v1", "key_variable": ""}}
    response = act("run_resume")
    assert response.status_code == 422
    assert "Answers of two judges are never mixed" in response.content.decode()


def test_whoever_may_not_spend_can_stop_a_run_and_not_go_on(
    act, project, researcher, examples, server
):
    run = started(project, model=MODEL)
    researcher.user_permissions.clear()
    assert act("run_pause").status_code == 302
    assert act("run_resume").status_code == 403
    assert act("run_budget", budget="9").status_code == 403
    run.refresh_from_db()
    assert (run.state, run.budget_usd) == (Run.State.PAUSED, None)


def test_the_budget_is_raised_and_no_amount_is_refused(act, project, examples, server):
    run = finish(project)
    act("run_budget", budget="12.5")
    run.refresh_from_db()
    assert run.budget_usd == Decimal("12.5")
    assert act("run_budget", budget="NaN").status_code == 422
    assert act("run_budget", budget="-1").status_code == 422


def test_the_primary_run_is_chosen_and_one_without_verdicts_is_not(act, project, examples):
    run = make_run(project, ranked_at=None)
    assert act("run_primary").status_code == 422
    Run.objects.filter(pk=run.pk).update(ranked_at=timezone.now())
    act("run_primary")
    act("run_primary")
    project.refresh_from_db()
    assert project.primary_run == run
    assert AuditEvent.objects.filter(action="primary run chosen").count() == 1


def test_lost_calls_are_called_possibly_billed(page, project, examples):
    run = make_run(project)
    Call.objects.create(
        run=run,
        example=examples[0],
        part="original",
        state=Call.State.LOST,
        claimed_at=timezone.now(),
    )
    assert "1 lost: possibly billed" in page()


def test_a_failed_run_offers_to_cancel_what_its_endpoint_still_has(page, act, project, examples):
    run = make_run(project, state=Run.State.FAILED)
    assert "Cancel its batches" not in page()
    Batch.objects.create(run=run, state="in_progress", remote_id="batch_1")
    run.parameters = {"batch": {"usual_price": None}}
    run.save()
    assert "Cancel its batches" in page()
    act("run_cancel")
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLING
    assert "Cancel its batches" not in page()


def test_a_recorded_run_is_shown_without_what_asks_again(page, project, examples):
    make_run(project, method="imported", source_files=[{"name": "gpt4.jsonl", "sha256": "0"}])
    html = page()
    assert "gpt4.jsonl" in html
    assert "Resume" not in html
    states.cancel(Run.objects.get())
