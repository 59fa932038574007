"""What WCAG 2.2 asks of an open page, beyond what axe finds, as (kind, detail) of each fault.

The page is read as a screen reader has it, from Chromium's accessibility tree, and walked with the
Tab key as a person without a mouse does. `accessible.js` looks at what the document itself shows.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, ViewportSize

LOOKING = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
# What a person acts on, by its role in the tree.
ACTED_ON = set(
    "button checkbox combobox DisclosureTriangle link listbox menuitem radio searchbox slider "
    "spinbutton switch tab textbox".split()
)
# What is only found, or understood, by its name.
NAMED = set("alertdialog dialog figure image radiogroup region".split())
Fault = tuple[str, str]
# Beyond this, Tab has long come back to where it began.
MOST_STOPS = 600
TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}


def prepare(page: Page) -> None:
    """Lay the questions into the page, which forgets them when it goes elsewhere."""
    page.evaluate(LOOKING)


def ask(page: Page, *questions: str) -> list[Fault]:
    """What the page answers to these functions of `accessible.js`."""
    calls = "; ".join(f"window.__accessible.{name}()" for name in questions)
    found = page.evaluate(f"{calls}; window.__accessible.faults()".removeprefix("; "))
    return [(kind, detail) for kind, detail in found]


def tree_of(session: CDPSession) -> list[dict[str, Any]]:
    """The nodes that a screen reader is given, in the order of reading."""
    nodes = {one["nodeId"]: one for one in session.send("Accessibility.getFullAXTree")["nodes"]}
    children = {child for one in nodes.values() for child in one.get("childIds", [])}

    def below(name: str) -> Iterator[dict[str, Any]]:
        node = nodes.get(name)
        if node is None:
            return
        if not node.get("ignored"):
            yield node
        for child in node.get("childIds", []):
            yield from below(child)

    return [node for name in nodes if name not in children for node in below(name)]


def role(node: dict[str, Any]) -> str:
    return str(node["role"]["value"])


def name(node: dict[str, Any]) -> str:
    return str(node.get("name", {}).get("value", "")).strip()


def properties(node: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["value"].get("value") for one in node.get("properties", [])}


def of_tree(nodes: list[dict[str, Any]]) -> Iterator[Fault]:
    """Faults of what a screen reader reads out."""
    last = 0
    heads = 0
    for node in nodes:
        kind, said, more = role(node), name(node), properties(node)
        if kind in ACTED_ON:
            if not said:
                yield "no name (4.1.2)", f"{kind} {node.get('description', {}).get('value', '')}"
            if not more.get("focusable") and not more.get("disabled"):
                yield "can't have the focus (2.1.1)", f"{kind} {said}"
        if kind == "heading":
            level = int(more["level"])
            heads += level == 1
            if level > last + 1:
                yield "a level of headings is left out (1.3.1)", f"{last} → {level}: {said}"
            if not said:
                yield "empty heading (2.4.6)", f"level {level}"
            last = level
        if kind in NAMED and not said:
            yield "no name (4.1.2)", kind
    if heads != 1:
        yield "not one h1 (2.4.6)", str(heads)
    mains = sum(role(node) == "main" for node in nodes)
    if mains != 1:
        yield "not one main (1.3.1)", str(mains)


def faults(page: Page, sizes: Iterable[ViewportSize]) -> Iterator[Fault]:
    """All that is asked here of the open page, its folded parts open, in windows of these sizes."""
    session = page.context.new_cdp_session(page)
    prepare(page)
    yield from of_tree(tree_of(session))
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    yield from ask(page, "structure", "forms", "edges", "motion")
    for size in sizes:
        page.set_viewport_size(size)
        yield from by_keyboard(page, session)
        yield from ask(page, "spacing")
    session.detach()


def by_keyboard(page: Page, session: CDPSession) -> list[Fault]:
    """Press Tab until it comes back to where it began."""
    expected = page.evaluate("window.__accessible.begin()")
    for pressed in range(MOST_STOPS):
        session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **TAB})
        if pressed >= expected and page.evaluate("window.__accessible.isOver()"):
            break
    return ask(page, "end")
