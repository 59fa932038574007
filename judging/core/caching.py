"""What takes seconds to compute for a page, kept until what it is made of changes."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from django.core.cache import caches

# The packages whose code computes what is kept.
ROOT = Path(__file__).parents[2]

CACHED_SECONDS = 7 * 24 * 3600

# Shared by the processes of this machine, unlike the default cache.
report_cache = caches["reports"]


def _release() -> int:
    """Changes with a release: what an older one has kept may lack a part."""
    parts = (ROOT / "annotation", ROOT / "judging")
    return max(file.stat().st_mtime_ns for part in parts for file in part.rglob("*.py"))


RELEASE = _release()


class Dated(Protocol):
    """A row with a number and the time at which it was made."""

    pk: int
    created_at: datetime


def cache_key(name: str, of: Dated) -> str:
    # The time, since a restored or emptied database gives numbers out again.
    return f"{name}:{of.pk}:{of.created_at.timestamp()}:{RELEASE}"


def cached(name: str, of: Dated, state: object, make: Callable[[], Any]) -> Any:
    """What `make` gave in this state, or gives now."""
    found = report_cache.get(cache_key(name, of))
    if found is None or found[0] != state:
        found = (state, make())
        report_cache.set(cache_key(name, of), found, CACHED_SECONDS)
    return found[1]
