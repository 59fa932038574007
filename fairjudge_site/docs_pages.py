"""The docs at /docs/: the Markdown files of `docs/`, rendered once and open to everybody.

They are part of the product, so their HTML needs no gate: the parser makes no raw HTML, and links
lead to other pages of the docs or to https. A link out of the folder has no page here, and is text.
"""

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any, NamedTuple

from django import template
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_GET
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token

from judging.core.glossary import GLOSSARY

register = template.Library()

FOLDER = settings.BASE_DIR / "docs" if settings.CHECKOUT else Path(__file__).parent / "docs"
ROOT = "/docs/"
GLOSSARY_NAME = "glossary"
# The order of the navigation. `tests/test_docs.py` finds a page that is in no chapter.
CHAPTERS = {
    "Start": ("tutorial", "pages", GLOSSARY_NAME),
    "Methods": (
        "methods/mec", "methods/bpc", "methods/bpde", "methods/hitlc", "methods/people",
        "methods/routing", "methods/teaching", "methods/cheapest", "methods/portia",
        "methods/calibration", "methods/likelihood",
    ),
    "Reference": (
        "files", "report", "commands", "api", "client", "gate", "environment", "operators",
        "security", "accessibility",
    ),
    "Evidence": ("faireval", "validation", "reproduce"),
    "Code": ("architecture",),
}  # fmt: skip
# Which page of the docs explains a page of the site, by the name of its URL or the start of it.
HELP = {
    "account": "pages#your-account",
    "api": "api",
    "annotate": "pages#the-annotators-screen",
    "confirm": "pages#your-account",
    "example": "pages#one-example",
    "examples": "pages#data",
    "export": "files#labels-one-row-per-example",
    "factor": "pages#your-account",
    "home": "pages#your-projects",
    "import": "files",
    "invite": "operators#people",
    "lesson": "methods/teaching",
    "login": "pages#your-account",
    "member": "operators#people",
    "password": "pages#your-account",
    "people": "operators#people",
    "plan": "pages#plan-a-round",
    "practice": "pages#training-and-qualification",
    "preregistration": "pages#preregistration",
    "project": "pages#overview",
    "project_cheapest": "pages#cheapest-plan",
    "project_sizes": "pages#how-many-labels",
    "results": "pages#results",
    "retention": "operators#retention",
    "round": "pages#rounds-and-decisions",
    "round_crowd": "pages#crowd-links",
    "run": "pages#runs",
    "scores": "files#scores-of-single-responses-to-import",
    "second": "pages#your-account",
    "settings": "pages#settings",
    "sizes": "pages#how-many-labels",
    "teach": "methods/teaching",
    "team": "pages#teams",
    "template": "pages#runs",
    "token": "api#tokens",
    "trail": "files#audit-trail-one-row-per-event",
    "webhook": "api#webhooks",
}
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
# Shown when nothing more exact is known.
FIRST_HELP = "tutorial"


class DocsPage(NamedTuple):
    """A page of the docs as HTML, with its title and the anchors and titles of its sections."""

    title: str
    html: SafeString
    sections: tuple[tuple[str, str], ...]


def docs_page(name: str) -> DocsPage | None:
    """Return the page of this name, such as `methods/mec`, if there is one."""
    path = FOLDER / f"{name}.md"
    inside = re.fullmatch(r"[a-z]+(?:/[a-z]+)?", name)
    return _rendered(name, path.stat().st_mtime_ns) if inside and path.is_file() else None


# Keyed by the file's time, so that an edited page shows at once.
@lru_cache(maxsize=100)
def _rendered(name: str, changed_ns: int) -> DocsPage:
    return render_docs(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"))


def render_docs(name: str, text: str) -> DocsPage:
    """Render Markdown of ours: headings get anchors, and links to other pages lead there."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    # Comments tell commands where to write. With "html" off they would be shown.
    tokens = parser.parse(_COMMENT.sub("", text))
    sections: list[tuple[str, str]] = []
    title, taken = name, Counter[str]()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            words = _words(tokens[place + 1])
            anchor = anchor_of(words, taken)
            token.attrSet("id", anchor)
            if token.tag == "h1":
                title = words
            elif token.tag == "h2":
                sections.append((anchor, words))
        _settle_links(token, name)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", _table_close)
    parser.add_render_rule("code_block", _code)
    parser.add_render_rule("fence", _code)
    html = parser.renderer.render(tokens, parser.options, {})
    return DocsPage(title, mark_safe(html), tuple(sections))


def anchor_of(heading: str, taken: Counter[str]) -> str:
    """Return a heading's anchor as code hosts make it, so that links work there and here."""
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
    taken[anchor] += 1
    return anchor if taken[anchor] == 1 else f"{anchor}-{taken[anchor] - 1}"


def _words(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _settle_links(token: Token, name: str) -> None:
    """Turn links between the files into links between the pages, and others out of docs to text."""
    opened: list[bool] = []
    kept = []
    for child in token.children or ():
        if child.type == "image":
            source = str(child.attrGet("src") or "")
            child.attrSet("src", ROOT + normpath(join(dirname(name), source)))
            child.attrSet("loading", "lazy")
        if child.type == "link_open":
            address = address_of(str(child.attrGet("href") or ""), name)
            opened.append(address is not None)
            child.attrSet("href", address or "")
        leads = opened.pop() if child.type == "link_close" else opened[-1] if opened else True
        if leads or child.type not in ("link_open", "link_close"):
            kept.append(child)
    if token.children is not None:
        token.children = kept


def address_of(link: str, name: str) -> str | None:
    """Return where a link of the page `name` leads; None if that is no page of the docs."""
    if link.startswith(("https://", "http://", "#", "/")):
        return link
    path, _, anchor = link.partition("#")
    target = normpath(join(dirname(name), path))
    if not target.endswith(".md") or target.startswith(".."):
        return None
    return ROOT + target.removesuffix(".md") + (f"#{anchor}" if anchor else "")


def _table_open(self, tokens, index, options, env) -> str:  # type: ignore[no-untyped-def]
    # Regions of a page are told apart by their names.
    number = sum(token.type == "table_open" for token in tokens[: index + 1])
    scrolls = f'<div class="scroll" tabindex="0" role="region" aria-label="Table {number}">'
    return f'{scrolls}<table class="data">\n'


def _code(self, tokens, index, options, env) -> str:  # type: ignore[no-untyped-def]
    # A long line scrolls, so the keyboard must reach it.
    return f'<pre tabindex="0"><code>{escapeHtml(tokens[index].content)}</code></pre>\n'


def _table_close(self, tokens, index, options, env) -> str:  # type: ignore[no-untyped-def]
    return "</table></div>\n"


def chapters() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the navigation: chapters with the address and the title of each page."""
    return [
        (chapter, [(ROOT + name, title_of(name)) for name in names])
        for chapter, names in CHAPTERS.items()
    ]


def title_of(name: str) -> str:
    page = docs_page(name)
    return page.title if page else name.capitalize()


def help_of(url_name: str | None) -> str:
    """Return the address of the docs for a page of the site."""
    name = url_name or ""
    words = name.split("_")
    path = HELP.get(name) or HELP.get(words[0]) or HELP.get(words[0].rstrip("s")) or FIRST_HELP
    return ROOT + path


@register.simple_tag(takes_context=True)
def help_address(context: dict[str, Any]) -> str:
    """Return the address of the docs for the page that is rendered."""
    match = getattr(context.get("request"), "resolver_match", None)
    return help_of(match.url_name if match else None)


@login_not_required
@require_GET
def docs(request: HttpRequest, name: str = FIRST_HELP) -> HttpResponse:
    page = docs_page(name.removesuffix(".md"))
    if page is None:
        raise Http404("There is no such page in the docs.")
    context = {"page": page, "chapters": chapters(), "here": ROOT + name.removesuffix(".md")}
    return render(request, "docs/page.html", context)


@login_not_required
@require_GET
def picture(request: HttpRequest, name: str) -> HttpResponse:
    path = FOLDER / "images" / f"{name}.png"
    if not path.is_file():
        raise Http404("There is no such picture in the docs.")
    return HttpResponse(path.read_bytes(), content_type="image/png")


@login_not_required
@require_GET
def glossary(request: HttpRequest) -> HttpResponse:
    context = {"terms": GLOSSARY.values(), "chapters": chapters(), "here": ROOT + GLOSSARY_NAME}
    return render(request, "glossary.html", context)
