"""The wheel: what it holds, and that it works in a fresh environment with httpx only."""

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.system

CLIENT = Path(__file__).parents[2] / "client"
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SMOKE = """
import sys
from importlib.util import find_spec
from fairjudge_client import FairJudge, Invalid, __file__ as place

assert "site-packages" in place, place
assert not [name for name in ("pandas", "polars", "pyarrow", "numpy") if find_spec(name)]
with FairJudge() as fj:
    project = fj.create_project("From a wheel")
    rows = [{"question": f"Q{n}?", "response_1": "a", "response_2": "b"} for n in range(3)]
    assert project.examples.upsert(rows).wait(timeout=300).info.written == 3
    assert len(list(project.examples.list())) == 3
    estimate = project.runs.estimate(k=1, price={"prompt": 1, "completion": 2})
    run = project.runs.start(k=1).wait(timeout=300)
    assert run.info.settled == estimate.calls == 6
    assert [row["judge_label"] is None for row in project.rows("labels", run)] == [False] * 3
    assert project.save("labels", sys.argv[1]).stat().st_size > 100
    try:
        project.labels()
    except ImportError as error:
        print(error)
    try:
        fj.create_project("From a wheel")
    except Invalid as error:
        print(error)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client-wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=CLIENT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        (information,) = (name for name in names if name.endswith("/METADATA"))
        metadata = packed.read(information).decode()
    package = CLIENT / "fairjudge_client"
    files = {path.relative_to(CLIENT).as_posix() for path in package.glob("*.py")}
    assert {name for name in names if "dist-info" not in name} == files | {
        "fairjudge_client/py.typed"
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert [line for line in needed if "extra ==" not in line] == [
        f"Requires-Dist: {PROJECT['dependencies'][0].replace('>=0.27,<1', '<1,>=0.27')}"
    ]
    assert {"arrow", "pandas", "polars"} == set(PROJECT["optional-dependencies"])


def needed_by(name, seen):
    """Collect a distribution and all that it needs here."""
    if name in seen:
        return
    found = distribution(name)
    seen[name] = found
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed_by(requirement.name, seen)


@pytest.fixture
def fresh(wheel, tmp_path):
    """The Python of an environment that has the wheel and httpx, as they are here."""
    place = tmp_path / "fresh"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/python*/site-packages")
    packages_here: dict[str, object] = {}
    needed_by("httpx", packages_here)
    for found in packages_here.values():
        for file in found.files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(file.locate())
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    alone = ["--no-index", "--no-deps", "--disable-pip-version-check", "--no-compile", wheel]
    subprocess.run([*install, *alone], check=True)
    check = [sys.executable, "-m", "pip", "--python", python, "check"]
    subprocess.run(check, check=True, capture_output=True)
    return python


def test_the_wheel_works_with_httpx_only(fresh, working_site, tmp_path):
    environment = {
        "PATH": os.environ["PATH"], "FAIRJUDGE_URL": working_site.url,
        "FAIRJUDGE_TOKEN": working_site.token,
    }  # fmt: skip
    command = [fresh, "-I", "-c", SMOKE, tmp_path / "labels.csv"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "fairjudge-client[pandas]" in done.stdout
    assert "exists already" in done.stdout
    assert working_site.token not in done.stdout
