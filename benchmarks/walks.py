"""How many product files do the main jobs pass through?

    python -m benchmarks.walks [--files] [--json] [--check] [--new FILE]

A file counts when one of its functions is entered by a call during the walk, in any thread: the
files that you would see if you stepped through the job with a debugger that stops in `judging/`,
`annotation/` and `fairjudge_site/` only, middleware, access checks, template tags and models'
methods among them. Importing a module, executing a class body and code that `dataclass` generates
do not count, and nor do migrations or the `__init__` files of management commands.

All walks start from a new SQLite database and empty caches. They were done once before, on a
database that is then thrown away, so that imports and values that a process computes only once
(compiled patterns, read templates) are not counted. Jobs are done the way a user does them: by a
command, or by requests through the middleware. The results page is that of a project with 24
examples, two annotators and an audit, since with one example most of its sections say that there
is too little data.
"""

import argparse
import csv
import io
import json
import linecache
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("annotation", "fairjudge_site", "judging")
NOT_COUNTED = ("/migrations/", "management/__init__.py", "management/commands/__init__.py")
LIMITS = {
    "import one row": 12,
    "judge one example": 40,
    "hand out an item": 12,
    "one vote": 10,
    "export labels.csv": 10,
    "results page": 50,
    "results page, by the quick queue": 50,
    "row to labels.csv": 80,
}
# What one row passes through until it is in labels.csv.
WHOLE = (
    "import one row",
    "judge one example",
    "open a round",
    "hand out an item",
    "one vote",
    "export labels.csv",
)
MANY = 24
COLUMNS = ("id", "question", "response_1", "response_2", "model_1", "model_2", "category")


@dataclass(frozen=True)
class Entry:
    """The first function of a file that a walk entered."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}"


class Recorder:
    """Collects the files whose functions are entered, as a profile function of every thread.

    It must be installed before any thread of the product starts: a thread keeps the profile
    function that was set when it began. A generator or coroutine that goes on counts as entered.
    """

    def __init__(self, root: Path = ROOT, folders: tuple[str, ...] = PRODUCT) -> None:
        self._root = f"{root}{os.sep}"
        self._folders = tuple(f"{folder}/" for folder in folders)
        self._paths: dict[str, str] = {}
        self._entered: dict[str, CodeType] | None = None

    def install(self) -> None:
        threading.setprofile(self._on_event)

    def uninstall(self) -> None:
        threading.setprofile(None)

    @contextmanager
    def walk(self) -> Iterator[list[Entry]]:
        """Yields a list that holds the entered files, in this order, when the walk has ended."""
        entries: list[Entry] = []
        self._entered = entered = {}
        # In this thread, whose calls outside of walks would take three times as long.
        sys.setprofile(self._on_event)
        try:
            yield entries
        finally:
            sys.setprofile(None)
            self._entered = None
        entries += (
            Entry(path, definition_line(code), code.co_qualname) for path, code in entered.items()
        )

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        entered = self._entered
        if entered is None or event != "call":
            return
        code = frame.f_code
        # Modules and class bodies keep their names in a dictionary; functions are optimized.
        if code.co_flags & CO_OPTIMIZED and (path := self._path(code.co_filename)):
            entered.setdefault(path, code)

    def _path(self, filename: str) -> str:
        """Return the file's path in the checkout if it is a product file, else ""."""
        path = self._paths.get(filename)
        if path is None:
            path = filename.removeprefix(self._root).replace(os.sep, "/")
            counts = path.startswith(self._folders) and not any(
                part in path for part in NOT_COUNTED
            )
            path = self._paths[filename] = path if counts else ""
        return path


def definition_line(code: CodeType) -> int:
    """Return the line of `def`; a decorated function's code object begins at its decorators."""
    for line in range(code.co_firstlineno, code.co_firstlineno + 20):
        if f"def {code.co_name}(" in linecache.getline(code.co_filename, line):
            return line
    return code.co_firstlineno


def command(*words: str) -> str:
    from django.core.management import call_command

    out = io.StringIO()
    call_command(*words, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def write_pairs(path: Path, n: int) -> str:
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(COLUMNS)
        for i in range(n):
            texts = (f"Question {i}?", f"First response, {i}.", f"**Second** response, {i}.")
            rows.writerow([f"p{i}", *texts, "maple-7b", "birch-3b", ("maths", "prose")[i % 2]])
    return str(path)


def browser(user: Any) -> Any:
    """Return a client that is logged in and names the site's own host."""
    from django.conf import settings
    from django.test import Client

    client = Client(headers={"host": settings.FAIRJUDGE_URL.rpartition("/")[2]})
    client.force_login(user, backend=settings.LOGIN_BACKEND)
    return client


def get(client: Any, url: str) -> Any:
    response = client.get(url, follow=True)
    assert response.status_code == 200, (url, response.status_code)
    return response


def hand_out(client: Any, round_url: str) -> str:
    """Return the address of the item that the page shows; empty when there is none left."""
    response = get(client, round_url)
    shown: str = response.redirect_chain[-1][0] if response.redirect_chain else ""
    return shown.partition("?")[0]


def vote(client: Any, item_url: str, answer: str = "left") -> None:
    fields = {"token": item_url.rpartition("/")[2], "overall": answer, "seconds": "1.5"}
    response = client.post(f"{item_url}/vote", fields)
    assert response.status_code in (302, 303), response.status_code


def round_url(client: Any) -> str:
    """Return the address of the only open round on the annotator's first page."""
    page = client.get("/annotate/").content.decode()
    url: str = page.partition('href="/annotate/r/')[2].partition('"')[0]
    assert url, "no open round is shown"
    return f"/annotate/r/{url}"


def do_walks(recorder: Recorder, folder: Path) -> dict[str, list[Entry]]:
    """Do every walk in the database that is there, and return what each entered."""
    from django.utils import timezone

    from tests.factories import make_annotator, make_member, make_project

    walks: dict[str, list[Entry]] = {}

    def record(name: str, action: Callable[[], Any]) -> Any:
        with recorder.walk() as entries:
            value = action()
        walks[name] = entries
        return value

    project = make_project("walk")
    annotator = browser(make_annotator(project, "ana").user)
    row = write_pairs(folder / "one.csv", 1)
    labels = folder / "labels.csv"
    judged = ("--method=mec_bpc", "--price=1,2", "--seed=5")
    record("import one row", lambda: command("import_examples", "walk", row))
    record("judge one example", lambda: command("judge", "walk", "--k=1", *judged))
    record(
        "open a round", lambda: command("open_round", "walk", "--beta=100", "--votes=1", "--seed=7")
    )
    address = round_url(annotator)
    item = record("hand out an item", lambda: hand_out(annotator, address))
    record("one vote", lambda: vote(annotator, item))
    record("export labels.csv", lambda: command("export", "walk", "-o", str(labels)))
    with labels.open(newline="", encoding="utf-8") as stream:
        (label,) = csv.DictReader(stream)
    assert label["source"] == "majority", label
    assert label["score_1"], label

    many = make_project("many")
    people = [browser(make_annotator(many, name).user) for name in ("ben", "cleo")]
    researcher = browser(make_member(many, "researcher", "rosa"))
    command("import_examples", "many", write_pairs(folder / "many.csv", MANY))
    command("judge", "many", "--k=3", *judged)
    command("open_round", "many", "--beta=50", "--votes=2", "--audit=4", "--seed=7")
    for person in people:
        address = round_url(person)
        n = 0
        while item := hand_out(person, address):
            vote(person, item, ("left", "right", "tie")[n % 3])
            n += 1
    # Before the first view of the judge a page only asks whether you want it.
    many.memberships.update(unblinded_at=timezone.now())
    # A client's first request loads its middleware, which belongs to the warm-up.
    get(researcher, "/docs/glossary")
    clear_caches()
    record("results page", lambda: get(researcher, "/p/many/results/verdict"))
    clear_caches()

    def by_the_quick_queue() -> None:
        renew_report(many.runs.get().pk)
        get(researcher, "/p/many/results/verdict")

    record("results page, by the quick queue", by_the_quick_queue)
    whole = {entry.path: entry for name in reversed(WHOLE) for entry in reversed(walks[name])}
    walks["row to labels.csv"] = list(reversed(whole.values()))
    return walks


def renew_report(run_id: int) -> None:
    """Run the worker's task here, found by its name: its module may move."""
    from celery import current_app

    current_app.loader.import_default_modules()
    (name,) = (name for name in current_app.tasks if name.endswith(".renew_report"))
    current_app.tasks[name](run_id)


def clear_caches() -> None:
    from django.conf import settings
    from django.core.cache import caches

    for alias in settings.CACHES:
        caches[alias].clear()


def measure(new: Path | None = None) -> dict[str, list[Entry]]:
    """Do all walks twice, the second time recorded, over two copies of one new database.

    Args: new: that database, with all tables and no rows; made here if there is none.
    """
    # These settings make a data folder of their own, and leave no key to be billed.
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ.pop("FAIRJUDGE_TEST_DATABASE_URL", None)
    recorder = Recorder()
    recorder.install()
    import django

    django.setup()
    from django.conf import settings
    from django.db import connections

    from tests.loopback import BiasedJudge, LoopbackServer

    data = Path(settings.FAIRJUDGE_DATA)
    database = Path(settings.DATABASES["default"]["NAME"])
    walks: dict[str, list[Entry]] = {}
    try:
        if new is None:
            command("migrate", "--verbosity=0")
            connections.close_all()
            new = data / "new.sqlite3"
            shutil.copy(database, new)
        for name in ("warm-up", "measured"):
            for left in database.parent.glob(f"{database.name}*"):
                left.unlink()
            shutil.copy(new, database)
            clear_caches()
            folder = data / name
            folder.mkdir()
            # A new port makes a new endpoint, about which the process has learned nothing yet.
            with LoopbackServer(judge=BiasedJudge(position_bias=2.0, seed=4)) as server:
                settings.FAIRJUDGE_ENDPOINTS = {
                    "default": {"base_url": server.base_url, "key_variable": ""}
                }
                walks = do_walks(recorder, folder)
            connections.close_all()
    finally:
        recorder.uninstall()
        shutil.rmtree(data, ignore_errors=True)
    return walks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", action="store_true", help="list the files in order of entry")
    parser.add_argument("--json", action="store_true", help="print JSON, with the files")
    parser.add_argument("--check", action="store_true", help="fail if a walk exceeds its limit")
    parser.add_argument("--new", type=Path, help="an SQLite file with all tables and no rows")
    options = parser.parse_args()
    walks = measure(options.new)
    exceeded = [name for name, limit in LIMITS.items() if len(walks[name]) > limit]
    if options.json:
        report = {
            name: {
                "files": len(entries),
                "limit": LIMITS.get(name),
                "entered": [str(entry) for entry in entries],
            }
            for name, entries in walks.items()
        }
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        sys.stdout.write(f"{'walk':34} files  limit\n")
        for name, entries in walks.items():
            limit = LIMITS.get(name, "")
            note = "  TOO MANY" if name in exceeded else ""
            sys.stdout.write(f"{name:34} {len(entries):5}  {limit:>5}{note}\n")
            if options.files:
                sys.stdout.writelines(f"    {entry}\n" for entry in entries)
    if options.check and exceeded:
        sys.exit(f"Walks that enter more files than they may: {', '.join(exceeded)}.")


if __name__ == "__main__":
    main()
