"""The real web server over the benchmark's data, as `runall` starts it; and an export from it."""

import csv
import http.client
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from judging.core.processes import status_at

_CSRF = "c" * 32
_GROWN = re.compile(r"VmHWM:\s+(\d+) kB")


@contextmanager
def site(
    environment: dict[str, str], root: Path, log: Path, server: list[str] | None = None
) -> Iterator[tuple[int, int]]:
    """Yields the port and the process. With a command, another server than ours is measured."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = environment | {"FAIRJUDGE_URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "manage.py", "runall", "--only", "web"]
    if server is not None:
        command = [word.replace("{bind}", f"127.0.0.1:{port}") for word in server]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, cwd=root, stdout=out, stderr=out)
    try:
        wait_for(port, process, log, server is None)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path, ours: bool) -> None:
    while process.poll() is None:
        up = (
            "FairJudge is at" in log.read_text()
            if ours
            else status_at(f"127.0.0.1:{port}", "/login/", 5)
        )
        if up:
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


def peak_mib(pid: int) -> float:
    """The most memory that any process below this one has had."""
    peaks = [0]
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        waiting += map(int, children)
        if found := _GROWN.search(Path(f"/proc/{one}/status").read_text()):
            peaks.append(int(found.group(1)))
    return max(peaks) / 1024


def export(port: int, session: str, what: str) -> dict[str, float]:
    """Seconds to the first byte and to the last one, rows and size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    headers = {
        "Cookie": f"sessionid={session}; csrftoken={_CSRF}",
        "X-CSRFToken": _CSRF,
        "Content-Type": "application/x-www-form-urlencoded",
    }
    began = time.perf_counter()
    fields = urlencode({"what": what, "format": "csv"})
    connection.request("POST", "/p/benchmark/export", fields, headers)
    answer = connection.getresponse()
    assert answer.status == 200, (answer.status, answer.read()[:300])
    answer.read(1)
    first = time.perf_counter() - began
    size, rows = 1, -1
    for row in csv.reader(io.TextIOWrapper(answer, "utf-8", newline="")):
        size += sum(map(len, row))
        rows += 1
    connection.close()
    seconds = time.perf_counter() - began
    return {"first": first, "seconds": seconds, "rows": rows, "mib": size / 2**20}


def environment_of(folder: str, database: str) -> dict[str, str]:
    return os.environ | {
        "FAIRJUDGE_DATA": folder,
        "FAIRJUDGE_LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
        "DATABASE_URL": database,
        "PYTHONUNBUFFERED": "1",
    }
