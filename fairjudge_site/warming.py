"""Preparing a web process before its first request.

When fifty people open a round at once, they may meet two new processes. Each of their threads would
otherwise import, compile and load the same things, while the others wait for the processor.
"""

import logging

from django.db import DatabaseError, connection
from django.template.loader import get_template
from django.urls import get_resolver

from annotation.rendering import render
from judging.core.sql.statements import compile_known

TEMPLATES = ("screen.html", "_item.html", "_progress.html", "nothing.html")
TEXT = "*Prose*, $x^2$ and\n\n```python\nprint(1)\n```\n"

logger = logging.getLogger(__name__)


def warm_up() -> None:
    # This imports the views, and with them almost everything.
    _ = get_resolver().url_patterns
    for name in TEMPLATES:
        get_template(f"annotation/screen/{name}")
    render(TEXT)
    try:
        compile_known()
    except DatabaseError as error:
        logger.warning("The database does not answer yet: %s", error)
    finally:
        connection.close()
