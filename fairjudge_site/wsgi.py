"""The WSGI application that `server.py` serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")

application = get_wsgi_application()

from fairjudge_site.warming import warm_up  # noqa: E402 (it needs the applications)

warm_up()
