"""Processes of this machine: stopping them, ending them with their parent, and probing them."""

import ctypes
import os
import signal
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection, HTTPException

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


# Set when this process is asked to end. Runs and imports then stop at the next safe place.
stop_requested = threading.Event()


def main() -> None:
    """`python -m judging.core.processes PARENT COMMAND…` becomes COMMAND and ends with PARENT."""
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
