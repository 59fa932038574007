"""Turns a text that nobody vouches for into HTML that is safe to put on the page."""

from .differences import Differences, differences
from .responses import render

__all__ = ["Differences", "differences", "render"]
