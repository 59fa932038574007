"""Published data run through the whole product: FairEval, LLMBar and PandaLM.

    python -m benchmarks.published.faireval FOLDER
    python -m benchmarks.published.validation FOLDER
    python -m benchmarks.published.papers FOLDER

The product never imports from here. These commands write docs/faireval.md, docs/validation.md
and a table of docs/reproduce.md.
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
