"""The address of whoever sent a request, by which logins are throttled."""

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The peer, or what the outermost of our own proxies saw.

    Each proxy appends to X-Forwarded-For, so only as many entries from the right as we have
    proxies are not the sender's own claim.
    """
    peer = request.META.get("REMOTE_ADDR", "")
    if not settings.FAIRJUDGE_PROXIES:
        return peer
    forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",")]
    seen = [part for part in forwarded if part][-settings.FAIRJUDGE_PROXIES :]
    return seen[0] if len(seen) == settings.FAIRJUDGE_PROXIES else peer
