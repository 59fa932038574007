"""What follows a run by itself: the round that was asked for when the run was started."""

import logging
from decimal import Decimal, InvalidOperation

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from annotation.models import Round
from annotation.results.merging import rebuild_final_labels
from annotation.rounds import RoundSettings, open_round
from judging import audit
from judging.errors import UserError
from judging.models import Project, Run

THEN = "then"
logger = logging.getLogger(__name__)


def plan_round(run: Run, beta: Decimal, votes: int, n_audit: int = 0) -> None:
    """Open a round with these settings once the run is done."""
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        then = {"beta": str(beta), "votes": votes, "audit": n_audit}
        locked.parameters = locked.parameters | {THEN: then}
        locked.save(update_fields=["parameters"])


def follow_up() -> int:
    """Open the rounds whose runs are done. Safe to call from several workers at once."""
    waiting = Run.objects.filter(
        state=Run.State.DONE, ranked_at__isnull=False, parameters__has_key=THEN
    )
    return sum(_follow(run) for run in waiting.select_related("project", "created_by"))


def _follow(run: Run) -> bool:
    # The project's row is the lock: whoever comes second finds the plan gone.
    with transaction.atomic():
        project = Project.objects.select_for_update().get(pk=run.project_id)
        fresh = Run.objects.get(pk=run.pk)
        then = fresh.parameters.pop(THEN, None)
        if then is None:
            return False
        fresh.save(update_fields=["parameters"])
        round_ = _open(project, fresh, run.created_by, then)
    if round_ is not None:
        rebuild_final_labels(project, fresh)
    return round_ is not None


def _open(
    project: Project, run: Run, user: AbstractUser | None, then: dict[str, object]
) -> Round | None:
    try:
        settings = RoundSettings(
            beta=Decimal(str(then["beta"])),
            votes=int(str(then["votes"])),
            audit=int(str(then["audit"])),
        )
        with transaction.atomic():
            return open_round(project, user, run, settings)
    except (UserError, KeyError, ValueError, InvalidOperation) as error:
        logger.warning("The round planned after run %s was not opened: %s", run.pk, error)
        audit.record(project, user, "planned round not opened", run.name, reason=str(error))
        return None
