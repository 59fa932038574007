"""Turning untrusted text into HTML that is safe to show.

The annotator's page itself belongs to `screen`.
"""

from annotation.rendering.responses import has_visible

from .differences import Differences, differences
from .responses import render

__all__ = ["Differences", "differences", "has_visible", "render"]
