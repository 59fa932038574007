"""Unexpected errors: the log gets the traceback, and people get a reference to it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger

from django.db import InterfaceError, OperationalError

from judging.core.tracing import log_context

# These pass by themselves: a worker's sweep goes on with the work once the database is back.
DATABASE_AWAY = (OperationalError, InterfaceError)
# After so long a program asks again.
AWAY_SECONDS = "10"


@contextmanager
def logged_as(**what: str) -> Iterator[None]:
    """Name what the block is about in every line that it logs."""
    before = log_context.set((*log_context.get(), *what.items()))
    try:
        yield
    finally:
        log_context.reset(before)


def incident(log: Logger, what: str) -> str:
    """Log the error that is being handled, and return its reference in the log."""
    reference = secrets.token_hex(4)
    log.exception("%s (reference %s)", what, reference)
    return reference


def stopped_by(reference: str, *, safe: str, go_on: str) -> str:
    return (
        f"An unexpected error stopped this (reference {reference}). {safe} {go_on}. If it stops "
        "again, give the reference to the operator: it finds the details in the log."
    )
