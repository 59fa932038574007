"""Lines of the log: as text or as JSON, without keys, passwords and links that let people in."""

import json
import logging
import re
import time
from datetime import UTC, datetime

from django.conf import settings

from judging.core.text import printable
from judging.core.tracing import log_context

# Anybody who has the address of an invitation, a crowd link or a password link can use it. Those of
# mails hold the address that the mail went to. A round's pages are below another `/crowd/`.
_LINK = re.compile(r"(/join/|(?<!\w)/crowd/|/password/[^/\s]+/|/mail/(?:confirm|off)/)[^/\s]+")
# An API token: its beginning is no secret. (`judging.projects.tokens` makes them; the tables that
# it needs don't exist yet when logging starts.)
_API_TOKEN = re.compile(r"(fj_[a-z0-9]{8})_[A-Za-z0-9_-]{20,}")


class SecretsFormatter(logging.Formatter):
    """Replaces every secret of the settings by three stars, in tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(without_secrets(super().format(record)))


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON, with the request or the run that it is about."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, str] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **dict(log_context.get()),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        clean = {name: without_secrets(text) for name, text in entry.items()}
        return json.dumps(clean, ensure_ascii=True)


class BrokerAway(logging.Filter):
    """Lets one line through of what Celery says at each attempt to reach a broker that is away."""

    EVERY_SECONDS = 600.0
    said_at = -EVERY_SECONDS

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        # They say what becomes of late acknowledgement, which FairJudge doesn't use.
        if "Skipping prefetch count" in message or "worker_cancel_long_running_tasks" in message:
            return False
        if "Cannot connect to" not in message:
            return True
        if time.monotonic() < self.said_at + self.EVERY_SECONDS:
            return False
        self.said_at = time.monotonic()
        first = without_secrets(message.splitlines()[0]).strip().rstrip(".")
        record.msg, record.args = f"{first}. The worker tries again until it answers.", ()
        record.exc_info = None
        return True


def without_secrets(text: str) -> str:
    for secret in known_secrets():
        text = text.replace(secret, "***")
    return _API_TOKEN.sub(r"\1_***", _LINK.sub(r"\1***", text))


def known_secrets() -> list[str]:
    secrets = [settings.SECRET_KEY, settings.DATABASES["default"].get("PASSWORD", "")]
    secrets += [settings.FAIRJUDGE_METRICS_TOKEN, settings.EMAIL_HOST_PASSWORD]
    secrets += [settings.FILES_SECRET, settings.FAIRJUDGE_ALERT_URL]
    secrets += settings.FAIRJUDGE_ENDPOINT_KEYS.values()
    secrets += settings.FAIRJUDGE_OTHER_KEYS.values()
    secrets += settings.FAIRJUDGE_OIDC_SECRETS.values()
    return [secret for secret in secrets if secret]
