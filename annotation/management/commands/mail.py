"""`manage.py mail`: show the log of mail, try whether it arrives, and send again."""

from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from django.utils.crypto import get_random_string

from annotation.letters import write
from judging.core.commands import FairJudgeCommand
from judging.core.errors import Failed, Misuse, UserError
from judging.core.text import printable
from judging.projects import mail
from judging.projects.models import Mail

_SHOWN = 50


class Command(FairJudgeCommand):
    help = (
        "Show the log of mail: what kind, what became of it, and what the server said. The log "
        "holds no text and, once a mail is sent, no address."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--test", metavar="ADDRESS", help="send a mail there now, and wait")
        parser.add_argument(
            "--again",
            metavar="NUMBER",
            help="queue a mail again that was given up or perhaps sent, or 'all' given up",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["test"] is not None and options["again"] is not None:
            raise Misuse("Give --test or --again, not both.")
        if options["test"] is not None:
            shown = [self._try(options["test"])]
        elif options["again"] is not None:
            shown = self._again(options["again"])
        else:
            shown = list(Mail.objects.select_related("user").order_by("-pk")[:_SHOWN])
        if not self.as_json:
            for queued in shown:
                self.stdout.write(_line(queued))
        self.tell({"mails": [_out(queued) for queued in shown]})

    def _try(self, address: str) -> Mail:
        _refuse_unconfigured()
        # A second mail of one event isn't queued, so each test needs an event of its own.
        event = f"{Mail.Kind.TEST}:{get_random_string(16)}"
        queued = mail.post(Mail.Kind.TEST, event, to=mail.usable_address(address))
        mail.send_due(queued.server_id, write)
        queued.refresh_from_db()
        if queued.state != Mail.State.DELIVERED:
            reason = printable(queued.said) or "A worker sends other mail at this moment."
            raise Failed(f"The mail is {queued.get_state_display()}. {reason}")
        return queued

    def _again(self, number: str) -> list[Mail]:
        _refuse_unconfigured()
        mails = Mail.objects.select_related("user", "server")
        if number == "all":
            dead = mails.filter(state=Mail.State.DEAD)
            chosen = [queued for queued in dead if _has_address(queued)]
        elif number.isascii() and number.isdecimal() and len(number) < 18:
            chosen = list(mails.filter(pk=int(number)))
        else:
            raise UserError(f"“{printable(number)}” is no number of a mail.")
        if not chosen:
            raise UserError("There is no such mail. Nothing was queued.")
        with transaction.atomic():
            for queued in chosen:
                mail.send_again(queued)
                queued.refresh_from_db()
        return chosen


def _refuse_unconfigured() -> None:
    if not mail.mail_is_configured():
        raise UserError("This site sends no mail. Set EMAIL_URL first. Nothing was sent.")


def _has_address(queued: Mail) -> bool:
    return bool(queued.to or (queued.user and queued.user.email))


def _out(queued: Mail) -> dict[str, Any]:
    return {
        "number": queued.pk,
        "kind": queued.kind,
        "user": queued.user.get_username() if queued.user else None,
        "state": queued.state,
        "attempts": queued.attempts,
        "status": queued.status,
        "said": queued.said,
        "at": queued.at,
        "tried_at": queued.tried_at,
    }


def _line(queued: Mail) -> str:
    who = queued.user.get_username() if queued.user else "no login"
    reason = f": {printable(queued.said)}" if queued.said else ""
    state = f"{queued.get_state_display()}{reason}"
    return f"{queued.pk}  {queued.at:%Y-%m-%d %H:%M}  {queued.kind}  {who}  {state}"
