"""How the site listens: no connection, however slow, keeps one of the threads that answer.

Gunicorn starts the processes and replaces those that die. In each of them, waitress's loop receives
requests whole before a thread works on them, and sends answers while the thread goes on. What
waitress has no limit for is here: how slowly a client may send and read.
"""

import logging
import os
import resource
import time
from collections.abc import Callable
from copy import copy
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.db import close_old_connections
from gunicorn.workers.base import Worker as GunicornWorker
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import TcpWSGIServer

from judging.core.incidents import DATABASE_AWAY

# A client may keep us waiting for so long. After that it must be as fast as this on average.
PATIENCE_SECONDS = 20.0
SLOWEST_BYTES_A_SECOND = 4096
# While most connections of a process are taken, it waits for slow ones only this long.
CROWDED_PATIENCE_SECONDS = 2.0
CONNECTIONS = 1000
# Each may need three: for itself, for a large request, and for a large answer.
FILES = 3 * CONNECTIONS + 200
MAX_HEADER_BYTES = 2**16
# Without a login there are only small forms. More than that isn't received, let alone kept.
LARGEST_WITHOUT_LOGIN = 2**20
CHECK_SECONDS = 1.0
log = logging.getLogger(__name__)


def is_logged_in(cookies: str) -> bool:
    """Return True if the header's session cookie opens a session that somebody logged in to."""
    try:
        morsel = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return False
    if morsel is None:
        return False
    store = import_module(settings.SESSION_ENGINE).SessionStore
    close_old_connections()
    try:
        return SESSION_KEY in store(morsel.value)
    except DATABASE_AWAY as error:
        log.warning("A large request was refused, since its session can't be read: %s", error)
        return False


def has_token(authorization: str) -> bool:
    """Return True if the header holds a token of the REST interface that works."""
    if not authorization:
        return False
    # Gunicorn reads this module before Django has its tables.
    from judging.projects.tokens import token_of_header

    close_old_connections()
    try:
        return token_of_header(authorization) is not None
    except DATABASE_AWAY as error:
        log.warning("A large request was refused, since its token can't be read: %s", error)
        return False


class Request(HTTPRequestParser):
    """A request whose body is as large as its sender's login allows, and the last of what was sent.

    Answers to requests that were sent ahead would wait in a thread until the client has read.
    Browsers and proxies don't send ahead, and one that does asks again on a new connection.
    """

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        large = self.content_length > LARGEST_WITHOUT_LOGIN
        # A chunked body may be of any length. Few clients send one.
        if (large or self.chunked) and not self.is_from_a_user():
            self.adj = copy(self.adj)
            self.adj.max_request_body_size = LARGEST_WITHOUT_LOGIN

    def is_from_a_user(self) -> bool:
        """A token lets in what goes to the REST interface alone, where it is asked for again."""
        path = self.path.decode() if isinstance(self.path, bytes) else self.path
        if path.startswith("/api/"):
            return has_token(self.headers.get("AUTHORIZATION", ""))
        return is_logged_in(self.headers.get("COOKIE", ""))

    def received(self, data: bytes) -> int:
        used: int = super().received(data)
        if self.completed and not self.empty and used < len(data):
            self.headers["CONNECTION"] = "close"
            return len(data)
        return used


class Channel(HTTPChannel):
    """A connection that knows since when its client keeps it waiting."""

    parser_class = Request
    waits_for: object = None
    since, moved = 0.0, 0

    def recv(self, size: int) -> bytes:
        data: bytes = super().recv(size)
        self.moved += len(data)
        return data

    def send(self, data: bytes, do_close: bool = True) -> int:
        sent: int = super().send(data, do_close=do_close)
        self.moved += sent
        return sent

    @property
    def busy(self) -> bool:
        return bool(self.requests or self.total_outbufs_len)

    def is_too_slow(self, now: float, patience: float) -> bool:
        waits_for: object = self.request or self.last_activity
        if self.busy:
            # A thread of ours is at work, unless the client has yet to read.
            waits_for = "reading" if self.total_outbufs_len else None
        if waits_for != self.waits_for:
            self.waits_for, self.since, self.moved = waits_for, now, 0
        until = self.since + patience + self.moved / SLOWEST_BYTES_A_SECOND
        return waits_for is not None and now > until


class Server(TcpWSGIServer):
    """Listens on a socket that is bound already, and answers with threads of this process."""

    channel_class = Channel

    def __init__(self, application: Any, socket: Any, threads: int) -> None:
        limits = Adjustments(
            sockets=[socket],
            threads=threads,
            connection_limit=CONNECTIONS,
            max_request_header_size=MAX_HEADER_BYTES,
            # Up to here Django refuses an upload that is too large, with a page that says so.
            max_request_body_size=2 * settings.FAIRJUDGE_MAX_UPLOAD_BYTES,
            # The application reads these headers, as far as FAIRJUDGE_PROXIES allows.
            clear_untrusted_proxy_headers=False,
            log_socket_errors=False,
            ident="",
        )
        address = (socket.family, socket.type, socket.proto, socket.getsockname())
        super().__init__(application, _sock=socket, adj=limits, bind_socket=False, sockinfo=address)
        self.checked = 0.0

    def maintenance(self, now: float) -> None:
        """Do nothing here: `step` closes connections, between two rounds of the loop."""

    def step(self, timeout: float) -> None:
        """Receive and send what can be, and close connections that are too slow."""
        wasyncore.loop(timeout=timeout, use_poll=True, map=self._map, count=1)
        now = time.monotonic()
        if now < self.checked + CHECK_SECONDS:
            return
        self.checked = now
        channels = list(self.active_channels.values())
        crowded = len(channels) > CONNECTIONS * 3 // 4
        for channel in channels:
            if channel.is_too_slow(now, CROWDED_PATIENCE_SECONDS if crowded else PATIENCE_SECONDS):
                channel.handle_close()

    def busy(self) -> bool:
        return any(channel.busy for channel in list(self.active_channels.values()))


class SiteWorker(GunicornWorker):
    """One process of the site: `--worker-class=fairjudge_site.server.SiteWorker`."""

    def run(self) -> None:
        # After the fork, and after Django is ready.
        from fairjudge_site.alerts import watch

        allow_open_files()
        watch()
        # Not each time that a request waits for a thread.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        server = Server(self.wsgi, self.sockets[0].sock, self.cfg.threads)
        self.step_while(lambda: self.alive, server)
        server.accepting = False
        deadline = time.monotonic() + self.cfg.graceful_timeout
        self.step_while(lambda: server.busy() and time.monotonic() < deadline, server)
        server.task_dispatcher.shutdown(timeout=0)

    def step_while(self, wanted: Callable[[], bool], server: Server) -> None:
        """Ends also if gunicorn's own process was killed."""
        while wanted() and os.getppid() == self.ppid:
            self.notify()
            server.step(CHECK_SECONDS if self.alive else 0.1)


def allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(FILES, hard)), hard))
    elif soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
