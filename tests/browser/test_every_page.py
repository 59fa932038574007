"""Every page of the site, found by its address: it fits a phone and a window at 200 % and at 400 %,
axe finds nothing, the Tab key reaches all that can be acted on and shows where it is, a screen reader
is given names for it, and what its first picture needs is small.

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
from judging.projects.models import Membership, Project, Role
from tests.browser import accessible
from tests.factories import make_user
from tests.test_access_walk import NAMES, addresses, arguments_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Of the first picture, in bytes as they are sent, compressed. Charts come later.
FIRST = 100_000
# A window of 1,440 px at 200 %, and a phone, at which the rest is looked at too.
SIZES = {"at 400 %": (320, 256), "at 200 %": (720, 450), "phone": (390, 844)}
# Where the Tab key is pressed. `make test` walks each state at one of them, and the long test at all.
DESK, LOW = {"width": 1280, "height": 720}, {"width": 320, "height": 256}
# Of WCAG 2.2, and off unless asked for.
RULES = {"rules": {"target-size": {"enabled": True}}}
# What isn't a page of its own: parts of pages, files, and what leads elsewhere.
LATER = ("/plots/", "vega")
# All that came, but for pictures below the window, which a browser may fetch ahead.
CAME = """() => {
    const below = (picture) => picture.getBoundingClientRect().top >= innerHeight;
    const pictures = [...document.querySelectorAll("img[loading=lazy]")].filter(below);
    const later = new Set(pictures.map((picture) => picture.src));
    return performance.getEntriesByType("resource")
        .filter((one) => one.responseStatus === 200 && !later.has(one.name))
        .map((one) => one.name);
}"""
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
    titles: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, kind: str, detail: object) -> None:
        self.faults.add((name, kind))
        self.details.append(f"{name}: {kind}: {detail}")


@pytest.fixture
def arguments(request, project, annotator, settings, tmp_path):
    """One of everything, in a project in this state: the arguments of each address."""
    settings.MEDIA_ROOT = tmp_path
    found = arguments_of(project, annotator, tmp_path)
    if request.param == "open":
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


def pages_of(log_in, arguments, names):
    """Give each page as (name, path, browser's page of somebody who may see it)."""
    width, height = SIZES["phone"]
    viewport = {"width": width, "height": height}
    users = arguments["users"].items()
    pages = {role: log_in(user, viewport=viewport) for role, user in users}
    for page in pages.values():
        page.emulate_media(reduced_motion="reduce")
    for name in names:
        role = "annotator" if name.startswith("annotate") else "superuser"
        # Who has seen the judge is not asked again before they look.
        role = "outsider" if name == "look" else role
        path = reverse(name, kwargs=arguments[name])
        looked = pages[role].request.get(path, max_redirects=0)
        is_html = "text/html" in looked.headers.get("content-type", "")
        is_shown = looked.status == 200 and is_html and "attachment" not in str(looked.headers)
        if is_shown and "<html" in looked.text():
            yield name, path, pages[role]


def sizes_of_first(page, known):
    """The sizes of what the open page needed so far; a static file's is found out once."""
    sizes = {}
    for url in {page.url, *page.evaluate(CAME)}:
        path = urlsplit(url).path
        if not any(part in path for part in LATER):
            sizes[url] = known.get(url) or len(gzip.compress(page.request.get(url).body()))
            if path.startswith("/static/"):
                known[url] = sizes[url]
    return sizes


def walk(log_in, arguments, names, by_keyboard):
    found, known = Walk(), {}
    for name, path, page in pages_of(log_in, arguments, names):
        page.goto(path, wait_until="load")
        found.walked.append(name)
        sizes = sizes_of_first(page, known)
        if sum(sizes.values()) > FIRST:
            found.add(name, "too heavy", sizes)
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            if wide > window:
                found.add(name, f"too wide {size}", f"{wide} of {window} px")
        for one in Axe().run(page, options=RULES).response["violations"]:
            found.add(name, f"axe {one['id']}", one["nodes"][0]["target"])
        for kind, detail in accessible.faults(page, by_keyboard):
            found.add(name, kind, detail)
        if (title := page.title()) in found.titles:
            found.add(name, "same title", f"{title}, as {found.titles[title]}")
        found.titles[title] = name
    return found


def everybody(project, annotator):
    """An annotator, and a superuser who is a member and has seen the judge, as another has not."""
    sue, otto = (make_user(name, is_superuser=True) for name in ("sue", "otto"))
    Membership.objects.create(project=project, user=sue, role=Role.OWNER)
    return {"annotator": annotator, "superuser": sue, "outsider": otto}


# What the texts and the work of a project change nothing of is walked in one state.
SAME = {name for name, group in NAMES.items() if group == "anybody"} - {"invite"}


@pytest.mark.parametrize("arguments", ["open", "finished"], indirect=True)
def test_every_page_fits_and_is_accessible_and_light(
    request, log_in, arguments, annotator, project
):
    """Hostile texts in an open round, and plain ones in a finished round."""
    state = request.node.callspec.params["arguments"]
    arguments["users"] = everybody(project, annotator)
    names = set(addresses()) & set(NAMES) - {"logout", "healthz", "demo_enter"}
    by_keyboard = [LOW if state == "open" else DESK]
    names = sorted(names if state == "open" else names - SAME)
    found = walk(log_in, arguments, names, by_keyboard)
    assert len(found.walked) > 25, found.walked
    faults = {(state, *fault) for fault in found.faults}
    new = faults - KNOWN
    assert not new, "\n".join(found.details)
    mended = {one for one in KNOWN if one[0] == state} - faults
    assert not mended, f"Take these from the list: {mended}"
