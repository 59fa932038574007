"""Where a request goes and what it carries, as the server sees it."""

import asyncio
import subprocess
import sys

import pytest

from judging.llm.client import JudgeClient
from judging.llm.endpoint import Endpoint
from judging.llm.transport import open_client
from tests.judging.llm.asking import QUICK, make_request, replied
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


def test_a_path_and_an_api_version_of_their_own_are_kept():
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
            port = server.sockets[0].getsockname()[1]
            address = f"127.0.0.1:{port}/openai/deployments/d/chat/completions?api-version=2024-10"
            async with JudgeClient(Endpoint("e", address), "k", retry=QUICK) as client:
                return await client.complete(make_request())

    replied(asyncio.run(main()))
    line = seen[0].splitlines()[0]
    assert line == "POST /openai/deployments/d/chat/completions?api-version=2024-10 HTTP/1.1"


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


def test_the_judge_client_needs_no_django():
    names = "client, listing, price_sources, batches, shared, prompts, catalogue"
    code = f"import sys; from judging.llm import {names}; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
