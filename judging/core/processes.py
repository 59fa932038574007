"""Processes of this machine: whether one still lives, and children that end with their parent."""

import ctypes
import os
import resource
import signal
import socket
import sys
import uuid
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

PR_SET_PDEATHSIG = 1
# The database, the log, the queue, and what modules open while they work.
OTHER_FILES = 100


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, told apart from a later one that was given the same number."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        return cls(pid, start_time(pid) or 0)

    def lives(self) -> bool:
        if sys.platform == "linux":
            started = start_time(self.pid)
            return started is not None and started == self.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when it is dead or not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may hold spaces; the state follows it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def boot() -> str:
    """Which boot of the machine this is; nothing where only Linux would tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def room_for(connections: int) -> int:
    """As many of them as this process may have open at once beside its other files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, soft - OTHER_FILES))


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


def new_holder() -> str:
    """A name for this piece of work: host, process, its start, and something nobody else has."""
    me = ProcessIdentity.of(os.getpid())
    return f"{socket.gethostname()}:{me.pid}:{me.started}:{uuid.uuid4().hex[:12]}"


def is_dead(holder: str) -> bool:
    """Whether the holder was a process of this machine that is gone. False where unknown."""
    host, *process = holder.split(":")
    if host != socket.gethostname() or len(process) != 3:
        return False
    return not ProcessIdentity(int(process[0]), int(process[1])).lives()
