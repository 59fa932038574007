"""`manage.py retention`: show and set on which day something is removed from a project."""

from dataclasses import asdict
from datetime import date
from typing import Any

from django.core.management.base import CommandParser

from annotation.retention import WAITS, plan, set_dates
from judging.core.commands import FairJudgeCommand, add_project
from judging.core.errors import UserError
from judging.core.text import printable
from judging.projects.access import project_for_command
from judging.projects.models import Retention


class Command(FairJudgeCommand):
    help = (
        "Show on which day a project's comments, or the names and logins of its people, are "
        "removed. With a day, set it; a worker then removes them. Labels and counts stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        for what, label in Retention.What.choices:
            parser.add_argument(
                f"--{what}", metavar="DAY", help=f"when {label} go, as 2027-12-31, or 'never'"
            )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        chosen = {what: options[what] for what in Retention.What.values if options[what]}
        if chosen:
            set_dates(project, None, {what: _day(text) for what, text in chosen.items()})
        planned = plan(project)
        if not self.as_json:
            for planned_removal in planned:
                when = f"removed on {planned_removal.on}" if planned_removal.on else "kept"
                done = (
                    f", done {planned_removal.done_at:%Y-%m-%d}" if planned_removal.done_at else ""
                )
                waits = f" {WAITS}" if planned_removal.waits else ""
                self.stdout.write(
                    f"{planned_removal.label}: {when}{done}; {planned_removal.n} here now.{waits}"
                )
        self.tell({"project": project.slug, "retention": [asdict(removal) for removal in planned]})


def _day(text: str) -> date | None:
    if text == "never":
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UserError(f"“{printable(text)}” is no day such as 2027-12-31.") from None
