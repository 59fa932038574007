"""A receiver of webhooks on loopback. It checks signatures by its own reading of the standard."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed_by(self, secret: str) -> bool:
        """Any of the signatures counts, and the secret is base64 after its prefix."""
        key = base64.b64decode(secret.split("_", 1)[1])
        message, stamp = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        content = b".".join([message.encode(), stamp.encode(), self.body])
        expected = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
        return f"v1,{expected}" in self.headers["webhook-signature"].split(" ")


@dataclass
class Receiver:
    """Answers with the next of `statuses`, and then with 204, or 200 to a request for `body`.

    hold: called with each request before it is answered.
    """

    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    hold: Callable[[Received], object] = lambda received: None
    received: list[Received] = field(default_factory=list)
    under_way: int = 0
    most_at_once: int = 0

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST(200)

            def do_POST(self, usual: int = 204) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                found = Received(self.path, headers, body)
                with receiver._lock:
                    receiver.received.append(found)
                    receiver.under_way += 1
                    receiver.most_at_once = max(receiver.most_at_once, receiver.under_way)
                    status = receiver.statuses.pop(0) if receiver.statuses else usual
                try:
                    receiver.hold(found)
                finally:
                    with receiver._lock:
                        receiver.under_way -= 1
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(receiver.body)))
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_message(self, *args: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook"

    @property
    def events(self) -> list[str]:
        return [one.content["type"] for one in self.received]
