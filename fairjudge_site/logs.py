"""Keeps keys, passwords and links that let people in out of the log."""

import logging
import re

from django.conf import settings

from judging.core.text import printable

# Anybody who has the address of an invitation or of a password link can use it.
_LINK = re.compile(r"(/join/|/password/[^/\s]+/)[^/\s]+")
# An API token: its beginning is no secret. (`judging.projects.tokens` makes them; the tables that
# it needs don't exist yet when logging starts.)
_API_TOKEN = re.compile(r"(fj_[a-z0-9]{8})_[A-Za-z0-9_-]{20,}")


class SecretsFormatter(logging.Formatter):
    """Replaces every secret of the settings by three stars, in tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        for secret in known_secrets():
            line = line.replace(secret, "***")
        return printable(_API_TOKEN.sub(r"\1_***", _LINK.sub(r"\1***", line)))


def known_secrets() -> list[str]:
    secrets = [settings.SECRET_KEY, settings.DATABASES["default"].get("PASSWORD", "")]
    secrets += settings.FAIRJUDGE_ENDPOINT_KEYS.values()
    return [secret for secret in secrets if secret]
