"""One local judge for a data folder: found when it runs, started when it does not."""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from judging.errors import UserError
from judging.local_judge.model import MODEL_NAME, local_model
from judging.probing import status_at
from judging.processes import ProcessIdentity

HEALTHY_WITHIN = 60.0


@dataclass(frozen=True)
class LocalJudge:
    """Where it answers, and its process when it was started here."""

    base_url: str
    server: subprocess.Popen[str] | None


def local_base_url(folder: Path) -> str | None:
    """Where the local judge of this data folder answers; None when none runs."""
    try:
        record = json.loads(record_file(folder).read_text())
        holder = ProcessIdentity(record["pid"], record["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record["base_url"] if holder.lives() and healthy(record["base_url"]) else None


@contextmanager
def running_local_judge(
    folder: Path, report: Callable[[str], None] = lambda line: None
) -> Iterator[str]:
    """The base URL of a local judge that runs for as long as the block does."""
    with local_judge(folder, report) as judge:
        yield judge.base_url


@contextmanager
def local_judge(folder: Path, report: Callable[[str], None]) -> Iterator[LocalJudge]:
    """One that runs already is used and left running; else one is started, and stopped at the end.

    `report` is told what takes time.
    """
    server = None
    with starting_alone(folder):
        base_url = local_base_url(folder)
        if base_url is None:
            server, base_url = start_server(folder, report)
    try:
        yield LocalJudge(base_url, server)
    finally:
        if server is not None:
            # First the record: whoever looks next starts one of its own.
            record_file(folder).unlink(missing_ok=True)
            stop(server)


@contextmanager
def starting_alone(folder: Path) -> Iterator[None]:
    """Of several processes that need a judge at once, the first starts it and the others wait."""
    with open(folder / "local_judge.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def start_server(folder: Path, report: Callable[[str], None]) -> tuple[subprocess.Popen[str], str]:
    if importlib.util.find_spec("xllamacpp") is None:
        raise UserError(
            "The local judge needs the package xllamacpp, which is not installed. Install it with "
            "pip install 'fairjudge[local]', or choose another endpoint."
        )
    model_file = local_model(folder / "models", report)
    report(f"Starting the local judge {MODEL_NAME} …")
    with open(folder / "local_judge.log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "judging.local_judge.server", str(model_file), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=Path(__file__).parents[2],
        )
    try:
        base_url = wait_until_healthy(server, folder)
        write_record(folder, server.pid, base_url)
    except BaseException:
        stop(server)
        raise
    report(f"The local judge answers at {base_url}.")
    return server, base_url


def wait_until_healthy(server: subprocess.Popen[str], folder: Path) -> str:
    """The base URL that the server prints, once it is healthy there."""
    with server.stdout as output:
        base_url = output.readline().strip()
    deadline = time.monotonic() + HEALTHY_WITHIN
    while base_url and server.poll() is None and time.monotonic() < deadline:
        if healthy(base_url):
            return base_url
        time.sleep(0.05)
    raise UserError(
        "The local judge did not start. No call was made and nothing is lost. "
        f"Its log is {folder / 'local_judge.log'}. Another endpoint can be chosen."
    )


def healthy(base_url: str) -> bool:
    return status_at(urlsplit(base_url).netloc, "/health", timeout=2) == 200


def stop(server: subprocess.Popen[str]) -> None:
    server.terminate()
    try:
        server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def record_file(folder: Path) -> Path:
    return folder / "local_judge.json"


def write_record(folder: Path, pid: int, base_url: str) -> None:
    record = {"pid": pid, "started": ProcessIdentity.of(pid).started, "base_url": base_url}
    unfinished = folder / f"local_judge.{pid}.unfinished"
    unfinished.write_text(json.dumps(record))
    os.replace(unfinished, record_file(folder))
