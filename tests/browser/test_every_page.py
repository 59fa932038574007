"""Every page of the site, found by its address: it fits a phone and a window at 200 %, axe finds
nothing, and what its first picture needs is small.

A new address is walked as soon as it is in the table of `tests/test_access_walk.py`, without which
that test fails. A page is any address that answers a GET with HTML.
"""

import gzip
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse

from annotation.people.annotators import annotator_of
from annotation.queue.queue import claim_next
from annotation.rounds.changes import close
from annotation.votes.voting import record_vote
from judging.dataset.models import Example
from judging.projects.models import Project
from tests.factories import make_user
from tests.test_access_walk import NAMES, addresses, arguments_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Of the first picture, in bytes as they are sent, compressed. Charts come later.
FIRST = 100_000
# A phone, and a window of 1,440 px at 200 %.
SIZES = {"phone": (390, 844), "at 200 %": (720, 450)}
# What isn't a page of its own: parts of pages, files, and what leads elsewhere.
LATER = ("/plots/", "vega")
LONG_WORD = "Pneumonoultramicroscopicsilicovolcanoconiosis" * 3
HOSTILE = {
    "question": f"{LONG_WORD} مرحبا <b>bold</b> 世界 \u202eevil",
    "response_1": f"# {LONG_WORD}\n\n|a|b|\n|-|-|\n|{LONG_WORD}|x|\n\n```\n{LONG_WORD * 4}\n```",
    "response_2": "",
    "category": LONG_WORD[:190],
    "model_1": "اسم-النموذج-الطويل-جدا" * 6,
    "model_2": LONG_WORD[:190],
}
# Faults that are known, by state, address and kind. This list only ever shrinks.
KNOWN: set[tuple[str, str, str]] = set()


@dataclass
class Walk:
    faults: set[tuple[str, str]] = field(default_factory=set)
    details: list[str] = field(default_factory=list)
    walked: list[str] = field(default_factory=list)

    def add(self, name: str, kind: str, detail: object) -> None:
        self.faults.add((name, kind))
        self.details.append(f"{name}: {kind}: {detail}")


@pytest.fixture
def arguments(request, project, annotator, settings, tmp_path):
    """One of everything, in a project in this state: the arguments of each address."""
    settings.MEDIA_ROOT = tmp_path
    found = arguments_of(project, annotator, tmp_path)
    if request.param == "hostile":
        Example.objects.filter(project=project).update(**HOSTILE)
        Project.objects.filter(pk=project.pk).update(
            name=LONG_WORD[:190], cant_judge=True, both_bad=True, scale="five"
        )
    if request.param == "finished":
        round_ = project.rounds.get()
        person = annotator_of(project, annotator)
        while not hasattr(draft := claim_next(round_, person), "reason"):
            record_vote(draft, {"overall": "left"}, "", 5.0)
        close(round_, None)
    return found


def open_all(log_in, arguments, size):
    """Give each page as (name, page, bytes of its first picture), opened by who may see it."""
    width, height = SIZES[size]
    pages = {}
    for role in ("superuser", "annotator"):
        user = arguments["users"][role]
        pages[role] = log_in(user, viewport={"width": width, "height": height})
    for name in sorted(set(addresses()) & set(NAMES)):
        if name in ("logout", "healthz", "demo_enter"):
            continue
        role = "annotator" if name.startswith("annotate") else "superuser"
        path = reverse(name, kwargs=arguments[name])
        yield name, path, pages[role]


def html_of(page, path):
    """Open a page and return the sizes of what came first, or None if it is no page."""
    looked = page.request.get(path, max_redirects=0)
    if looked.status != 200 or "text/html" not in looked.headers.get("content-type", ""):
        return None
    if "<html" not in looked.text() or "attachment" in str(looked.headers):
        return None
    came = {}

    def note(answer):
        came.setdefault(answer.url, answer)

    page.on("response", note)
    page.goto(path, wait_until="load")
    page.remove_listener("response", note)
    sizes = {}
    for url, answer in list(came.items()):
        if answer.status == 200 and not any(part in urlsplit(url).path for part in LATER):
            sizes[url] = len(gzip.compress(page.request.get(url).body()))
    return sizes


def walk(log_in, arguments, size, *, with_axe):
    found = Walk()
    for name, path, page in open_all(log_in, arguments, size):
        sizes = html_of(page, path)
        if sizes is None:
            continue
        found.walked.append(name)
        wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if wide > window:
            found.add(name, f"too wide {size}", f"{wide} of {window} px")
        if (total := sum(sizes.values())) > FIRST:
            found.add(name, "too heavy", total)
        if with_axe:
            for one in Axe().run(page).response["violations"]:
                found.add(name, f"axe {one['id']}", one["nodes"][0]["target"])
    return found


@pytest.mark.parametrize("arguments", ["working", "finished", "hostile"], indirect=True)
def test_every_page_fits_and_is_accessible_and_light(request, log_in, arguments, annotator):
    state = request.node.callspec.params["arguments"]
    arguments["users"] = {
        "annotator": annotator,
        "superuser": make_user("sue", is_superuser=True),
    }
    faults, details = set(), []
    for size in SIZES:
        found = walk(log_in, arguments, size, with_axe=size == "phone")
        assert len(found.walked) > 25, found.walked
        faults |= {(state, *fault) for fault in found.faults}
        details += found.details
    new = faults - KNOWN
    assert not new, "\n".join(details)
    mended = {one for one in KNOWN if one[0] == state} - faults
    assert not mended, f"Take these from the list: {mended}"
