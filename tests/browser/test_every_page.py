"""Every page of the site, found by its address: it fits a phone and a window at 200 % and at 400 %,
axe finds nothing, the Tab key reaches all that can be acted on and shows where it is, a screen
reader is given names for it, and what its first picture needs is small.

A new address is walked as soon as it is in the table of `tests/test_access_walk.py`, without which
that test fails. A page is any address that answers a GET with HTML.
"""

import gzip
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse

from judging.projects.models import Membership, Role
from tests.browser import accessible
from tests.factories import make_user
from tests.test_access_walk import NAMES, addresses, an_eighth

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Of the first picture, in bytes as they are sent, compressed. Charts come later.
FIRST = 100_000
# A window of 1,440 px at 200 %, and a phone, at which the rest is looked at too.
SIZES = {"at 400 %": (320, 256), "at 200 %": (720, 450), "phone": (390, 844)}
# Where the Tab key is pressed: in each state at one of them, and in the long test at both.
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
        # Two addresses may lead to the same words, as those of a round that is closed.
        said = page.locator("main").inner_text()
        if found.titles.setdefault(page.title(), said) != said:
            found.add(name, "same title", page.title())
    return found


def everybody(project, annotator):
    """An annotator, and a superuser who is a member and has seen the judge, as another has not."""
    sue, otto = (make_user(name, is_superuser=True) for name in ("sue", "otto"))
    Membership.objects.create(project=project, user=sue, role=Role.OWNER)
    return {"annotator": annotator, "superuser": sue, "outsider": otto}


# What the texts and the work of a project change nothing of is walked in one state.
SAME = {name for name, group in NAMES.items() if group == "anybody"} - {"invite"}
# Which of the eighths is walked in each state while the whole is left to the long test.
SHARE = {"open": 0, "finished": 1}


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("arguments", ["open", "finished"], indirect=True)
def test_every_page_fits_and_is_accessible_and_light(
    request, log_in, arguments, annotator, project, whole
):
    """Hostile texts in an open round, and plain ones in a finished round."""
    state = request.node.callspec.params["arguments"]
    arguments["users"] = everybody(project, annotator)
    names = set(addresses()) & set(NAMES) - {"logout", "healthz", "demo_enter"}
    by_keyboard = [LOW if state == "open" else DESK]
    names = names if state == "open" else names - SAME
    names = sorted(names) if whole else an_eighth(names, SHARE[state])
    found = walk(log_in, arguments, names, by_keyboard)
    assert len(found.walked) > (25 if whole else 2), found.walked
    faults = {(state, *fault) for fault in found.faults}
    new = faults - KNOWN
    assert not new, "\n".join(found.details)
    mended = {one for one in KNOWN if one[0] == state and one[1] in found.walked} - faults
    assert not mended, f"Take these from the list: {mended}"


COLOURS = (
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "forced_colors": "active"},
)


@pytest.mark.long
@pytest.mark.parametrize("arguments", ["open", "finished"], indirect=True)
def test_every_page_in_every_size_and_all_colours(log_in, arguments, annotator, project):
    """What the short test asks in one size and in light colours, and in those of a system."""
    arguments["users"] = everybody(project, annotator)
    names = sorted(set(addresses()) & set(NAMES) - {"logout", "healthz", "demo_enter"})
    phone = {"width": SIZES["phone"][0], "height": SIZES["phone"][1]}
    faults = []
    for name, path, page in pages_of(log_in, arguments, names):
        for colours in COLOURS:
            page.emulate_media(**{"forced_colors": "none"} | colours)
            page.goto(path, wait_until="load")
            found = []
            if "forced_colors" not in colours:
                # First: where the Tab key ends, the link to the content covers others.
                run = Axe().run(page, options=RULES).response["violations"]
                found += [(f"axe {one['id']}", str(one["nodes"][0]["target"])) for one in run]
            found += accessible.faults(page, [DESK, LOW, phone])
            faults += [f"{name}, {colours}: {kind}: {detail}" for kind, detail in found]
        page.emulate_media(forced_colors="none", color_scheme="light")
    assert not faults, "\n".join(faults)
