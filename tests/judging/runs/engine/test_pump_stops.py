from decimal import Decimal
from threading import Event

import pytest
from django.urls import reverse

from judging.projects.models import Role
from judging.runs import lifecycle
from judging.runs.engine import store
from judging.runs.engine.progress import progress_of
from judging.runs.engine.working import work_on
from judging.runs.models import Run, Sample, Verdict
from tests.factories import make_member
from tests.judging.runs.judging import (
    answered,
    every_slot_once,
    in_thread,
    judged,
    loopback,
    make_judged_project,
    started,
    states_of,
    stop_of_a_pump,
)
from tests.loopback import (
    BiasedJudge,
    completion,
    cut_in_body,
    error,
    rate_limited,
)
from tests.processes import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
NO_MONEY = error(429, "You exceeded your current quota.", code="insufficient_quota")


def test_an_empty_account_pauses_the_run_after_one_request(settings):
    with loopback(settings, lambda asked: NO_MONEY) as server:
        run = judged(make_judged_project(20), concurrency=16)
    assert server.requests == 1
    assert run.state == Run.State.PAUSED
    assert "quota" in run.reason
    assert not Sample.objects.exists()
    assert Verdict.objects.filter(run=run, state=Verdict.State.PENDING).count() == 20


def test_a_run_whose_account_was_filled_goes_on(settings):
    empty = [True]
    with loopback(settings, lambda asked: NO_MONEY if empty[0] else None) as server:
        run = judged(make_judged_project(4))
        empty[0] = False
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert set(answered(server.log).values()) == {3}


@pytest.mark.parametrize(
    ("stop", "end"), [(lifecycle.cancel, "cancelled"), (lifecycle.pause, "paused")]
)
def test_a_stopped_run_records_what_was_in_flight_and_goes_on_without_asking_twice(
    settings, monkeypatch, stop, end
):
    seen = stop_of_a_pump(monkeypatch)

    def in_flight_at_the_stop(number):
        return number >= 9 and not seen.is_set()

    project = make_judged_project(40)
    with loopback(settings, judge=BiasedJudge(), hold=in_flight_at_the_stop) as server:
        run = started(project)
        with in_thread(work_on, run):
            assert eventually(lambda: server.requests > 9)
            assert stop(run)
        run.refresh_from_db()
        assert run.state == end
        asked = server.requests
        assert 10 <= asked <= 13
        assert server.completed == asked
        assert states_of(run) == {"done": asked}
        assert Verdict.objects.filter(run=run, state="pending").exists()
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert server.requests == 80
    assert set(answered(server.log).values()) == {3}
    assert every_slot_once(run)


@pytest.mark.parametrize(
    ("stop", "state"), [(lifecycle.cancel, "cancelled"), (lifecycle.pause, "paused")]
)
def test_a_run_that_is_stopped_while_it_ranks_has_no_verdicts_until_it_is_resumed(
    settings, monkeypatch, client, stop, state
):
    rebuild, shown = store.rebuild_verdicts, []

    def stopped_meanwhile(run, advance):
        def told(*far):
            goes_on = advance(*far)
            shown.append(progress_of(run))
            shown.append(client.get(reverse("run_progress", args=[run.project.slug, run.number])))
            stop(run)
            return goes_on

        rebuild(run, told)

    with loopback(settings) as server:
        project = make_judged_project(4)
        client.force_login(make_member(project, Role.OWNER, "olga"))
        with monkeypatch.context() as patched:
            patched.setattr(store, "rebuild_verdicts", stopped_meanwhile)
            run = judged(project)
        asked = server.requests
        assert (shown[0].examples_ranked, shown[0].examples_to_rank) == (2, 4)
        assert "2 of 4 examples ranked" in shown[1].content.decode()
        assert (run.state, run.ranked_at, run.progress) == (state, None, {})
        assert not run.verdicts.exists()
        lifecycle.resume(run, background=False)
        notes = []
        assert work_on(run, report=lambda pump: notes.append(pump.note))
        assert notes[-2:] == ["2 of 4 examples ranked", "4 of 4 examples ranked"]
        run.refresh_from_db()
        assert (run.state, run.verdicts.count()) == ("done", 4)
        assert server.requests == asked, "nothing was asked again"


def test_a_budget_pauses_the_run_before_it_is_exceeded_and_a_larger_one_goes_on(settings):
    price = (Decimal(1000), Decimal(1000))
    with loopback(settings) as server:
        run = judged(make_judged_project(30), price=price, budget=Decimal(8), max_tokens=100)
        assert run.state == Run.State.PAUSED
        assert "The budget of $8.00 can't cover another call: $" in run.reason
        assert 0 < run.spent_usd <= Decimal(8)
        assert run.reserved_usd == 0
        assert 0 < server.requests < 60
        lifecycle.resume(run, budget=Decimal(2000), background=False)
        work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert server.requests == 60
    assert every_slot_once(run)


def test_while_the_endpoint_makes_it_wait_a_run_says_why(settings):
    fault = rate_limited(retry_after="3")
    seen = []

    def waits():
        seen.append(progress_of(run))
        return seen[-1].paused_for

    with loopback(settings, lambda asked: fault if asked.number == 1 else None):
        run = started(make_judged_project(2))
        with in_thread(work_on, run):
            assert eventually(waits)
    assert seen[-1].paused_why == "HTTP 429: Rate limit reached for requests"
    after = progress_of(run)
    assert (after.state, after.paused_for) == (Run.State.DONE, 0.0)


def test_after_a_stop_nothing_that_waited_for_its_turn_is_sent(settings):
    """The endpoint asks everybody to stay away for ten minutes; the run is stopped meanwhile."""
    refused = Event()

    def script(asked):
        if asked.number == 0:
            return None
        refused.set()
        return rate_limited(retry_after="500")

    with loopback(settings, script) as server:
        run = started(make_judged_project(20), price=(Decimal(1), Decimal(1)))
        with in_thread(work_on, run):
            assert refused.wait(60)
            assert lifecycle.cancel(run)
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED
    found = states_of(run)
    # What was refused is never billed, and not called so.
    assert found == {"done": 1}
    assert run.reserved_usd == 0
    # One for each caller at most.
    assert 2 <= server.requests <= 1 + 4


def test_a_call_that_was_cut_off_before_it_waited_for_its_turn_may_have_been_billed(settings):
    def script(asked):
        if asked.number == 0:
            return None
        return (
            cut_in_body(completion("x")) if asked.number == 1 else rate_limited(retry_after="500")
        )

    with loopback(settings, script) as server:
        run = started(make_judged_project(2), price=(Decimal(1), Decimal(1)), concurrency=1)
        with in_thread(work_on, run):
            assert eventually(lambda: server.requests == 3 and progress_of(run).paused_for)
            assert lifecycle.cancel(run)
    run.refresh_from_db()
    assert states_of(run) == {"done": 1, "lost": 1}
    assert run.reserved_usd > 0


def test_who_has_lost_a_run_leaves_the_verdicts_of_its_new_holder(settings, monkeypatch):
    rebuild = store.rebuild_verdicts

    def taken_over(run, advance):
        def told(done, total):
            if done * 2 > total:
                Run.objects.filter(pk=run.pk).update(holder="another:1:x")
            return advance(done, total)

        rebuild(run, told)

    with loopback(settings):
        project = make_judged_project(4)
        monkeypatch.setattr(store, "rebuild_verdicts", taken_over)
        run = judged(project)
    run.refresh_from_db()
    assert (run.holder, run.ranked_at) == ("another:1:x", None)
    assert run.verdicts.exists()
