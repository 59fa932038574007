"""compare PROJECT RUN_A RUN_B: has the judge drifted? Exit 0, 10 or 11."""

from typing import Any

from django.core.management.base import CommandParser

from annotation.results.delivery.drift import MARGIN, compare_runs
from annotation.results.delivery.gate_files import drift_lines, drift_markdown, junit
from annotation.results.management.verdicts import add_outputs, end_with, write_outputs
from judging.core.commands import FairJudgeCommand, add_project, decimal_argument
from judging.projects.access import project_for_command
from judging.runs.models import find_run


class Command(FairJudgeCommand):
    writes = ("junit", "markdown")
    help = (
        "Compare two runs on the same examples: run B is as good as run A (exit 0), it is not (10),"
        " or the examples don't tell (11). What changed is shown by category."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("run_a", metavar="RUN_A", help="the earlier run, by number or name")
        parser.add_argument("run_b", metavar="RUN_B", help="the later run, by number or name")
        parser.add_argument(
            "--margin",
            type=decimal_argument,
            default=MARGIN,
            help=f"the loss that you would accept, 0 to 1 (default {MARGIN})",
        )
        parser.add_argument(
            "--restart",
            action="store_true",
            help="if examples changed, begin with the present ones",
        )
        add_outputs(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        runs = [find_run(project, options[name]) for name in ("run_a", "run_b")]
        for run in runs:
            # Both have to be finished: a run that still judges would differ by what it lacks.
            run.require_ranking("Nothing was decided.")
        drift = compare_runs(project, *runs, options["margin"], restart=options["restart"])
        for line in drift_lines(drift):
            self.stdout.write(line)
        write_outputs(options, junit=junit(drift.decision), markdown=drift_markdown(drift))
        self.tell(drift.document())
        end_with(drift.decision.verdict)
