"""The docs as a contract: what they name is there, and what is there for users is named in them."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from annotation.results.tables import exports
from judging.dataset.records import ALIASES, plain

ROOT = Path(__file__).parents[1]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = {"annotation", "annotation.results", "fairjudge_site", "judging"}
# Which folders a path in the docs may begin with, seen from the checkout.
FOLDERS = "annotation|benchmarks|docs|fairjudge_site|judging|static|tests"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_link_and_path_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    inside = [link for link in links if not link.startswith(("http:", "https:", "mailto:"))]
    assert [link for link in inside if not (page.parent / link).exists()] == []
    assert [path for path in PATH.findall(text) if not (ROOT / path).exists()] == []


def test_the_walk_through_the_code_takes_fewer_than_eight_files():
    walk = read("README.md").split("## One example")[1].split("\n\n")[2]
    steps = [step for step in re.split(r"^\d\. ", walk, flags=re.MULTILINE) if step]
    assert len(steps) < 8
    for step in steps:
        first, *beside = re.findall(r"`([\w/]+\.py)`", step)
        folder = (ROOT / first).parent
        assert [name for name in beside if not (folder / name).exists()] == []


def test_every_command_is_named():
    commands = {name for name, app in get_commands().items() if app in OURS}
    words = {word for page in DOCS for word in re.findall(r"\w+", page.read_text("utf-8"))}
    assert commands - words == set()


def test_every_command_that_is_named_is_there():
    shown = {name for page in DOCS for name in re.findall(r"manage\.py (\w+)", page.read_text())}
    assert shown - set(get_commands()) == set()


@pytest.mark.parametrize("table", ["LABEL", "VOTE", "SAMPLE", "PREFERENCE"])
def test_the_columns_of_every_export_are_listed_in_their_order(table):
    folded = " ".join(read("docs/files.md").split())
    assert ", ".join(getattr(exports, f"{table}_COLUMNS")) in folded


def test_the_names_by_which_columns_are_recognised_are_the_ones_listed():
    table = read("docs/files.md").split("| field | recognised names |")[1].split("\n\n")[0]
    lines = re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE)
    listed = {field: tuple(map(plain, names.split(", "))) for field, names in lines}
    assert listed == ALIASES
