"""The web server, met by real clients on loopback that send and read as slowly as they can."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from http.client import HTTPResponse

import pytest
from django.conf import settings

from fairjudge_site import server
from tests.factories import make_user
from tests.fairjudge_site.test_runall import ROOT, RunAll
from tests.processes import eventually, free_port

pytestmark = pytest.mark.system

HEAD = b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n"
SLOW = {
    "silent": b"",
    "headers": HEAD + b"X-Slow: ",
    "bodies": POST + b"Content-Type: application/x-www-form-urlencoded\r\n\r\n",
    "readers": b"GET /static/js/vega.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 30,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory, new_database):
    data = tmp_path_factory.mktemp("site") / "data"
    data.mkdir()
    (data / "fairjudge.sqlite3").write_bytes(new_database.read_bytes())
    ours = {"FAIRJUDGE_DATA": str(data), "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings"}
    site = RunAll({**os.environ, **ours}, "--only", "web")
    assert eventually(lambda: "FairJudge is at" in site.output(), 120), site.output()
    yield site
    site.end()


@pytest.mark.parametrize("kind", SLOW)
def test_forty_slow_clients_keep_nobody_waiting(site, kind):
    address = ("127.0.0.1", int(site.url.rpartition(":")[2]))
    with ExitStack() as held:
        clients = [held.enter_context(socket.create_connection(address)) for _ in range(40)]
        for client in clients:
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.send(SLOW[kind])
        for _ in range(3):
            time.sleep(0.5)
            for client in clients:
                # As a body and as a header. Silent clients and readers send nothing more.
                client.send(b"a" if kind in ("headers", "bodies") else b"")
            # Long even on a busy machine, and shorter than a slow client is waited for.
            with urllib.request.urlopen(f"{site.url}/login/", timeout=60) as answer:
                assert answer.status == 200


def application(environ, start_response):
    """Answers with what it received, or with much more than a client's system takes at once."""
    size = len(environ["wsgi.input"].read())
    if environ["PATH_INFO"] == "/much":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"x" * 2**20 for _ in range(64))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{size} {environ.get('HTTP_X_FORWARDED_FOR')} {environ['REMOTE_ADDR']}".encode()]


class Clock:
    """The server's time, which passes when a test says so. Each round of its loop reads it."""

    def __init__(self):
        self.now, self.reads = time.monotonic(), 0

    def monotonic(self):
        self.reads += 1
        return self.now

    def go_on(self, seconds):
        """Let time pass, and let the server receive what was sent and look at its connections."""
        self.now += seconds
        before = self.reads
        assert eventually(lambda: self.reads > before + 3)


@pytest.fixture
def listening(monkeypatch):
    """A server in this process that is patient for a second; two threads answer."""
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(server, "CHECK_SECONDS", 0.1)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as own:
        site = server.Server(application, own, threads=2)

        def loop():
            while not ended.is_set():
                site.step(0.05)

        thread = threading.Thread(target=loop)
        thread.start()
        yield own.getsockname()
        ended.set()
        thread.join()
        for channel in list(site.active_channels.values()):
            channel.handle_close()
        site.task_dispatcher.shutdown()
        site.close()


def ends(client, within=10.0):
    """Whether the server closes the connection."""
    client.settimeout(within)
    with suppress(ConnectionResetError):
        while client.recv(2**16):
            pass
    return True


@pytest.mark.parametrize("kind", ["silent", "headers", "bodies"])
def test_who_trickles_is_cut_off(monkeypatch, listening, kind):
    clock = Clock()
    monkeypatch.setattr(server, "time", clock)
    with socket.create_connection(listening) as client:
        client.sendall(SLOW[kind])
        for _ in range(4):
            clock.go_on(0.2)
            client.sendall(b"a" if kind != "silent" else b"")
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
        for _ in range(3):
            clock.go_on(1.0)
        assert ends(client)


def test_who_does_not_read_an_answer_is_cut_off_and_frees_the_thread(listening):
    with ExitStack() as held:
        for _ in range(2):
            client = held.enter_context(socket.create_connection(listening))
            client.sendall(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
        with urllib.request.urlopen("http://{}:{}/".format(*listening), timeout=60) as answer:
            assert answer.status == 200


def test_a_slow_but_steady_upload_is_waited_for(listening):
    with socket.create_connection(listening) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n")
        for _ in range(30):
            time.sleep(0.1)
            client.sendall(b"a" * 2000)
        client.settimeout(60)
        assert b"200 OK" in client.recv(1000)


@pytest.fixture
def logged_in(monkeypatch):
    monkeypatch.setattr(server, "is_logged_in", lambda cookies: cookies == "sessionid=right")


@pytest.mark.parametrize("cookie", ["", "Cookie: sessionid=wrong\r\n"])
@pytest.mark.parametrize("length", ["Content-Length: 190000000", "Transfer-Encoding: chunked"])
def test_a_large_body_without_a_login_is_not_received(listening, logged_in, cookie, length):
    with socket.create_connection(listening) as client:
        client.settimeout(60)
        client.sendall(f"POST / HTTP/1.1\r\nHost: a\r\n{cookie}{length}\r\n\r\n".encode())
        sent = 0
        with suppress(ConnectionError):
            while sent < 64 * 2**20:
                if length.startswith("Transfer"):
                    client.sendall(b"10000\r\n" + b"a" * 2**16 + b"\r\n")
                    sent += 2**16
                client.settimeout(0.01 if length.startswith("Transfer") else 10)
                with suppress(TimeoutError):
                    if client.recv(1000).startswith(b"HTTP/1.1 413"):
                        break
        assert sent < 16 * 2**20


def test_a_large_body_after_a_login_is_received(listening, logged_in):
    size = server.LARGEST_WITHOUT_LOGIN + 2**16
    with socket.create_connection(listening) as client:
        client.settimeout(20)
        client.sendall(
            f"POST / HTTP/1.1\r\nHost: a\r\nCookie: sessionid=right\r\nContent-Length: {size}"
            "\r\n\r\n".encode()
        )
        client.sendall(b"a" * size)
        # Head and body may come apart.
        answer = HTTPResponse(client)
        answer.begin()
        assert str(size).encode() in answer.read()


def test_only_a_session_that_somebody_logged_in_to_counts(client, db, monkeypatch):
    # The test's database is in memory, and gone once its connection is closed.
    monkeypatch.setattr(server, "close_old_connections", lambda: None)
    user = make_user()
    assert not server.is_logged_in("")
    assert not server.is_logged_in("sessionid=made-up")
    client.get("/login/")
    session = client.session
    session["x"] = 1
    session.save()
    name = settings.SESSION_COOKIE_NAME
    assert not server.is_logged_in(f"{name}={session.session_key}")
    client.force_login(user, backend=settings.LOGIN_BACKEND)
    assert server.is_logged_in(f"a=b; {name}={client.cookies[name].value}")
    client.logout()
    assert not server.is_logged_in(f"{name}={session.session_key}")


def test_of_requests_that_were_sent_ahead_the_first_is_answered(listening):
    with socket.create_connection(listening) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        client.settimeout(60)
        received = b""
        with suppress(ConnectionResetError):
            while part := client.recv(1000):
                received += part
    assert received.count(b"200 OK") == 1
    assert b"Connection: close" in received


def test_what_a_proxy_says_arrives_and_the_peer_stays_the_peer(listening):
    request = urllib.request.Request(
        "http://{}:{}/".format(*listening), headers={"X-Forwarded-For": "203.0.113.9"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.read() == b"0 203.0.113.9 127.0.0.1"


SLOW_APPLICATION = """
import pathlib, time
import django
django.setup()
here = pathlib.Path(__file__).parent
def application(environ, start_response):
    (here / "asked").touch()
    while not (here / "told to stop").exists():
        time.sleep(0.05)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"whole"]
"""


def test_a_request_that_is_being_answered_is_finished_before_the_server_stops(
    own_environment, tmp_path
):
    (tmp_path / "slow_application.py").write_text(SLOW_APPLICATION)
    address = ("127.0.0.1", free_port())
    gunicorn = [sys.executable, "-m", "gunicorn", f"--pythonpath={tmp_path},{ROOT}"]
    gunicorn += ["--worker-class=fairjudge_site.server.SiteWorker", "--workers=1", "--threads=2"]
    gunicorn += ["--no-control-socket", "--bind={}:{}".format(*address), "slow_application"]
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(gunicorn, cwd=ROOT, env=own_environment, stdout=log, stderr=log)
    try:
        assert eventually(lambda: "Booting worker" in (tmp_path / "log").read_text())
        with ExitStack() as held:
            idle = held.enter_context(socket.create_connection(address))
            client = held.enter_context(socket.create_connection(address))
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert eventually((tmp_path / "asked").exists), (tmp_path / "log").read_text()
            process.send_signal(signal.SIGTERM)
            assert eventually(lambda: "Handling signal: term" in (tmp_path / "log").read_text())
            (tmp_path / "told to stop").touch()
            client.settimeout(20)
            received = b""
            while part := client.recv(1000):
                received += part
            assert received.endswith(b"whole")
            assert ends(idle)
        assert process.wait(timeout=300) == 0
    finally:
        process.kill()
        process.wait()
        log.close()
