"""Servers that do not speak HTTP, or stop in the middle of it: a failure each, and no exception."""

import asyncio

import pytest

from judging.llm.client.errors import FailureKind
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import RetryPolicy
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import failed, make_request

TWICE = RetryPolicy(deadline=20.0, request=10.0, tries=2, unread_tries=2, first_wait=0.01)
OK = b"HTTP/1.1 200 OK\r\n"


def outcome_of(answer: bytes):
    """Ask a server that reads the beginning of a request and sends these bytes."""

    async def serve(reader, writer):
        await reader.read(100)
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def main():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with JudgeClient(Endpoint("raw", f"127.0.0.1:{port}"), None, retry=TWICE) as c:
                return await c.complete(make_request())

    return failed(asyncio.run(main()))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"\x16\x03\x01\x00",
        OK + b"Content-Length: 5\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 200",
    ],
)
def test_a_broken_answer_is_a_passing_trouble_that_may_have_been_billed(answer):
    failure = outcome_of(answer)
    assert failure.kind is FailureKind.TRANSIENT
    assert (failure.requests, failure.possibly_billed) == (2, 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        OK + b"Content-Length: 2\r\n\r\n{}",
        OK + b"Content-Type: text/plain; charset=nonsense\r\nContent-Length: 2\r\n\r\n\xff{",
        OK + b"Content-Length: 0\r\n\r\n",
    ],
)
def test_a_whole_answer_without_a_reply_can_not_be_read(answer):
    failure = outcome_of(answer)
    assert failure.kind is FailureKind.BAD_REPLY
    assert (failure.requests, failure.possibly_billed) == (2, 2)


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 2000000\r\n\r\n{",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b" " * 4096 + b"\r\n",
        OK + b"Connection: close\r\n\r\n" + b" " * 4096,
    ],
)
def test_an_answer_without_an_end_is_not_read_to_it(monkeypatch, answer):
    monkeypatch.setattr("judging.llm.client.transport.LONGEST_ANSWER", 1000)
    failure = outcome_of(answer)
    assert failure.kind is FailureKind.BAD_REPLY
    assert "and was not read" in failure.message
    assert failure.possibly_billed == 2


def test_nothing_follows_a_redirect():
    headers = b"Location: http://127.0.0.1:9/v1\r\nContent-Length: 0\r\n\r\n"
    failure = outcome_of(b"HTTP/1.1 307 Temporary Redirect\r\n" + headers)
    assert (failure.kind, failure.requests) == (FailureKind.NOT_FOUND, 1)
    assert "redirects to http://127.0.0.1:9/v1" in failure.message
