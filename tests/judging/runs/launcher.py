"""Commands of `manage.py`, each in a process of its own that is forked from one that has imported
everything: a JSON list a line comes in, the process number and then its exit code go out."""

import importlib
import json
import os
import sys

import django
from django.core.management import execute_from_command_line


def run(command: list[str], output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        execute_from_command_line(["manage.py", *command])
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    os._exit(0)


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "fairjudge_site.settings"
    django.setup()
    importlib.import_module("judging.management.commands.judge")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line), sys.argv[1])
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
