"""The demo project: pairs, invented votes, and a run of the local judge with all that follows."""

import logging
import time
from decimal import Decimal
from pathlib import Path

from django.contrib.auth.models import User
from django.db import DatabaseError, close_old_connections, transaction

import judging
from annotation.models import Round
from annotation.people.annotators import annotator_of
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.dataset.models import Import
from judging.dataset.writing import import_files
from judging.projects.access import add_member, create_project
from judging.projects.accounts import grant_research
from judging.projects.models import Project, Role
from judging.runs.endpoints import LOCAL
from judging.runs.models import Run
from judging.runs.planning.start import start_run

SLUG, OWNER, ANNOTATOR = "demo", "demo", "demo-annotator"
BETA, VOTES = Decimal(20), 3
RUN_NAME = "local judge"
CONTENT = Path(judging.__file__).parent / "demo"
logger = logging.getLogger(__name__)


def demo_project() -> Project:
    """Return the demo project with its pairs and votes. Whatever exists already stays as it is."""
    owner, annotator = _login(OWNER, researcher=True), _login(ANNOTATOR)
    project = Project.objects.filter(slug=SLUG).first()
    if project is None:
        project = create_project(
            owner,
            "Demo: 24 pairs",
            SLUG,
            is_demo=True,
            description="24 pairs by two invented models, with the votes of three invented people.",
            guidelines=(CONTENT / "guidelines.md").read_text(encoding="utf-8"),
        )
    add_member(project, owner, owner, Role.OWNER)
    add_member(project, owner, annotator, Role.ANNOTATOR)
    annotator_of(project, annotator)
    if not project.imports.filter(kind=Import.Kind.EXAMPLES, state=Import.State.DONE).exists():
        import_files(project, owner, [CONTENT / "pairs.jsonl"])
    import_votes(project, owner, CONTENT / "votes.csv")
    if not project.rounds.filter(kind=Round.Kind.ROUTED).exists():
        # Room for one more vote on every pair, so that a visitor can label from the first minute.
        open_round(project, owner, None, RoundSettings(everything=True, votes=VOTES + 1, seed=20))
    return project


def demo_run(project: Project, *, background: bool) -> Run:
    """Return the local judge's run, which is started once; `open_round_after` adds its round.

    The endpoint is always `local`, so that the demo never spends on a key in the environment.
    """
    run = project.runs.filter(name=RUN_NAME).first()
    if run is not None:
        return run
    owner = User.objects.get(username=OWNER)
    return start_run(
        project, owner, endpoint=LOCAL, name=RUN_NAME, k=3, seed=20, background=background
    )


def open_round_after(run: Run) -> bool:
    """Open the round of the top 20 % if the run is done and has no round yet.

    Raises UserError if the project's owner has changed the demo so that no round can be opened.
    """
    with transaction.atomic():
        project = Project.objects.select_for_update(no_key=True).get(pk=run.project_id)
        run = Run.objects.select_related("created_by").get(pk=run.pk)
        if run.state != Run.State.DONE or run.ranked_at is None or run.rounds.exists():
            return False
        open_round(project, run.created_by, run, RoundSettings(beta=BETA, votes=VOTES))
    return True


def wait_for_run_and_open_round(every_seconds: float = 2.0) -> None:
    """Wait until the demo's run has its round. A thread of the demo's own process does this."""
    waiting = True
    while waiting:
        try:
            run = Run.objects.filter(project__slug=SLUG, name=RUN_NAME).first()
            waiting = run is not None and not (open_round_after(run) or run.rounds.exists())
        except DatabaseError:
            logger.exception("The demo could not read the state of its run. It will try again.")
        except UserError as error:
            logger.warning("The demo's round was not opened: %s", error)
            waiting = False
        close_old_connections()
        time.sleep(every_seconds if waiting else 0)


def _login(name: str, *, researcher: bool = False) -> User:
    """Return a user without a password. Only the demo's own entry logs in as this user."""
    user, created = User.objects.get_or_create(username=name)
    if created:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        if researcher:
            grant_research(user)
    return user
