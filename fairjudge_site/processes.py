"""Child processes that start and stop together, and never outlive their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

# A little more than a worker takes at most to stop at a safe place.
STOP_WITHIN = 25.0


@dataclass(frozen=True)
class Part:
    """A child process: its name in messages, and its command."""

    name: str
    command: list[str]


class Supervisor:
    """Starts parts, prints their output after their name, and stops them all.

    Each part is in a session of its own, so that Ctrl-C reaches only this process. It then stops
    the parts in order. If this process is killed, the kernel ends them.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.children: dict[str, subprocess.Popen[str]] = {}
        self.watched: dict[str, subprocess.Popen[str]] = {}
        self.readers: list[threading.Thread] = []

    def start(self, part: Part) -> None:
        ends_with_us = [sys.executable, "-m", "judging.core.processes", str(os.getpid())]
        child = subprocess.Popen(
            ends_with_us + part.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.children[part.name] = child
        reader = threading.Thread(target=self.pass_on, args=(part.name, child), daemon=True)
        reader.start()
        self.readers.append(reader)

    def watch(self, name: str, child: subprocess.Popen[str]) -> None:
        """Notice the end of a child that is started and stopped elsewhere."""
        self.watched[name] = child

    def pass_on(self, name: str, child: subprocess.Popen[str]) -> None:
        for line in child.stdout:
            self.write(f"{name:>6} | {line.rstrip()}")

    def ended(self) -> str | None:
        """Return the name of a part that has ended, if any has."""
        for name, child in {**self.children, **self.watched}.items():
            if child.poll() is not None:
                return name
        return None

    def stop(self) -> None:
        for child in self.children.values():
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN
        for name, child in self.children.items():
            try:
                child.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.write(f"{name} did not stop in time and is killed.")
                child.kill()
                child.wait()
        for reader in self.readers:
            reader.join(timeout=1)
