"""How many files a job passes through: what counts as entered, and the limits."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.walks import LIMITS, Entry, Recorder

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[1]
CODE = """
class Sample:
    scores = tuple(n for n in range(3))

    @property
    @staticmethod
    def best(): ...

    def work(self):
        return sum(self.scores)

def numbers():
    yield 1
    yield 2
"""


@pytest.fixture
def load(tmp_path):
    """Executes the code above as a module at a path."""

    def module(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE)
        names = {"__name__": path.stem}
        exec(compile(CODE, str(path), "exec"), names)
        return names

    return module


@pytest.fixture
def recorder(tmp_path):
    before, before_of_threads = sys.getprofile(), threading.getprofile()
    recorder = Recorder(tmp_path, ("room",))
    recorder.install()
    yield recorder
    sys.setprofile(before)
    threading.setprofile(before_of_threads)


def test_a_file_counts_when_a_function_is_entered(recorder, load):
    first, second = load("room/first.py"), load("room/second.py")
    with recorder.walk() as entries:
        second["Sample"]().work()
        next(first["numbers"]())
        second["numbers"]()
    assert entries == [
        Entry("room/second.py", 9, "Sample.work"),
        Entry("room/first.py", 12, "numbers"),
    ]
    assert str(entries[0]) == "room/second.py:9 Sample.work"


def test_a_decorated_function_is_named_by_its_own_line(recorder, load):
    sample = load("room/first.py")["Sample"]
    with recorder.walk() as entries:
        sample.__dict__["best"].fget.__func__()
    assert entries == [Entry("room/first.py", 7, "Sample.best")]


def test_a_generator_that_goes_on_counts(recorder, load):
    numbers = load("room/first.py")["numbers"]()
    next(numbers)
    with recorder.walk() as entries:
        next(numbers)
    assert [entry.path for entry in entries] == ["room/first.py"]


def test_threads_count(recorder, load):
    names = load("room/first.py")
    with recorder.walk() as entries:
        thread = threading.Thread(target=names["Sample"]().work)
        thread.start()
        thread.join()
    assert [entry.function for entry in entries] == ["Sample.work"]


def test_modules_and_class_bodies_do_not_count(recorder, tmp_path):
    code = compile("class Sample:\n    size = 1", str(tmp_path / "room" / "first.py"), "exec")
    with recorder.walk() as entries:
        exec(code, {})
    assert entries == []


@pytest.mark.parametrize("folder", ["rooms", "room/migrations"])
def test_other_folders_do_not_count(recorder, load, folder):
    sample = load(f"{folder}/first.py")["Sample"]()
    with recorder.walk() as entries:
        sample.work()
    assert entries == []


def test_no_walk_enters_more_files_than_it_may(new_database):
    command = [sys.executable, "-m", "benchmarks.walks", "--json", f"--new={new_database}"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    walks = json.loads(ended.stdout)
    files = {name: walks[name]["files"] for name in LIMITS}
    assert min(files.values()) > 0
    assert {name: n for name, n in files.items() if n > LIMITS[name]} == {}
