"""escalate PROJECT: which labels may judges in a row keep, and which examples are for people?"""

from argparse import ArgumentTypeError
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.data.figures import to_json
from annotation.results.management.verdicts import add_who_labels, write_who_labels
from annotation.results.sections.routing import (
    BY_BPDE,
    BY_LEARNED,
    BY_SIMULATED,
    EscalationPlan,
    escalation_asked,
)
from judging.core.commands import FairJudgeCommand, add_project, decimal_argument
from judging.core.errors import UserError
from judging.core.formatting import count, percent, usd
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import Run, find_run


class Command(FairJudgeCommand):
    writes = ("output", "people")
    help = (
        "Choose the labels that can be left to judges, so that people agree with them as often as "
        "you ask. All other examples are left to people."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument(
            "--run",
            action="append",
            help="a run by number, name or `latest`; repeat it for up to three runs, in the order "
            "in which they are asked. Default: the primary run",
        )
        parser.add_argument(
            "--agreement",
            type=_share,
            required=True,
            help="how often people must agree with the labels that are left to judges, such as 0.9",
        )
        parser.add_argument(
            "--confidence",
            type=_share,
            default=Decimal("0.9"),
            help="confidence that they agree that often (default 0.9)",
        )
        parser.add_argument(
            "--score",
            choices=(BY_BPDE, BY_LEARNED, BY_SIMULATED),
            default=BY_BPDE,
            help="how sure a judge is: by its BPDE (default), by what people's labels teach, or by "
            "how many simulated annotators agree (see `teach --by annotators`)",
        )
        add_who_labels(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        runs = _runs(project, options["run"])
        # Subtracted as decimals: as floats, 1 - 0.9 is a little less than 0.1.
        asked, delta = float(options["agreement"]), float(1 - options["confidence"])
        plan, labelled = escalation_asked(project, runs, asked, delta, options["score"])
        for line in _lines(plan, float(options["confidence"])):
            self.stdout.write(line)
        write_who_labels(options, labelled, None)
        self.tell(to_json(plan) | {"confidence": float(options["confidence"])})


def _share(text: str) -> Decimal:
    value = decimal_argument(text)
    if not 0 < value < 1:
        raise ArgumentTypeError(f"{text!r} is not a share between 0 and 1, such as 0.9")
    return value


def _runs(project: Project, names: list[str] | None) -> list[Run]:
    if not names:
        if project.primary_run is None:
            raise UserError(f"{project.slug} has no run yet. Judge first.")
        return [project.primary_run]
    return [find_run(project, name) for name in names]


def _lines(plan: EscalationPlan, confidence: float) -> Iterator[str]:
    # One agreement was asked for, and the report has a row for each of several.
    (row,) = plan.rows
    use = "are shown in prompts" if plan.score == BY_SIMULATED else "were used to learn the score"
    taught = f", and {count(plan.taught)} others {use}" if plan.taught else ""
    yield f"{count(plan.labels)} labels by people choose the threshold{taught}."
    if row.reason:
        yield f"Nothing can be kept: {row.reason}."
    else:
        yield (
            f"With {percent(confidence)} confidence, people agree with at least "
            f"{percent(row.agreement)} of what is kept. Of the sample, {count(row.audited)} are "
            f"kept, and people contradict {count(row.wrong)}."
        )
    asked = sum(row.kept) + row.people
    for name, kept, price in zip(plan.judges, row.kept, row.usd, strict=True):
        cost = "an unknown cost" if price is None else usd(price)
        yield f"  kept by {name}: {count(kept)} of {count(asked)}, for {cost}"
        # The next judge is only asked about what this one didn't keep.
        asked -= kept
    yield f"  left to people: {count(row.people)}, for {usd(row.people_usd)}"
