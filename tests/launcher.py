"""Commands of `manage.py`, each in a process of its own that is forked from one that has imported
everything: Python and the site take seconds to start, and a fork takes none.

`Launcher` starts `python -m tests.launcher`, which gets commands as lines of JSON. It answers with
their process numbers, and with their exit codes once they have ended.
"""

import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
# What most commands import only while they run.
LATE = ["fairjudge_site.urls", "judging.management.commands.judge"]


class Launcher:
    """Runs commands in one environment, whose settings are read once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def __enter__(self) -> "Launcher":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.launcher"], cwd=ROOT, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def data(self) -> Path:
        return Path(self.environment["FAIRJUDGE_DATA"])

    def start_over(self) -> None:
        """Leave the data folder as it was once the settings were read."""
        kept = self.data.with_name(self.data.name + "-at-the-start")
        if not kept.exists():
            self.run_at_once()
            shutil.copytree(self.data, kept)
        shutil.rmtree(self.data)
        shutil.copytree(kept, self.data)

    def start(self, *commands: Sequence[str], folder: Path = ROOT, **streams: str) -> list[int]:
        """Start commands at once. `stdin`, `stdout` and `stderr` are files, which have the
        command's number for `{}`. Returns the numbers of their processes."""
        task = {"commands": commands, "folder": str(folder), **streams}
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def wait(self) -> list[int]:
        """The exit codes of the commands that were started last."""
        return json.loads(self.process.stdout.readline())

    def run_at_once(
        self, *commands: Sequence[str], folder: Path = ROOT, given: bytes = b""
    ) -> list[subprocess.CompletedProcess[bytes]]:
        with TemporaryDirectory() as kept:
            Path(kept, "stdin").write_bytes(given)
            streams = {"stdout": f"{kept}/stdout{{}}", "stderr": f"{kept}/stderr{{}}"}
            self.start(*commands, folder=folder, stdin=f"{kept}/stdin", **streams)
            return [
                subprocess.CompletedProcess(
                    command, code, *(Path(name.format(n)).read_bytes() for name in streams.values())
                )
                for n, (command, code) in enumerate(zip(commands, self.wait(), strict=True))
            ]

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run one command, and return what it wrote as text."""
        (done,) = self.run_at_once(command, **options)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done


def become(command: list[str], number: int, task: dict[str, Any]) -> None:
    """Go on as this command."""
    os.chdir(task["folder"])
    streams = (task.get(name, os.devnull) for name in ("stdin", "stdout", "stderr"))
    for descriptor, name in enumerate(streams):
        writes = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(name.format(number), writes if descriptor else os.O_RDONLY), descriptor)
    # Lines for the launcher may be in the buffer of the one before.
    sys.stdin = os.fdopen(0)
    sys.argv = ["manage.py", *command]
    importlib.import_module("fairjudge_site.__main__").main()


def answer(numbers: list[int]) -> None:
    sys.stdout.write(json.dumps(numbers) + "\n")
    sys.stdout.flush()


def main() -> None:
    importlib.import_module("django").setup()
    for name in LATE:
        importlib.import_module(name)
    importlib.import_module("django.db.migrations.loader").MigrationLoader(None)
    # Otherwise the first collection in each child would copy most of the memory.
    gc.collect()
    gc.freeze()
    while line := sys.stdin.readline():
        task = json.loads(line)
        children = []
        for number, command in enumerate(task["commands"]):
            child = os.fork()
            if child == 0:
                become(command, number, task)
                return
            children.append(child)
        answer(children)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        answer(codes)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
    main()
