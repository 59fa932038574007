"""Alerts: what needs the operator, told once when it begins and once when it is over.

Worker and web processes look, since the dead can't tell of themselves. The one that finds a change
claims it by a conditional UPDATE before it sends, so that one process tells it, once. A notice that
surely didn't leave is sent by a later look.
"""

import json
import logging
import shutil
import socket
import threading
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from judging.core import outbound
from judging.core.caching import report_cache
from judging.core.formatting import number_of
from judging.core.incidents import DATABASE_AWAY
from judging.core.models import Alert, Worker
from judging.core.outbound import Unreachable
from judging.core.text import printable
from judging.projects import mail
from judging.projects.models import AuditEvent, Delivery, Mail
from judging.runs.models import Run

log = logging.getLogger(__name__)
LOOK_EVERY = 15.0
# A restart is no alarm: a worker has to be missing for so long.
WORKER_MISSING = timedelta(minutes=2)
# Below the first share of a disk, an import or a vote may soon fail. Above the second it is well.
LEAST_FREE, WELL_FREE = 0.05, 0.07
BACKED_UP = "backup written"
# What was known before alerts were configured isn't told.
BASELINE = "watching"


@dataclass(frozen=True)
class Finding:
    """What is wrong. `tell_after`: how long it has to last."""

    key: str
    said: str
    tell_after: timedelta = timedelta(0)


def is_on() -> bool:
    return bool(settings.FAIRJUDGE_ALERT_MAIL or settings.FAIRJUDGE_ALERT_URL)


class Watch(threading.Thread):
    """Looks in a thread of its own: a mail server that hangs must not stop a heartbeat."""

    def __init__(self) -> None:
        super().__init__(name="watch", daemon=True)
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(LOOK_EVERY):
            close_old_connections()
            try:
                if report_cache.add("alerts", True, LOOK_EVERY - 1):
                    look(findings(), whole_site())
                host = f"disk:{socket.gethostname()}"
                if report_cache.add(f"alerts:{host}", True, LOOK_EVERY - 1):
                    look(disk(), Q(key=host))
            except DATABASE_AWAY:
                # The worker's heartbeat says so once.
                continue
            except Exception:
                log.exception("Looking for what needs the operator failed; it goes on.")
        connection.close()


def watch() -> None:
    """Begin to look in this process, if anybody is to be told."""
    if is_on():
        Watch().start()


def whole_site() -> Q:
    """Return which alerts are about the site, and not about one machine."""
    return ~Q(key__startswith="disk:") & ~Q(key=BASELINE)


# What is wrong


def findings() -> list[Finding]:
    """Return what is wrong with the site as a whole."""
    current = [*_workers(), *_runs(), *_given_up()]
    if (late := backup_is_late()) is not None:
        current.append(Finding("backup", late))
    return current


def _workers() -> list[Finding]:
    return [
        Finding(
            f"worker:{queue.name}",
            f"No worker serves the queue {queue.name}. Its work waits; nothing is lost. Start one "
            "with manage.py runall.",
            WORKER_MISSING,
        )
        for queue in settings.CELERY_TASK_QUEUES
        if not Worker.objects.alive().serve(queue.name)
    ]


def _runs() -> list[Finding]:
    """Runs that failed, and runs that FairJudge paused. A person's pause has no reason."""
    stopped = Q(state=Run.State.FAILED) | (Q(state=Run.State.PAUSED) & ~Q(reason=""))
    rows = Run.objects.filter(stopped).select_related("project").order_by("pk")
    return [
        Finding(
            f"run:{run.pk}",
            f"Run {run.number} of {run.project.slug} {run.get_state_display()}: "
            f"{printable(run.reason) or 'no reason is recorded'} "
            f"{mail.absolute(f'/p/{run.project.slug}/runs/{run.number}')}",
        )
        for run in rows
    ]


def _given_up() -> list[Finding]:
    current = []
    if n := Delivery.objects.filter(state=Delivery.State.DEAD).count():
        text = f"{number_of(n, 'event')} for webhooks could not be delivered in a day."
        current.append(Finding("deliveries", f"{text} The page Site names their projects."))
    if n := Mail.objects.filter(state=Mail.State.DEAD).count():
        text = f"{number_of(n, 'mail')} could not be sent. manage.py mail says why."
        current.append(Finding("mails", text))
    return current


def backup_is_late() -> str | None:
    """Say that the last backup is too old; None if it isn't, or if no age was set."""
    days = settings.FAIRJUDGE_BACKUP_DAYS
    if not days:
        return None
    events = AuditEvent.objects.filter(project=None, action=BACKED_UP)
    last = events.order_by("-at").values_list("at", flat=True).first()
    if last is not None and timezone.now() - last < timedelta(days=days):
        return None
    when = f"is from {last:%Y-%m-%d %H:%M} UTC" if last else "was never made"
    return f"The last backup {when}: older than {number_of(days, 'day')}. Run: manage.py backup"


def free_share() -> float:
    disk = shutil.disk_usage(settings.FAIRJUDGE_DATA)
    return disk.free / disk.total


def disk() -> list[Finding]:
    host = socket.gethostname()
    key, free = f"disk:{host}", free_share()
    bound = WELL_FREE if Alert.objects.filter(key=key, ended_at=None).exists() else LEAST_FREE
    if free >= bound:
        return []
    return [Finding(key, f"{free:.1%} of the disk with the data folder are free on {host}.")]


# Telling


def look(current: list[Finding], about: Q) -> None:
    """Record what began and what is over among the alerts of `about`, and tell of both."""
    now = timezone.now()
    is_first = not Alert.objects.filter(key=BASELINE).exists()
    there = {alert.key: alert for alert in Alert.objects.filter(about)}
    for finding in current:
        alert = there.pop(finding.key, None)
        if alert is None:
            was_known = is_first and finding.key.startswith("run:")
            begins = {"said": finding.said, "began_at": now, "told": was_known}
            Alert.objects.get_or_create(key=finding.key, defaults=begins)
        elif alert.ended_at is not None:
            begins = {"said": finding.said, "began_at": now, "ended_at": None}
            Alert.objects.filter(pk=alert.pk, ended_at=alert.ended_at).update(**begins)
    if is_first:
        Alert.objects.get_or_create(key=BASELINE, defaults={"said": "", "began_at": now})
    over = [alert.pk for alert in there.values() if alert.ended_at is None]
    Alert.objects.filter(pk__in=over, ended_at=None).update(ended_at=now)
    waits = {finding.key: finding.tell_after for finding in current}
    _tell(
        [
            alert
            for alert in Alert.objects.filter(about).order_by("began_at")
            if _is_due(alert, waits.get(alert.key, timedelta(0)))
        ]
    )


def _is_due(alert: Alert, tell_after: timedelta) -> bool:
    if alert.ended_at is not None:
        return alert.told
    return not alert.told and timezone.now() - alert.began_at >= tell_after


def _tell(alerts: list[Alert]) -> None:
    """Tell of those that this process claims."""
    mine = []
    for alert in alerts:
        same = Alert.objects.filter(pk=alert.pk, told=alert.told, ended_at=alert.ended_at)
        if same.update(told=not alert.told):
            mine.append(alert)
    if mine and not _send(mine):
        # Nobody was told. A later look tries again.
        for alert in mine:
            Alert.objects.filter(pk=alert.pk).update(told=alert.told)


def _send(alerts: list[Alert]) -> bool:
    """Send one notice by each way. False if surely nobody got one."""
    lines = [("resolved: " if alert.ended_at else "") + alert.said for alert in alerts]
    n_new = sum(alert.ended_at is None for alert in alerts)
    site = urlsplit(settings.FAIRJUDGE_URL).netloc
    what = number_of(n_new, "problem") if n_new else "resolved"
    subject = f"FairJudge at {site}: {what}"
    text = "\n\n".join(lines) + f"\n\n{mail.absolute('/site/')}\n"
    sent = [_mailed(to, subject, text) for to in settings.FAIRJUDGE_ALERT_MAIL]
    if settings.FAIRJUDGE_ALERT_URL:
        sent.append(_posted(subject, lines, alerts))
    return any(sent)


def _mailed(to: str, subject: str, text: str) -> bool:
    fault = mail.send_now(to, subject, text)
    if fault:
        log.error("The alert “%s” could not be mailed: %s", subject, fault)
    return not fault


def _posted(subject: str, lines: list[str], alerts: list[Alert]) -> bool:
    """Post JSON. Chats show its `text`."""
    document = {
        "text": "\n".join([subject, *lines]),
        "site": settings.FAIRJUDGE_URL,
        "alerts": [
            {
                "key": alert.key,
                "state": "resolved" if alert.ended_at else "firing",
                "said": alert.said,
                "began_at": alert.began_at.isoformat(),
                "ended_at": alert.ended_at.isoformat() if alert.ended_at else None,
            }
            for alert in alerts
        ],
    }
    url = settings.FAIRJUDGE_ALERT_URL
    headers = {"Content-Type": "application/json"}
    try:
        # The operator named it, so it may be anywhere.
        allowed = {urlsplit(url).netloc.lower(), urlsplit(url).hostname or ""}
        status = outbound.post(url, json.dumps(document).encode(), headers, allowed).status
    except Unreachable as error:
        log.error("The alert could not be posted to FAIRJUDGE_ALERT_URL: %s", error)
        return False
    if not 200 <= status < 300:
        log.error("FAIRJUDGE_ALERT_URL answered an alert with the status %s.", status)
    return 200 <= status < 300
