"""Keeps keys and passwords out of the log, whoever put them into a message or an error."""

import logging

from django.conf import settings


class SecretsFormatter(logging.Formatter):
    """Replaces every secret that the settings hold by three stars, in tracebacks too."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        for secret in known_secrets():
            line = line.replace(secret, "***")
        return line


def known_secrets() -> list[str]:
    secrets = [settings.SECRET_KEY, settings.DATABASES["default"].get("PASSWORD", "")]
    secrets += settings.FAIRJUDGE_ENDPOINT_KEYS.values()
    return [secret for secret in secrets if secret]
