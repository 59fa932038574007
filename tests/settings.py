"""The site's settings over a data folder of the tests' own and an empty environment."""

import os
import tempfile

# Nothing of a test may land in the checkout, in someone's data or on someone's bill.
os.environ["FAIRJUDGE_DATA"] = tempfile.mkdtemp(prefix="fairjudge-tests-")
for name in [name for name in os.environ if name.startswith(("FAIRJUDGE_", "OPENAI_"))]:
    if name not in ("FAIRJUDGE_DATA", "FAIRJUDGE_TEST_DATA"):
        del os.environ[name]

from fairjudge_site.settings import *  # noqa: E402, F403

# A slow hash protects no test.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
