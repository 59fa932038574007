"""`manage.py move_to_postgresql`: take a site from SQLite to PostgreSQL."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from fairjudge_site.moving import MovedTable, move_to_postgresql
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.core.formatting import number_of

FORM = "postgres://user:password@host:5432/name"


class Command(FairJudgeCommand):
    help = (
        "Copy everything from this site's SQLite database into an empty PostgreSQL database, and "
        "compare each table. Stop the site and its workers first."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "address",
            nargs="?",
            help=f"{FORM}; default: the variable NEW_DATABASE_URL, which other users of this "
            "machine don't see",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        address = options["address"] or settings.NEW_DATABASE_URL
        if not address:
            raise UserError(
                f"Name the new database: set NEW_DATABASE_URL={FORM}. Nothing was moved."
            )
        moved = move_to_postgresql(address, self._say)
        n_rows = sum(table.rows for table in moved)
        self.tell({"rows": n_rows, "tables": [asdict(table) for table in moved]})
        self.stdout.write(
            f"Moved {number_of(n_rows, 'row')}. Each table reads the same in both databases. "
            f"Now set DATABASE_URL to the new database and start the site with the same data "
            "folder. The SQLite file was not changed: keep it until you have seen the site."
        )

    def _say(self, table: MovedTable) -> None:
        if table.rows:
            self.stdout.write(f"{table.table}: {number_of(table.rows, 'row')}")
