"""The site's settings over a data folder of the tests' own and an empty environment."""

import os
import tempfile

# Nothing of a test may land in the checkout, in someone's data or on someone's bill.
for name in list(os.environ):
    ours = name.startswith(("FAIRJUDGE_", "OPENAI_"))
    if ours and not name.startswith("FAIRJUDGE_TEST_"):
        del os.environ[name]
os.environ["FAIRJUDGE_DATA"] = tempfile.mkdtemp(prefix="fairjudge-tests-")
os.environ["FAIRJUDGE_FILES"] = "folder"
os.environ["DATABASE_URL"] = os.environ.get("FAIRJUDGE_TEST_DATABASE_URL", "")
os.environ["CELERY_BROKER_URL"] = os.environ["EMAIL_URL"] = os.environ["EMAIL_FROM"] = ""

from fairjudge_site.settings import *  # noqa: E402, F403

# tests/postgresql.py names a database that has the tables already.
if tables := os.environ.get("FAIRJUDGE_TEST_TABLES"):
    ours = {"TEMPLATE": tables, "NAME": f"{tables}_copy"}
    DATABASES["default"]["TEST"] = ours  # noqa: F405
# A slow hash protects no test.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
