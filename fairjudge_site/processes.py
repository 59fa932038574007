"""Child processes that are started again when they die, and never outlive their parent."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from judging.core.errors import UserError
from judging.core.processes import RENEW_SECONDS, record_of_parts

# After its calls are cut off, a worker takes a little less than this to stop at a safe place.
STOP_WITHIN = 15.0
# Seconds before each new start of a part that died. After the last one it is given up.
DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)
# A part that ran this long is well again, and may die as often as a new one.
STEADY_SECONDS = 60.0

Child = subprocess.Popen[str]


@dataclass
class SitePart:
    """A child process that is kept alive: its name in messages, and how it starts."""

    name: str
    # Returns None if nothing of ours needs to run. Raises UserError or OSError if it can't start.
    start: Callable[[], Child | None]
    child: Child | None = None
    # Passes on its output. Without one, the child is stopped elsewhere.
    reader: threading.Thread | None = None
    started: float = 0.0
    deaths: int = 0
    restart_at: float | None = None
    given_up: bool = False
    # It was asked to end, so that it starts with new code.
    reloads: bool = False
    last_line: str = ""


class Supervisor:
    """Starts parts, starts them again when they die, and stops them all.

    Each part is in a session of its own, so that Ctrl-C reaches only this process. It then stops
    the parts in order. If this process is killed, the kernel ends them.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        folder: Path,
        tell: Callable[..., None] = lambda event, **more: None,
    ) -> None:
        self.write, self.tell = write, tell
        self.parts: list[SitePart] = []
        self.record = record_of_parts(folder)
        self.recorded: dict[str, str] = {}
        self.recorded_at = 0.0

    def run(self, name: str, command: list[str]) -> None:
        """Keep a command running. Its output is printed after its name."""
        part = SitePart(name, lambda: self.spawn(part, command))
        self.keep(part)

    def keep(self, part: SitePart) -> None:
        """Start a part, which is looked after from then on. If it can't start, raise why."""
        self.start(part)
        self.parts.append(part)

    def gave_up(self, name: str) -> bool:
        return any(part.given_up for part in self.parts if part.name == name)

    def start(self, part: SitePart) -> None:
        part.restart_at = None
        part.started = time.monotonic()
        part.child = part.start()
        if part.child is not None:
            self.tell("started", part=part.name, pid=part.child.pid)

    def spawn(self, part: SitePart, command: list[str]) -> Child:
        ends_with_us = [sys.executable, "-m", "judging.core.processes", str(os.getpid())]
        child = subprocess.Popen(
            ends_with_us + command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        part.reader = threading.Thread(target=self.pass_on, args=(part, child), daemon=True)
        part.reader.start()
        return child

    def pass_on(self, part: SitePart, child: Child) -> None:
        with child.stdout as output:
            for line in output:
                part.last_line = line.strip() or part.last_line
                self.write(f"{part.name:>6} | {line.rstrip()}")

    def look_after(self) -> bool:
        """Start again what died, and record what is down. Return whether anything is left to do."""
        now = time.monotonic()
        for part in self.parts:
            if part.given_up:
                continue
            if part.restart_at is not None:
                if now >= part.restart_at:
                    self.try_again(part)
            elif part.child and part.child.poll() is not None and part.reloads:
                part.reloads = False
                self.try_again(part)
            elif part.child and part.child.poll() is not None:
                self.died(part, ended(part.child.returncode))
        self.record_down()
        return not all(part.given_up for part in self.parts)

    def reload(self) -> None:
        """Load new code. Pages are answered meanwhile; a worker first stops at a safe place."""
        self.write("The parts load their code again.")
        for part in self.parts:
            if part.child is None or part.reader is None or part.child.poll() is not None:
                continue
            # Gunicorn replaces its processes one after another.
            part.reloads = part.name != "web"
            part.child.send_signal(signal.SIGTERM if part.reloads else signal.SIGHUP)

    def try_again(self, part: SitePart) -> None:
        try:
            self.start(part)
        except (OSError, UserError) as error:
            self.died(part, f"could not start ({error})")

    def died(self, part: SitePart, how: str) -> None:
        ran = time.monotonic() - part.started
        part.deaths = 1 if ran >= STEADY_SECONDS else part.deaths + 1
        if part.deaths > len(DELAYS):
            part.given_up = True
            self.tell("given up", part=part.name, reason=how)
            last = f" Its last line: {part.last_line}" if part.last_line else ""
            self.write(
                f"The part {part.name} {how}. It ended {part.deaths} times soon after its start, "
                f"so it is not started again. The others go on. What was recorded is kept.{last}"
            )
            return
        delay = DELAYS[part.deaths - 1]
        part.restart_at = time.monotonic() + delay
        self.tell("ended", part=part.name, reason=how, starts_again_in=delay)
        self.write(
            f"The part {part.name} {how}. The others go on. What was recorded is kept. It starts "
            f"again in {delay:g} s (attempt {part.deaths} of {len(DELAYS)})."
        )

    def record_down(self) -> None:
        """Leave word for the pages, which are another process, perhaps in another container."""
        down = {
            part.name: "given up" if part.given_up else "restarting"
            for part in self.parts
            if part.given_up or part.restart_at is not None
        }
        renewed = time.monotonic() < self.recorded_at + RENEW_SECONDS
        if down == self.recorded and (renewed or not down):
            return
        self.recorded, self.recorded_at = down, time.monotonic()
        try:
            unfinished = self.record.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(down))
            os.replace(unfinished, self.record)
            if not down:
                self.record.unlink()
        except OSError as error:
            self.write(f"What restarts can't be recorded ({error.strerror}).")

    def stop(self) -> None:
        ours = [part for part in self.parts if part.child and part.reader]
        for part in ours:
            if part.child.poll() is None:
                part.child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + settings.FAIRJUDGE_STOP_SECONDS + STOP_WITHIN
        for part in ours:
            try:
                part.child.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.write(f"{part.name} did not stop in time and is killed.")
                part.child.kill()
                part.child.wait()
            self.tell("stopped", part=part.name)
        for part in ours:
            part.reader.join(timeout=1)
        self.record.unlink(missing_ok=True)


def ended(status: int) -> str:
    """Say how a process ended, as a verb with its object."""
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
