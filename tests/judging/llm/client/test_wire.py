"""Answers as they stand on the wire, byte for byte: which are whole, and which are asked again."""

import asyncio
import gzip
import zlib

import pytest

from judging.llm.client.judge_client import JudgeClient
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import KNOWN, QUICK, make_request, replied
from tests.loopback import completion
from tests.loopback.server import SCORES

BODY = completion(SCORES).body.encode()


def answer(body=BODY, *headers, status=b"200 OK", length=None):
    length = len(body) if length is None else length
    head = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % length]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def chunked(body):
    pieces = [body[at : at + 50] for at in range(0, len(body), 50)]
    written = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + written


GZIP = b"Content-Encoding: gzip"
WHOLE = {
    "chunked": chunked(BODY) + b"0\r\n\r\n",
    "ended by the connection": b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    "gzip": answer(gzip.compress(BODY), GZIP),
    "deflate": answer(zlib.compress(BODY), b"Content-Encoding: deflate"),
    "byte order mark": answer(b"\xef\xbb\xbf" + BODY),
    "an unknown charset": answer(BODY, b"Content-Type: application/json; charset=klingon"),
    "called a web page": answer(BODY, b"Content-Type: text/html"),
    "after early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer(),
    "a long header": answer(BODY, b"X-Trace: " + b"a" * 20_000),
    "a broken cookie": answer(BODY, b"Set-Cookie: \xff\xfe=;;;"),
    "a bare NUL in a string": answer(BODY.replace(b"fine", b"f\0ne")),
    "a bare line feed in a string": answer(BODY.replace(b"fine", b"fi\nne")),
}
BROKEN = {
    "chunks without an end": chunked(BODY)[:200],
    "shorter than it says": answer(length=len(BODY) + 50),
    "longer than it says": answer(length=len(BODY) - 50),
    "half a gzip": answer(gzip.compress(BODY)[:-20], GZIP),
    "a coding that nobody asked for": answer(b"xxxx", b"Content-Encoding: br"),
    "a stream that nobody asked for": answer(b"data: {}\n\ndata: [DONE]\n\n"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\r\n\r\n",
    "nothing": b"",
}


def asked_of(first):
    """The reply of a server whose first answer is given in bytes; how many requests it saw."""
    requests = 0

    async def serve(reader, writer):
        nonlocal requests
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = (
            line.split(b":")[1] for line in head.split(b"\r\n") if b"content-length" in line.lower()
        )
        await reader.readexactly(int(length))
        requests += 1
        writer.write(first if requests == 1 else answer())
        writer.close()

    async def main():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            endpoint = Endpoint("raw", address)
            async with JudgeClient(endpoint, None, retry=QUICK, learned=KNOWN) as client:
                return await client.complete(make_request())

    return replied(asyncio.run(main())), requests


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_is_read_at_once(name):
    reply, requests = asked_of(WHOLE[name])
    assert (requests, reply.possibly_billed) == (1, 0)
    assert "The score of Assistant 1: 8" in reply.choices[0].text
    assert "\0" not in reply.choices[0].text


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_is_asked_for_again_and_may_be_billed(name):
    reply, requests = asked_of(BROKEN[name])
    assert (requests, reply.requests, reply.possibly_billed) == (2, 2, 1)
    assert reply.choices[0].text == SCORES
