"""calibrate PROJECT --run RUN: calibrate a choice run, and compare with the plain mean."""

from argparse import ArgumentTypeError
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.data.figures import to_json
from annotation.results.report.text import figure
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.calibration import CalibrationFigures, calibration
from judging.core.commands import FairJudgeCommand, add_project, decimal_argument
from judging.core.errors import UserError
from judging.methods.calibration.methods import NAMES, USUAL
from judging.methods.intervals.estimates import Undefined
from judging.projects.access import project_for_command
from judging.runs.engine import content_free
from judging.runs.models import find_run

ALL = "all"


class Command(FairJudgeCommand):
    help = "Calibrate a run of the form choice, and compare with the mean of its permutations."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--run", default="latest", help="number, name or `latest`")
        parser.add_argument(
            "--method",
            action="append",
            choices=[*NAMES, ALL],
            help=f"may be repeated; default: {', '.join(USUAL)}. cc and dc ask the judge about "
            "content-free texts, which costs 1 and 20 calls, once",
        )
        parser.add_argument(
            "--estimation-share",
            type=share,
            default=Decimal(content_free.WHOLE),
            metavar="PERCENT",
            help="share of the data to fit on; the rest evaluates the fit. 100: fit on all, and "
            "evaluate each fifth with a fit on the others",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        run = find_run(project, options["run"])
        chosen = options["method"] or list(USUAL)
        methods = list(NAMES) if ALL in chosen else chosen
        # Before anything is asked, so that a refusal costs nothing.
        content_free.check(run, methods, options["estimation_share"])
        self.ask(run, methods)
        content_free.keep_settings(run, methods, options["estimation_share"])
        figures = calibration(Analysis(project, run))
        if isinstance(figures, Undefined):
            raise UserError(f"Run {run.name} can't be calibrated: {figures.reason}.")
        for line in lines(figures):
            self.stdout.write(line)
        self.tell(to_json(figures))

    def ask(self, run: Any, methods: list[str]) -> None:
        before = run.spent_usd
        # Answers are kept, so that only those that lack are asked for and paid.
        asked = len(content_free.answers(run))
        now = content_free.ask_about_nothing(run, methods, say=self.stderr.write)
        if now > asked:
            cost = run.spent_usd - before if run.price is not None else None
            amount = "unknown" if cost is None else f"{cost:.6f} USD"
            self.stdout.write(f"{now - asked} answers about content-free texts. Cost: {amount}.")


def share(text: str) -> Decimal:
    value = decimal_argument(text)
    if not 0 < value <= content_free.WHOLE:
        raise ArgumentTypeError(f"{text!r} is not a percentage above 0 and up to 100")
    return value


def lines(figures: CalibrationFigures) -> Iterator[str]:
    comparison, asked = figures.comparison, figures.asked
    yield (
        f"Run {asked.run}: {', '.join(asked.permutations)}; {comparison.n} examples, "
        f"{comparison.labelled} with a label; {comparison.split}."
    )
    if isinstance(figures.labels, Undefined):
        yield f"Accuracy and RStd: – ({figures.labels.reason})"
    for row in comparison.rows:
        yield ""
        yield row.title
        if isinstance(row.calibration, Undefined):
            yield f"  – ({row.calibration.reason})"
            continue
        yield f"  Fleiss' kappa                 {figure(row.kappa)}"
        yield f"  ICC(2,k)                      {figure(row.icc_2k)}"
        yield f"  ICC(3,k)                      {figure(row.icc_3k)}"
        if not comparison.labelled:
            continue
        yield f"  RStd, mean over permutations  {figure(row.average.rstd, 1)}"
        yield f"  accuracy, over permutations   {figure(row.average.accuracy)}"
        yield f"  accuracy of the mean          {figure(row.mean.accuracy)}"
        yield f"  gain over the plain mean      {figure(row.gain)}"
    yield ""
    yield f"Recommended: {comparison.recommended_title}. {comparison.because}"
