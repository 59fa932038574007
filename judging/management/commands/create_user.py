"""`manage.py create_user`: create a login and print the link that sets its password."""

from typing import Any

from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand
from judging.projects.accounts import create_login, password_link


class Command(FairJudgeCommand):
    help = "Create a login and print a one-time link to set its password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the login")
        parser.add_argument(
            "--researcher", action="store_true", help="may create projects and start runs"
        )
        parser.add_argument("--superuser", action="store_true", help="may do everything")

    def handle(self, *args: Any, **options: Any) -> None:
        user = create_login(
            options["name"], researcher=options["researcher"], superuser=options["superuser"]
        )
        self.stdout.write(f"{user.get_username()} sets a password here, once:")
        link = password_link(user)
        self.stdout.write("(in the JSON document)" if self.as_json else link)
        self.tell({"user": user.get_username(), "link": link})
