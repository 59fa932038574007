"""Errors that nobody foresaw: the log holds the whole, and people are given a reference to it."""

import secrets
from logging import Logger

from django.db import InterfaceError, OperationalError

# Passes by itself: what was under way is taken up again by a worker's sweep.
DATABASE_AWAY = (OperationalError, InterfaceError)


def incident(log: Logger, what: str) -> str:
    """Log the error that is being handled; the reference under which the log has it."""
    reference = secrets.token_hex(4)
    log.exception("%s (reference %s)", what, reference)
    return reference


def stopped_by(reference: str, *, safe: str, go_on: str) -> str:
    return (
        f"FairJudge met an error that it can't explain (reference {reference}). {safe} {go_on}; "
        "if it stops again, give the operator the reference: the log tells more under it."
    )
