"""Asking a server of our own on this machine whether it answers."""

from contextlib import closing
from http.client import HTTPConnection, HTTPException


def status_at(address: str, path: str, timeout: float) -> int | None:
    """The status of what HOST:PORT answers; None where nothing does.

    Straight to it: no proxy that the environment names for the outside, and no redirect is
    followed, which of a site under https leads to a TLS that only its proxy speaks.
    """
    host, _, port = address.rpartition(":")
    try:
        with closing(HTTPConnection(host.strip("[]"), int(port), timeout=timeout)) as connection:
            connection.request("GET", path)
            return connection.getresponse().status
    except (OSError, HTTPException):
        return None
