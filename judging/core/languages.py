"""The languages of pages and mails: which one a person reads, and where their choice comes from.

Somebody's own setting comes first, then the project's, then the browser's, then English. Only pages
that annotators meet are translated. All others stay in English, so that no page mixes languages.
"""

import re
from collections.abc import Iterable

from django.conf import settings
from django.utils import translation

ENGLISH = "en"
# The longest tag of BCP 47, such as pt-BR, that forms and files may state.
LONGEST_TAG = 35
_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{2,8})*", re.ASCII | re.IGNORECASE)


def known(tag: object) -> str:
    """Return the language of the pages that a tag such as `de-AT` asks for, or "" for none."""
    text = str(tag or "").strip()[:LONGEST_TAG]
    try:
        return translation.get_supported_language_variant(text) if text else ""
    except LookupError:
        return ""


def is_tag(text: str) -> bool:
    """Return True for a tag of BCP 47, such as `ja` or `pt-BR`, of any language."""
    return len(text) <= LONGEST_TAG and _TAG.fullmatch(text) is not None


def name_of(code: str) -> str:
    """Return a language's own name."""
    return dict(settings.LANGUAGES).get(code, code)


def chosen(*wishes: str) -> str:
    """Return the first wish that the pages can fulfil. Without one it is English."""
    return next(filter(None, map(known, wishes)), ENGLISH)


def now() -> str:
    """Return the language of the page that is being written."""
    return known(translation.get_language()) or ENGLISH


def choices(empty: str) -> list[tuple[str, str]]:
    """Return what a form offers, each language by its own name. `empty` names no choice."""
    return [("", empty), *settings.LANGUAGES]


def best_of(offered: Iterable[str]) -> str:
    """Return the one of the offered languages that the page speaks, or ""."""
    return now() if now() in set(offered) else ""
