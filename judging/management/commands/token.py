"""`manage.py token`: make, list and revoke the tokens of the REST interface."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.projects.access import project_for_command, user_named
from judging.projects.models import ApiToken
from judging.projects.tokens import SCOPES, issue_token, revoke, tokens_of


class Command(FairJudgeCommand):
    help = "Make a token for the REST interface. It is printed once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER", help="for whom programs act with the token")
        parser.add_argument("--name", default="command line", help="what the token is for")
        parser.add_argument(
            "--scopes",
            default="read",
            metavar="SCOPE,…",
            help=f"what it may do, of {', '.join(SCOPES)}; default: read",
        )
        parser.add_argument("--project", metavar="SLUG", help="the only project that it opens")
        parser.add_argument("--days", type=int, help="how long it works; default: until revoked")
        parser.add_argument("--list", action="store_true", help="list the user's tokens")
        parser.add_argument("--revoke", metavar="PREFIX", help="end the token that begins so")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        if options["list"]:
            tokens = list(tokens_of(user))
            for token in tokens:
                self.stdout.write(line_of(token))
            self.tell({"user": user.get_username(), "tokens": list(map(row_of, tokens))})
        elif options["revoke"]:
            self.revoke(user, options["revoke"])
        else:
            project = project_for_command(options["project"]) if options["project"] else None
            scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
            token, text = issue_token(
                user, options["name"], scopes, project=project, days=options["days"]
            )
            self.stderr.write("Keep this token. It can't be shown again.")
            self.stdout.write("(in the JSON document)" if self.as_json else text)
            self.tell({"user": user.get_username()} | row_of(token) | {"token": text})

    def revoke(self, user: User, prefix: str) -> None:
        # Somebody may paste the whole token. Its secret isn't repeated anywhere.
        token = tokens_of(user).filter(prefix="_".join(prefix.split("_")[:2])).first()
        if token is None:
            raise UserError(
                f"{user.get_username()} has no such token. Nothing was changed. List them: "
                f"manage.py token {user.get_username()} --list"
            )
        ended = revoke(token, None)
        token.refresh_from_db()
        self.stdout.write(f"{token.prefix} {'is' if ended else 'was already'} revoked.")
        self.tell({"user": user.get_username()} | row_of(token))


def row_of(token: ApiToken) -> dict[str, Any]:
    """Return what may be known of a token, as `--json` prints it."""
    return {
        "prefix": token.prefix,
        "name": token.name,
        "scopes": token.scopes,
        "project": token.project.slug if token.project else None,
        "expires": token.expires_at and token.expires_at.isoformat(),
        "revoked": token.revoked_at and token.revoked_at.isoformat(),
        "last_used": token.last_used_at and token.last_used_at.isoformat(),
    }


def line_of(token: ApiToken) -> str:
    until = "until revoked"
    if token.revoked_at is not None:
        until = f"revoked {token.revoked_at:%Y-%m-%d}"
    elif token.expires_at is not None:
        until = f"{'until' if token.is_live else 'expired'} {token.expires_at:%Y-%m-%d}"
    used = f"last used {token.last_used_at:%Y-%m-%d}" if token.last_used_at else "never used"
    where = token.project.slug if token.project else "all projects"
    return f"{token.prefix}  {','.join(token.scopes)}  {where}  {until}  {used}  {token.name}"
