"""sizes: how many labels does a study need? From what you expect, or from a pilot."""

from dataclasses import replace
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.data.figures import to_json
from annotation.results.planner.sizes import (
    Need,
    Pilot,
    Study,
    answer,
    as_document,
    needs,
    pilot_of,
)
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import rate_in
from judging.core.commands import FairJudgeCommand, decimal_argument
from judging.core.errors import UserError
from judging.core.formatting import count, decimals, percent, usd
from judging.methods.review.cost import HumanRate
from judging.projects.access import project_for_command
from judging.runs.models import find_run, run_to_show

_HELP = {
    "win_rate": "model 1's win rate that you expect",
    "ties": "share of ties among people's labels",
    "accuracy": "the judge's accuracy that you expect",
    "kappa": "the judge's kappa that you expect",
    "wrong": "share of wrong labels that you expect where nobody reviews",
    "within": "half the width of the intervals that you want",
    "power": "probability to show which model is better, or to get the certificate",
    "epsilon": "the largest share of wrong labels to certify",
}


class Command(FairJudgeCommand):
    help = (
        "Say how many labels by people a study needs: to show which model is better, for a win "
        "rate, the judge's accuracy and kappa within ± w, and for a certificate."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", help="a project whose run is the pilot")
        parser.add_argument("--run", help="the pilot, by number or name (default: the primary run)")
        usual = Study()
        for name, meaning in _HELP.items():
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                type=decimal_argument,
                help=f"{meaning}, 0 to 1 (default {getattr(usual, name)}, or the pilot's)",
            )
        parser.add_argument("--examples", type=int, help="examples that the judge labels")
        parser.add_argument("--votes", type=int, default=usual.votes, help="votes per example (3)")
        parser.add_argument("--minutes", type=decimal_argument, help="minutes per vote")
        parser.add_argument("--wage", type=decimal_argument, help="wage, USD per hour")

    def handle(self, *args: Any, **options: Any) -> None:
        pilot = self._pilot(options)
        study = pilot.study if pilot else Study()
        values = {
            name: float(options[name]) if name in _HELP else options[name]
            for name in (*_HELP, "examples", "votes")
            if options[name] is not None
        }
        asked = replace(study, **values, rate=_rate(study.rate, options))
        needed = needs(asked, pilot)
        self.stdout.write(answer(needed, asked))
        for need in needed:
            self.stdout.write(_line(need))
        self.tell(to_json(as_document(asked, needed, pilot)))

    def _pilot(self, options: dict[str, Any]) -> Pilot | None:
        if not options["project"]:
            if options["run"]:
                raise UserError("--run needs --project, whose run it is.")
            return None
        project = project_for_command(options["project"])
        run = find_run(project, options["run"]) if options["run"] else run_to_show(project)
        # A pilot has to have ranks, because its values come from its report.
        if run is None or run.ranked_at is None:
            raise UserError(f"{project.slug} has no finished run that could be the pilot.")
        usual = Study(rate=rate_in(project), votes=options["votes"])
        pilot = pilot_of(report(Analysis(project, run)), usual)
        self.stdout.write(f"Measured by run {run.name}: {', '.join(pilot.measured)}.")
        return pilot


def _rate(usual: HumanRate, options: dict[str, Any]) -> HumanRate:
    values = {name: options[name] for name in ("minutes", "wage") if options[name] is not None}
    if any(value <= 0 for value in values.values()):
        raise UserError("Minutes and wage are more than 0.")
    return replace(usual, **values)


def _line(need: Need) -> str:
    if need.labels is None:
        return f"{need.question}: can't be reached: {need.reason}."
    as_share = "probability" in need.reaches
    reached = percent(need.reached, 1) if as_share else decimals(need.reached or 0)
    safe = "" if need.cautious is None else f"; {count(need.cautious)} to be on the safe side"
    return (
        f"{need.question}: {count(need.labels)} labelled examples{safe}, "
        f"{decimals(float(need.hours or 0), 1, counted=True)} h, {usd(need.usd)} "
        f"({need.reaches} {reached})."
    )
