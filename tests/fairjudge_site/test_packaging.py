"""What `pip install` puts on a machine that has no checkout."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PARTS = ("annotation", "fairjudge_site", "judging")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder that the wheel was unpacked to."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([*build, folder], cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    with zipfile.ZipFile(made) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def run(site, cwd, *command):
    """In the folder, with nothing of ours in the environment but where the packages lie."""
    ours = {"PYTHONPATH": str(site), "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings"}
    theirs = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FAIRJUDGE_") and name not in ("DATABASE_URL", "CELERY_BROKER_URL")
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=theirs | ours,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wheel_holds_every_file_of_the_packages_and_of_the_pages(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for part in (*PARTS, "docs", "locale", "templates", "static")
        for path in (ROOT / part).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path != ROOT / "locale" / "catalogs.py"
    }
    outside = re.compile("^(docs|locale|templates|static)/")
    placed = {outside.sub(r"fairjudge_site/\1/", name) for name in files}
    assert {name for name in placed if not (wheel / name).exists()} == set()
    # What writes the catalogs needs packages that an installed site doesn't have.
    assert not list(wheel.rglob("catalogs.py"))


def test_a_wheel_names_its_licence_and_those_of_others(wheel):
    (information,) = wheel.glob("*.dist-info")
    assert "License-Expression: Apache-2.0" in (information / "METADATA").read_text()
    assert "Apache License" in (information / "licenses" / "LICENSE").read_text()
    assert "static/js/vega.js" in (information / "licenses" / "NOTICE").read_text()


@pytest.mark.long
def test_what_was_installed_works_without_a_checkout(wheel, tmp_path):
    made = run(wheel, tmp_path, "-m", "fairjudge_site", "create_user", "kim", "--superuser")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "data" / "fairjudge.sqlite3").exists()


def test_what_was_installed_serves_its_pages_and_their_style(wheel, tmp_path):
    code = (
        "import django; django.setup()\n"
        "from django.core.management import call_command\n"
        "from django.test import Client\n"
        "call_command('collectstatic', interactive=False, verbosity=0)\n"
        "print(Client(SERVER_NAME='127.0.0.1').get('/login/').content.decode())"
    )
    page = run(wheel, tmp_path, "-c", code)
    assert "<form" in page.stdout, page.stderr
    (style,) = re.findall(r'href="/static/(css/app\.\w+\.css)"', page.stdout)
    assert (tmp_path / "data" / "static" / style).exists()


def test_a_checkout_keeps_its_data_beside_itself():
    assert Path(settings.BASE_DIR) == ROOT
