"""Processes that tests start for real: waiting for them, and finding any that were left behind."""

import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def eventually(condition: Callable[[], object], within: float = 180.0) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def free_port() -> int:
    """A port that nobody listens at, below those that the system gives to connections meanwhile."""
    # It stays free until it is used only if no other test is likely to be told the same one.
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def processes_of(data: str) -> set[int]:
    """The living processes whose FAIRJUDGE_DATA is this folder, whoever their parent is now."""
    wanted = f"FAIRJUDGE_DATA={data}".encode()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            continue
    return found
