from itertools import count

import pytest

from judging.llm.client.errors import CallFailure, FailureKind
from judging.llm.client.limits import RetryPolicy
from judging.llm.client.messages import Reply
from judging.llm.prices import Usage
from judging.runs import lifecycle
from judging.runs.engine import store, working
from judging.runs.engine.store import IN_A_ROW, SILENT_SECONDS, CircuitBreaker
from judging.runs.engine.working import LOCAL_RETRY, work_on
from judging.runs.models import Call, Run, Sample
from tests.judging.runs.judging import every_slot_once, judged, loopback, make_judged_project
from tests.loopback import Answer, error, server_error

REPLY = Reply((), Usage(1, 0, 1), "judge", "", 1)
WRONG = error(400, "logit_bias is not supported here")
IMPATIENT = RetryPolicy(tries=2, first_wait=0.01, longest_wait=0.01)


def failure(kind: FailureKind, message: str = "no") -> CallFailure:
    return CallFailure(kind, message)


def seen(*outcomes, every: float = 0.0) -> str:
    """The reason after these outcomes, one each `every` seconds."""
    ticks = count()
    breaker = CircuitBreaker(lambda: next(ticks) * every)
    for outcome in outcomes:
        breaker.note(outcome)
    return breaker.reason


def test_one_answer_shows_that_later_refusals_are_the_examples_own():
    refusal = failure(FailureKind.BAD_REQUEST)
    assert "all refused" in seen(*[refusal] * IN_A_ROW)
    assert not seen(*[refusal] * (IN_A_ROW - 1))
    assert not seen(refusal, REPLY, *[refusal] * 3 * IN_A_ROW)


def test_what_can_not_be_read_from_the_first_call_on_is_no_judge():
    unread = failure(FailureKind.BAD_REPLY, "It is text/html")
    assert "first 5 calls" in seen(*[unread] * IN_A_ROW)
    assert "It is text/html. Nothing recorded" in seen(*[unread] * IN_A_ROW)
    assert not seen(*[unread] * (IN_A_ROW - 1))
    assert not seen(unread, REPLY, *[unread] * 3 * IN_A_ROW)


@pytest.mark.parametrize("kind", [FailureKind.TOO_LONG, FailureKind.FILTERED])
def test_an_example_that_no_judge_takes_is_an_answer(kind):
    outcomes = [failure(FailureKind.BAD_REQUEST)] * (IN_A_ROW - 1) + [failure(kind)]
    assert not seen(*outcomes, *outcomes)


@pytest.mark.parametrize("kind", [FailureKind.TRANSIENT, FailureKind.TIMEOUT])
def test_a_silent_endpoint_is_given_up_after_a_minute_and_five_calls(kind):
    down = failure(kind, "connection refused")
    assert "connection refused. Nothing recorded" in seen(*[down] * IN_A_ROW, every=SILENT_SECONDS)
    assert not seen(*[down] * 50, every=0.1)
    assert not seen(*[down] * (IN_A_ROW - 1), every=SILENT_SECONDS)
    assert not seen(*[down, down, REPLY] * 20, every=SILENT_SECONDS)


def test_the_advice_stands_beside_what_the_server_said():
    assert seen(failure(FailureKind.AUTH, "Bad key")).startswith("Bad key. Check the key")


def test_the_local_judge_has_half_an_hour_for_a_request():
    assert LOCAL_RETRY.request >= 1800
    assert LOCAL_RETRY.deadline > LOCAL_RETRY.request


@pytest.mark.django_db(transaction=True)
def test_a_misconfigured_endpoint_pauses_the_run_and_a_resume_asks_all_again(settings):
    wrong = [True]
    with loopback(settings, lambda asked: WRONG if wrong[0] else None) as server:
        run = judged(make_judged_project(40), concurrency=2)
        assert run.state == Run.State.PAUSED
        assert "logit_bias is not supported here. Nothing recorded is lost" in run.reason
        # No more than what was in flight when it was seen.
        assert IN_A_ROW <= server.requests <= IN_A_ROW + 2
        wrong[0] = False
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert not Sample.objects.filter(call__state=Call.State.DONE, parses__status="error").exists()
    assert run.verdicts.filter(state="judged").count() == 40


@pytest.mark.django_db(transaction=True)
def test_a_page_in_front_of_the_endpoint_pauses_the_run_after_a_few_requests(settings, monkeypatch):
    monkeypatch.setattr(working, "DEFAULT_RETRY", IMPATIENT)
    page = Answer(200, "<html>Please log in</html>", headers={"Content-Type": "text/html"})
    with loopback(settings, lambda asked: page) as server:
        run = judged(make_judged_project(40), concurrency=2)
    assert run.state == Run.State.PAUSED
    assert "is not JSON: it is text/html. Nothing recorded is lost" in run.reason
    assert server.requests <= IMPATIENT.unread_tries * (IN_A_ROW + 2)


@pytest.mark.django_db(transaction=True)
def test_an_endpoint_that_went_down_pauses_the_run(settings, monkeypatch):
    monkeypatch.setattr(working, "DEFAULT_RETRY", IMPATIENT)
    monkeypatch.setattr(store, "SILENT_SECONDS", 0.0)
    down = [True]

    def script(asked):
        return server_error() if down[0] and asked.number >= 10 else None

    with loopback(settings, script) as server:
        run = judged(make_judged_project(40), concurrency=2)
        assert run.state == Run.State.PAUSED
        assert "calls in a row failed" in run.reason
        assert server.requests < 60
        down[0] = False
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert run.verdicts.filter(state="judged").count() == 40


@pytest.mark.django_db(transaction=True)
def test_a_run_of_which_some_calls_are_refused_goes_on_to_its_end(settings):
    def script(asked):
        return WRONG if asked.number % 2 else None

    with loopback(settings, script):
        run = judged(make_judged_project(12), concurrency=1)
    assert run.state == Run.State.DONE
    assert every_slot_once(run)


@pytest.mark.django_db(transaction=True)
def test_refused_examples_are_asked_again_without_an_end_in_a_pause(settings):
    def script(asked):
        return WRONG if "Question 1" in asked.prompt else None

    with loopback(settings, script) as server:
        run = judged(make_judged_project(14), concurrency=1)
        assert run.state == Run.State.DONE
        asked = server.requests
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert server.requests - asked == 10 > IN_A_ROW
