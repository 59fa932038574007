"""Turning untrusted text into HTML that is safe to show.

The annotator's page itself belongs to `screen`.
"""

from annotation.rendering.differences import Differences, differences
from annotation.rendering.responses import (
    has_visible,
    render,
    render_shown,
    shown_of,
    text_shown,
    without_names,
)

__all__ = [
    "Differences", "differences", "has_visible", "render", "render_shown", "shown_of",
    "text_shown", "without_names",
]  # fmt: skip
