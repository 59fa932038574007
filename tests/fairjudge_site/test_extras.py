"""Without an extra everything else works, and what needs the extra says which to install."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from annotation.results.delivery.verify import verify

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
# A package that is hidden like this is missing as one that was never installed is missing.
HIDE = """
import os
from importlib.machinery import PathFinder

hidden = tuple(os.environ["HIDDEN"].split())
find_spec = PathFinder.find_spec

def find(name, path=None, target=None):
    if name.partition(".")[0].startswith(hidden):
        return None
    return find_spec(name, path, target)

PathFinder.find_spec = find
"""
EXTRAS = {
    "arrow": "pyarrow",
    "embeddings": "onnxruntime tokenizers",
    "grammars": "tree_sitter",
    "images": "PIL",
    "local": "xllamacpp",
    "login": "allauth cryptography fido2 jwt pyotp qrcode",
    "otel": "opentelemetry",
    "pdf": "typst",
    "pictures": "vl_convert",
    "postgres": "psycopg redis",
    "s3": "storages boto3 botocore",
}
PAIR = "question,response_1,response_2\nWhich?,This one.,That one.\n"
RESULTS = """
from django.test import Client
from django.utils import timezone
from judging.projects.models import Membership
from tests import factories as make

project = make.make_project("small")
owner = make.make_member(project, "owner", "olga")
run = make.make_run(project)
for example in make.make_examples(project, 8, gold_label="win"):
    make.make_verdict(run, example, 0.5, rank=example.number + 1)
Membership.objects.update(unblinded_at=timezone.now())
client = Client(SERVER_NAME="localhost")
client.force_login(owner)
page = client.get("/p/small/results/review").content.decode()
print("<figure" in page, "/results/bpde.svg" in page, "fairjudge[pictures]" in page)
drawing = client.get("/p/small/results/bpde.svg")
print(drawing.status_code, drawing.content.decode().strip())
"""


@pytest.fixture
def without(launcher, tmp_path):
    """Runs a command in a process that lacks the packages of these extras."""
    (tmp_path / "sitecustomize.py").write_text(HIDE)

    def run(extras, *command, **variables):
        if not extras and not variables:
            return launcher.run(*command, folder=tmp_path)
        environment = launcher.environment | variables
        environment["HIDDEN"] = " ".join(EXTRAS[extra] for extra in extras)
        path = [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        return subprocess.run(
            [sys.executable, ROOT / "manage.py", *command], env=environment, cwd=tmp_path,
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return run


def test_every_extra_but_the_tests_own_is_tried_here():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == {*EXTRAS, "test"}


def test_the_site_starts_without_any_extra(without):
    checked = without(EXTRAS, "check")
    assert checked.returncode == 0, checked.stderr
    # The check reads what each command does; this one also opens the database.
    made = without(EXTRAS, "create_user", "kim")
    assert "kim sets a password here" in made.stdout, made.stderr


@pytest.mark.parametrize(
    ("variable", "value", "package"),
    [
        ("DATABASE_URL", "postgres://me:secret@127.0.0.1:1/none", "psycopg"),
        ("CELERY_BROKER_URL", "redis://:secret@127.0.0.1:1/0", "redis"),
    ],
)
def test_a_server_whose_driver_is_missing_is_refused_at_the_start(
    without, variable, value, package
):
    refused = without(["postgres"], "check", **{variable: value})
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"{variable} is not usable: it needs the package {package}, which is not installed. "
        "Install it with: pip install 'fairjudge[postgres]'. "
    )
    assert "secret" not in refused.stderr


@pytest.mark.parametrize(
    ("variable", "value", "package"),
    [
        ("FAIRJUDGE_SECOND_FACTOR", "OFFERED", "fido2"),
        ("FAIRJUDGE_OIDC", '[{"name": "a", "issuer": "https://a.b", "client_id": "c"}]', "allauth"),
    ],
)
def test_a_login_that_needs_packages_names_the_extra(without, variable, value, package):
    refused = without(["login"], "check", **{variable: value})
    assert refused.returncode == 1
    assert f"it needs the package {package}" in refused.stderr
    assert "pip install 'fairjudge[login]'" in refused.stderr
    assert without([], "check", **{variable: value}).returncode == 0


def test_judges_whose_extra_is_missing_start_no_run(without, tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIR)
    assert without([], "import_examples", "small", "pairs.csv").returncode == 0
    lab = '[{"name": "lab", "base_url": "http://127.0.0.1:1/v1"}]'
    judge = ("judge", "small", "--endpoint", "lab", "--model", "m", "--method", "portia")
    refused = without(["grammars"], *judge, FAIRJUDGE_ENDPOINTS=lab)
    assert refused.returncode == 1
    assert "pip install 'fairjudge[grammars]'. Nothing was started." in refused.stderr
    assert "Traceback" not in refused.stderr

    refused = without(["local"], "judge", "small", "--endpoint", "local")
    assert "pip install 'fairjudge[local]'" in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr


def test_a_parquet_file_says_what_it_needs_and_writes_nothing(without, tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIR)
    assert without([], "import_examples", "small", "pairs.csv").returncode == 0
    refused = without(["arrow"], "export", "small", "-o", "labels.parquet")
    assert refused.returncode == 1
    assert (
        "Parquet needs the package pyarrow, which is not installed. Nothing was exported. Install "
        "it with: pip install 'fairjudge[arrow]'"
    ) in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "labels.parquet").exists()
    assert without(["arrow"], "export", "small", "-o", "labels.csv").returncode == 0
    assert without([], "export", "small", "-o", "labels.parquet").returncode == 0
    assert (tmp_path / "labels.parquet").read_bytes()[:4] == b"PAR1"


def test_an_image_says_what_it_needs_and_nothing_is_imported(without, tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIR.replace("Which?", '"![](data:image/png;base64,aaaa)"'))
    refused = without(["images"], "import_examples", "small", "pairs.csv")
    assert refused.returncode == 1
    assert "pip install 'fairjudge[images]'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_plots_stay_on_the_page_and_a_picture_says_what_it_needs(without, tmp_path):
    seen = without(["pictures"], "shell", "--no-imports", "--command", RESULTS)
    assert seen.returncode == 0, seen.stderr
    page, drawing = seen.stdout.splitlines()
    assert page == "True False True"
    assert drawing == (
        "501 The plots need vl-convert-python, which is not installed here. "
        "Install it with: pip install 'fairjudge[pictures]'"
    )
    report = without(["pictures"], "report", "small", "--run", "latest", "-o", "report.zip")
    assert report.returncode == 0, report.stderr
    assert "fairjudge[pictures]" not in report.stderr
    assert verify(tmp_path / "report.zip") == []
    refused = without(["pdf"], "report", "small", "--run", "latest", "-o", "report.pdf")
    assert refused.returncode == 1
    assert "pip install 'fairjudge[pdf]'" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "report.pdf").exists()
