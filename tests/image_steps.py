"""Runs the steps of Dockerfile and compose.yaml without a container engine: `make image-steps`.

As root with debootstrap, Debian's packages are installed into fresh roots, one for each stage.
Dependencies are installed by their hashes into a new virtual environment, and the default image is
measured. The code is copied as the image would hold it, without a right to write. From there, each
service runs its command with its environment, as a user without rights, on a real PostgreSQL and on
a Redis that starts as the file says; then its health check runs. What only an engine can do is
named in the output.
"""

import fnmatch
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import yaml

from tests import postgresql
from tests.processes import eventually, free_port, processes_of

ROOT = Path(__file__).parents[1]
PASSWORDS = {"POSTGRES_PASSWORD": "postgres", "REDIS_PASSWORD": "redis-password"}
NOBODY = 65534
# Python's own image has some 125 MB, so the default one stays under 500 MB.
LARGEST = 375_000_000
OPTIONS = re.compile(r"--[a-z-]+=\S+ +")


class StepFailed(Exception):
    """A step ended otherwise than it would have to in an image."""


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Return each instruction with its arguments, continued lines joined."""
    lines = [line for line in dockerfile.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(" ", 1)) for line in joined.splitlines() if line]  # type: ignore[misc]


def copied(source: Path, target: Path) -> None:
    """Copy a folder of the checkout as `COPY` does, without what .dockerignore names."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]

    def ignored(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(ROOT)
        return {
            name
            for name in names
            for pattern in patterns
            if fnmatch.fnmatch((inside / name).as_posix(), pattern)
            or (pattern.startswith("**/") and fnmatch.fnmatch(name, pattern[3:]))
        }

    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


def filled(text: str) -> str:
    return re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: PASSWORDS[found[1]], text)


class Root:
    """The file system of a stage: Debian's packages in a folder, if this machine can make one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def possible() -> bool:
        return os.geteuid() == 0 and shutil.which("debootstrap") is not None

    def fill(self, release: str) -> None:
        command = ["debootstrap", "--variant=minbase", release, self.folder]
        subprocess.run(command, check=True, capture_output=True)

    def run(self, command: str) -> str:
        shutil.copy("/etc/resolv.conf", self.folder / "etc" / "resolv.conf")
        clean = [
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND=noninteractive",
        ]
        inside = ["chroot", self.folder, *clean, "sh", "-c", command]
        # A namespace of its own, so that nothing of what it mounts or starts is left behind.
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.folder}/proc", *inside],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise StepFailed(f"RUN {command}: {done.stderr[-2000:]}")
        return done.stdout


class Image:
    """What the image would hold, in a folder: the code, the virtual environment, the settings."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.app, self.venv = folder, folder / "app", folder / "venv"
        self.app.mkdir()
        self.environment: dict[str, str] = {}
        self.command: list[str] = []
        self.health: list[str] = []
        self.stage = ""
        self.roots: dict[str, Root] = {}

    def build(self, dockerfile: str) -> None:
        for name, arguments in instructions(dockerfile):
            getattr(self, {"FROM": "from_"}.get(name, name.lower()), self.other)(arguments)
        for path in [self.app, *self.app.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o555)

    def other(self, arguments: str) -> None:
        """WORKDIR, USER, VOLUME, EXPOSE: nothing to run."""

    def here(self, path: str) -> Path:
        """A path in the image, as it is on this machine."""
        return self.folder / path[1:] if path.startswith("/") else self.app / path

    def base(self) -> Root | None:
        return self.roots.get(self.stage)

    def from_(self, arguments: str) -> None:
        source, _, self.stage = arguments.split()
        if self.stage == "full":
            size = sum(size_of(part) for part in (self.venv, self.app))
            say(f"the default image adds {size / 1e6:.0f} MB to its base")
            if size > LARGEST:
                raise StepFailed(f"The default image adds more than {LARGEST / 1e6:.0f} MB.")
        if Root.possible() and (source in self.roots or not self.roots):
            root = Root(self.folder / "roots" / self.stage)
            root.folder.parent.mkdir(exist_ok=True)
            if source in self.roots:
                subprocess.run(["cp", "-a", self.roots[source].folder, root.folder], check=True)
            else:
                (release,) = re.findall(r"-slim-(\w+)@", source)
                root.fill(release)
                say(f"a fresh root of Debian {release}")
            self.roots[self.stage] = root

    def copy(self, arguments: str) -> None:
        *sources, target = arguments.split()
        if sources[0].startswith("--from="):
            return self.copy_from(sources[0].removeprefix("--from="), sources[1:], target)
        for source in sources:
            if (ROOT / source).is_dir():
                copied(ROOT / source, self.here(target))
            else:
                shutil.copy(ROOT / source, self.here(target))

    def copy_from(self, stage: str, sources: list[str], target: str) -> None:
        if sources == ["/extras"]:
            (packages,) = self.venv.glob("lib/python3.*/site-packages")
            shutil.copytree(self.here("/extras"), packages, dirs_exist_ok=True)
        elif stage in self.roots and target.startswith("/usr/"):
            place = self.roots[self.stage].folder / target[1:]
            place.mkdir(parents=True)
            for source in sources:
                shutil.copy(self.roots[stage].folder / source[1:], place)
                version = self.roots[self.stage].run(f"{target}{Path(source).name} --version")
                say(f"{self.stage}: {version.strip()}")

    def run(self, arguments: str) -> None:
        if not arguments.startswith(("pip ", "python ")):
            if root := self.base():
                root.run(arguments)
            say(f"{'' if root else 'left to an engine: '}RUN {arguments.split(' && ')[0]} …")
            return
        began = time.monotonic()
        words = [
            str(self.here(word))
            if word.startswith(("/venv", "/extras", "/slim.py", "/bytecode.py"))
            else word
            for word in shlex.split(arguments)
        ]
        if words[0] == "pip":
            words[:1] = [sys.executable, "-m", "pip"]
        else:
            mine = self.venv / "bin" / "python"
            words[0] = str(mine if mine.exists() else self.python())
        done = subprocess.run(words, cwd=self.app, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StepFailed(f"RUN {arguments}: {done.stderr[-2000:]}")
        say(f"RUN {arguments} ({time.monotonic() - began:.0f} s)")

    def python(self) -> Path:
        """Return a Python that the user without rights may run too, a copy if need be."""
        own = Path(sys.base_prefix)
        if os.geteuid() or not any(folder.stat().st_mode & 0o1 == 0 for folder in own.parents):
            return own / "bin" / "python3"
        unused = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a", "share")
        shutil.copytree(own, self.venv.parent / "python", symlinks=True, ignore=unused)
        return self.venv.parent / "python" / "bin" / "python3"

    def env(self, arguments: str) -> None:
        set_here = dict(word.split("=", 1) for word in shlex.split(arguments))
        # The folders of programs are those of this machine.
        self.environment |= {name: value for name, value in set_here.items() if name != "PATH"}

    def cmd(self, arguments: str) -> None:
        self.command = yaml.safe_load(arguments)

    def healthcheck(self, arguments: str) -> None:
        self.health = shlex.split(OPTIONS.sub("", arguments).removeprefix("CMD "))


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


class Deployment:
    """The services of compose.yaml as processes of this machine."""

    def __init__(self, image: Image, folder: Path, database: str) -> None:
        self.image, self.database = image, database
        self.services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())[
            "services"
        ]
        self.data, self.tmp, self.logs = (folder / name for name in ("data", "tmp", "logs"))
        for made in (self.data, self.tmp, self.logs):
            made.mkdir()
        self.port, self.redis_port = free_port(), 0
        self.rights: dict[str, Any] = {}
        if os.geteuid() == 0:
            self.rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(self.data, NOBODY, NOBODY)
            os.chown(self.tmp, NOBODY, NOBODY)

    def here(self, text: str) -> str:
        """Addresses in containers, as they are on this machine."""
        text = filled(text).replace("/data", str(self.data)).replace(":8000", f":{self.port}")
        text = text.replace("0.0.0.0", "127.0.0.1")
        text = re.sub(r"postgres://\S+@postgres:\S+", self.database, text)
        return text.replace("@redis:6379", f"@127.0.0.1:{self.redis_port}")

    def environment_of(self, name: str) -> dict[str, str]:
        service = self.image.environment | self.services[name].get("environment", {})
        return {key: self.here(value) for key, value in service.items()} | {
            "PATH": f"{self.image.venv / 'bin'}:{os.environ['PATH']}",
            "TMPDIR": str(self.tmp),
            "HOME": "/nonexistent",
            # Of the copied Python, if there is one.
            "LD_LIBRARY_PATH": str(self.image.venv.parent / "python" / "lib"),
            "FAIRJUDGE_URL": f"http://127.0.0.1:{self.port}",
        }

    def run(self, name: str, words: list[str]) -> str:
        """Run a command in a service's container and return what it printed."""
        done = subprocess.run(
            list(map(self.here, words)), cwd=self.image.app, env=self.environment_of(name),
            capture_output=True, text=True, check=False, **self.rights,
        )  # fmt: skip
        if done.returncode:
            raise StepFailed(f"{name}: {shlex.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def words_of(self, name: str) -> list[str]:
        command = self.services[name]["command"]
        return shlex.split(command) if isinstance(command, str) else list(map(filled, command))

    @contextmanager
    def up(self, name: str) -> Iterator[Path]:
        log = self.logs / f"{name}.txt"
        with log.open("w") as out:
            process = subprocess.Popen(
                self.words_of(name), cwd=self.image.app, env=self.environment_of(name), stdout=out,
                stderr=out, **self.rights,
            )  # fmt: skip
        try:
            yield log
            if process.poll() is not None:
                raise StepFailed(f"{name} ended: {log.read_text()[-2000:]}")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            grace = int(self.services[name].get("stop_grace_period", "10s").removesuffix("s"))
            if process.wait(timeout=grace):
                raise StepFailed(f"{name} ended with {process.returncode}: {log.read_text()}")
            say(f"{name} stopped by SIGTERM in {time.monotonic() - began:.1f} s (of {grace} s)")
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def redis(self) -> Iterator[None]:
        self.redis_port = free_port()
        words = [*self.words_of("redis"), "--port", str(self.redis_port), "--bind", "127.0.0.1"]
        server = subprocess.Popen(words, cwd=self.tmp, stdout=subprocess.DEVNULL, **self.rights)
        health = self.services["redis"]["healthcheck"]["test"]
        check = health.replace("redis-cli", f"redis-cli -p {self.redis_port}")

        def answers(password: str) -> bool:
            environment = os.environ | {"REDISCLI_AUTH": password}
            done = subprocess.run(check, shell=True, env=environment, capture_output=True)
            return done.returncode == 0

        try:
            if not eventually(lambda: answers(PASSWORDS["REDIS_PASSWORD"])):
                raise StepFailed("redis: its health check fails")
            if answers("wrong"):
                raise StepFailed("redis: its health check passes with a wrong password")
            say("redis: started with a password, healthy")
            yield
        finally:
            server.terminate()
            server.wait()

    def walk(self) -> None:
        with ExitStack() as running:
            running.enter_context(self.redis())
            self.run("migrate", self.words_of("migrate"))
            say("migrate: done")
            before = listing(self.image.app)
            logs = {name: running.enter_context(self.up(name)) for name in ("web", "runs", "quick")}
            self.wait(logs)
            for name in logs:
                test = self.services[name].get("healthcheck", {}).get("test")
                check = test[1:] if test else self.image.health
                if not eventually(lambda name=name, check=check: self.is_well(name, check)):
                    raise StepFailed(f"{name}: its health check fails: {shlex.join(check)}")
                say(f"{name}: up and healthy")
            created = self.run("web", ["python", "manage.py", "create_user", "kim", "--superuser"])
            if "/password/" not in created:
                raise StepFailed(f"create_user: {created}")
            self.run("web", ["python", "manage.py", "backup", "/data/backup.zip"])
            say("web: create_user and backup work")
            if listing(self.image.app) != before:
                raise StepFailed("something wrote to the code")
            if (found := self.foreign_users()) and self.rights:
                raise StepFailed(f"these processes have rights: {found}")

    def wait(self, logs: dict[str, Path]) -> None:
        says = {"web": "FairJudge is at", "runs": "ready.", "quick": "ready."}
        for name, log in logs.items():
            if not eventually(lambda n=name, log=log: says[n] in log.read_text(), 180):
                raise StepFailed(f"{name} does not start: {log.read_text()[-2000:]}")

    def is_well(self, name: str, check: list[str]) -> bool:
        try:
            self.run(name, check)
        except StepFailed:
            return False
        return True

    def foreign_users(self) -> set[int]:
        return {
            pid for pid in processes_of(str(self.data)) if Path(f"/proc/{pid}").stat().st_uid == 0
        }


def listing(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*")}


@contextmanager
def new_database(url: str) -> Iterator[str]:
    name = f"fairjudge_image_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    if not postgresql.answers() or shutil.which("redis-server") is None:
        sys.exit("The steps need a PostgreSQL (FAIRJUDGE_TEST_POSTGRESQL) and redis-server.")
    folder = Path(tempfile.mkdtemp(prefix="fairjudge-image-"))
    folder.chmod(0o755)
    try:
        image = Image(folder)
        image.build((ROOT / "Dockerfile").read_text())
        with new_database(postgresql.URL) as database:
            Deployment(image, folder, database).walk()
    except StepFailed as error:
        sys.exit(f"A step failed. {error}")
    finally:
        shutil.rmtree(folder)
    say("All steps that need no engine work.")


if __name__ == "__main__":
    main()
