"""`manage.py migrate`: Django's command, one process at a time."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from judging.core.commands import FairJudgeCommand, migrating_alone


class Command(FairJudgeCommand, migrate.Command):
    prepares_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        recorder = MigrationRecorder(connections[options["database"]])
        # What others migrated meanwhile is read only then, and not done a second time.
        with migrating_alone():
            before = set(recorder.applied_migrations())
            try:
                super().handle(*args, **options)
            except SystemExit:
                # --check ends with an exit code of its own.
                self.tell(_changes(before, before))
                raise
            self.tell(_changes(before, set(recorder.applied_migrations())))


def _changes(before: set[tuple[str, str]], after: set[tuple[str, str]]) -> dict[str, list[str]]:
    changes = {"applied": after - before, "unapplied": before - after}
    return {what: sorted(".".join(row) for row in rows) for what, rows in changes.items()}
