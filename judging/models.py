"""Imports the tables of all rooms, since Django looks for an app's tables here."""

import judging.core.models
import judging.dataset.models
import judging.projects.models
import judging.runs.models  # noqa: F401
