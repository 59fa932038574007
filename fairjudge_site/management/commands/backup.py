"""`manage.py backup`: write the database and the uploads into one file."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from fairjudge_site.backups import back_up
from judging.core.commands import FairJudgeCommand


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
        size = back_up(path)
        self.tell({"file": path, "bytes": size})
        self.stdout.write(
            f"{self.shown(path)}: {size / 1e6:.1f} MB. Keep it as safe as the site itself."
        )
