"""How long one call's patience lasts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.client.errors import AttemptFailure, FailureKind
from judging.llm.client.limits import Patience, RetryPolicy

BROKEN = AttemptFailure(FailureKind.TRANSIENT, "reset", possibly_billed=True)


@given(failures=st.integers(1, 10_000), draw=st.floats(0, 1))
def test_waits_double_are_spread_and_are_bounded(failures, draw):
    policy = RetryPolicy(first_wait=0.5, longest_wait=30.0)
    step = min(30.0, 0.5 * 2.0 ** min(failures - 1, 30))
    assert step / 2 <= policy.backoff(failures, draw) <= step


def test_the_clock_starts_with_the_first_request_and_not_before():
    patience = Patience(RetryPolicy(deadline=5.0))
    assert patience.left == 5.0
    patience.sending()
    assert patience.left < 5.0


def test_a_wait_that_the_deadline_does_not_hold_ends_the_call():
    patience = Patience(RetryPolicy(deadline=5.0, first_wait=1.0))
    patience.started = time.monotonic() - 4.9
    assert patience.wait_after(BROKEN) is None


def test_a_server_that_breaks_down_and_says_for_how_long_is_believed():
    patience = Patience(RetryPolicy(first_wait=0.1))
    failure = AttemptFailure(FailureKind.TRANSIENT, "busy", 503, headers={"retry-after": "4"})
    assert patience.wait_after(failure) == 4.0


def test_what_may_have_been_billed_is_counted():
    patience = Patience(RetryPolicy(tries=3))
    patience.sending()
    assert patience.wait_after(BROKEN) is not None
    patience.sending()
    assert patience.wait_after(BROKEN) is not None
    failure = patience.failure(BROKEN)
    assert (failure.requests, failure.possibly_billed) == (2, 2)


@pytest.mark.parametrize("kind", [k for k in FailureKind if not k.worth_repeating])
def test_what_can_not_be_mended_is_not_waited_for(kind):
    assert Patience(RetryPolicy()).wait_after(AttemptFailure(kind, "no")) is None


def test_rate_limits_are_waited_out_as_long_as_the_deadline_lasts():
    patience = Patience(RetryPolicy(tries=2))
    failure = AttemptFailure(FailureKind.RATE_LIMIT, "slow down", 429)
    assert all(patience.wait_after(failure) is not None for _ in range(50))
