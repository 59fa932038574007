"""Rendering a question, response, comment or guideline as safe HTML, by Markdown or as plain text.

Every letter and digit of the text can be read in the result. What laying it out would hide is shown
as it was written, with a note that says so: a formula by itself, anything else with the whole text.
`render` is a pure function of its arguments and of the page's language, so that callers can keep
its results.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape, unescape
from typing import Any, Literal, get_args

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from annotation.rendering import gate, markdown
from annotation.rendering.gate import balance
from judging.core import conversations
from judging.core.conversations import Turn
from judging.core.images import pieces
from judging.core.text import hide_names


def _plain_html(text: str) -> str:
    """Return one block. The stylesheet keeps its white space and the direction of each line."""
    shown = "".join(
        escape(balance(piece), quote=False) if isinstance(piece, str) else gate.picture(piece)
        for piece in pieces(text)
    )
    return f'<div class="plain" dir="auto">{shown}</div>'


_UNSEEN = frozenset(("Cc", "Cf", "Zl", "Zp", "Zs"))
# Letters and marks that leave no trace of their own: fillers, joiners, selectors, blank Braille.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u2800\u3164\ufe00-\ufe0f\uffa0]"
)
_TEXT = re.compile(r"(?:^|>)([^<]+)")


def has_visible(text: str) -> bool:
    """Return False if there is nothing but white space, zero-width characters and controls."""
    return any(
        unicodedata.category(character) not in _UNSEEN and not _FILLERS.match(character)
        for character in text
    )


def shows_text(html: str) -> bool:
    """Return True if HTML from the gate has an image, or anything visible between its tags."""
    return "<img " in html or any(
        has_visible(unescape(match.group(1))) for match in _TEXT.finditer(html)
    )


def _note(sentence: Any) -> str:
    return f'<p class="note" dir="auto">{sentence}</p>\n'


_TEXT_AS_WRITTEN = _lazy("Shown as written, because formatting would hide part of this text.")
_FORMULA_AS_WRITTEN = _lazy(
    "Formulas that can't be displayed in full are shown as they were written."
)
# The text of a formula was compared with its source when it was converted.
_NO_TEXT = re.compile(
    r'<math(?:[^<]|<(?!/?math\b))*+</math>|<span class="image">[^<:]*: |<[^<>]*+>'
)
# Up to this many different letters, each is counted by itself, which takes a fifth of the time.
_FEW = 100


def _shows_all(text: str, html: str, elsewhere: str) -> bool:
    """Return True if no letter and no digit of the text is missing in the HTML or elsewhere."""
    shown = unescape(_NO_TEXT.sub("", html)) + elsewhere
    letters = list(filter(str.isalnum, set(text)))
    if len(letters) <= _FEW:
        return all(text.count(letter) <= shown.count(letter) for letter in letters)
    return not any(map(str.isalnum, Counter(text) - Counter(shown)))


How = Literal["markdown", "plain"]

# Measured: this many take about 1.5 s at worst, as a row of opening brackets, and 0.1 s as prose.
MARKDOWN_CHARACTERS = 50_000


def render(text: str, how: How = "markdown") -> SafeString:
    """Return HTML that runs nothing and links nowhere, whatever `text` holds.

    It loads nothing but images that this site keeps.

    Falls back to plain text, which loses nothing of the source, for more than
    `MARKDOWN_CHARACTERS` characters, for lists or quotes nested too deeply, if a letter or digit
    would be missing, and if nothing would be visible, as with a single `#`.
    """
    if how not in get_args(How):
        raise ValueError(f"how is {' or '.join(get_args(How))}, not {how!r}")
    if how == "plain" or len(text) > MARKDOWN_CHARACTERS:
        return gate.sanitise(_plain_html(text))
    try:
        page = markdown.to_html(text)
    except markdown.TooDeep:
        return gate.sanitise(_note(_TEXT_AS_WRITTEN) + _plain_html(text))
    note = _note(_FORMULA_AS_WRITTEN) if page.formula_as_written else ""
    html = gate.sanitise(note + page.html)
    if not _shows_all(text, html.removeprefix(note), page.elsewhere):
        return gate.sanitise(_note(_TEXT_AS_WRITTEN) + _plain_html(text))
    return html if shows_text(html) else gate.sanitise(_plain_html(text))


# A text, or the turns of a conversation.
Shown = str | tuple[Turn, ...]


def shown_of(texts: Sequence[str], conversation: str | None) -> list[Shown]:
    """Return what is shown of a question and both responses.

    A text that is all of a question or a response is shown by itself, also if it came as a message.

    Args:
        conversation: the example's lists of messages.
    """
    if not conversation:
        return list(texts)
    shown: list[Shown] = []
    for field, turns in conversations.turns_by_field(texts, conversation).items():
        alone = len(turns) == 1 and turns[0].role == conversations.ALONE[field]
        shown.append(turns[0].text if alone and not turns[0].call else tuple(turns))
    return shown


def without_names(shown: Shown, *names: str) -> Shown:
    """Return the same with the names of models hidden, also in the names of tools."""
    if isinstance(shown, str):
        return hide_names(shown, *names)
    return tuple(
        replace(turn, speaker=hide_names(turn.speaker, *names), text=hide_names(turn.text, *names))
        for turn in shown
    )


def text_shown(shown: Shown) -> str:
    """Return a conversation as one text, each turn after a line with its speaker."""
    if isinstance(shown, str):
        return shown
    return "\n\n".join(f"{turn.speaker}:\n{turn.text}" for turn in shown)


def render_shown(shown: Shown, how: How = "markdown") -> SafeString:
    """Return safe HTML of a text, or of a chat. What tools take and return is shown as written."""
    if isinstance(shown, str):
        return render(shown, how)
    turns = format_html_join(
        "",
        '<div class="turn {}"><p class="speaker"><bdi>{}</bdi></p>{}</div>',
        (
            ("tool" if turn.call else turn.role, balance(turn.speaker), _said(turn, how))
            for turn in shown
        ),
    )
    return format_html('<div class="chat">{}</div>', turns)


def _said(turn: Turn, how: How) -> SafeString:
    if not has_visible(turn.text):
        return SafeString('<p class="quiet">(empty)</p>')
    return render(turn.text, "plain" if turn.call or turn.role == "tool" else how)
