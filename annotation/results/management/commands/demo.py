"""demo: a finished study and a live run of the local judge; in a browser, or on the terminal."""

import os
import sys
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandParser

from annotation.results.data.runs import project_costs
from annotation.results.demo import finished_study, live_project, live_run, open_round_after
from annotation.results.merge.final_labels import merged
from annotation.results.report.cache import current_report
from annotation.results.report.text import cost_table, label_table
from judging.core.commands import FairJudgeCommand
from judging.runs.models import Run


class Command(FairJudgeCommand):
    help = "Set up the demo's two projects, and open them in a browser or run them on the terminal."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--no-serve",
            action="store_true",
            help="run everything here and print the cost and the labels",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        study = finished_study()
        for run in study.runs.filter(state=Run.State.DONE):
            # The first page to open shows these figures, so nobody waits for them.
            current_report(study, run)
        project = live_project()
        if options["no_serve"]:
            self._headless(project)
            return
        live_run(project, background=True)
        self.stdout.write("The demo's two projects are set up. The site starts …")
        self.stdout.flush()
        # Settings are read from the environment once, so that a new process must serve the login
        # page with the demo's entry.
        os.environ["FAIRJUDGE_DEMO"] = "1"
        more = ["--json"] if self.as_json else []
        os.execv(sys.executable, [sys.executable, "-m", "fairjudge_site", "runall", *more])

    def _headless(self, project: Any) -> None:
        run = live_run(project, background=False)
        if run.state != Run.State.DONE:
            call_command("judge", project.slug, resume=str(run.number), stdout=self.stdout)
        run.refresh_from_db()
        open_round_after(run)
        self.stdout.write("")
        self.tell({"project": project.slug, "run": run.number, "state": str(run.state)})
        for line in label_table(merged(project, run)):
            self.stdout.write(line)
        self.stdout.write("")
        for line in cost_table(project_costs(project, run)):
            self.stdout.write(line)
