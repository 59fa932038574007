"""`manage.py runall`: start and stop the web server, the workers and the local judge together."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import CommandError, call_command
from django.utils import timezone

from annotation.results.demo import wait_for_run_and_open_round
from fairjudge_site.processes import Child, SitePart, Supervisor
from judging.core.commands import Exit, FairJudgeCommand, as_document
from judging.core.errors import UserError
from judging.core.processes import status_at
from judging.local_judge import local_judge

NAMES = ("web", "runs", "quick", "judge")


class Command(FairJudgeCommand):
    json_help = "print a line of JSON for each event; everything else goes to standard error"
    help = "Run the web server, the workers and the local judge until Ctrl-C."
    waits_for_database = settings.FAIRJUDGE_WAIT_SECONDS

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "--only",
            action="append",
            choices=NAMES,
            help="run only this part; you can repeat the option",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = options["only"] or NAMES
        supervisor = Supervisor(self.say, settings.FAIRJUDGE_DATA, self.tell_event)
        # The judge stops last, so that runs that wait for its answers can record them.
        with (
            ExitStack() as judge,
            ExitStack() as parts,
            stopped_by_signals(),
            reloaded_by_hangup(supervisor),
        ):
            if "web" in names:
                check_free(settings.FAIRJUDGE_BIND)
                call_command("collectstatic", interactive=False, verbosity=0)
            parts.callback(supervisor.stop)
            for name in names:
                if name != "judge":
                    supervisor.run(name, command_of(name))
            if "judge" in names:
                self.start_judge(judge, supervisor, needed=len(names) == 1)
            if "web" in names:
                self.wait_for_pages(supervisor)
                if settings.FAIRJUDGE_DEMO:
                    threading.Thread(target=wait_for_run_and_open_round, daemon=True).start()
            parts.callback(self.tell_event, "stopping")
            while supervisor.look_after():
                time.sleep(0.2)
            raise CommandError(
                "No part runs any more. The last lines above say why. What was recorded is kept. "
                "Start again with: manage.py runall",
                returncode=Exit.FAILED,
            )

    def start_judge(self, started: ExitStack, supervisor: Supervisor, needed: bool) -> None:
        """Start the local judge. Without it, everything works except judging with `local`."""

        def start() -> Child | None:
            # What is left of the one that died goes first.
            started.close()
            return started.enter_context(local_judge(settings.FAIRJUDGE_DATA, self.say)).server

        try:
            supervisor.keep(SitePart("judge", start))
        except UserError as error:
            if needed:
                raise
            self.say(f"The local judge is not running: {error}")

    def wait_for_pages(self, supervisor: Supervisor) -> None:
        # The address of all interfaces is none to connect to.
        address = settings.FAIRJUDGE_BIND.replace("0.0.0.0", "127.0.0.1")
        while supervisor.look_after() and not supervisor.gave_up("web"):
            if status_at(address, "/login/", timeout=5) is not None:
                self.say(f"FairJudge is at {settings.FAIRJUDGE_URL} (Ctrl-C stops it)")
                self.tell_event("ready", url=settings.FAIRJUDGE_URL)
                return
            time.sleep(0.1)

    def say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def tell_event(self, event: str, **more: Any) -> None:
        """Print an event for programs, as a line of its own. Without --json, nothing happens."""
        self.tell({"event": event, "at": timezone.now().isoformat()} | more)

    def tell(self, document: Any) -> None:
        """Print it on one line. Others may follow."""
        if self.document is not None:
            self.document.write(as_document(document, indent=None) + "\n")
            self.document.flush()


def command_of(name: str) -> list[str]:
    if name == "web":
        gunicorn = [sys.executable, "-m", "gunicorn", "fairjudge_site.wsgi"]
        return [
            *gunicorn,
            "--worker-class=fairjudge_site.server.SiteWorker",
            f"--bind={settings.FAIRJUDGE_BIND}",
            f"--workers={settings.FAIRJUDGE_WEB_PROCESSES}",
            f"--threads={settings.FAIRJUDGE_WEB_THREADS}",
            "--timeout=120",
            "--graceful-timeout=10",
            "--no-control-socket",
        ]
    # Threads, since a run is one long loop that waits for answers, and a stop reaches them all.
    # Celery warns superusers of pickled messages. FairJudge's messages are JSON.
    python = [sys.executable, "-W", "ignore:You're running the worker with superuser"]
    return [
        *python,
        "-m",
        "celery",
        "--app=fairjudge_site",
        "--quiet",
        "worker",
        f"--queues={settings.FAIRJUDGE_QUEUE_PREFIX}{name}",
        f"--hostname={name}.{os.getpid()}@%h",
        "--pool=threads",
        f"--concurrency={settings.FAIRJUDGE_RUN_THREADS if name == 'runs' else 2}",
        "--loglevel=INFO",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]


def check_free(address: str) -> None:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        # As the web server sets it: the port of a site that was just stopped is free.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, int(port)))
        except OSError as error:
            raise UserError(
                f"The site can't listen on {address} ({error.strerror}). Nothing was started. Stop "
                "the program that uses it, or set FAIRJUDGE_URL and FAIRJUDGE_BIND to another port."
            ) from None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let Ctrl-C, a closed terminal and SIGTERM end the block without an error."""

    def stop(number: int, frame: Any) -> NoReturn:
        # A second Ctrl-C must not break off the stopping.
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        raise StoppedBySignal

    before = {
        name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    except StoppedBySignal:
        pass
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def reloaded_by_hangup(supervisor: Supervisor) -> Iterator[None]:
    """Take SIGHUP as the wish to load new code, unless it says that our terminal was closed."""
    if sys.stdin is not None and sys.stdin.isatty():
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda number, frame: supervisor.reload())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


class StoppedBySignal(BaseException):
    """Raised by a signal that asks the process to end."""
