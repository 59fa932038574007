"""A server on loopback that takes any number of rows and hands out any number of them.

It keeps none of them, so that a test in the same process can measure the client's memory.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

ROW = {"question": "Q?", "response_1": "x" * 1000, "response_2": "y" * 1000}
IMPORT = {
    "number": 1, "kind": "examples", "state": "writing",
    "rows": 0, "written": 0, "known": 0, "conflicts": 0,
    "refused": 0, "conflicting": [], "reason": "", "created_at": "2026-01-02T03:04:05Z",
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        left, received = int(self.headers["Content-Length"]), 0
        while left > 0:
            piece = self.rfile.read(min(left, 2**16))
            left, received = left - len(piece), received + len(piece)
        self.server.site.received = received
        content = json.dumps(IMPORT).encode()
        self.send_response(202)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        line = json.dumps(ROW).encode() + b"\n"
        for _ in range(self.server.site.n):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: "Endless"


class Endless:
    """Hands out `n` rows of each table. `received` is the size of the last upload."""

    n, received = 0, 0

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.site = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
