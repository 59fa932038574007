"""The steps of the GitHub Actions example in docs/gate.md, run as they are, without a network."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from annotation.results.demo import PUBLISHED

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[4]


def steps():
    """The job's steps that run a script, by name. Installing is what the checkout stands for."""
    page = (ROOT / "docs/gate.md").read_text()
    job = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])["jobs"]["gate"]
    return {step["name"]: step["run"] for step in job["steps"] if "name" in step}


@pytest.fixture
def run(environment_with_tables, tmp_path):
    """Runs a script in a checkout, as GitHub does: by bash that stops at the first failure."""
    folder = tmp_path / "checkout"
    (folder / "eval").mkdir(parents=True)
    shutil.copy(PUBLISHED / "pairs.jsonl", folder / "eval/pairs.jsonl")
    shutil.copy(PUBLISHED / "votes.csv", folder / "eval/votes.csv")
    shutil.copy(PUBLISHED / "chatgpt.jsonl", folder / "eval/judgments.jsonl")
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "fairjudge"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "manage.py"}" "$@"\n')
    program.chmod(0o755)
    environment = environment_with_tables | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        # Nothing may ask a judge.
        "OPENAI_BASE_URL": "http://127.0.0.1:1",
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }

    def run(script):
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_every_step_of_the_example_runs(run, tmp_path):
    assert list(steps()) == ["Load the evaluation", "Gate", "Summary"]
    for name, script in steps().items():
        done = run(script)
        assert done.returncode == 0, (name, done.stdout, done.stderr)
    assert "pass" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "checkout/gate.xml").read_text().count("<testcase") == 2
    # A bound that the judge breaks stops the job.
    assert run(steps()["Gate"].replace("accuracy>=0.45", "accuracy>=0.9")).returncode == 10


@pytest.mark.long
def test_what_is_not_decided_stops_the_job_unless_it_is_let_through(run):
    """The test above tries the bound that is broken."""
    load, gate, _ = steps().values()
    assert run(load).returncode == 0
    assert run(gate.replace("accuracy>=0.45", "accuracy>=0.56")).returncode == 11
    let_through = gate.rstrip() + " || test $? -eq 11"
    assert run(let_through.replace("accuracy>=0.45", "accuracy>=0.56")).returncode == 0
    assert run(let_through.replace("accuracy>=0.45", "accuracy>=0.9")).returncode != 0
