"""A small answer that inflates to gigabytes costs neither memory nor the run."""

import socket
import subprocess
import sys
import threading
import zlib
from contextlib import contextmanager
from functools import cache

import pytest

pytestmark = pytest.mark.system

INFLATED = 2**29
# The sizes of the window, by which zlib writes either coding.
WINDOWS = {"gzip": 31, "deflate": 15}
MOST_MEMORY = 120 * 2**20
# Imports are done before the peak is read, so that only the answer counts.
CLIENT = """
import asyncio, resource, sys
from judging.llm.client.judge_client import JudgeClient, ListingError, list_models
from judging.llm.client.limits import RetryPolicy
from judging.llm.client.messages import JudgeRequest, Message
from judging.llm.client.transport import OpenAiClient
from judging.llm.endpoint import Endpoint
import openai.resources.chat, openai.resources.files

endpoint = Endpoint("bomb", sys.argv[1])
once = RetryPolicy(tries=1, deadline=60, request=60)

async def run():
    async with JudgeClient(endpoint, None, retry=once) as client:
        return (await client.complete(JudgeRequest((Message("user", "?"),), "m"))).message

async def models():
    try:
        await list_models(endpoint, None)
    except ListingError as error:
        return str(error)

async def file():
    async with OpenAiClient(endpoint, None) as client:
        return (await client.guarded(client.client.files.content("f"), 60)).message

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
print(asyncio.run(globals()[sys.argv[2]]()))
print(peak() - before)
"""


@cache
def bomb(coding):
    packer = zlib.compressobj(9, zlib.DEFLATED, WINDOWS[coding])
    piece = b" " * 2**24
    pieces = [packer.compress(piece) for _ in range(INFLATED // len(piece))]
    return b"".join(pieces) + packer.flush()


def with_length(coding):
    body = bomb(coding)
    head = f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunked(coding):
    body = bomb(coding)
    pieces = [body[at : at + 10_000] for at in range(0, len(body), 10_000)]
    written = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return f"Content-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + (
        written + b"0\r\n\r\n"
    )


def until_the_end(coding):
    return f"Content-Encoding: {coding}\r\nConnection: close\r\n\r\n".encode() + bomb(coding)


@contextmanager
def serving(answer):
    """A server that gives each request the same bytes."""

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(30)
                try:
                    connection.recv(2**16)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                    connection.sendall(answer)
                except OSError:
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("asked", "coding", "sent"),
    [
        ("run", "gzip", with_length),
        pytest.param("run", "deflate", with_length, marks=pytest.mark.long),
        pytest.param("run", "gzip", chunked, marks=pytest.mark.long),
        pytest.param("run", "deflate", until_the_end, marks=pytest.mark.long),
        pytest.param("models", "gzip", with_length, marks=pytest.mark.long),
        ("models", "deflate", chunked),
        pytest.param("file", "gzip", chunked, marks=pytest.mark.long),
        ("file", "deflate", until_the_end),
    ],
)
def test_an_answer_is_refused_while_it_inflates(asked, coding, sent):
    with serving(sent(coding)) as address:
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, address, asked], capture_output=True, text=True,
            check=False, timeout=100,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    message, grown = done.stdout.splitlines()
    assert "is too long and was not read: it" in message
    assert int(grown) < MOST_MEMORY
