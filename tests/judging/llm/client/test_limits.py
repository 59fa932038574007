"""The pause and the minute, shared by all who ask one endpoint from one process."""

import asyncio
import time

import pytest

from judging.llm.client.errors import FailureKind
from judging.llm.client.limits import Limits, ProcessLimits, RetryPolicy
from tests.judging.llm.asking import (
    KNOWN,
    ask,
    ask_all,
    client_of,
    failed,
    make_request,
    replied,
    told_to_wait,
    until,
)
from tests.loopback import LoopbackServer, fixed, rate_limited


class Clock:
    """A clock that stands still until it is moved."""

    now = 1000.0

    def __call__(self):
        return self.now


def run(coroutine):
    return asyncio.run(coroutine)


async def reservations(limits, shared, count, tokens=0):
    return [await shared.reserve(limits, tokens) for _ in range(count)]


def test_requests_a_minute_are_spaced_evenly():
    """120 a minute: one every half second."""
    waits = run(reservations(Limits(8, rpm=120), ProcessLimits(Clock()), 4))
    assert waits == [0.0, 0.5, 1.0, 1.5]


def test_tokens_a_minute_are_booked_before_they_are_used():
    """6,000 a minute are 100 a second; a call of 250 takes up two and a half."""
    waits = run(reservations(Limits(8, tpm=6000), ProcessLimits(Clock()), 3, tokens=250))
    assert waits == [0.0, 2.5, 5.0]


def test_the_tighter_limit_decides():
    waits = run(reservations(Limits(8, rpm=60, tpm=6000), ProcessLimits(Clock()), 3, tokens=250))
    assert waits == [0.0, 2.5, 5.0]


def test_tokens_that_were_not_used_are_given_back():
    async def main():
        shared, limits = ProcessLimits(Clock()), Limits(8, tpm=6000)
        await shared.reserve(limits, 1000)
        await shared.settle(limits, 900)
        return await shared.reserve(limits, 1)

    assert run(main()) == pytest.approx(1.0)


def test_without_limits_nobody_waits():
    assert run(reservations(Limits(8), ProcessLimits(Clock()), 100, tokens=10**6)) == [0.0] * 100


def test_a_shorter_pause_never_cuts_a_longer_one():
    async def main():
        shared = ProcessLimits(Clock())
        await shared.pause(30.0)
        await shared.pause(1.0)
        return (await shared.paused()).seconds, await shared.reserve(Limits(8), 0)

    assert run(main()) == (30.0, 30.0)


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"rpm": 0}, {"tpm": -1}])
def test_a_limit_below_one_is_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        Limits(**wrong)


PAUSES = [
    {"retry_after": "1"},
    {"retry_after_ms": "1000"},
    {"x_ratelimit_reset_requests": "1s"},
    {"x_ratelimit_reset_tokens": "0m1s"},
]


@pytest.mark.parametrize("headers", PAUSES)
def test_one_refusal_keeps_everybody_away_for_as_long_as_the_server_asks(headers):
    with LoopbackServer([rate_limited(**headers)]) as server:

        async def main():
            told = told_to_wait(shared := ProcessLimits())
            async with client_of(server, learned=KNOWN, shared=shared) as client:
                first = asyncio.create_task(client.complete(make_request("refused")))
                await until(told.is_set)
                others = [client.complete(make_request(str(n))) for n in range(5)]
                return await asyncio.gather(first, *others)

        outcomes = run(main())
        refused, *others = server.log
    assert all(replied(outcome) for outcome in outcomes)
    assert len(others) == 6
    assert min(entry.arrived for entry in others) - refused.arrived >= 0.9


def test_a_refusal_halves_the_concurrency_and_success_brings_it_back():
    with LoopbackServer([rate_limited(retry_after_ms="300")]) as server:

        async def main():
            async with client_of(server, concurrency=8, learned=KNOWN) as client:
                sizes = [client.concurrency]
                task = asyncio.create_task(client.complete(make_request()))
                await until(lambda: client.concurrency < 8 or task.done())
                sizes.append(client.concurrency)
                await task
                await asyncio.gather(*(client.complete(make_request(str(n))) for n in range(8)))
                return [*sizes, client.concurrency]

        assert run(main()) == [8, 4, 8]


def test_only_what_has_left_is_under_way():
    """Of five that are asked for, two have a place; the others are waiting at home."""
    held = [True]
    with LoopbackServer(hold=lambda number: held[0]) as server:

        async def main():
            async with client_of(server, concurrency=2, learned=KNOWN) as client:
                asked = [client.complete(make_request(str(n))) for n in range(5)]
                tasks = [asyncio.create_task(one) for one in asked]
                await until(lambda: server.requests == 2)
                under_way = client.under_way
                held[0] = False
                await asyncio.gather(*tasks)
                return under_way, client.under_way

        assert run(main()) == (2, 0)


def test_a_server_with_less_room_gets_no_more_than_it_can_take_for_long():
    """Room for 8, asked with 32 at once: everything is answered, most of it at the first try."""

    def all_are_on_their_way(number):
        return server.requests < 32

    with LoopbackServer(capacity=8, latency=fixed(0.02), hold=all_are_on_their_way) as server:
        requests = [make_request(str(n)) for n in range(200)]
        outcomes = ask_all(server, requests, concurrency=32, learned=KNOWN)
        refused = sum(entry.status == 429 for entry in server.log)
    assert all(replied(outcome) for outcome in outcomes)
    assert 24 <= refused < 400


def test_no_more_requests_are_under_way_than_the_limit():
    with LoopbackServer(hold=lambda number: server.requests < 7) as server:
        ask_all(server, [make_request(str(n)) for n in range(60)], concurrency=7, learned=KNOWN)
        assert server.most_at_once == 7


def test_requests_leave_no_faster_than_so_many_a_minute():
    """1,200 a minute: 20 requests need at least 19 × 50 ms."""
    with LoopbackServer() as server:
        requests = [make_request(str(n)) for n in range(20)]
        began = time.time()
        ask_all(server, requests, limits=Limits(20, rpm=1200), learned=KNOWN)
        last = max(entry.arrived for entry in server.log)
    assert last - began >= 19 * 0.05 - 0.02


def test_a_pause_beyond_the_deadline_ends_the_call_as_a_rate_limit():
    policy = RetryPolicy(deadline=2.0, first_wait=0.01)
    with LoopbackServer(lambda asked: rate_limited(retry_after="60")) as server:
        failure = failed(ask(server, retry=policy))
        assert server.requests == 1
    assert failure.kind is FailureKind.RATE_LIMIT


def test_clients_of_one_process_share_a_pause_when_they_share_its_memory():
    async def main(server):
        shared = ProcessLimits(clock := Clock())
        told = told_to_wait(shared)
        async with (
            client_of(server, learned=KNOWN, shared=shared) as one,
            client_of(server, learned=KNOWN, shared=shared) as other,
        ):
            first = asyncio.create_task(one.complete(make_request()))
            await until(told.is_set)
            assert (await other.paused()).seconds == pytest.approx(0.05)
            second = asyncio.create_task(other.complete(make_request()))
            await asyncio.sleep(0.2)
            assert server.requests == 1
            clock.now += 0.05
            return await asyncio.gather(first, second)

    with LoopbackServer([rate_limited(retry_after_ms="50")]) as server:
        assert all(replied(outcome) for outcome in run(main(server)))
