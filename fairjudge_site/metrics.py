"""`/metrics` in Prometheus' text format: the work in the database, and how fast pages answer.

It is closed until the operator names who may read it. Each web process counts its own answers and
writes them to a small file every few seconds, so that the process that is asked answers for all.
What is read of the database is counted once in ten seconds, however often it is asked for.
"""

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import prometheus_client
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import MiddlewareNotUsed, PermissionDenied
from django.db.models import Count, Max, Min, OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from annotation.models import Item, Job, Round, RoundWork, Vote
from fairjudge_site.requests import client_address
from judging.core.caching import report_cache
from judging.core.leases import ProcessIdentity, over, start_time
from judging.core.models import Worker
from judging.dataset.models import Import
from judging.projects.models import AuditEvent, Deletion, Delivery, Mail
from judging.runs.models import Call, Run

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WRITE_EVERY = 5.0
COUNT_EVERY = 10.0
AT_WORK = (Run.State.RUNNING, Run.State.PAUSING, Run.State.CANCELLING)
# How many runs at work have figures of their own, and from how many of their last calls.
MOST_RUNS, LAST_CALLS = 50, 500
QUANTILES = (0.5, 0.95, 0.99)

Counts = dict[str, list[float]]


@dataclass
class PageTimes:
    """How many answers of this process took how long, by page and class of the status.

    Attributes:
        counts: for `page status`, how many answers fell below each of SECONDS, how many took
            longer, and the sum of all seconds.
    """

    counts: Counts = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    written: float = 0.0

    def add(self, page: str, status: int, seconds: float) -> None:
        with self.lock:
            row = self.counts.setdefault(f"{page} {status // 100}xx", [0] * (len(SECONDS) + 2))
            # The place of the first bound that isn't exceeded. The last but one counts what took
            # longer.
            row[sum(seconds > bound for bound in SECONDS)] += 1
            row[-1] += seconds
            now = time.monotonic()
            if now <= self.written + WRITE_EVERY:
                return
            self.written = now
            text = json.dumps(self.counts)
        # After the lock, so that no other page waits for the disk.
        _write(_file_of(os.getpid()), text)


times = PageTimes()


def page_times(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Measure each page, if anybody may read the figures. Streams count until they begin."""
    if not is_on():
        raise MiddlewareNotUsed

    def middleware(request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = get_response(request)
        match = request.resolver_match
        # By the name of the view, because addresses would make a figure for each project.
        page = (match.view_name or "unnamed") if match else "none"
        times.add(page, response.status_code, time.perf_counter() - began)
        return response

    return middleware


def is_on() -> bool:
    return bool(settings.FAIRJUDGE_METRICS_TOKEN or settings.FAIRJUDGE_METRICS_ADDRESSES)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer a monitor whose token or address the operator named."""
    if not is_on():
        raise Http404
    if not _may_read(request):
        raise PermissionDenied("Send the token of FAIRJUDGE_METRICS_TOKEN.")
    # Not the library's own registry, which knows this process alone.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures())
    return HttpResponse(
        generate_latest(registry), content_type=prometheus_client.CONTENT_TYPE_LATEST
    )


def _may_read(request: HttpRequest) -> bool:
    token = settings.FAIRJUDGE_METRICS_TOKEN
    sent = request.headers.get("Authorization", "")
    if token and constant_time_compare(sent, f"Bearer {token}"):
        return True
    try:
        address = ip_address(client_address(request))
    except ValueError:
        return False
    return any(address in network for network in settings.FAIRJUDGE_METRICS_ADDRESSES)


# Pages


def _file_of(pid: int) -> Path:
    # The start tells a process from an earlier one that had its number.
    name = f"pages-{socket.gethostname()}-{pid}-{start_time(pid) or 0}.json"
    return Path(settings.FAIRJUDGE_DATA) / name


def _write(path: Path, text: str) -> None:
    """Write the file whole. On a full disk the figures are older, and pages answer all the same."""
    half = path.with_suffix(".half")
    try:
        half.write_text(text)
        half.replace(path)
    except OSError:
        half.unlink(missing_ok=True)


def _counts_of_processes() -> Iterator[tuple[str, Counts]]:
    """Yield what each web process over this data folder counted, and forget those that ended."""
    here = socket.gethostname()
    own = _file_of(os.getpid())
    with times.lock:
        yield own.stem, {page: list(row) for page, row in times.counts.items()}
    for path in sorted(Path(settings.FAIRJUDGE_DATA).glob("pages-*.json")):
        host, pid, started = path.stem.removeprefix("pages-").rsplit("-", 2)
        if path == own:
            continue
        # Only processes of this machine can be looked for.
        if host == here and not ProcessIdentity(int(pid), int(started)).lives():
            path.unlink(missing_ok=True)
            continue
        try:
            yield path.stem, json.loads(path.read_text())
        except (OSError, ValueError):
            # It was removed or replaced meanwhile.
            continue


def _page_seconds() -> Metric:
    family = HistogramMetricFamily(
        "fairjudge_page_seconds",
        "Seconds until a page was answered, in each web process.",
        labels=["page", "status", "process"],
    )
    for process, counts in _counts_of_processes():
        for key, row in counts.items():
            page, _, status = key.rpartition(" ")
            total, buckets = 0.0, []
            for bound, n in zip((*SECONDS, "+Inf"), row[:-1], strict=True):
                total += n
                buckets.append((str(bound), total))
            family.add_metric([page, status, process.removeprefix("pages-")], buckets, row[-1])
    return family


# Work


class _Figures:
    """What a registry collects."""

    def collect(self) -> Iterable[Metric]:
        yield _page_seconds()
        disk = shutil.disk_usage(settings.FAIRJUDGE_DATA)
        for name, size in (("free", disk.free), ("total", disk.total)):
            what = f"Bytes of the disk with the data folder: {name}."
            yield GaugeMetricFamily(f"fairjudge_disk_{name}_bytes", what, value=size)
        for name, (what, labels, rows) in work().items():
            gauge = GaugeMetricFamily(f"fairjudge_{name}", what, labels=labels)
            for values, number in rows:
                gauge.add_metric(values, number)
            yield gauge


Gauge = tuple[str, list[str], list[tuple[list[str], float]]]


def work() -> dict[str, Gauge]:
    """Return name, meaning, labels and values of each figure of the database."""
    # Counted once for all monitors that ask within a few seconds.
    kept: dict[str, Gauge] | None = report_cache.get("metrics")
    if kept is None:
        kept = _count_work()
        report_cache.set("metrics", kept, COUNT_EVERY)
    return kept


def _count_work() -> dict[str, Gauge]:
    queues = [queue.name for queue in settings.CELERY_TASK_QUEUES]
    alive = [row.split(",") for row in Worker.objects.alive().values_list("queues", flat=True)]
    states = dict(Run.objects.order_by().values_list("state").annotate(n=Count("pk")))
    items = Item.objects.filter(round__state=Round.State.OPEN).order_by()
    waiting = dict(items.values_list("state").annotate(n=Count("pk")))
    now = timezone.now()
    first = _first_that_waits()
    runs = list(
        Run.objects.filter(state__in=AT_WORK).select_related("project").order_by("-pk")[:MOST_RUNS]
    )
    orphans = Run.objects.filter(over(), state__in=AT_WORK).count()
    told = dict(Delivery.objects.order_by().values_list("state").annotate(n=Count("pk")))
    mailed = dict(Mail.objects.order_by().values_list("state").annotate(n=Count("pk")))
    importing = Import.objects.filter(state=Import.State.WRITING)
    left = (
        ("job", Job.objects.filter(state=Job.State.WAITING), "created_at"),
        ("round", RoundWork.objects.exclude(state=RoundWork.State.DONE), "begun_at"),
    )
    gauges: dict[str, Gauge] = {
        "workers": (
            "Workers that gave a sign of life within 30 seconds, by the queue that they serve.",
            ["queue"],
            [([queue], sum(queue in theirs for theirs in alive)) for queue in queues],
        ),
        "runs": (
            "Runs by state.",
            ["state"],
            [([state], states.get(state, 0)) for state in Run.State.values],
        ),
        "queue_age_seconds": (
            "Seconds that the run which has waited longest for a worker has waited; 0 if none.",
            [],
            [([], (now - first).total_seconds() if first else 0)],
        ),
        "work_age_seconds": (
            "Seconds since the oldest work that no worker has taken was asked for; 0 if none.",
            ["work"],
            [([name], _age(work.filter(holder=""), at)) for name, work, at in left],
        ),
        "leases_expired": (
            "Work whose worker has been silent for too long.",
            ["work"],
            [
                (["run"], orphans),
                (["import"], importing.filter(over()).count()),
                (["deletion"], _silent(Deletion.objects.all())),
                *(([name], _silent(work)) for name, work, _ in left),
            ],
        ),
        "deliveries": (
            "Events for webhooks, by what became of them; kept for 30 days.",
            ["state"],
            [([state], told.get(state, 0)) for state in Delivery.State.values],
        ),
        "mails": (
            "Mails, by what became of them; kept for 30 days.",
            ["state"],
            [([state], mailed.get(state, 0)) for state in Mail.State.values],
        ),
        "imports_writing": ("Imports that are being written.", [], [([], importing.count())]),
        "votes": ("Votes of people, those put in by import too.", [], [([], Vote.every.count())]),
        "items": (
            "Items of open rounds by state.",
            ["state"],
            [([state], waiting.get(state, 0)) for state in Item.State.values],
        ),
    }
    return gauges | _of_runs(runs)


def _first_that_waits() -> datetime | None:
    """Return since when the run that has waited longest waits for a worker.

    One that was resumed, or whose worker died, waits since then and not since it was started.
    """
    resumed = AuditEvent.objects.filter(
        project=OuterRef("project"), action="run resumed", subject=OuterRef("name")
    )
    called = Call.objects.filter(run=OuterRef("pk"))
    waiting = Run.objects.filter(state=Run.State.QUEUED).values_list(
        "created_at",
        Subquery(resumed.order_by("-pk").values("at")[:1]),
        Subquery(called.order_by("-pk").values("claimed_at")[:1]),
    )
    return min((max(filter(None, times)) for times in waiting), default=None)


def _age(work: QuerySet[Any], at: str) -> float:
    first = work.aggregate(first=Min(at))["first"]
    return (timezone.now() - first).total_seconds() if first else 0


def _silent(work: QuerySet[Any]) -> int:
    return work.filter(over()).exclude(holder="").count()


def _of_runs(runs: list[Run]) -> dict[str, Gauge]:
    usd, calls, seconds, retries = [], [], [], []
    now = timezone.now()
    for run in runs:
        labels = [run.project.slug, str(run.number)]
        usd += [([*labels, "spent"], float(run.spent_usd))]
        usd += [([*labels, "reserved"], float(run.reserved_usd))]
        counted = dict(run.calls.order_by().values_list("state").annotate(n=Count("pk")))
        calls += [([*labels, state], counted.get(state, 0)) for state in Call.State.values]
        last = run.calls.filter(state=Call.State.DONE, duration_ms__isnull=False)
        rows = list(last.order_by("-pk").values_list("duration_ms", "requests")[:LAST_CALLS])
        took = sorted(row[0] / 1000 for row in rows)
        for quantile in QUANTILES if took else ():
            at = min(len(took) - 1, int(quantile * len(took)))
            seconds.append(([*labels, str(quantile)], took[at]))
        if rows:
            retries.append((labels, sum(max(0, row[1] - 1) for row in rows) / len(rows)))
    paused = Run.objects.filter(state=Run.State.PAUSED, resume_at__gt=now)
    until = paused.aggregate(last=Max("resume_at"))["last"]
    own = ["project", "run"]
    return {
        "run_usd": ("Dollars of each run at work.", [*own, "kind"], usd),
        "run_calls": ("Calls of each run at work, by state.", [*own, "state"], calls),
        "call_seconds": (
            f"Seconds of the last {LAST_CALLS} calls of each run at work.",
            [*own, "quantile"],
            seconds,
        ),
        "call_retries": (
            f"Requests beyond the first, a call, among the last {LAST_CALLS} calls.",
            own,
            retries,
        ),
        "pause_seconds": (
            "Seconds until the last run that an endpoint's limit paused goes on by itself.",
            [],
            [([], (until - now).total_seconds() if until else 0)],
        ),
    }
