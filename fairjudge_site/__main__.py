"""The entry to all commands. `fairjudge help`, or `manage.py help` in a checkout, lists them."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
    from fairjudge_site.environment import SettingError

    try:
        import fairjudge_site.settings  # noqa: F401
    except SettingError as error:
        sys.exit(f"{error}")
    from django.core.management import execute_from_command_line
    from django.db import InterfaceError, OperationalError

    try:
        execute_from_command_line(sys.argv)
    except (OSError, OperationalError, InterfaceError) as error:
        # FairJudge's own commands do this themselves. Django's commands, such as `migrate`, don't.
        from judging.core.commands import exit_of, system_failure

        print(system_failure(error), file=sys.stderr)  # noqa: T201
        sys.exit(exit_of(error))


if __name__ == "__main__":
    main()
