"""Workers that share an endpoint by Redis halve their windows together."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from judging.llm.client.limits import Pause, ProcessLimits, RedisLimits
from tests.judging.llm.asking import (
    KNOWN,
    client_of,
    make_request,
    replied,
    told_to_wait,
    until,
)
from tests.loopback import LoopbackServer, rate_limited

ROOT = Path(__file__).parents[4]
# Asks when it is told to, and says afterwards how many requests it would have under way.
WORKER = """
import asyncio, sys
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.judge_client import JudgeClient
from judging.llm.endpoint import Endpoint
from judging.llm.client.limits import Limits, RedisLimits
from judging.llm.client.messages import JudgeRequest, Message

async def main(base_url, redis_url):
    endpoint, model = Endpoint("e", base_url), "loopback-judge"
    shared, known = RedisLimits(redis_url, base_url), {model: EndpointCapabilities()}
    async with JudgeClient(endpoint, None, Limits(16), shared=shared, learned=known) as client:
        for line in sys.stdin:
            await client.complete(JudgeRequest((Message("user", line),), model))
            print(client.concurrency, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
WORDS = "HTTP 429: Rate limit reached for requests"


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.fixture
def other_worker():
    """Starts a worker of another process; it is asked for its window by a text to judge."""
    started = []

    def start(base_url, redis_url):
        command = [sys.executable, "-c", WORKER, base_url, redis_url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, **pipes)
        started.append(process)

        def window(text):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        return window

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=300)


@pytest.mark.brokers
def test_a_refusal_of_one_worker_halves_the_window_of_the_other(redis_url, other_worker):
    def script(asked):
        return rate_limited() if asked.prompt == "refused" and not asked.repeat else None

    async def refused(server):
        shared = RedisLimits(redis_url, server.base_url)
        async with client_of(server, concurrency=16, learned=KNOWN, shared=shared) as client:
            replied(await client.complete(make_request("refused")))

    with LoopbackServer(script) as server:
        window = other_worker(server.base_url, redis_url)
        assert window("before") == 16
        run(refused(server))
        # Half of the 16, and the place that this answer itself opens again.
        assert window("after") == 9
        assert window("later") == 10


def test_one_burst_halves_once_however_many_see_it(redis_url):
    async def main():
        one, other = RedisLimits(redis_url, "burst"), RedisLimits(redis_url, "burst")
        try:
            burst = [await worker.halve(0) for worker in (one, other, one, other)]
            return burst, await other.halve(1), await one.halve(0), one.halvings
        finally:
            await one.close()
            await other.close()

    assert run(main()) == ([1, 1, 1, 1], 2, 2, 2)


def test_workers_learn_why_another_one_was_told_to_wait(redis_url):
    async def main():
        one, other = RedisLimits(redis_url, "why"), RedisLimits(redis_url, "why")
        try:
            nothing = await other.paused()
            await one.pause(300.0, WORDS)
            await other.pause(1.0, "shorter")
            return nothing, await other.paused()
        finally:
            await one.close()
            await other.close()

    nothing, pause = run(main())
    assert nothing == Pause()
    assert 1.0 < pause.seconds <= 300.0
    assert pause.why == WORDS


def test_a_pause_says_what_the_endpoint_answered():
    now = [0.0]
    with LoopbackServer([rate_limited(retry_after_ms="50")]) as server:

        async def main():
            told = told_to_wait(shared := ProcessLimits(lambda: now[0]))
            async with client_of(server, learned=KNOWN, shared=shared) as client:
                asking = asyncio.create_task(client.complete(make_request()))
                await until(told.is_set)
                during = await client.paused()
                now[0] = 1.0
                replied(await asking)
                return during, await client.paused()

        during, after = run(main())
    assert during == Pause(0.05, WORDS)
    assert after == Pause()
