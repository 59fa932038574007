"""The docs as a contract: what they name is there, and what is there for users is named in them."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import get_resolver

from annotation.results.tables import exports, people
from fairjudge_site import docs_pages
from judging.core.glossary import GLOSSARY
from judging.dataset.records import ALIASES, plain

ROOT = Path(__file__).parents[1]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = {"annotation", "annotation.results", "fairjudge_site", "judging"}
# Which folders a path in the docs may begin with, seen from the checkout.
FOLDERS = "annotation|benchmarks|client|docs|fairjudge_site|judging|static|tests"
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


@pytest.mark.parametrize("table", ["LABEL", "VOTE", "SAMPLE", "PREFERENCE", "PEOPLE"])
def test_the_columns_of_every_export_are_listed_in_their_order(table):
    folded = " ".join(read("docs/files.md").split())
    module = people if table == "PEOPLE" else exports
    assert ", ".join(getattr(module, f"{table}_COLUMNS")) in folded


def test_the_names_by_which_columns_are_recognised_are_the_ones_listed():
    table = read("docs/files.md").split("| field | recognised names |")[1].split("\n\n")[0]
    lines = re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE)
    listed = {field: tuple(map(plain, names.split(", "))) for field, names in lines}
    assert listed == ALIASES


# Where pages, messages and the code that makes them may name a page of the docs.
WRITTEN = [
    path
    for folder in (*sorted(OURS - {"annotation.results"}), "templates", "static/js")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".html", ".js")
]
SERVED = sorted(
    path.relative_to(ROOT / "docs").with_suffix("").as_posix()
    for path in (ROOT / "docs").rglob("*.md")
)
LINK = re.compile(r'(?:href|src)="([^"]*)"')
NAMED_ADDRESS = re.compile(r"/docs/[\w/#.-]*")


def anchors(html):
    return set(re.findall(r'id="([^"]*)"', html))


@pytest.fixture(scope="module")
def site():
    """The HTML of every page of the docs, as anybody gets it, by its address."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1")
    names = [*SERVED, docs_pages.GLOSSARY_NAME]
    pages = {f"/docs/{name}": client.get(f"/docs/{name}") for name in names}
    pages["/docs/"] = client.get("/docs/")
    assert {page.status_code for page in pages.values()} == {200}
    return {address: page.content.decode() for address, page in pages.items()}


def leads_somewhere(link, address, site):
    path, _, anchor = link.partition("#")
    if path.startswith("/docs/images/"):
        return (ROOT / path.removeprefix("/")).is_file()
    html = site.get(path or address)
    return html is not None and (not anchor or anchor in anchors(html))


def test_every_link_between_served_pages_leads_to_a_page_and_an_anchor(site):
    dead = [
        (address, link)
        for address, html in site.items()
        for link in LINK.findall(html)
        if link.startswith(("/docs/", "#")) or not re.match(r"https?:|/|data:", link)
        if not leads_somewhere(link, address, site)
    ]
    assert dead == []


def test_every_address_in_pages_messages_and_code_leads_to_a_page(site):
    named = {
        (path.name, address.rstrip("."))
        for path in WRITTEN
        for address in NAMED_ADDRESS.findall(path.read_text(encoding="utf-8"))
        if not address.startswith("/docs/images")
    }
    assert len(named) >= 3
    assert [(name, a) for name, a in named if not leads_somewhere(a, "", site)] == []


def test_every_word_of_the_glossary_is_at_its_address(site):
    assert [t.word for t in GLOSSARY.values() if not leads_somewhere(t.address, "", site)] == []


def test_help_of_every_page_leads_to_a_section(site):
    names = {name for name in get_resolver().reverse_dict if isinstance(name, str)} | {None}
    addresses = {docs_pages.help_of(name) for name in names}
    assert len(addresses) > 10
    assert [a for a in addresses if not leads_somewhere(a, "", site)] == []
    targets = {docs_pages.ROOT + target for target in docs_pages.HELP.values()}
    assert [a for a in targets if not leads_somewhere(a, "", site)] == []


def test_every_page_is_in_one_chapter(site):
    listed = [name for names in docs_pages.CHAPTERS.values() for name in names]
    assert sorted(listed) == sorted({*SERVED, docs_pages.GLOSSARY_NAME})


def test_the_docs_are_served_without_a_login_and_load_nothing_from_elsewhere(client):
    response = client.get("/docs/tutorial")
    assert response.status_code == 200
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    html = response.content.decode()
    assert [src for src in re.findall(r'src="([^"]*)"', html) if not src.startswith("/")] == []
    picture = client.get("/docs/images/run.png")
    assert picture.headers["Content-Type"] == "image/png"
    assert picture.getvalue().startswith(b"\x89PNG")
    assert client.get("/docs/images/nothing.png").status_code == 404


@pytest.mark.parametrize(
    "name", ["nothing", "../README", "%2e%2e/README", "methods", "a/b/c", "x\x00"]
)
def test_what_is_no_page_of_the_docs_is_not_found(client, name):
    assert client.get(f"/docs/{name}").status_code in (400, 404)
    assert docs_pages.docs_page(name) is None


def test_markdown_of_the_docs_makes_anchors_links_and_no_raw_html():
    text = "# One\n\n## A `b` (c)\n\n## A `b` (c)\n\n[x](files.md#y) [z](../LICENSE) <b onclick=1>"
    page = docs_pages.render_docs("methods/mec", text)
    assert page.title == "One"
    assert page.sections == (("a-b-c", "A b (c)"), ("a-b-c-1", "A b (c)"))
    assert '<a href="/docs/methods/files#y">x</a>' in page.html
    assert "LICENSE" not in page.html
    assert "z" in page.html
    assert "<b onclick" not in page.html


def test_comments_of_the_docs_are_not_shown():
    assert docs_pages.render_docs("a", "One.\n\n<!-- written -->\n\nTwo.").html.count("<p>") == 2
    assert "written" not in docs_pages.render_docs("a", "<!-- written -->\n\n|a|\n|-|\n").html
    assert "&lt;!--" not in "".join(
        docs_pages.docs_page(name).html for name in ("validation", "methods/cheapest", "reproduce")
    )


def test_no_mark_of_a_merge_is_left_in_a_text():
    marks = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("templates/**/*.html")]
    assert [str(file) for file in files if marks.search(file.read_text(encoding="utf-8"))] == []
