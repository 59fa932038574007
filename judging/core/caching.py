"""A cache for what takes seconds to compute, kept until what it is computed from changes."""

import logging
import pickle
import time
import zlib
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from django.core.cache import caches

CACHED_SECONDS = 7 * 24 * 3600
# What is counted for a page that renews itself takes one in this many seconds, and a minute passes
# at most before it is counted again.
COST_SHARE, LONGEST_KEPT = 20, 60

logger = logging.getLogger(__name__)
# What a full disk, a folder that can't be written and a spoilt file raise.
FAULTS = (OSError, EOFError, ValueError, pickle.PickleError, zlib.error)


class Keeping:
    """A cache whose failures cost time and nothing else: no page needs it to be shown."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get(self, key: str, default: Any = None) -> Any:
        return self._attempt("get", default, key, default)

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of those keys that are there. A table is read by one query."""
        return dict(self._attempt("get_many", {}, list(keys)))

    def set(self, key: str, value: Any, seconds: float | None = None) -> None:
        self._attempt("set", None, key, value, seconds)

    def add(self, key: str, value: Any, seconds: float | None = None) -> bool:
        # If the cache fails, each caller counts as the first: work done twice is better than none.
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


# Shared by the processes of this machine, or on PostgreSQL of all machines of the site.
report_cache = Keeping("reports")


@cache
def code_version() -> str:
    """Return what changes with a release, whose code may compute something else.

    It is made of the code itself, so that all machines with the same release agree.
    """
    root = Path(__file__).parents[2]
    digest = sha256()
    for name in ("annotation", "judging"):
        for file in sorted((root / name).rglob("*.py")):
            digest.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


class Dated(Protocol):
    """A row with a primary key and the time at which it was made."""

    pk: int
    created_at: datetime


def cache_key(name: str, row: Dated) -> str:
    """Return a key with the row's time: a restored or emptied database reuses primary keys."""
    return f"{name}:{row.pk}:{row.created_at.timestamp()}:{code_version()}"


def cached(
    name: str, row: Dated, state: object, make: Callable[[], Any], seconds: float = CACHED_SECONDS
) -> Any:
    """Return what `make` returned when the state was last the same, or call it now."""
    entry = report_cache.get(cache_key(name, row))
    if entry is None or entry[0] != state:
        entry = (state, make())
        report_cache.set(cache_key(name, row), entry, seconds)
    return entry[1]


def kept_a_while(
    name: str, row: Dated, state: object, make: Callable[[], Any], *, is_large: bool
) -> Any:
    """Return what `make` returns. For large data it may be what it returned a moment ago.

    Pages of running work ask for the same counts every few seconds. What takes t seconds to count
    is kept for 20 t, so that looking on costs a twentieth of one processor, for any number of
    people. What changes with a person's own action belongs to the state.
    """
    if not is_large:
        return make()
    key = cache_key(name, row)
    entry = report_cache.get(key)
    if entry is None or entry[0] != state:
        began = time.monotonic()
        entry = (state, make())
        seconds = COST_SHARE * (time.monotonic() - began)
        report_cache.set(key, entry, min(max(seconds, 1.0), LONGEST_KEPT))
    return entry[1]
