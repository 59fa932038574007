"""A proxy on loopback between a client and the real site, which fails as networks and sites do.

    with Proxy(live_server.url) as proxy:
        proxy.faults = ["lose", "answer", status(429, retry_after=1)]

Each request takes the next fault of the list. Afterwards all of them are passed on. `log` has every
request as it came.
"""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass
class Seen:
    """A request as it came, and the status of its answer; None if there was none."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    status: int | None = None


Fault = Callable[["_Handler", bytes], None]


def passed_on(handler: "_Handler", body: bytes) -> None:
    """No fault."""
    response, content = handler.forward(body)
    handler.answer(response.status, response.getheaders(), content)


def refused(handler: "_Handler", body: bytes) -> None:
    """Close the connection. The site never hears of the request."""
    handler.hang_up()


def lost(handler: "_Handler", body: bytes) -> None:
    """Let the site answer, and lose the answer."""
    handler.forward(body)
    handler.hang_up()


def cut(handler: "_Handler", body: bytes) -> None:
    """Pass on the first half of the answer, and close the connection."""
    response, content = handler.forward(body)
    headers = [*response.getheaders(), ("Content-Length", str(len(content)))]
    handler.answer(response.status, headers, content[: len(content) // 2])
    handler.hang_up()


def status(code: int, body: bytes = b"", **headers: object) -> Fault:
    """Answer with this status instead of the site."""

    def fault(handler: "_Handler", _: bytes) -> None:
        given = [(name.replace("_", "-"), str(value)) for name, value in headers.items()]
        handler.answer(code, given, body)

    return fault


def together(n: int) -> list[Fault]:
    """Pass on n requests once all of them are here."""
    barrier = threading.Barrier(n)

    def fault(handler: "_Handler", body: bytes) -> None:
        barrier.wait(timeout=30)
        passed_on(handler, body)

    return [fault] * n


def slow(seconds: float) -> Fault:
    """Pass on after a while."""

    def fault(handler: "_Handler", body: bytes) -> None:
        time.sleep(seconds)
        passed_on(handler, body)

    return fault


def silent_until(event: threading.Event) -> Fault:
    """Say nothing until the test has seen enough, and never pass on."""

    def fault(handler: "_Handler", body: bytes) -> None:
        event.wait(timeout=60)
        handler.close_connection = True

    return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        self.take()

    def do_POST(self) -> None:
        self.take()

    def do_PATCH(self) -> None:
        self.take()

    def take(self) -> None:
        at = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen = Seen(self.command, self.path, headers, body, at)
        self.server.proxy.log.append(self.seen)
        self.server.proxy.next_fault()(self, body)

    def forward(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self.server.proxy.target, timeout=60)
        headers = {n: v for n, v in self.headers.items() if n.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body, {**headers, "Connection": "close"})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response, content

    def answer(self, code: int, headers: list[tuple[str, str]], content: bytes) -> None:
        ours = ("connection", "date", "server", "transfer-encoding")
        given = {name.title(): value for name, value in headers if name.lower() not in ours}
        self.seen.status = code
        self.send_response(code)
        for name, value in ({"Content-Length": str(len(content))} | given).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    proxy: "Proxy"


class Proxy:
    def __init__(self, url: str) -> None:
        self.target = urlsplit(url).netloc
        self.faults: list[Fault] = []
        self.log: list[Seen] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_fault(self) -> Fault:
        with self._lock:
            return self.faults.pop(0) if self.faults else passed_on

    @property
    def statuses(self) -> list[int | None]:
        return [seen.status for seen in self.log]


def problem(code: int, name: str, **headers: object) -> Fault:
    """Refuse as the site does."""
    body = {"type": "about:blank", "title": "x", "status": code, "code": name, "detail": "So."}
    kind = {"Content_Type": "application/problem+json"}
    return status(code, json.dumps(body).encode(), **kind, **headers)
