"""delete_project PROJECT: delete a project and everything in it."""

from typing import Any

from django.core.management.base import CommandParser

from annotation.deletion import delete_project
from judging.core.commands import FairJudgeCommand, add_project
from judging.projects.access import project_for_command
from judging.projects.models import Deletion, Project


class Command(FairJudgeCommand):
    help = (
        "Delete a project with its examples, runs, votes, exports and uploaded files. Only a "
        "backup can bring them back. If a deletion was cut off, run the same command again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")

    def handle(self, *args: Any, **options: Any) -> None:
        slug = options["project"]
        project = _being_deleted(slug)
        if project is None:
            project = project_for_command(slug)
            self.confirm(slug, "delete", sure=options["yes"])
        with self.progress("Items, calls and examples deleted") as bar:
            gone = delete_project(project, None, advance=bar.advance)
        self.tell({"project": slug, "deleted": bool(gone)})
        if gone:
            self.stdout.write(f"{slug} and everything in it was deleted.")
        else:
            self.stdout.write(f"{slug} is being deleted by another process. Nobody sees it.")


def _being_deleted(slug: str) -> Project | None:
    """Return the project of this name whose deletion was cut off, unless there is a new one."""
    if Project.objects.filter(slug=slug).exists():
        return None
    cut_off = Deletion.objects.filter(slug=slug).order_by("pk").first()
    return cut_off and Project.every.get(pk=cut_off.project_id)
