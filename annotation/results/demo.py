"""The demo: a finished study of published judgments, and a small project with a live run.

The study shows a result when the first page opens: what swapping reveals about two judges, what a
review buys, and what an audit certifies. In the live project the local judge is at work.
"""

import logging
import time
from decimal import Decimal
from pathlib import Path

from django.contrib.auth.models import User
from django.db import DatabaseError, close_old_connections, transaction
from django.utils import timezone

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
from judging.projects.models import Membership, Project, Role
from judging.runs.endpoints import LOCAL
from judging.runs.models import Run
from judging.runs.planning.start import start_run
from judging.runs.recorded.writing import import_judgments

STUDY, LIVE, OWNER, ANNOTATOR = "demo-study", "demo-live", "demo", "demo-annotator"
BETA, VOTES = Decimal(20), 3
AUDIT = 40
RUN_NAME = "local judge"
CONTENT = Path(judging.__file__).parent / "demo"
PUBLISHED = CONTENT / "llmbar"
# The first one is the primary run: the judge with more to find out about.
JUDGES = {"ChatGPT, published": "chatgpt.jsonl", "GPT-4, published": "gpt-4.jsonl"}
SEED = 20
logger = logging.getLogger(__name__)


def finished_study() -> Project:
    """Return the study of LLMBar's published judgments, with a reviewed round of each judge.

    Whatever exists already stays as it is. Each step is done once, so that a study whose making was
    cut off is completed.
    """
    owner = _login(OWNER, researcher=True)
    project = _project(
        owner,
        STUDY,
        "LLMBar: two published judges",
        "100 public pairs of LLMBar with its gold labels, and the published judgments of ChatGPT "
        "and GPT-4 in both orders. Nobody voted on this site.",
        PUBLISHED / "guidelines.md",
    )
    # The owner comes here to see judges, so a warning before the first page would be in the way.
    unseen = Membership.objects.filter(project=project, user=owner, unblinded_at=None)
    unseen.update(unblinded_at=timezone.now())
    _import_pairs(project, owner, PUBLISHED / "pairs.jsonl")
    import_votes(project, owner, PUBLISHED / "votes.csv")
    for name, file in JUDGES.items():
        run = project.runs.filter(name=name, state=Run.State.DONE).first()
        if run is None:
            run = import_judgments(project, owner, [PUBLISHED / file], name=name)
        if not run.rounds.exists():
            # The gold label is the one vote that each item asks for.
            settings = RoundSettings(beta=BETA, votes=1, audit=AUDIT, seed=SEED)
            open_round(project, owner, run, settings)
    # Figures are kept for the project as pages read it, with its numbers as they are stored.
    project.refresh_from_db()
    return project


def live_project() -> Project:
    """Return the project of the live run, with its pairs and votes.

    Whatever exists already stays as it is.
    """
    owner, annotator = _login(OWNER, researcher=True), _login(ANNOTATOR)
    project = _project(
        owner,
        LIVE,
        "Live: ten pairs",
        "Ten pairs by two invented models, with the votes of three invented people.",
        CONTENT / "guidelines.md",
    )
    add_member(project, owner, annotator, Role.ANNOTATOR)
    annotator_of(project, annotator)
    _import_pairs(project, owner, CONTENT / "pairs.jsonl")
    import_votes(project, owner, CONTENT / "votes.csv")
    if not project.rounds.filter(kind=Round.Kind.ROUTED).exists():
        # Room for one more vote on every pair, so that a visitor can label from the first minute.
        open_round(project, owner, None, RoundSettings(everything=True, votes=VOTES + 1, seed=SEED))
    project.refresh_from_db()
    return project


def live_run(project: Project, *, background: bool) -> Run:
    """Return the local judge's run, which is started once; `open_round_after` adds its round.

    The endpoint is always `local`, so that the demo never spends on a key in the environment.
    """
    run = project.runs.filter(name=RUN_NAME).first()
    if run is not None:
        return run
    owner = User.objects.get(username=OWNER)
    return start_run(
        project, owner, endpoint=LOCAL, name=RUN_NAME, k=1, seed=SEED, background=background
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
    """Wait until the live run has its round. A thread of the demo's own process does this."""
    waiting = True
    while waiting:
        try:
            run = Run.objects.filter(project__slug=LIVE, name=RUN_NAME).first()
            waiting = run is not None and not (open_round_after(run) or run.rounds.exists())
        except DatabaseError:
            logger.exception("The demo could not read the state of its run. It will try again.")
        except UserError as error:
            logger.warning("The demo's round was not opened: %s", error)
            waiting = False
        close_old_connections()
        time.sleep(every_seconds if waiting else 0)


def _project(owner: User, slug: str, name: str, description: str, guidelines: Path) -> Project:
    project = Project.objects.filter(slug=slug).first()
    if project is None:
        text = guidelines.read_text(encoding="utf-8")
        options = {"is_demo": True, "description": description, "guidelines": text}
        project = create_project(owner, name, slug, **options)
    add_member(project, owner, owner, Role.OWNER)
    return project


def _import_pairs(project: Project, owner: User, path: Path) -> None:
    if not project.imports.filter(kind=Import.Kind.EXAMPLES, state=Import.State.DONE).exists():
        import_files(project, owner, [path])


def _login(name: str, *, researcher: bool = False) -> User:
    """Return a user without a password. Only the demo's own entry logs in as this user."""
    user, created = User.objects.get_or_create(username=name)
    if created:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        if researcher:
            grant_research(user)
    return user
