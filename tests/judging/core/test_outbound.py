"""Where requests to addresses that users name may lead, against real sockets."""

import socket
import socketserver
import threading
from contextlib import contextmanager, suppress

import pytest

from judging.core import outbound
from judging.core.errors import UserError
from judging.core.outbound import Unreachable, check_url, is_public, post
from tests.loopback.receiver import Receiver

PRIVATE = """
    0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 127.8.8.8 169.254.169.254 172.16.0.1 192.0.2.1 192.168.0.1
    198.18.0.1 224.0.0.1 255.255.255.255 :: ::1 fe80::1 fe80::1%eth0 fc00::1 fec0::1 ff02::1
    ::ffff:10.0.0.1 ::ffff:127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::10.0.0.1 2002:a00:1:: 2001::1
    2001:db8::1
""".split()
PUBLIC = "1.1.1.1 8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "ftp://example.org", "https://", "https://example.org:99999", "//example.org",
        "https://ann:pw@example.org/", "https://example.org/#part", "https://exa mple.org",
        "https://example.org/\nX: y", "https://exämple.org", "https://example.org/" + 500 * "a",
        "http://example.org/", "http://8.8.8.8/", "https://127.0.0.1/", "http://127.0.0.1/",
        "http://localhost:8000/", "https://10.0.0.1/", "https://[::1]/", "https://[::ffff:7f00:1]/",
        "https://169.254.169.254/latest", "https://[",
    ],
)  # fmt: skip
def test_addresses_that_are_refused_before_anything_is_asked(url):
    with pytest.raises(UserError) as refused:
        check_url(url, ())
    assert str(refused.value).endswith(".")


def test_what_the_operator_allows_is_by_host_and_port():
    assert check_url("https://10.0.0.1/", ["10.0.0.1"])
    assert check_url("http://localhost:8000/", ["localhost:8000"])
    assert check_url("https://[::1]:8443/", ["[::1]:8443"])
    with pytest.raises(UserError, match="FAIRJUDGE_WEBHOOK_HOSTS"):
        check_url("https://10.0.0.1/", ["10.0.0.1:8443"])
    with pytest.raises(UserError, match="Only https"):
        check_url("http://10.0.0.1/", ["10.0.0.1"])


@pytest.mark.parametrize("host", ["localhost", "127.1", "0x7f.0.0.1", "ip6-localhost"])
def test_a_name_that_leads_to_this_machine_is_found_out_when_it_is_resolved(host):
    with Receiver() as receiver:
        port = receiver.host.partition(":")[2]
        with pytest.raises(Unreachable):
            post(f"https://{host}:{port}/", b"{}", {}, ())
    assert not receiver.received


def resolved(monkeypatch, *answers):
    """Let names lead to these addresses, one list for each time that one is asked for."""
    asked = []

    def getaddrinfo(host, port, *args, **kwargs):
        addresses = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_one_private_address_among_public_ones_refuses_the_name(monkeypatch):
    resolved(monkeypatch, ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(Unreachable, match="private network"):
        post("https://hooks.example.org/", b"{}", {}, ())


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    """A name that is public when checked and this machine a moment later leads nowhere else."""
    asked = resolved(monkeypatch, ["203.0.113.9"], ["127.0.0.1"])
    monkeypatch.setattr(outbound, "is_public", lambda text: text == "203.0.113.9")
    tried = []

    async def connect(*args, addr_infos, **kwargs):
        tried.extend(info[4][0] for info in addr_infos)
        raise OSError("not reached")

    monkeypatch.setattr("aiohappyeyeballs.start_connection", connect)
    with pytest.raises(Unreachable):
        post("https://hooks.example.org/", b"{}", {}, ())
    assert asked == ["hooks.example.org"]
    assert tried == ["203.0.113.9"]


def test_no_redirect_is_followed():
    with Receiver() as other, Receiver([302], {"Location": other.url}) as receiver:
        assert post(receiver.url, b"{}", {}, [receiver.host, other.host]).status == 302
    assert len(receiver.received) == 1
    assert not other.received


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Receiver() as receiver:
        assert post(receiver.url, b"{}", {}, [receiver.host]).status == 204


def test_little_of_an_answer_is_read_and_nothing_is_unpacked():
    with Receiver([200], {"Content-Encoding": "gzip"}, 50_000_000 * b"\x1b") as receiver:
        found = post(receiver.url, b"{}", {}, [receiver.host])
    assert found.status == 200
    assert len(found.text) == 1000
    assert found.text.isprintable()


@contextmanager
def server(speak):
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            speak(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        threading.Thread(target=made.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{made.server_address[1]}"
        try:
            yield host
        finally:
            made.shutdown()


def trickle(connection, left):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in range(1200):
        if left.wait(0.05):
            return
        connection.sendall(b"X-Slow: 1\r\n")
    connection.sendall(b"Content-Length: 0\r\n\r\n")


def flood(connection, left):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 " + 10_000_000 * b"x")


def silence(connection, left):
    if not left.wait(60):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("speak", [trickle, flood, silence])
def test_a_server_that_keeps_one_waiting_or_floods_is_left(speak, monkeypatch):
    """Who stays long enough gets an answer in the end, and that is no error."""
    monkeypatch.setattr(outbound, "SECONDS", 0.5)
    left = threading.Event()

    def speak_until_left(connection):
        with suppress(OSError):
            speak(connection, left)

    with server(speak_until_left) as host:
        with pytest.raises(Unreachable):
            post(f"http://{host}/", b"{}", {}, [host])
        left.set()


def test_https_checks_who_answers():
    with Receiver() as receiver, pytest.raises(Unreachable, match=r"\.$"):
        post(f"https://{receiver.host}/", b"{}", {}, [receiver.host])
    assert not receiver.received
