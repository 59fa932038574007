"""Mail, where the operator has configured a server for it."""

from django.conf import settings


def mail_is_configured() -> bool:
    """Return True if the site can send mail. Otherwise pages show links to copy."""
    return bool(settings.MAIL)
