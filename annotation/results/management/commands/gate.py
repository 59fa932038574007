"""gate PROJECT --require …: do a run's figures keep these bounds? Exit 0, 10 or 11."""

from typing import Any

from django.core.management.base import CommandParser

from annotation.results.delivery.gate import VOTES, decide_gate, open_needed
from annotation.results.delivery.gate_files import junit, markdown, text_lines
from annotation.results.delivery.requirements import parse, possible
from annotation.results.management.verdicts import (
    add_outputs,
    end_with,
    minutes,
    wait_for_votes,
    write_outputs,
)
from judging.core.commands import FairJudgeCommand, add_project
from judging.core.errors import Misuse, UserError
from judging.methods.intervals.looks import Ruling
from judging.projects.access import project_for_command
from judging.runs.models import find_run


class Command(FairJudgeCommand):
    writes = ("junit", "markdown")
    help = (
        "Say by intervals if a run keeps bounds: pass (exit 0), fail (10) or inconclusive (11) "
        "with what it takes in votes, examples and dollars."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--run", help="number, name or `latest`; default: the primary run")
        parser.add_argument(
            "--require",
            action="append",
            default=[],
            metavar="FIGURE>=BOUND",
            help=f"may be repeated; FIGURE is one of: {possible()}",
        )
        parser.add_argument(
            "--votes", type=int, default=VOTES, help=f"votes per example (default {VOTES})"
        )
        parser.add_argument(
            "--open-round", action="store_true", help="if inconclusive, open the round that decides"
        )
        parser.add_argument(
            "--wait", action="store_true", help="if inconclusive, look again when people finish"
        )
        parser.add_argument(
            "--restart",
            action="store_true",
            help="if examples changed, begin with the present ones",
        )
        parser.add_argument(
            "--timeout",
            type=minutes,
            metavar="MINUTES",
            help="with --wait: stop waiting, with exit 4",
        )
        add_outputs(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        requirements = [parse(text) for text in options["require"]]
        if not requirements:
            raise Misuse(f"Nothing is required. Add --require FIGURE>=BOUND, of: {possible()}.")
        project = project_for_command(options["project"])
        run = find_run(project, options["run"]) if options["run"] else project.primary_run
        if run is None:
            raise UserError(f"{project.slug} has no run yet. Nothing was decided.")
        run.require_ranking("Nothing was decided.")
        asked = {"votes": options["votes"], "restart": options["restart"]}
        decision = decide_gate(project, run, requirements, **asked)
        if decision.verdict is Ruling.INCONCLUSIVE and options["open_round"]:
            assert decision.needed is not None
            # A round that asks for these votes already is not opened again.
            if decision.needed.round is None:
                round_ = open_needed(project, run, decision.needed)
                self.stderr.write(f"Round {round_.number} is open. {decision.needed.sentence}")
                decision = decide_gate(project, run, requirements, **asked)
        # A round that was opened above is waited for as well.
        if decision.verdict is Ruling.INCONCLUSIVE and options["wait"]:
            wait_for_votes(self, run, options["timeout"])
            # Not with `restart`, which would begin another series of looks.
            decision = decide_gate(project, run, requirements, votes=options["votes"])
        for line in text_lines(decision):
            self.stdout.write(line)
        write_outputs(options, junit=junit(decision), markdown=markdown(decision))
        self.tell(decision.document())
        end_with(decision.verdict)
