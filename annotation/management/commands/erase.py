"""erase PERSON: delete a login and everything that tells who it was."""

from typing import Any

from django.core.management.base import CommandParser

from annotation.models import Annotator
from annotation.people.personal_data import erase_annotator, erase_person
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.projects.access import project_for_command, user_named


class Command(FairJudgeCommand):
    help = (
        "Delete a login, rename its annotator and blank comments and reasons. Votes stay, under a "
        "pseudonym, unless --votes removes them too. Older backups still contain the person."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("person", help="name of the login, or of an annotator of --project")
        parser.add_argument(
            "--project", help="erase an annotator without a login, only in this project"
        )
        parser.add_argument("--votes", action="store_true", help="remove the votes as well")
        parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")

    def handle(self, *args: Any, **options: Any) -> None:
        name, remove = options["person"], options["votes"]
        if options["project"]:
            annotator = _annotator(options["project"], name)
            self.confirm(name, "erase", sure=options["yes"])
            kept = erase_annotator(annotator, None, remove_votes=remove)
        else:
            user = user_named(name, "Nothing was erased.")
            self.confirm(name, "erase", sure=options["yes"])
            kept = erase_person(user, None, remove_votes=remove)
        votes = "with their votes" if remove else f"votes that stay under a pseudonym: {kept}"
        self.stdout.write(f"{name} was erased; {votes}.")
        self.tell({"erased": name, "votes_kept": 0 if remove else kept})


def _annotator(slug: str, name: str) -> Annotator:
    project = project_for_command(slug)
    annotators = Annotator.objects.filter(project=project, name=name)
    annotator = annotators.select_related("project").first()
    if annotator is None:
        raise UserError(f"There is no annotator “{name}” in {slug}. Nothing was erased.")
    if annotator.user_id is not None:
        raise UserError(f"“{name}” has a login. Erase it everywhere: manage.py erase {name}")
    return annotator
