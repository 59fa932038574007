"""Which of its calls a holder began to send: what a kill leaves to know of those that it claimed.

Calls are claimed some time before they are sent. Each is written down here in front of its first
request, in a file, since a transaction of its own would cost more than the call. A call that is
missing in the file of a process that died was never sent. A crash of the machine may lose what a
kill leaves, so a file tells something until the next boot only.
"""

import os
from pathlib import Path
from typing import Self

from django.conf import settings

from judging.core.leases import is_dead
from judging.processes import boot

FOLDER = "departures"


class Departures:
    """One holder's file, which an error leaves behind as a kill does.

    Where it can't be kept it is removed: then nothing is certain.
    """

    def __init__(self, run_id: int, holder: str) -> None:
        self.path = path_of(run_id, holder)
        self.file: int | None = None
        try:
            self.path.parent.mkdir(exist_ok=True)
            for earlier in self.path.parent.glob(f"{run_id}-*"):
                earlier.unlink(missing_ok=True)
            if boot():
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return
        self.write(boot())

    def add(self, call_id: int) -> None:
        self.write(str(call_id))

    def write(self, line: str) -> None:
        if self.file is None:
            return
        content = f"{line}\n".encode()
        try:
            whole = os.write(self.file, content) == len(content)
        except OSError:
            whole = False
        if not whole:
            forget(self.path)
            self.close()

    def close(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None:
            forget(self.path)


def departed(run_id: int, holder: str) -> set[int] | None:
    """The calls that a holder which died began to send; None where that can't be known."""
    if not is_dead(holder):
        return None
    try:
        first, *calls = path_of(run_id, holder).read_text().splitlines()
        return set(map(int, calls)) if first and first == boot() else None
    except (OSError, ValueError):
        return None


def forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # A file that can't be removed can be emptied, and an empty one tells nothing.
        os.truncate(path, 0)


def path_of(run_id: int, holder: str) -> Path:
    return settings.FAIRJUDGE_DATA / FOLDER / f"{run_id}-{holder.rpartition(':')[2]}"
