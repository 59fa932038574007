"""The WSGI application that `server.py` serves, prepared before its first request.

When fifty people open a round at once, they may meet two new processes. Each of their threads would
otherwise import, compile and load the same things, while the others wait for the processor.
"""

import logging
import os

from django.core.wsgi import get_wsgi_application
from django.db import DatabaseError, connection
from django.template.loader import get_template
from django.urls import get_resolver

TEMPLATES = ("screen.html", "_item.html", "_progress.html", "nothing.html")
TEXT = "*Prose*, $x^2$ and\n\n```python\nprint(1)\n```\n"

logger = logging.getLogger(__name__)


def warm_up() -> None:
    # These need the applications.
    from annotation.rendering import render
    from judging.core.sql.statements import compile_known

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


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
application = get_wsgi_application()
warm_up()
