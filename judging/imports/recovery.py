"""Imports that lost their writer go on by themselves; uploads that nobody confirmed go away."""

from __future__ import annotations

import logging
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from judging.errors import UserError
from judging.imports import lease
from judging.imports.undoing import undo
from judging.imports.uploads import FOLDER, is_upload
from judging.models.imports import Import

State = Import.State
UNCONFIRMED_FOR = timedelta(days=7)
# What ends its worker each time must not be tried for ever.
MOST_RESUMED = 3
logger = logging.getLogger(__name__)


def resume_imports() -> int:
    """Called by every worker every 15 s; how many imports it set going again.

    Files that a command was given may lie on another machine: such an import waits for the
    command to be repeated.
    """
    pairs = Import.objects.filter(kind=Import.Kind.EXAMPLES)
    for imported in pairs.filter(state=State.WRITING):
        lease.look_after(imported)
    stopped = pairs.filter(state=State.INTERRUPTED, reason=lease.STOPPED)
    return sum(_resume(imported) for imported in stopped)


def _resume(imported: Import) -> bool:
    resumed = imported.summary.get("resumed", 0)
    if resumed >= MOST_RESUMED or not all(map(is_upload, imported.stored_files)):
        return False
    same = Import.objects.filter(pk=imported.pk, state=State.INTERRUPTED)
    if not same.update(summary=imported.summary | {"resumed": resumed + 1}):
        return False
    try:
        return lease.begin(imported)
    except UserError:
        # Another import of the project is unfinished, too, and comes first.
        return False


def tidy_uploads() -> int:
    """Called by every worker every hour; how many uploads it deleted.

    They were checked or cut off a week ago, and nobody decided to import them.
    """
    before = timezone.now() - UNCONFIRMED_FOR
    tidied = 0
    for imported in Import.objects.filter(state=State.CHECKED, created_at__lt=before):
        if all(map(is_upload, imported.stored_files)):
            tidied += undo(imported, None)
    for folder in (Path(settings.MEDIA_ROOT) / FOLDER).glob("*/"):
        changed = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
        if changed < before and not Import.objects.filter(stored_files__icontains=folder.name):
            shutil.rmtree(folder, ignore_errors=True)
            tidied += 1
    if tidied:
        logger.info("%s uploads that nobody imported within a week were deleted.", tidied)
    return tidied
