"""Batches over real HTTP: handed in once, matched by name, and nothing done is lost."""

import asyncio
import json

import pytest

from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.batches import BatchClient, BatchError
from judging.llm.client.errors import FailureKind
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import MODEL, QUICK, failed, make_request, replied
from tests.loopback import LoopbackServer, Quirks

# A line separator of Unicode, which is no end of a line in the files.
TEXT = "first\u2028second “ü” 😀"


def named_requests(count, **fields):
    return {f"call-{n}": make_request(f"pair {n}", **fields) for n in range(count)}


def with_batches(server, use, **options):
    async def main():
        endpoint = Endpoint("loopback", server.base_url)
        async with BatchClient(endpoint, None, retry=QUICK, **options) as client:
            return await use(client)

    return asyncio.run(main())


async def finished(client, state):
    async with asyncio.timeout(10):
        while not state.finished:
            state = await client.poll(state.id, "run 1")
    return state


def test_a_batch_is_submitted_polled_and_collected_by_name():
    requests = named_requests(12, n=2)

    async def use(client):
        submitted = await client.submit("run 1", requests)
        done = await finished(client, submitted)
        return submitted, done, await client.collect(done, requests)

    with LoopbackServer(judge=lambda asked, n: [asked.prompt + TEXT] * n) as server:
        submitted, done, outcomes = with_batches(server, use)
    assert (submitted.finished, submitted.total) == (False, 12)
    assert (done.status, done.completed, done.failed) == ("completed", 12, 0)
    assert outcomes.keys() == requests.keys()
    for name, outcome in outcomes.items():
        reply = replied(outcome)
        assert [c.text for c in reply.choices] == [f"pair {name.split('-')[1]}{TEXT}"] * 2
        assert reply.request_id == f"batched-{name}"
        assert reply.usage.completion_tokens > 0


def test_the_error_file_is_read_as_well_as_the_output():
    requests = named_requests(5) | {"bad": make_request("forbidden words")}

    async def use(client):
        done = await finished(client, await client.submit("run 1", requests))
        return done, await client.collect(done, requests)

    with LoopbackServer(quirks=Quirks(words="azure", forbidden_text="forbidden")) as server:
        done, outcomes = with_batches(server, use)
    assert (done.completed, done.failed) == (5, 1)
    assert failed(outcomes.pop("bad")).kind is FailureKind.FILTERED
    assert all(replied(outcome) for outcome in outcomes.values())


@pytest.mark.parametrize("code", [401, 429, 500])
def test_an_error_object_in_a_file_is_typed_by_its_own_code(code):
    words = {401: "Unknown key", 429: "Tokens per day: 0 left", 500: "Worker died"}
    kinds = {
        401: FailureKind.AUTH,
        429: FailureKind.DAY_LIMIT,
        500: FailureKind.TRANSIENT,
    }
    error = {"object": "error", "message": words[code], "code": code}

    async def use(client):
        done = await finished(client, await client.submit("run 1", requests))
        files, name = server.batches.files, done.output_file
        first, second = map(json.loads, files[name].splitlines())
        second["response"] |= {"body": error}
        lines = [first | {"response": None, "error": error}, second]
        files[name] = "".join(json.dumps(line) + "\n" for line in lines)
        return await client.collect(done, requests)

    requests = named_requests(2)
    with LoopbackServer() as server:
        outcomes = with_batches(server, use)
    for outcome in outcomes.values():
        assert (failed(outcome).kind, failed(outcome).message) == (kinds[code], words[code])


def test_an_expired_batch_keeps_what_was_done_and_the_rest_can_be_handed_in_again():
    requests = named_requests(10)

    async def use(client):
        done = await finished(client, await client.submit("run 1", requests))
        kept = await client.collect(done, requests)
        server.batches.expires_after = None
        rest = {name: request for name, request in requests.items() if name not in kept}
        again = await finished(client, await client.submit("run 1, again", rest))
        return done, kept, await client.collect(again, rest)

    with LoopbackServer() as server:
        server.batches.expires_after = 4
        done, kept, others = with_batches(server, use)
        assert server.requests == 10
    assert done.status == "expired"
    assert (len(kept), len(others)) == (4, 6)
    assert kept.keys() | others.keys() == requests.keys()


def test_a_cancelled_batch_is_finished():
    requests = named_requests(3)

    async def use(client):
        return await client.cancel((await client.submit("run 1", requests)).id)

    with LoopbackServer() as server:
        state = with_batches(server, use)
    assert (state.status, state.finished) == ("cancelled", True)


@pytest.mark.parametrize("others", [0, 45])
def test_a_batch_whose_answer_was_cut_off_is_found_again_and_not_made_twice(others):
    requests = named_requests(3)

    async def use(client):
        server.batches.cuts_create = 1
        first = await client.submit("run 1, part 1", requests)
        for n in range(others):
            await client.submit(f"other {n}", requests)
        return first, await client.submit("run 1, part 1", requests)

    with LoopbackServer() as server:
        first, again = with_batches(server, use)
        made = len(server.batches.batches)
    assert first.id == again.id
    assert made == 1 + others


def test_requests_are_written_as_the_endpoint_takes_them():
    learned = {MODEL: EndpointCapabilities(tokens_field="max_completion_tokens", temperature=False)}

    async def use(client):
        await client.submit("run 1", named_requests(1, max_tokens=77))

    with LoopbackServer() as server:
        with_batches(server, use, learned=learned)
        (line,) = server.batches.files.values()
    assert '"max_completion_tokens": 77' in line
    assert "temperature" not in line


def test_an_endpoint_without_batches_says_so():
    async def use(client):
        await client.submit("run 1", named_requests(1))

    async def main():
        endpoint = Endpoint("closed", "http://127.0.0.1:9")
        async with BatchClient(endpoint, None, retry=QUICK) as client:
            await use(client)

    with pytest.raises(BatchError) as caught:
        asyncio.run(main())
    assert caught.value.failure.kind is FailureKind.TRANSIENT


@pytest.mark.parametrize("count", [0, 50_001])
def test_a_batch_of_none_or_too_many_is_refused_before_it_is_sent(count):
    async def use(client):
        await client.submit("run 1", dict.fromkeys(range(count), make_request()))

    with LoopbackServer() as server, pytest.raises(ValueError, match=r"1 to 50000"):
        with_batches(server, use)
