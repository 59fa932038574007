"""What takes seconds to compute for a page, kept until what it is made of changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.cache import caches

import judging
from judging.models import Project, Run

KEPT_SECONDS = 7 * 24 * 3600

# Shared by the processes of this machine, unlike the default cache.
shelf = caches["reports"]


def _release() -> int:
    """Changes with a release: what an older one has kept may lack a part."""
    root = Path(judging.__file__).parent.parent
    parts = (root / "annotation", root / "judging")
    return max(file.stat().st_mtime_ns for part in parts for file in part.rglob("*.py"))


RELEASE = _release()


def key(name: str, of: Project | Run) -> str:
    # The time, since a restored or emptied database gives numbers out again.
    return f"{name}:{of.pk}:{of.created_at.timestamp()}:{RELEASE}"


def kept(name: str, of: Project | Run, state: object, make: Callable[[], Any]) -> Any:
    """What `make` gave in this state, or gives now."""
    found = shelf.get(key(name, of))
    if found is None or found[0] != state:
        found = (state, make())
        shelf.set(key(name, of), found, KEPT_SECONDS)
    return found[1]
