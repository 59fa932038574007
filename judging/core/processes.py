"""Processes of this machine: whether one still lives, and children that end with their parent."""

import ctypes
import os
import signal
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection, HTTPException

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, with_signal: int = signal.SIGTERM) -> None:
    """Have the kernel signal this process when its parent dies, however that happens.

    Only Linux can; elsewhere a killed parent leaves its children running.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, with_signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("The process that started this one has ended.")


def main() -> None:
    """`python -m judging.core.processes PARENT COMMAND…` becomes COMMAND and ends with PARENT."""
    end_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()


def status_at(address: str, path: str, timeout: float) -> int | None:
    """The status of what HOST:PORT answers; None where nothing does.

    Straight to it: no proxy that the environment names for the outside, and no redirect is
    followed, which of a site under https leads to a TLS that only its proxy speaks.
    """
    host, _, port = address.rpartition(":")
    try:
        with closing(HTTPConnection(host.strip("[]"), int(port), timeout=timeout)) as connection:
            connection.request("GET", path)
            return connection.getresponse().status
    except (OSError, HTTPException):
        return None


stop_requested = threading.Event()
