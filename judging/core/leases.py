"""Holders of leases: the names of processes that work on a run, an import or a re-reading.

A lease is a row's `holder` and `lease_until`, taken by conditional UPDATE. Whoever holds it renews
it; once it has run out, or its holder is known to be dead, anybody may take it.
"""

import os
import socket
import uuid

from judging.core.processes import ProcessIdentity


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
