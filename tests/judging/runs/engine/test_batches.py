"""Runs in batches: handed in once, whatever dies meanwhile, and at half the price."""

import os
import signal
import time
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from judging.core.errors import UserError
from judging.runs import lifecycle
from judging.runs.engine import batches
from judging.runs.engine.progress import progress_of
from judging.runs.engine.working import work_on
from judging.runs.models import Batch, EndpointLearned, Run
from judging.runs.planning.estimate import estimate_run
from tests.judging.runs.engine.test_kills import Site
from tests.judging.runs.judging import (
    every_slot_once,
    in_thread,
    judged,
    loopback,
    make_judged_project,
    started,
    states_of,
)
from tests.loopback import LoopbackServer, Quirks

PRICE = (Decimal(10), Decimal(20))
WAIT = 60


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(batches, "CALLS_A_BATCH", 8)


db = pytest.mark.django_db(transaction=True)


def wait_for(condition) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@db
def test_a_run_in_batches_judges_all_at_half_the_price(settings):
    with loopback(settings) as server:
        usual = judged(make_judged_project(10), price=PRICE)
        asked = server.requests
        run = judged(make_judged_project(10), price=PRICE, batch=True)
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.requests - asked == asked == 20
    assert len(server.batches.batches) == run.batches.count() == 3
    assert run.spent_usd == usual.spent_usd / 2 > 0
    assert run.reserved_usd == 0
    assert "half for batches" in run.price_source
    assert run.verdicts.filter(state="judged").count() == 10
    assert progress_of(run).batches == ()


@db
def test_an_expired_batch_keeps_what_was_done_and_the_rest_is_handed_in_again(settings):
    with loopback(settings) as server:
        server.batches.expires_after = 3
        run = judged(make_judged_project(5), price=PRICE, batch=True)
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.requests == 10
    assert states_of(run) == {"done": 10}
    assert run.reserved_usd == 0


@db
def test_a_batch_of_which_nothing_is_done_pauses_the_run_and_is_not_handed_in_for_ever(settings):
    with loopback(settings) as server:
        server.batches.expires_after = 0
        run = judged(make_judged_project(2), price=PRICE, batch=True)
        assert run.state == Run.State.PAUSED
        assert "without processing it" in run.reason
        assert (len(server.batches.batches), run.reserved_usd) == (1, 0)
        server.batches.expires_after = None
        lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)


@db
def test_the_failures_of_a_batch_are_typed_and_asked_again_by_a_resume(settings):
    project = make_judged_project(4)
    project.examples.filter(number=1).update(question="forbidden")
    with loopback(settings, quirks=Quirks(words="azure", forbidden_text="forbidden")):
        run = judged(project, batch=True)
    assert run.state == Run.State.DONE
    assert progress_of(run).statuses == {"valid": 18, "filtered": 6}


@db
def test_a_server_that_ignores_n_is_topped_up_in_further_batches(settings):
    with loopback(settings, quirks=Quirks(ignores_n=True)) as server:
        run = judged(make_judged_project(2), batch=True)
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.requests == 12


@db
def test_what_was_cut_off_before_it_could_be_written_down_is_handed_in_once(settings):
    with loopback(settings) as server:
        server.batches.cuts_create = 1
        run = judged(make_judged_project(3), batch=True)
    assert run.state == Run.State.DONE
    assert len(server.batches.batches) == 1
    assert server.requests == 6


@db
@pytest.mark.parametrize("step", ["open_batches", "fill", "claims_in", "note_state", "write"])
def test_whoever_takes_over_goes_on_with_the_batches_that_are_there(settings, monkeypatch, step):
    """The holder ends without a word before and after each of its steps."""
    real = getattr(batches, step)

    def before(*values):
        raise OperationalError("gone")

    def after(*values):
        real(*values)
        raise OperationalError("gone")

    with loopback(settings) as server:
        run = started(make_judged_project(3), price=PRICE, batch=True)
        for dying in (before, after):
            monkeypatch.setattr(batches, step, dying)
            with pytest.raises((OperationalError, ExceptionGroup)):
                work_on(run)
            Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
            run.refresh_from_db()
        monkeypatch.setattr(batches, step, real)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.requests == 6
    assert states_of(run) == {"done": 6}
    assert (len(server.batches.batches), run.reserved_usd) == (1, 0)


@db
def test_a_paused_run_leaves_its_batch_at_the_endpoint_and_collects_it_later(settings):
    with loopback(settings) as server:
        server.batches.polls = 1_000_000
        run = started(make_judged_project(3), price=PRICE, batch=True)
        with in_thread(work_on, run):
            wait_for(lambda: Batch.objects.exclude(remote_id="").exists())
            assert lifecycle.pause(run)
        run.refresh_from_db()
        assert (run.state, states_of(run)) == (Run.State.PAUSED, {"claimed": 5, "done": 1})
        (standing,) = progress_of(run).batches
        assert standing.calls == 5
        assert standing.remote_id in server.batches.batches
        assert run.reserved_usd > 0
        server.batches.polls = 1
        lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert (server.requests, len(server.batches.batches)) == (6, 1)


@db
def test_a_budget_is_kept_by_batches_and_used_up_to_its_end(settings):
    with loopback(settings) as server:
        run = judged(
            make_judged_project(20),
            price=(Decimal(2000), Decimal(2000)),
            budget=Decimal(8),
            max_tokens=100,
            batch=True,
        )
    assert run.state == Run.State.PAUSED
    assert "budget" in run.reason
    assert 0 < run.spent_usd <= Decimal(8)
    assert run.reserved_usd == 0
    assert 0 < server.requests < 40


@db
def test_one_ordinary_call_learns_what_the_batches_then_hold(settings):
    with loopback(settings, quirks=Quirks(tokens_field="max_completion_tokens")) as server:
        run = judged(make_judged_project(4), price=PRICE, batch=True)
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert [entry.status for entry in server.log] == [400, 200]
    alone = run.calls.get(batch=None)
    others = run.calls.exclude(batch=None)
    assert others.count() == 7
    assert alone.usd > Decimal("1.9") * max(others.values_list("usd", flat=True))
    assert run.spent_usd == sum(run.calls.values_list("usd", flat=True))


@db
def test_a_batch_that_is_refused_line_by_line_pauses_the_run(settings):
    with loopback(settings, quirks=Quirks(tokens_field="max_completion_tokens")) as server:
        EndpointLearned.objects.create(base_url=server.base_url, model="loopback-judge")
        run = judged(make_judged_project(4), batch=True)
    assert run.state == Run.State.PAUSED
    assert "max_tokens" in run.reason
    assert "were all refused" in run.reason


@db
def test_an_endpoint_without_batches_is_told_and_nothing_is_sent(settings):
    with loopback(settings) as server:
        project = make_judged_project(2)
        run = started(project, batch=True)
        elsewhere = server.base_url + "/nowhere"
        settings.FAIRJUDGE_ENDPOINTS["loop"]["base_url"] = elsewhere
        EndpointLearned.objects.create(base_url=elsewhere, model="loopback-judge")
        run.base_url = elsewhere
        run.save()
        assert work_on(run)
        run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    assert "did not accept the batch" in run.reason
    assert server.requests == 0


@pytest.mark.django_db
def test_the_local_judge_takes_no_batches():
    project = make_judged_project(1)
    with pytest.raises(UserError, match="doesn't support batches"):
        estimate_run(project, endpoint="local", batch=True)


@db
def test_the_command_hands_in_batches_and_estimates_half(project, settings, capsys):
    from tests.factories import make_examples

    make_examples(project, 3)
    with loopback(settings) as server:
        call_command("judge", "vicuna", "--endpoint", "loop", "--batch", "--price", "1,2")
        with pytest.raises(CommandError, match="doesn't support batches"):
            call_command("judge", "vicuna", "--endpoint", "local", "--batch", "--estimate")
        whole = estimate_run(project, endpoint="loop", price=PRICE)
        half = estimate_run(project, endpoint="loop", price=PRICE, batch=True)
    assert len(server.batches.batches) == 1
    assert "Samples: 18 valid, of 18." in capsys.readouterr().out
    assert half.usd == whole.usd / 2
    assert "24 hours" in half.basis


@pytest.mark.long
def test_a_kill_loses_no_batch(site_folder):
    make = """
from tests.factories import make_examples, make_project
make_examples(make_project("killed"), 30)
"""
    with LoopbackServer() as server, Site(site_folder, server.base_url) as site:
        server.batches.polls = 1_000_000
        site.run("shell", "--verbosity", "0", "-c", make)
        pid = site.start("judge", "killed", "--endpoint", "loop", "--batch", "--name", "r")
        wait_for(lambda: server.batches.batches)
        os.kill(pid, signal.SIGKILL)
        assert site.wait() == -signal.SIGKILL
        server.batches.polls = 1
        site.run("judge", "killed", "--resume", "r")
        assert site.query("SELECT state FROM judging_run") == [("done",)]
        assert len(site.calls("done")) == server.requests == 60
        assert not site.calls("claimed") | site.calls("lost")
    assert len(server.batches.batches) == 1
