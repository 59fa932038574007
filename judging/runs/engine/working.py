"""Working on a run from taking its lease to giving it back: in a worker, or in a command."""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from threading import current_thread, main_thread
from typing import Any

from django.conf import settings
from django.db import connections

from judging.core import leases
from judging.core.errors import UserError
from judging.core.incidents import DATABASE_AWAY, incident, stopped_by
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.batches import BatchClient
from judging.llm.client.errors import CallFailure
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import (
    DEFAULT_RETRY,
    Limits,
    ProcessLimits,
    RetryPolicy,
    SharedLimits,
    room_for,
)
from judging.llm.client.messages import JudgeRequest, Reply
from judging.llm.endpoint import Endpoint
from judging.local_judge import running_local_judge
from judging.runs import endpoints, lifecycle
from judging.runs.endpoints import LOCAL, key_of, named_endpoint
from judging.runs.engine import recording
from judging.runs.engine.batches import BatchPump
from judging.runs.engine.claims import Journal
from judging.runs.engine.pump import Pump, StoppableRateLimiter
from judging.runs.engine.recording import Arrival, default_price
from judging.runs.engine.store import RunStore
from judging.runs.models import Run

log = logging.getLogger(__name__)

# A small, busy machine takes minutes for a call, and still finishes it.
LOCAL_RETRY = RetryPolicy(deadline=3600.0, request=1800.0)
# A batch is polled again soon anyway.
BATCH_RETRY = RetryPolicy(deadline=300.0, tries=4)
Report = Callable[[Any], None]


def work_on(
    run: Run,
    *,
    report: Report = lambda pump: None,
    say: Callable[[str], None] = log.info,
    at_keyboard: bool = False,
    helps: bool = False,
) -> bool:
    """Lead the run until it is done or stopped. False if it has another holder or is over.

    If the database goes away, the run is queued again or its lease runs out, and the sweep resumes
    it. Any other error would most likely come again, so it fails the run.

    Args:
        helps: Whether to help the run's holder, if it has one that may share it.
    """
    holder = leases.new_holder()
    leads = recording.take_over(run, holder)
    if not (leads or (helps and lifecycle.join(run, holder))):
        return False
    run.refresh_from_db()
    try:
        with (
            lifecycle.kept(run.pk, holder),
            live_endpoint(run.endpoint, say) as endpoint,
            what_is_loaded_left_alone(),
        ):
            make_store = partial(RunStore, run, holder, leads=leads)
            return asyncio.run(pumped(make_store, endpoint, report, at_keyboard=at_keyboard))
    except UserError as error:
        lifecycle.fail(run, holder, str(error))
    except Exception as error:
        cause = first_cause(error)
        if isinstance(cause, DATABASE_AWAY):
            raise cause from error
        if isinstance(cause, UserError):
            lifecycle.fail(run, holder, str(cause))
            return True
        lifecycle.fail(run, holder, failure_reason(incident(log, f"run {run.pk} stopped")))
    return True


async def pumped(
    make_store: Callable[[], RunStore], endpoint: Endpoint, report: Report, *, at_keyboard: bool
) -> bool:
    """Work on the run, and return whether this worker led it in the end."""
    # Django's queries block, so they run outside the loop. One thread keeps them in order and on
    # one connection.
    with ThreadPoolExecutor(1, "run database") as thread:
        loop = asyncio.get_running_loop()
        try:
            store = await loop.run_in_executor(thread, make_store)
            made = batch_pump if store.run.in_batches else call_pump
            async with made(store, endpoint, thread, report) as pump:
                with interrupted_by_keyboard(pump, loop, at_keyboard):
                    await pump.run()
            return store.leads
        finally:
            # Django keeps connections by thread, so only this thread can close its own.
            await loop.run_in_executor(thread, connections.close_all)


@asynccontextmanager
async def call_pump(
    store: RunStore, endpoint: Endpoint, thread: Executor, report: Report
) -> AsyncIterator[Pump]:
    run, places = store.run, room_for(store.run.concurrency)
    with Journal(run.pk, store.holder) as journal:
        limiter = StoppableRateLimiter(shared_limits(endpoint), journal)
        async with JudgeClient(
            endpoint,
            key_of(endpoint),
            Limits(places, run.rpm, run.tpm),
            shared=limiter,
            watch=limiter,
            retry=LOCAL_RETRY if endpoint.is_local else DEFAULT_RETRY,
            # The pump itself asks a judge alone that has not answered lately.
            learned={run.model: store.known or EndpointCapabilities()},
        ) as client:
            pump = Pump(store, client, limiter, thread, places, report)
            client.allow(pump.places)
            yield pump


async def ask_alone(store: RunStore, endpoint: Endpoint, in_thread: Callable[..., Any]) -> None:
    """Send one ordinary call at the usual price, to learn which parameters this judge takes.

    Otherwise a batch could come back hours later with every line refused for one parameter.
    """
    with Journal(store.run.pk, store.holder) as journal:
        limiter = StoppableRateLimiter(ProcessLimits(), journal)
        client = JudgeClient(endpoint, key_of(endpoint), retry=DEFAULT_RETRY, watch=limiter)
        async with client:
            for claim in await in_thread(store.next_claims, 1):
                with limiter.sends(claim.call.pk):
                    outcome = await client.complete(claim.request)
                journal.arrived(claim.call.pk, outcome)
                store.breaker.note(outcome)
                learned, price = client.learned(store.run.model), default_price(store.run)
                await in_thread(store.write, [Arrival(claim, outcome)], learned, price)


@asynccontextmanager
async def batch_pump(
    store: RunStore, endpoint: Endpoint, thread: Executor, report: Report
) -> AsyncIterator[BatchPump]:
    loop = asyncio.get_running_loop()
    if store.known is None:
        await ask_alone(store, endpoint, partial(loop.run_in_executor, thread))
    known = {store.run.model: store.known or EndpointCapabilities()}
    async with BatchClient(endpoint, key_of(endpoint), learned=known, retry=BATCH_RETRY) as client:
        yield BatchPump(store, client, thread, report)


@contextmanager
def interrupted_by_keyboard(
    pump: Pump | BatchPump, loop: asyncio.AbstractEventLoop, at_keyboard: bool
) -> Iterator[None]:
    signals = (signal.SIGINT, signal.SIGTERM)
    # A worker of Celery handles these signals itself, and asyncio can add a handler only in the
    # main thread.
    mine = at_keyboard and current_thread() is main_thread()
    for number in signals if mine else ():
        loop.add_signal_handler(number, pump.interrupt)
    try:
        yield
    finally:
        for number in signals if mine else ():
            loop.remove_signal_handler(number)


@contextmanager
def what_is_loaded_left_alone() -> Iterator[None]:
    """Let the garbage collector ignore the loaded modules, which take it 0.2 s each time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def live_endpoint(name: str, say: Callable[[str], None]) -> Iterator[Endpoint]:
    """Yield the endpoint at its present address, and start the local judge if it isn't running."""
    if name != LOCAL:
        yield named_endpoint(name)
        return
    with running_local_judge(settings.FAIRJUDGE_DATA, say) as base_url:
        yield Endpoint(LOCAL, base_url)


def ask_once(name: str, request: JudgeRequest) -> Reply | CallFailure:
    """Ask a model for something that is no judgment, and return its answer after all retries."""
    chosen = named_endpoint(name)
    known, _ = endpoints.recall_for(chosen.base_url, request.model)
    before = {request.model: known} if known else {}
    retry = LOCAL_RETRY if chosen.is_local else DEFAULT_RETRY

    async def asked(live: Endpoint) -> tuple[Reply | CallFailure, EndpointCapabilities]:
        shared = shared_limits(live)
        async with JudgeClient(
            live, key_of(chosen), shared=shared, retry=retry, learned=before
        ) as client:
            return await client.complete(request), client.learned(request.model)

    with live_endpoint(name, log.info) as live:
        outcome, learned = asyncio.run(asked(live))
    endpoints.keep_for(chosen.base_url, request.model, learned, known)
    return outcome


def shared_limits(endpoint: Endpoint) -> SharedLimits:
    """Return limits that all workers share if Redis is the broker, else this process's own."""
    broker = settings.CELERY_BROKER_URL
    if not broker.startswith(("redis:", "rediss:")):
        return ProcessLimits()
    # The redis extra is installed only if Redis is the broker.
    from judging.llm.client.limits import RedisLimits

    return RedisLimits(broker, endpoint.base_url)


def first_cause(error: BaseException) -> BaseException:
    # A task group wraps whatever a task raised, and groups may be nested.
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def failure_reason(reference: str) -> str:
    return stopped_by(reference, safe="What was recorded is kept.", go_on="Resume the run to go on")
