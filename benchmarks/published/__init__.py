"""Published data through the whole product: FairEval's pairs, and LLMBar's and PandaLM's judgments.

    python -m benchmarks.published.faireval FOLDER
    python -m benchmarks.published.validation FOLDER

Nothing of the product imports from here. The pages that come out are docs/faireval.md and
docs/validation.md.
"""

import os
import sys

import django

from fairjudge_site.environment import SettingError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
try:
    django.setup()
except SettingError as error:
    sys.exit(str(error))
