"""What only a loop can do: many requests at once, and ending them at any moment."""

import asyncio
import gc
import threading

import pytest
from fairjudge_client import Invalid, RateLimited, Unreachable

from judging.dataset import writing
from judging.dataset.models import Import
from judging.projects.models import Project
from tests.client.endless import Endless
from tests.client.proxy import (
    lost,
    passed_on,
    problem,
    refused,
    silent_until,
    slow,
    status,
    together,
)
from tests.client.test_walk import pairs

pytestmark = pytest.mark.django_db(transaction=True)


def test_many_requests_are_under_way_at_once(with_async, proxy):
    proxy.faults = together(20)

    async def work(fj):
        return await asyncio.gather(*(fj.me() for _ in range(20)))

    assert {one.user for one in with_async(work)} == {"otto"}
    assert proxy.statuses == [200] * 20


@pytest.mark.databases
def test_projects_made_at_once_are_made_once_each_whatever_fails(with_async, proxy):
    busy = problem(429, "too_many_requests", Retry_After=1)
    proxy.faults = [lost, passed_on, refused, busy, lost, status(503), passed_on, refused]

    async def work(fj):
        await fj.me()
        return await asyncio.gather(*(fj.create_project(f"p{n}") for n in range(6)))

    proxy.faults.insert(0, passed_on)
    made = with_async(work)
    assert [one.slug for one in made] == [f"p{n}" for n in range(6)]
    assert Project.objects.count() == 6
    posts = [seen for seen in proxy.log if seen.method == "POST"]
    assert len(posts) > 6
    by_key = {(seen.headers["idempotency-key"], seen.body) for seen in posts}
    assert len(by_key) == 6


def test_one_failure_leaves_the_others(with_async, proxy):
    async def work(fj):
        return await asyncio.gather(
            *(fj.create_project(name) for name in ("a", "", "b")), return_exceptions=True
        )

    first, wrong, third = with_async(work)
    assert (first.slug, third.slug) == ("a", "b")
    assert isinstance(wrong, Invalid)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_request_can_be_cancelled_and_the_client_goes_on(with_async, proxy):
    over = threading.Event()
    proxy.faults = [silent_until(over)]

    async def work(fj):
        asked = asyncio.create_task(fj.me())
        await until(lambda: proxy.log)
        await cancelled(asked)
        return await fj.me()

    # The first one has no answer as long as the second is waited for.
    assert with_async(work).user == "otto"
    assert proxy.statuses == [None, 200]
    over.set()


def test_waiting_can_be_cancelled_and_its_line_ends(with_async, proxy, capsys):
    lines = []

    def shown():
        lines.append(capsys.readouterr().err)
        return "".join(lines)

    async def work(fj):
        project = await fj.create_project("New")
        upload = await project.examples.upsert(pairs(3))
        waiting = asyncio.create_task(upload.wait())
        await until(lambda: "0 of 3" in shown())
        await cancelled(waiting)

    with_async(work, progress=True)
    assert "import 1 [" in shown()
    assert shown().endswith("\n")


def test_a_wait_between_attempts_can_be_cancelled(with_async, proxy, monkeypatch):
    proxy.faults = [problem(429, "too_many_requests", Retry_After=60)]
    sleep, waits = asyncio.sleep, []

    def noted(seconds):
        waits.append(seconds)
        return sleep(seconds)

    monkeypatch.setattr("fairjudge_client.transport.asyncio.sleep", noted)

    async def work(fj):
        asked = asyncio.create_task(fj.me())
        await until(lambda: 60 in waits)
        await cancelled(asked)

    with_async(work)
    assert proxy.statuses == [429]


def test_an_upload_can_be_cancelled_and_nothing_is_imported(with_async, proxy):
    proxy.faults = [passed_on, slow(2.0)]

    async def work(fj):
        project = await fj.create_project("New")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await project.examples.upsert(pairs(100_000))

    with_async(work)
    gc.collect()


def test_reading_rows_can_end_early(with_async, proxy):
    from fairjudge_client import AsyncFairJudge

    async def main(url):
        async with AsyncFairJudge(url, "fj_x") as fj:
            rows = fj.project("x").rows("labels")
            async for row in rows:
                assert row["question"] == "Q?"
                break
            await rows.aclose()
            return await fj.project("x").examples.upsert([{}])

    with Endless() as site:
        site.n = 50_000
        assert asyncio.run(main(site.url)).number == 1


def test_an_unchanged_standing_comes_without_a_body(with_async, proxy):
    async def work(fj):
        project = await fj.create_project("New")
        upload = await project.examples.upsert(pairs(2))
        waiting = asyncio.create_task(upload.wait())
        await until(lambda: polled().count(304) == 2)
        await asyncio.to_thread(write_import)
        return await waiting

    def polled():
        return [seen.status for seen in proxy.log if seen.path.endswith("/imports/1")]

    assert with_async(work).info.written == 2
    assert polled().count(200) == 2


def write_import():
    from django.db import connection

    try:
        writing.write(Import.objects.get().pk)
    finally:
        connection.close()


def test_too_many_attempts_are_an_error_here_too(with_async, proxy):
    async def work(fj):
        await fj.me()
        proxy.faults = [refused] * 3
        with pytest.raises(Unreachable, match="asked 3 times"):
            await fj.me()
        proxy.faults = [problem(429, "too_many_requests", Retry_After=0)] * 3
        with pytest.raises(RateLimited):
            await fj.me()

    with_async(work, retries=2)
