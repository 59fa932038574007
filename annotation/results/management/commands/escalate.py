"""escalate PROJECT: which labels may judges in a row keep, and which examples are for people?"""

import json
from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from django.core.management.base import CommandParser

from annotation.results.data.figures import to_json
from annotation.results.data.runs import OtherRun
from annotation.results.data.sheet import LABELS
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.routing import (
    BY_BPDE,
    BY_LEARNED,
    MOST_JUDGES,
    EscalationPlan,
    LabelSample,
    UnsureJudges,
    as_judge,
    escalation,
    label_sample,
    unsure_judges,
)
from annotation.results.tables.exports import whole_file
from judging.core.commands import FairJudgeCommand, add_project, decimal_argument
from judging.core.errors import UserError
from judging.core.formatting import count, percent
from judging.dataset.models import frame_of
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.certificate import first_sure
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import Run, find_run


class Command(FairJudgeCommand):
    writes = ("output", "people")
    help = (
        "Say which labels judges may keep so that people agree with them as often as you ask, "
        "and which examples are left to people."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument(
            "--run",
            action="append",
            help="a judge, by number, name or `latest`; repeat it for the judges that are asked "
            "after it, three at most. Default: the primary run",
        )
        parser.add_argument(
            "--agreement",
            type=_share,
            required=True,
            help="how often people have to agree with what judges keep, such as 0.9",
        )
        parser.add_argument(
            "--confidence",
            type=_share,
            default=Decimal("0.9"),
            help="confidence that they do (default 0.9)",
        )
        parser.add_argument(
            "--score",
            choices=(BY_BPDE, BY_LEARNED),
            default=BY_BPDE,
            help="how sure a judge is: by its BPDE (default), or by what people's labels teach",
        )
        parser.add_argument(
            "-o", "--output", type=Path, help="write who labels which example, as JSON Lines"
        )
        parser.add_argument(
            "--people",
            type=Path,
            help="write the ids that are left to people, for `open_round --examples`",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        runs = _runs(project, options["run"])
        analysis, given = _audited(project, runs)
        row = _judges(analysis, runs)
        judges = unsure_judges(analysis, given, row, options["score"])
        if isinstance(judges, Undefined):
            raise UserError(f"There is no such score: {judges.reason}.")
        asked, delta = float(options["agreement"]), float(1 - options["confidence"])
        plan = escalation(given, judges, (asked,), delta)
        for line in _lines(plan, float(options["confidence"])):
            self.stdout.write(line)
        rows = list(_rows(project, analysis, given, judges, plan.rows[0].threshold))
        if options["output"]:
            _write(options["output"], (json.dumps(row, ensure_ascii=False) for row in rows))
        if options["people"]:
            left = (row["external_id"] for row in rows if row["label_from"] is None)
            _write(options["people"], ("external_id", *left))
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
    runs = [find_run(project, name) for name in names]
    if len({run.pk for run in runs}) < len(runs):
        raise UserError("A run is named twice. Each judge is asked once.")
    if len(runs) > MOST_JUDGES:
        raise UserError(f"{len(runs)} runs are named; {MOST_JUDGES} judges in a row are the most.")
    for run in runs:
        if run.ranked_at is None:
            raise UserError(f"{run.why_unranked} Nothing was decided.")
    return runs


def _audited(project: Project, runs: list[Run]) -> tuple[Analysis, LabelSample]:
    """Return the first of the runs whose labels people checked at random, with these labels."""
    reasons = []
    for run in runs:
        analysis = Analysis(project, run)
        given = label_sample(analysis)
        if isinstance(given, LabelSample):
            return analysis, given
        reasons.append(given.reason)
    raise UserError(f"No label of people can choose a threshold: {reasons[0]}.")


def _judges(analysis: Analysis, runs: list[Run]) -> list[OtherRun]:
    known = {one.name: one for one in (as_judge(analysis), *analysis.others)}
    missing = [run.name for run in runs if run.name not in known]
    if missing:
        raise UserError(f"Run {missing[0]} is too old: only the newest runs are compared.")
    return [known[run.name] for run in runs]


def _lines(plan: EscalationPlan, confidence: float) -> Iterator[str]:
    (row,) = plan.rows
    taught = (
        f", and {count(plan.taught)} others were used to learn the score" if plan.taught else ""
    )
    yield f"{count(plan.labels)} labels by people choose the threshold{taught}."
    if row.reason:
        yield f"Nothing can be kept: {row.reason}."
    else:
        yield (
            f"With {percent(confidence)} confidence, people agree with at least "
            f"{percent(row.agreement)} of what is kept. Of the sample, {count(row.audited)} are "
            f"kept, and people contradict {count(row.wrong)}."
        )
    for name, kept in zip(plan.judges, row.kept, strict=True):
        yield f"  kept by {name}: {count(kept)}"
    yield f"  left to people: {count(row.people)}"


def _rows(
    project: Project,
    analysis: Analysis,
    given: LabelSample,
    judges: UnsureJudges,
    threshold: float | None,
) -> Iterator[dict[str, Any]]:
    """Who labels each example: people who were asked, a run, or nobody yet; and the label."""
    sheet = analysis.sheet
    nobody = np.full(len(sheet), -1)
    judge = nobody if threshold is None else first_sure(judges.unsure, threshold)
    asked = given.sample | judges.taught | ~given.rest
    examples = frame_of(project, analysis.frame.pk if analysis.frame else None)
    names = dict(examples.values_list("pk", "external_id"))
    for place, pk in enumerate(sheet.ids.tolist()):
        label_from = label = None
        if asked[place]:
            label_from = "people"
            label = given.human[place] if given.settled[place] else None
        elif judge[place] >= 0:
            label_from = judges.names[judge[place]]
            label = judges.signs[judge[place], place]
        said = None if label is None else str(LABELS[int(label)])
        yield {"external_id": names[pk], "label_from": label_from, "label": said}


def _write(path: Path, lines: Iterable[str]) -> None:
    with whole_file(path) as partial:
        partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
