"""The project's primary run: the one that final labels, results and exports are about."""

from typing import Any

from django.db import transaction

from judging import audit
from judging.errors import UserError
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict


def choose_primary(run: Run, user: Any) -> bool:
    """False where it is the primary one already. Raises UserError where it judged no example."""
    judged = Verdict.objects.filter(run=run, state=Verdict.State.JUDGED)
    if run.ranked_at is None or not judged.exists():
        raise UserError(f"Run {run.name} has no verdicts yet. Nothing was changed.")
    with transaction.atomic():
        others = Project.objects.filter(pk=run.project_id).exclude(primary_run=run)
        changed = others.update(primary_run=run)
        if changed:
            audit.record(run.project, user, "primary run chosen", run.name)
    return bool(changed)
