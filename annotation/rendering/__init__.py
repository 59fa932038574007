"""Turns a text that nobody vouches for into HTML that is safe to put on the page."""

from .differences import Differences, differences
from .responses import render
from .visible import has_visible

__all__ = ["Differences", "differences", "has_visible", "render"]
