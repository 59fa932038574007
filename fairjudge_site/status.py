"""What the owner of the site sees and decides: workers, work, disk, versions, endpoints, and users.

Only superusers have these pages; for everybody else there is nothing here.
"""

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import connection
from django.db.models import Count, Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from annotation.models import Job, RoundWork
from fairjudge_site.alerts import BACKED_UP, BASELINE, LEAST_FREE, backup_is_late, is_on
from fairjudge_site.health import broker_answers, has_worker
from judging.core.caching import code_version
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.core.models import Alert, Worker
from judging.core.processes import parts_down
from judging.core.storage import key_mark
from judging.core.text import unstorable
from judging.dataset.models import Import
from judging.projects.accounts import set_active, set_research
from judging.projects.logins import reset_second_factor
from judging.projects.models import AuditEvent, Deletion, Delivery, Mail, SecondFactor
from judging.runs.endpoints import keys, name_endpoint, remove_endpoint
from judging.runs.engine import rereading
from judging.runs.engine.progress import progress_of
from judging.runs.models import Run, SiteEndpoint

MOST_ROWS = 50
PAGE = 50
MOST_ALERTS = 20


@dataclass(frozen=True)
class Work:
    """A piece of long work: where it is done, what it is, and how far it is."""

    project: str
    what: str
    state: str
    done: int = 0
    total: int = 0
    url: str = ""


@dataclass(frozen=True)
class ShownEndpoint:
    """An endpoint as the operator named it: its address, and the variable of its key."""

    name: str
    address: str
    variable: str
    has_key: bool
    may_change: bool


@require_safe
def site_status(request: HttpRequest) -> HttpResponse:
    """Show in one page whether anything needs the operator. No judge output is on it."""
    _refuse_others(request)
    return _page(request)


def _page(request: HttpRequest, asked: dict[str, str] | None = None) -> HttpResponse:
    """asked: what a refused form of an endpoint held, and why it was refused."""
    disk = shutil.disk_usage(settings.FAIRJUDGE_DATA)
    context = {
        "problems": list(_problems(disk.free / disk.total)),
        "workers": Worker.objects.order_by("name")[:MOST_ROWS],
        "work": list(_long_work()),
        "disk": disk,
        "database_bytes": _database_bytes(),
        "backup": AuditEvent.objects.filter(project=None, action=BACKED_UP).order_by("-at").first(),
        "versions": _versions(),
        "endpoints": _endpoints(),
        "n_users": User.objects.count(),
        "asked": asked or {},
        "alerts_on": is_on(),
        "alerts": Alert.objects.exclude(key=BASELINE).order_by("-began_at")[:MOST_ALERTS],
        "mail_to": settings.FAIRJUDGE_ALERT_MAIL,
        "hook_to": urlsplit(settings.FAIRJUDGE_ALERT_URL).hostname,
    }
    return render(request, "site/status.html", context, status=422 if asked else 200)


def _refuse_others(request: HttpRequest) -> None:
    # Not 403, because others needn't know that there is such a page.
    if not request.user.is_superuser:
        raise Http404


def _problems(free: float) -> Iterator[str]:
    """Say what does not work and what to do about it."""
    for queue in settings.CELERY_TASK_QUEUES:
        if not has_worker(queue.name):
            part = queue.name.removeprefix(settings.FAIRJUDGE_QUEUE_PREFIX)
            yield (
                f"No worker serves the queue {queue.name}. Start one: manage.py runall --only "
                f"{part}"
            )
    if not broker_answers():
        yield "The broker does not answer. Work waits until it does; nothing is lost."
    for part, state in parts_down(settings.FAIRJUDGE_DATA).items():
        yield f"The part {part} of runall is {state}. Its last lines in the log say why."
    dead = Delivery.objects.filter(state=Delivery.State.DEAD)
    counted = dead.order_by().values_list("webhook__project__slug").annotate(n=Count("pk"))
    for slug, n in counted.order_by("webhook__project__slug")[:MOST_ROWS]:
        yield (
            f"{number_of(n, 'event')} of {slug} could not be delivered in a day. The log under "
            "Settings → Webhooks sends them again."
        )
    if n := Mail.objects.filter(state=Mail.State.DEAD).count():
        yield f"{number_of(n, 'mail')} could not be sent. manage.py mail says why."
    if free < LEAST_FREE:
        yield f"{free:.1%} of the disk with the data folder are free. Make room."
    if late := backup_is_late():
        yield late
    yield from _misfits()


def _misfits() -> Iterator[str]:
    """Workers on other machines that would not understand what this one signs or computes."""
    own = {"release": code_version(), "secret_key": key_mark()}
    for worker in Worker.objects.alive().order_by("name"):
        if worker.secret_key and worker.secret_key != own["secret_key"]:
            yield (
                f"The worker {worker.name} has another secret key than the pages. Links in mails "
                "and signatures of webhooks differ. Set FAIRJUDGE_SECRET_KEY on each machine."
            )
        if worker.release and worker.release != own["release"]:
            yield (
                f"The worker {worker.name} runs another release than the pages. Install the same "
                "one and restart it."
            )


def _long_work() -> Iterator[Work]:
    runs = Run.objects.at_work().select_related("project").order_by("pk")
    for run in runs[:MOST_ROWS]:
        slug, far = run.project.slug, progress_of(run)
        name, url = f"run {run.number}", reverse("run", args=[slug, run.number])
        yield Work(slug, name, run.get_state_display(), far.settled, far.expected, url)
    imports = Import.objects.filter(state=Import.State.WRITING).select_related("project")
    for imported in imports.order_by("pk")[:MOST_ROWS]:
        name = f"import {imported.number}"
        slug, state = imported.project.slug, imported.get_state_display()
        yield Work(slug, name, state, imported.n_written, imported.n_rows)
    rounds = RoundWork.objects.exclude(state=RoundWork.State.DONE).select_related("round__project")
    for work in rounds.order_by("pk")[:MOST_ROWS]:
        name = f"round {work.round.number}: {work.get_kind_display()}"
        slug, state = work.round.project.slug, work.get_state_display()
        yield Work(slug, name, state, work.n_done, work.n_total)
    jobs = Job.objects.filter(state=Job.State.WAITING).select_related("project")
    for job in jobs.order_by("pk")[:MOST_ROWS]:
        state = "at work" if job.holder else "waiting"
        yield Work(job.project.slug, f"{job.get_kind_display()} (job {job.pk})", state, job.n_done)
    for run in rereading.readings_under_way().select_related("project")[:MOST_ROWS]:
        reading, name = rereading.rereading_of(run), f"re-parsing of run {run.number}"
        if reading is not None:
            yield Work(run.project.slug, name, reading.state, reading.read, reading.total)
    for deletion in Deletion.objects.order_by("pk")[:MOST_ROWS]:
        yield Work(deletion.slug, "deletion", "deleting", deletion.n_done, deletion.n_total)


def _database_bytes() -> int:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_database_size(current_database())")
        else:
            cursor.execute(
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            )
        return int(cursor.fetchone()[0])


def _versions() -> dict[str, str]:
    try:
        own = version("fairjudge")
    except PackageNotFoundError:
        own = "a checkout"
    number = ".".join(map(str, connection.get_database_version()))
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    return {
        "FairJudge": own,
        "Python": platform.python_version(),
        "Django": django.get_version(),
        names[connection.vendor]: number,
    }


def _endpoints() -> list[ShownEndpoint]:
    known = keys()
    endpoints = [
        ShownEndpoint(
            name, row["base_url"], row["key_variable"] or "", row["key_variable"] in known, False
        )
        for name, row in settings.FAIRJUDGE_ENDPOINTS.items()
    ]
    for row in SiteEndpoint.objects.order_by("name"):
        if row.name not in settings.FAIRJUDGE_ENDPOINTS:
            has_key = row.key_variable in known
            endpoints.append(
                ShownEndpoint(row.name, row.base_url, row.key_variable, has_key, may_change=True)
            )
    return endpoints


@require_POST
def change_endpoint(request: HttpRequest) -> HttpResponse:
    """Add, change or remove an endpoint: its address, and the name of its key's variable."""
    _refuse_others(request)
    asked = {name: request.POST.get(name, "") for name in ("name", "address", "variable")}
    try:
        if fault := next(filter(None, map(unstorable, asked.values())), None):
            raise UserError(f"An endpoint can't contain {fault}. Nothing was changed.")
        if "remove" in request.POST:
            message = remove_endpoint(asked["name"], request.user)
        else:
            message = name_endpoint(*asked.values(), request.user)
        messages.success(request, message)
    except UserError as error:
        return _page(request, asked | {"refused": str(error)})
    return redirect(f"{reverse('site_status')}#endpoints")


# Users


@require_safe
def users(request: HttpRequest) -> HttpResponse:
    """List the logins, with what each may do on the site and when it was last used."""
    _refuse_others(request)
    # Without NUL, which PostgreSQL refuses in a text.
    asked = request.GET.get("q", "").replace("\x00", "").strip()[:150]
    grant = User.user_permissions.through.objects.filter(
        user=OuterRef("pk"), permission__codename="researcher"
    )
    people = User.objects.filter(username__icontains=asked) if asked else User.objects.all()
    factors = SecondFactor.objects.filter(user=OuterRef("pk"))
    people = people.annotate(
        n_projects=Count("memberships"), researches=Exists(grant), has_factor=Exists(factors)
    )
    page = Paginator(people.order_by("username"), PAGE).get_page(request.GET.get("page"))
    return render(request, "site/users.html", {"page": page, "q": asked})


# What a form asks for, with what is then true of the login.
CHANGES = {
    "deactivate": (set_active, False),
    "activate": (set_active, True),
    "grant": (set_research, True),
    "withdraw": (set_research, False),
}


@require_POST
def change_user(request: HttpRequest, number: int) -> HttpResponse:
    """Deactivate or activate a login; grant or withdraw research; reset a second factor."""
    _refuse_others(request)
    user = get_object_or_404(User, pk=number)
    what = request.POST.get("what", "")
    try:
        if what == "reset":
            messages.success(request, reset_second_factor(user, request.user))
        elif what in CHANGES:
            change, wanted = CHANGES[what]
            messages.success(request, change(user, wanted, request.user))
        else:
            raise UserError("Choose what to change. Nothing was changed.")
    except UserError as error:
        messages.error(request, str(error))
    return redirect("site_users")
