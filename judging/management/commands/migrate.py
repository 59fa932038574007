"""`manage.py migrate`: Django's command, one process at a time."""

from typing import Any

from django.core.management.commands import migrate

from judging.core.commands import migrating_alone


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        # What others migrated meanwhile is read only then, and not done a second time.
        with migrating_alone():
            super().handle(*args, **options)
