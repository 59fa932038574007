"""Where a request goes and what it carries, as the server sees it."""

import asyncio
import subprocess
import sys

import pytest

from judging.llm.client.errors import FailureKind
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import RetryPolicy
from judging.llm.client.transport import headers_for, open_client
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import QUICK, failed, make_request, replied
from tests.loopback import LoopbackServer, completion


@pytest.mark.parametrize(
    "spelling", ["{}", "{}/", "{}/v1", "{}/v1/", "{}/v1/chat/completions", "http://{}/v1/models"]
)
def test_every_spelling_of_an_address_reaches_the_server(spelling):
    async def main(address):
        async with JudgeClient(Endpoint("e", address), None, retry=QUICK) as client:
            return await client.complete(make_request())

    with LoopbackServer() as server:
        replied(asyncio.run(main(spelling.format(f"127.0.0.1:{server.port}"))))
        assert server.completed == 1


def heads_at_a_raw_server(ask):
    """The heads of the requests that arrive while `ask(port)` asks; each gets an answer."""
    seen = []
    body = completion("verdict").body.encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def serve(reader, writer):
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def main():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            await ask(server.sockets[0].getsockname()[1])

    asyncio.run(main())
    return seen


def test_a_path_and_an_api_version_of_their_own_are_kept():
    async def ask(port):
        address = f"127.0.0.1:{port}/openai/deployments/d/chat/completions?api-version=2024-10"
        async with JudgeClient(Endpoint("e", address), "k", retry=QUICK) as client:
            replied(await client.complete(make_request()))

    line = heads_at_a_raw_server(ask)[0].splitlines()[0]
    assert line == "POST /openai/deployments/d/chat/completions?api-version=2024-10 HTTP/1.1"


def test_the_machines_proxy_is_used_but_where_the_machine_says_not_to(monkeypatch):
    async def ask(port):
        monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        direct = f"http://127.0.0.1:{port}/direct"
        for address in ("http://judge.invalid/v1", direct):
            async with JudgeClient(Endpoint("e", address), None, retry=QUICK) as client:
                replied(await client.complete(make_request()))

    by_proxy, direct = heads_at_a_raw_server(ask)
    assert by_proxy.startswith("POST http://judge.invalid/v1/chat/completions HTTP/1.1")
    assert "Proxy-Authorization: Basic bWU6c2VjcmV0" in by_proxy
    assert direct.startswith("POST /direct/chat/completions HTTP/1.1")


def test_a_request_that_could_not_even_leave_is_billed_to_nobody():
    with LoopbackServer() as server:
        address = server.base_url
    impatient = RetryPolicy(tries=2, first_wait=0.01)

    async def main():
        async with JudgeClient(Endpoint("e", address), None, retry=impatient) as client:
            return await client.complete(make_request())

    failure = failed(asyncio.run(main()))
    assert (failure.kind, failure.requests) == (FailureKind.TRANSIENT, 2)
    assert failure.possibly_billed == 0


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        ("https://x.openai.azure.com/openai/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://openai.azure.com.example/v1", False),
    ],
)
def test_azures_own_header_carries_the_key_to_azure_alone(address, sent):
    async def main():
        client = open_client(Endpoint("e", address), "the-key")
        headers = client.default_headers
        await client.close()
        return headers

    assert ("api-key" in asyncio.run(main())) is sent
    assert ("api-key" in headers_for(Endpoint("e", address), "the-key")) is sent


def test_the_judge_client_needs_no_django():
    code = (
        "import sys; from judging.llm import own_templates, prices; "
        "from judging.llm.client import batches, judge_client, likelihoods; "
        "from judging.llm.parsing import parse; sys.exit('django' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
