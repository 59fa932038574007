"""The judge client against a bare AsyncOpenAI loop, nothing stored: spans over the ideal.

    python -m benchmarks.engine_transport [--quick]

The ideal is the list schedule of the same latencies at the same limit with no overhead.
"""

import argparse
import asyncio
import contextlib
import heapq
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import openai

from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import Limits
from judging.llm.client.messages import JudgeRequest, Message, Reply
from judging.llm.endpoint import Endpoint
from tests.loopback.latency import Latency, fixed, lognormal

MODEL = "loopback-judge"
PROMPT = "[Question]\nWhich is better?\n" + "A sentence of a response that is judged. " * 60
Ask = Callable[[int], Awaitable[bool]]


@contextlib.contextmanager
def server(seconds: float, sigma: float, *more: str) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.loopback", "--latency", str(seconds)]
    command += ["--sigma", str(sigma), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def ideal_span(latency: Latency, calls: int, concurrency: int) -> float:
    """The span of a list schedule: each call starts when a place is free, in order."""
    free = [0.0] * concurrency
    for number in range(calls):
        heapq.heapreplace(free, free[0] + latency(number))
    return max(free)


@contextlib.asynccontextmanager
async def bare(url: str, concurrency: int, http: object) -> AsyncIterator[Ask]:
    client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http)
    places = asyncio.Semaphore(concurrency)

    async def ask(number: int) -> bool:
        async with places:
            reply = await client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": f"{number} {PROMPT}"}],
                n=3,
                max_tokens=300,
            )
            return len(reply.choices) == 3

    try:
        yield ask
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def ours(url: str, concurrency: int, _: object) -> AsyncIterator[Ask]:
    endpoint = Endpoint("bench", url)
    limits = Limits(concurrency)
    async with JudgeClient(
        endpoint, None, limits, learned={MODEL: EndpointCapabilities()}
    ) as client:

        async def ask(number: int) -> bool:
            message = Message("user", f"{number} {PROMPT}")
            request = JudgeRequest((message,), MODEL, n=3, max_tokens=300)
            outcome = await client.complete(request)
            return isinstance(outcome, Reply) and len(outcome.choices) == 3

        yield ask


async def span(ask: Ask, calls: int, concurrency: int) -> tuple[float, float, int]:
    """Seconds, milliseconds of CPU a call, and calls without their three choices."""
    numbers = iter(range(calls))
    lost = 0

    async def worker() -> None:
        nonlocal lost
        for number in numbers:
            lost += not await ask(number)

    before, started = cpu_seconds(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    seconds = time.perf_counter() - started
    return seconds, (cpu_seconds() - before) / calls * 1000, lost


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(name: str, calls: int, concurrency: int, seconds: float, sigma: float) -> None:
    latency = lognormal(seconds, sigma) if sigma else fixed(seconds)
    ideal = ideal_span(latency, calls, concurrency)
    makers = {
        "bare, default client": (bare, lambda: None),
        "bare, aiohttp": (bare, openai.DefaultAioHttpClient),
        "ours": (ours, lambda: None),
    }
    for label, (make, http) in makers.items():
        with server(seconds, sigma) as url:
            async with make(url, concurrency, http()) as ask:
                took, cpu, lost = await span(ask, calls, concurrency)
        row = f"{name:32} {label:22} {took / ideal:5.2f} × ideal  {cpu:5.2f} ms CPU  {lost} lost"
        sys.stdout.write(row + "\n")
        sys.stdout.flush()


async def faults() -> None:
    """5 % of the requests get a 429 and 2 % a 500: slow start has this row of its own."""
    calls, concurrency, seconds = 1000, 32, 0.2
    ideal = ideal_span(fixed(seconds), calls, concurrency)
    with server(seconds, 0.0, "--rate-429", "0.05", "--rate-500", "0.02") as url:
        async with ours(url, concurrency, None) as ask:
            took, cpu, lost = await span(ask, calls, concurrency)
    row = f"{'32 × 200 ms, 429s and 500s':32} {'ours':22} {took / ideal:5.2f} × ideal"
    sys.stdout.write(f"{row}  {cpu:5.2f} ms CPU  {lost} lost\n")


async def main(quick: bool) -> None:
    await measure("32 × 200 ms, 1,000 calls", 1000, 32, 0.2, 0.0)
    if not quick:
        await measure("32 × 200 ms log-normal", 1000, 32, 0.2, 0.5)
        await measure("256 × 1 s, 4,000 calls", 4000, 256, 1.0, 0.0)
        await measure("256 × 1 s log-normal", 4000, 256, 1.0, 0.5)
    await faults()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="32 × 200 ms and the faults only")
    asyncio.run(main(parser.parse_args().quick))
