"""`manage.py create_user`: create a login and print the link that sets its password."""

from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from judging.core.commands import FairJudgeCommand
from judging.projects.accounts import create_login, expect_sign_on, password_link
from judging.projects.mail import usable_address


class Command(FairJudgeCommand):
    help = "Create a login and print a one-time link to set its password."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name of the login")
        parser.add_argument(
            "--researcher", action="store_true", help="may create projects and start runs"
        )
        parser.add_argument("--superuser", action="store_true", help="may do everything")
        parser.add_argument("--email", help="mail address, for a forgotten password")
        parser.add_argument(
            "--sign-on",
            metavar="EMAIL",
            help="the mail address with which the person comes by single sign-on",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # If the mail address of the sign-on can't be used, there is no login either.
        with transaction.atomic():
            user = create_login(
                options["name"],
                researcher=options["researcher"],
                superuser=options["superuser"],
                email=usable_address(options["email"]) if options["email"] else "",
            )
            if options["sign_on"]:
                expect_sign_on(user, usable_address(options["sign_on"]))
        self.stdout.write(f"{user.get_username()} sets a password here, once:")
        link = password_link(user)
        self.stdout.write("(in the JSON document)" if self.as_json else link)
        self.tell({"user": user.get_username(), "link": link})
