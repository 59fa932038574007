"""What follows a run by itself: the round that was asked for when the run was started."""

import logging
from decimal import Decimal, InvalidOperation

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from annotation.models import Round
from annotation.rounds import RoundSettings, open_round
from judging import audit
from judging.errors import UserError
from judging.incidents import incident
from judging.json_fields import merge
from judging.models import Project, Run

THEN = "then"
logger = logging.getLogger(__name__)


def plan_round(run: Run, beta: Decimal, votes: int, n_audit: int = 0) -> None:
    """Open a round with these settings once the run is done."""
    then = {"beta": str(beta), "votes": votes, "audit": n_audit}
    merge(run, "parameters", lambda kept: {**kept, THEN: then})


def follow_up() -> int:
    """Open the rounds whose runs are done. Safe to call from several workers at once."""
    waiting = Run.objects.filter(
        state=Run.State.DONE, ranked_at__isnull=False, parameters__has_key=THEN
    )
    return sum(_follow(run) for run in waiting.select_related("project", "created_by"))


def _follow(run: Run) -> bool:
    # The run's row is the lock: whoever comes second finds the plan gone.
    with transaction.atomic():
        project = Project.objects.select_for_update(no_key=True).get(pk=run.project_id)
        fresh = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        then = fresh.parameters.pop(THEN, None)
        if then is None:
            return False
        fresh.save(update_fields=["parameters"])
        round_ = _open(project, fresh, run.created_by, then)
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
    except UserError as error:
        reason = str(error)
        logger.warning("The round planned after run %s was not opened: %s", run.pk, reason)
    except (KeyError, ValueError, InvalidOperation):
        reference = incident(logger, f"the round planned after run {run.pk} was not opened")
        reason = f"What was planned can't be read (reference {reference} in the log)."
    audit.record(project, user, "planned round not opened", run.name, reason=reason)
    return None
