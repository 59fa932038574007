"""Real workers for tests: each is forked from a process that has imported everything.

`WorkerProcesses` starts `python -m tests.judging.runs.engine.worker_processes RUN`. For each line
it forks a worker that leads or helps the run until that has ended, and prints its number.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[4]
# While this file is in the data folder, who ranks the examples waits.
RANKING = "ranking"


class WorkerProcesses:
    """Workers of one run, over the database of the test. `alive` are their numbers."""

    def __init__(self, run, settings, endpoints: str) -> None:
        from django.db import connection

        name = connection.settings_dict["NAME"]
        url = urlsplit(os.environ["FAIRJUDGE_TEST_DATABASE_URL"])._replace(path=f"/{name}")
        self.environment = os.environ | {
            "DATABASE_URL": url.geturl(),
            "FAIRJUDGE_DATA": str(settings.FAIRJUDGE_DATA),
            "FAIRJUDGE_ENDPOINTS": endpoints,
            "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
            "FAIRJUDGE_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
        }
        self.run = run
        self.alive: list[int] = []

    def __enter__(self) -> "WorkerProcesses":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.judging.runs.engine.worker_processes", str(self.run.pk)],
            cwd=ROOT, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self.alive):
            self.send(pid, signal.SIGKILL)
        self.process.communicate()

    def start(self, n: int = 1) -> None:
        for _ in range(n):
            self.process.stdin.write("worker\n")
            self.process.stdin.flush()
            self.alive.append(int(self.process.stdout.readline()))

    def send(self, pid: int, number: int) -> None:
        self.alive.remove(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def kill(self, pid: int) -> None:
        self.send(pid, signal.SIGKILL)

    def pid_of(self, holder: str) -> int:
        return int(holder.split(":")[1])


def work(run_id: int) -> None:
    from django.conf import settings

    from judging.core.processes import stop_requested
    from judging.runs.engine import recording, store
    from judging.runs.engine.working import work_on
    from judging.runs.models import Run

    rebuild = store.rebuild_verdicts

    def rebuild_later(run, advance):
        while (settings.FAIRJUDGE_DATA / RANKING).exists():
            time.sleep(0.05)
        return rebuild(run, advance)

    store.rebuild_verdicts = rebuild_later
    signal.signal(signal.SIGTERM, lambda *_: stop_requested.set())
    working = (Run.State.QUEUED, Run.State.RUNNING, Run.State.PAUSING, Run.State.CANCELLING)
    while not stop_requested.is_set():
        run = Run.objects.get(pk=run_id)
        if run.state not in working:
            return
        recording.sweep()
        work_on(run, helps=True)
        time.sleep(0.1)


def main() -> None:
    import django

    django.setup()
    import judging.runs.engine.working  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin.readline():
        child = os.fork()
        if child == 0:
            work(int(sys.argv[1]))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
