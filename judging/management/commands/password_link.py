"""`manage.py password_link`: print a one-time link that sets a new password."""

from typing import Any

from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand
from judging.projects.access import user_named
from judging.projects.accounts import password_link


class Command(FairJudgeCommand):
    help = "Print a one-time link with which a user sets a new password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the login")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["name"])
        link = password_link(user)
        if not self.as_json:
            self.stdout.write(link)
        self.tell({"user": user.get_username(), "link": link})
