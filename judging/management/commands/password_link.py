"""`manage.py password_link`: print a one-time link that sets a new password."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.projects.accounts import password_link


class Command(FairJudgeCommand):
    help = "Print a one-time link with which a user sets a new password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the login")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise UserError(f"There is no user “{options['name']}”.")
        link = password_link(user)
        if not self.as_json:
            self.stdout.write(link)
        self.tell({"user": user.get_username(), "link": link})
