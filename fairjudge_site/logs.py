"""Keeps keys and passwords out of the log, whoever put them into a message."""

import logging

from django.conf import settings


class SecretsFilter(logging.Filter):
    """Replaces every secret that the settings hold by three stars."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        hidden = message
        for secret in known_secrets():
            hidden = hidden.replace(secret, "***")
        if hidden != message:
            record.msg, record.args = hidden, None
        return True


def known_secrets() -> list[str]:
    secrets = [settings.SECRET_KEY, settings.DATABASES["default"].get("PASSWORD", "")]
    secrets += settings.FAIRJUDGE_ENDPOINT_KEYS.values()
    return [secret for secret in secrets if secret]
