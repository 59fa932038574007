from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from judging.core.models import Worker
from judging.projects.models import Membership
from judging.runs import lifecycle
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Run, Share
from tests.factories import make_examples, make_run
from tests.judging.runs.judging import judged, loopback, started
from tests.loopback import completion

# The engine works in threads of its own, which must see what the test wrote.
pytestmark = pytest.mark.django_db(transaction=True)

MODEL = "loopback-judge"
HOSTILE = "<script>window.fired = 1</script>"


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


@pytest.mark.parametrize("state", [Run.State.RUNNING, Run.State.PAUSED])
def test_a_budget_is_asked_for_where_something_can_cost(page, project, state):
    price = {"input": "1", "output": "2"}
    run = make_run(project, endpoint="default", price=price, state=state, ranked_at=None)
    make_examples(project, 1)
    assert "Budget, USD" in page()
    run.endpoint = "local"
    run.save()
    assert "Budget, USD" not in page()


def test_a_live_run_polls_and_says_how_far_it_is(page, project, examples, server):
    run = started(project, k=2, budget=Decimal(5), price=(Decimal(10), Decimal(30)), model=MODEL)
    html = page()
    assert f'hx-get="{reverse("run_progress", args=[project.slug, 1])}"' in html
    assert "0 of 16 samples" in html
    assert "No worker is running." in html
    assert "of $5.00" in html
    assert "Pause" in html
    assert run.state == Run.State.QUEUED


def test_a_paused_run_that_judged_nothing_draws_nothing(page, project, examples):
    make_run(project, state=Run.State.PAUSED, finished_at=timezone.now())
    html = page()
    assert "no verdict yet" in html
    assert "How often does the judge contradict itself?" not in html
    assert "<dt>Paused</dt>" in html


def test_a_run_that_goes_on_has_not_ended(page, project, examples):
    run = make_run(project, state=Run.State.CANCELLED, finished_at=timezone.now())
    assert "<dt>Ended</dt>" in page()
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    assert "<dt>Ended</dt>" not in page()


@pytest.mark.parametrize(("form", "shown"), [("score", True), ("choice", False)])
def test_evidences_are_awaited_only_of_a_judge_that_writes_them(
    page, project, examples, form, shown
):
    make_run(project, form=form, state=Run.State.QUEUED, ranked_at=None)
    assert ("Latest evidence" in page()) is shown
    assert ("Latest evidence" in page("run_progress")) is shown


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
    assert "The endpoint asked FairJudge to wait" in html
    assert f"HTTP 429: {escape(HOSTILE)}" in html
    assert "16 of 16 samples" in html
    assert "3 <small>of 4</small>" in html
    assert html.count("<blockquote") == 3
    assert "they differ in detail and accuracy" in html


def test_a_live_run_says_who_works_on_it(page, project, examples, server):
    run = started(project, model=MODEL, concurrency=32)
    leader, helper, lost = "b:12:1:x", "<i>a</i>:7:1:y", "c:9:1:z"
    until = timezone.now() + timezone.timedelta(seconds=20)
    working = {"state": Run.State.RUNNING, "holder": leader, "lease_until": until}
    progress = {"in_flight": 14, "window": 16}
    Run.objects.filter(pk=run.pk).update(progress=progress, **working)
    for holder in (helper, leader, lost):
        Share.objects.create(run=run, holder=holder, lease_until=until, progress=progress)
    Share.objects.filter(holder=lost).update(lease_until=None)
    html = page("run_progress")
    assert "<dt>Workers</dt><dd>2 <small>" in html
    assert "<bdi>b, process 12</bdi>; <bdi>&lt;i&gt;a&lt;/i&gt;, process 7</bdi>" in html
    assert "28 <small>of 32</small>" in html


@pytest.mark.parametrize(
    ("in_flight", "window", "said"),
    [
        (4, 4, "4 <small>of 4</small>"),
        (1, 2, "1 <small>of 2, slowed down from 4</small>"),
        (2, 1, "2 <small>reducing to 1, slowed down from 4</small>"),
    ],
)
def test_a_run_that_was_slowed_down_says_from_where(
    page, project, examples, server, in_flight, window, said
):
    run = started(project, model=MODEL, concurrency=4)
    progress = {"in_flight": in_flight, "window": window}
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, progress=progress)
    assert said in page("run_progress")


def test_calls_in_batches_have_no_limit_of_their_own(page, project, examples, server):
    run = started(project, model=MODEL, batch=True)
    progress = {"in_flight": 16, "window": 0}
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, progress=progress)
    assert "<dt>In flight</dt><dd>16</dd>" in page("run_progress")


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
    assert f"{100 * conflicts / 4:.1f}" in html
    assert run.template_hash in html
    assert escape(run.template_text) in html
    assert "Per judged example" in html
    assert "the project's primary run" in html
    assert f"{reverse('examples', args=[project.slug])}?run=1&amp;sort=rank" in html


def test_the_cut_is_the_readers(page, project, examples, server):
    finish(project)
    assert "The filled bars are the top 20&#8239;% of all 4 examples (1 example), down to" in page()
    assert "The filled bars are the top 50&#8239;% of all 4 examples (2 examples), down to" in page(
        beta="50"
    )
    assert "The filled bars are the top 20&#8239;%" in page(beta="sNaN")


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


def test_of_a_stopped_run_the_cut_is_of_all_examples_and_says_what_is_ranked(
    page, project, examples, server
):
    run = finish(project)
    run.verdicts.filter(rank__gt=1).update(state="pending", rank=None, bpde=None)
    said = (
        "The filled bars are the top 50&#8239;% of all 4 examples (2 examples), of which 1 is "
        "ranked so far. They contain"
    )
    assert said in page(beta="50")


@pytest.mark.parametrize("n", [1, 50])
def test_the_page_takes_as_many_queries_for_one_example_as_for_fifty(
    as_researcher, project, server, django_assert_num_queries, n
):
    make_examples(project, n)
    finish(project)
    url = reverse("run", args=[project.slug, 1])
    with django_assert_num_queries(32):
        as_researcher.get(url)


def test_lost_calls_are_called_possibly_billed(page, project, examples):
    run = make_run(project)
    Call.objects.create(
        run=run,
        example=examples[0],
        part="original",
        state=Call.State.LOST,
        claimed_at=timezone.now(),
    )
    assert "1 lost (may still be billed)" in page()


def test_only_a_run_that_is_done_has_nothing_left_to_ask(page, project, examples, server):
    """What PORTIA asks at its next stage isn't known yet when a run is stopped."""
    run = finish(project)
    assert "nothing left to ask" in page()
    Run.objects.filter(pk=run.pk).update(state=Run.State.PAUSED)
    assert "nothing left to ask" not in page()
    assert reverse("run_resume", args=[project.slug, 1]) in page()


def test_a_recorded_run_is_shown_without_what_asks_again(page, project, examples):
    make_run(project, method="imported", source_files=[{"name": "gpt4.jsonl", "sha256": "0"}])
    html = page()
    assert "gpt4.jsonl" in html
    assert "Resume" not in html
    lifecycle.cancel(Run.objects.get())
