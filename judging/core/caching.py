"""A cache for what takes seconds to compute, kept until what it is computed from changes."""

import logging
import pickle
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from django.core.cache import caches

CACHED_SECONDS = 7 * 24 * 3600

logger = logging.getLogger(__name__)
# What a full disk, a folder that can't be written and a spoilt file raise.
FAULTS = (OSError, EOFError, ValueError, pickle.PickleError, zlib.error)


class Keeping:
    """A cache whose failures cost time and nothing else: no page needs it to be shown."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get(self, key: str, default: Any = None) -> Any:
        return self._attempt("get", default, key, default)

    def set(self, key: str, value: Any, seconds: float | None = None) -> None:
        self._attempt("set", None, key, value, seconds)

    def add(self, key: str, value: Any, seconds: float | None = None) -> bool:
        return bool(self._attempt("add", True, key, value, seconds))

    def delete(self, key: str) -> None:
        self._attempt("delete", None, key)

    def clear(self) -> None:
        self._attempt("clear", None)

    def _attempt(self, action: str, otherwise: Any, *arguments: Any) -> Any:
        try:
            return getattr(caches[self._name], action)(*arguments)
        except FAULTS as error:
            logger.warning("The cache %s failed at %s: %s", self._name, action, error)
            return otherwise


# Shared by the processes of this machine, unlike the default cache.
report_cache = Keeping("reports")


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
