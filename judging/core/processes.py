"""Processes of this machine: stopping them, ending them with their parent, and probing them."""

import ctypes
import glob
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, with_signal: int = signal.SIGTERM) -> None:
    """Have the kernel signal this process when its parent dies, even if the parent is killed.

    Only Linux does this. Elsewhere a killed parent leaves its children running.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, with_signal, 0, 0, 0)
    if os.getppid() != parent:
        # The parent died before the kernel was asked.
        sys.exit("The process that started this one has ended.")


def status_at(address: str, path: str, timeout: float) -> int | None:
    """Return the HTTP status with which HOST:PORT answers, or None if nothing does.

    It asks directly. It uses no proxy from the environment, and follows no redirect: those of a
    site under https lead to TLS, which only the proxy in front of it speaks.
    """
    host, _, port = address.rpartition(":")
    try:
        with closing(HTTPConnection(host.strip("[]"), int(port), timeout=timeout)) as connection:
            connection.request("GET", path)
            return connection.getresponse().status
    except (OSError, HTTPException):
        return None


# While a part of `runall` is down, its record is renewed this often. An older one was left behind
# by a `runall` that was killed.
RENEW_SECONDS = 5.0
STALE_SECONDS = 30.0


def record_of_parts(folder: Path) -> Path:
    """Return the file in which this process says which of its parts are down."""
    return folder / f"parts-{socket.gethostname()}-{os.getpid()}.json"


def parts_down(folder: Path, host: str = "") -> dict[str, str]:
    """Return the parts of all `runall` commands over this data folder that don't run now.

    Each is "restarting" or "given up". With a host, only the commands on that one count.
    """
    down: dict[str, str] = {}
    for record in sorted(folder.glob(f"parts-{glob.escape(host) or '*'}-*.json")):
        try:
            if abs(time.time() - record.stat().st_mtime) < STALE_SECONDS:
                down |= json.loads(record.read_text())
        except (OSError, TypeError, ValueError):
            # It was removed or replaced meanwhile.
            continue
    return down


def gave_up_here(folder: Path) -> bool:
    """Return True if a `runall` of this machine or container has given up one of its parts."""
    return "given up" in parts_down(folder, socket.gethostname()).values()


# Set when this process is asked to end. Runs and imports then stop at the next safe place.
stop_requested = threading.Event()


def main() -> None:
    """`python -m judging.core.processes PARENT COMMAND…` becomes COMMAND and ends with PARENT."""
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
