"""`manage.py backup`: write the database and the uploads into one file."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import DatabaseError
from django.utils import timezone

from fairjudge_site.alerts import BACKED_UP
from fairjudge_site.backups import back_up
from judging.core.commands import FairJudgeCommand
from judging.core.formatting import number_of
from judging.projects.access import record_event


class Command(FairJudgeCommand):
    help = (
        "Write the database and the uploads into one file. The site may be running. The file "
        "contains password hashes, but not the secret key. Restoring it ends links and logins."
    )

    writes = ("file",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", nargs="?", type=Path, help="default: fairjudge-DATE.zip; - is stdout"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"] or Path(f"fairjudge-{timezone.now():%Y%m%d-%H%M%S}.zip")
        size, rows = back_up(path)
        # The status page names the last one. The copy is good whether or not that can be kept.
        with suppress(DatabaseError):
            record_event(None, None, BACKED_UP, path.name, bytes=size)
        self.tell({"file": path, "bytes": size, "rows": rows})
        self.stdout.write(
            f"{self.shown(path)}: {size / 1e6:.1f} MB, {number_of(rows, 'row')}. "
            "Keep it as safe as the site itself."
        )
