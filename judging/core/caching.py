"""A cache for what takes seconds to compute, kept until what it is computed from changes."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from django.core.cache import caches

CACHED_SECONDS = 7 * 24 * 3600

# Shared by the processes of this machine, unlike the default cache.
report_cache = caches["reports"]


def _release() -> int:
    """Return a number that changes with a release, whose code may compute something else."""
    root = Path(__file__).parents[2]
    files = (file for name in ("annotation", "judging") for file in (root / name).rglob("*.py"))
    return max(file.stat().st_mtime_ns for file in files)


RELEASE = _release()


class Dated(Protocol):
    """A row with a primary key and the time at which it was made."""

    pk: int
    created_at: datetime


def cache_key(name: str, row: Dated) -> str:
    # With the time, since a restored or emptied database gives primary keys out again.
    return f"{name}:{row.pk}:{row.created_at.timestamp()}:{RELEASE}"


def cached(name: str, row: Dated, state: object, make: Callable[[], Any]) -> Any:
    """Return what `make` returned when the state was last the same, or call it now."""
    entry = report_cache.get(cache_key(name, row))
    if entry is None or entry[0] != state:
        entry = (state, make())
        report_cache.set(cache_key(name, row), entry, CACHED_SECONDS)
    return entry[1]
