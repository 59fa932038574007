"""Plain text as HTML: what was written, character by character, in its own lines."""

from html import escape

from .bidi import balance


def to_html(text: str) -> str:
    """One block; the stylesheet keeps its white space and finds the direction of each line."""
    return f'<div class="plain" dir="auto">{escape(balance(text), quote=False)}</div>'
