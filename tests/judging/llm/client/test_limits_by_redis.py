"""The pause and the minute, shared by workers on several machines through Redis."""

import asyncio
import time

from judging.llm.client.limits import Limits, RedisLimits
from tests.judging.llm.asking import (
    KNOWN,
    client_of,
    make_request,
    replied,
    told_to_wait,
    until,
)
from tests.loopback import LoopbackServer, rate_limited

ENDPOINT = "http://judge.example/v1"


def run(coroutine):
    return asyncio.run(coroutine)


def timed(coroutine):
    """What it returns, and the seconds that it took."""
    started = time.monotonic()
    return run(coroutine), time.monotonic() - started


def assert_left(waits, passed, whole):
    """The minute goes on while requests are made: a wait is shorter by what has passed."""
    for wait, at_first in zip(waits, whole, strict=True):
        assert at_first - passed - 0.01 <= wait <= at_first + 0.01


async def two_workers(url, name, use):
    one, other = RedisLimits(url, name), RedisLimits(url, name)
    try:
        return await use(one, other)
    finally:
        await one.close()
        await other.close()


def test_workers_share_the_requests_of_a_minute(redis_url):
    limits = Limits(8, rpm=60)

    async def use(one, other):
        return [await worker.reserve(limits, 0) for worker in (one, other, one, other)]

    assert_left(*timed(two_workers(redis_url, "rpm", use)), [0.0, 1.0, 2.0, 3.0])


def test_workers_share_the_tokens_of_a_minute_and_what_is_given_back(redis_url):
    limits = Limits(8, tpm=6000)

    async def use(one, other):
        await one.reserve(limits, 1000)
        booked = await other.reserve(limits, 1000)
        await one.settle(limits, 1500)
        return booked, await other.reserve(limits, 1)

    assert_left(*timed(two_workers(redis_url, "tpm", use)), [10.0, 5.0])


def test_workers_share_a_pause_and_a_shorter_one_never_cuts_it(redis_url):
    async def use(one, other):
        await one.pause(30.0)
        await other.pause(1.0)
        return (await other.paused()).seconds, await other.reserve(Limits(8), 0)

    assert_left(*timed(two_workers(redis_url, "pause", use)), [30.0, 30.0])


def test_endpoints_do_not_share_a_pause_with_each_other(redis_url):
    async def main():
        one, other = RedisLimits(redis_url, "a"), RedisLimits(redis_url, "b")
        await one.pause(30.0)
        left = (await other.paused()).seconds
        await one.close()
        await other.close()
        return left

    assert run(main()) == 0.0


def test_two_clients_by_redis_wait_for_one_refusal(redis_url):
    async def main(server):
        first, second = (RedisLimits(redis_url, server.base_url) for _ in range(2))
        told = told_to_wait(first)
        async with (
            client_of(server, learned=KNOWN, shared=first) as one,
            client_of(server, learned=KNOWN, shared=second) as other,
        ):
            task = asyncio.create_task(one.complete(make_request("refused")))
            await until(told.is_set)
            return await asyncio.gather(task, other.complete(make_request("waits")))

    with LoopbackServer([rate_limited(retry_after="1")]) as server:
        assert all(replied(outcome) for outcome in run(main(server)))
        refused, *others = server.log
    assert min(entry.arrived for entry in others) - refused.arrived >= 0.9


def test_a_redis_that_is_gone_costs_the_sharing_and_not_the_run(caplog):
    limits = Limits(8, rpm=60)

    async def main():
        alone = RedisLimits("redis://127.0.0.1:9/0", ENDPOINT)
        waits = [await alone.reserve(limits, 0) for _ in range(3)]
        await alone.pause(7.0)
        left = (await alone.paused()).seconds
        await alone.close()
        return [*waits, left]

    assert_left(*timed(main()), [0.0, 1.0, 2.0, 7.0])
    assert caplog.text.count("limits are not shared") == 1


def test_a_thousand_callers_share_one_minute(redis_url, caplog):
    """Each of four workers has more callers than it has connections. None books a place alone."""
    workers, callers, rpm = 4, 256, 60_000
    limits = Limits(callers, rpm=rpm)

    async def main():
        shared = [RedisLimits(redis_url, ENDPOINT) for _ in range(workers)]

        async def book(one):
            asked = time.monotonic()
            return asked, await one.reserve(limits, 0), time.monotonic()

        booked = await asyncio.gather(*(book(one) for one in shared for _ in range(callers)))
        for one in shared:
            await one.close()
        return booked

    booked = run(main())
    # A place begins at the earliest `wait` after the question, and at the latest after the answer.
    earliest = sorted(asked + wait for asked, wait, _ in booked)
    latest = sorted(answered + wait for _, wait, answered in booked)
    spacing = 60 / rpm
    assert latest[-1] - earliest[0] >= (workers * callers - 1) * spacing
    assert "Redis" not in caplog.text
