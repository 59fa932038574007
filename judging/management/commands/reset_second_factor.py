"""`manage.py reset_second_factor`: let a person in who lost their second factor."""

from typing import Any

from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand
from judging.projects.access import user_named
from judging.projects.logins import reset_second_factor


class Command(FairJudgeCommand):
    help = "Remove a person's second factors and recovery codes, and log them out everywhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the login")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["name"])
        n = user.second_factors.count()
        sentence = reset_second_factor(user, None)
        if not self.as_json:
            self.stdout.write(sentence)
        self.tell({"user": user.get_username(), "removed": n})
