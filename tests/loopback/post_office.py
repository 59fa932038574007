"""A mail server on loopback: real SMTP, with TLS and logins, and refusals at each step."""

import email
import email.policy
import socket
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult


@dataclass(frozen=True)
class Mailed:
    sender: str
    to: list[str]
    raw: bytes
    encrypted: bool
    login: str

    @property
    def message(self) -> EmailMessage:
        return email.message_from_bytes(self.raw, policy=email.policy.default)

    def part(self, kind: str) -> str:
        found = self.message.get_body((kind,))
        assert found is not None
        return str(found.get_content())


@dataclass
class PostOffice:
    """Takes mail, or answers each step with the next of its `answers`.

    answers: by step (MAIL, RCPT, DATA), such as {"RCPT": ["550 no such user"]}.
    hold: called with each mail before its receipt is confirmed.
    login: the name and the password that it asks for; None for no login.
    """

    answers: dict[str, list[str]] = field(default_factory=dict)
    hold: Callable[[], object] = lambda: None
    login: tuple[str, str] | None = None
    tls: Path | None = None
    starttls: bool = False
    mails: list[Mailed] = field(default_factory=list)

    def _next(self, step: str) -> str | None:
        waiting = self.answers.get(step)
        return waiting.pop(0) if waiting else None

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, *more: Any) -> str:
        address, options = more
        if (answer := self._next("MAIL")) is not None:
            return answer
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, *more: Any) -> str:
        address, _ = more
        if (answer := self._next("RCPT")) is not None:
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if (answer := self._next("DATA")) is not None:
            return answer
        login = session.auth_data.decode() if session.auth_data else ""
        encrypted = session.ssl is not None or (self.tls is not None and not self.starttls)
        self.mails.append(
            Mailed(envelope.mail_from, envelope.rcpt_tos, envelope.content, encrypted, login)
        )
        self.hold()
        return "250 OK"

    def _authenticate(self, server: Any, session: Any, envelope: Any, way: str, data: Any) -> Any:
        given = (data.login.decode(), data.password.decode())
        return AuthResult(success=given == self.login, auth_data=data.login)

    def __enter__(self) -> Self:
        context = None
        if self.tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.tls)
        post_office = self

        class Server(Controller):
            def factory(self) -> SMTP:
                more: dict[str, Any] = {}
                if post_office.login is not None:
                    more = {
                        "authenticator": post_office._authenticate,
                        "auth_required": True,
                        "auth_require_tls": context is not None and post_office.starttls,
                    }
                if context is not None and post_office.starttls:
                    more |= {"tls_context": context, "require_starttls": True}
                return SMTP(post_office, hostname="localhost", enable_SMTPUTF8=False, **more)

        whole = context if not self.starttls else None
        self._server = Server(self, hostname="127.0.0.1", port=_free_port(), ssl_context=whole)
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.stop()

    @property
    def port(self) -> int:
        return int(self._server.port)

    def settings(self) -> dict[str, Any]:
        """Return the site's settings that lead here."""
        name, password = self.login or ("", "")
        whole = self.tls is not None and not self.starttls
        return {
            "MAIL": {"EMAIL_HOST": "127.0.0.1"},
            "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "EMAIL_HOST": "localhost" if self.tls else "127.0.0.1",
            "EMAIL_PORT": self.port,
            "EMAIL_HOST_USER": name,
            "EMAIL_HOST_PASSWORD": password,
            "EMAIL_USE_TLS": self.starttls,
            "EMAIL_USE_SSL": whole,
            "EMAIL_TIMEOUT": 5,
            "DEFAULT_FROM_EMAIL": "fairjudge@judge.example.org",
        }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def certificate(folder: Path) -> Path:
    """Make a certificate for localhost, with its key, in one file."""
    key, signed, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(signed)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_bytes(key.read_bytes() + signed.read_bytes())
    return both
