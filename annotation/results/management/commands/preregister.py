"""preregister PROJECT: store what a study plans, with a hash, before people vote."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.models import Preregistration
from annotation.results.planner.registration import (
    LARGEST_FILE,
    Plan,
    as_file,
    as_markdown,
    check_file,
    register,
    versions,
)
from annotation.results.planner.sizes import GOALS, Study
from annotation.results.sections.registration import ANALYSES, ROUTES
from annotation.results.tables.exports import write_text
from annotation.rounds.opening import ALPHA, EPSILON, rate_in
from judging.core.commands import FairJudgeCommand, add_project, decimal_argument
from judging.core.errors import Misuse, UserError
from judging.core.formatting import number_of
from judging.projects.access import project_for_command
from judging.projects.models import Project

_STUDY = ("win_rate", "ties", "accuracy", "kappa", "wrong", "within", "power")
_MARKDOWN = ".md"


class Command(FairJudgeCommand):
    reads, writes = ("verify",), ("output",)
    help = (
        "Register what a study plans, with a SHA-256 and a date, before people vote. The report "
        "then says which parts were kept. Without --goal, list the versions or write one as a file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--goal", help="what the study is to find out")
        parser.add_argument(
            "--hypothesis", action="append", default=[], help="a hypothesis; may be repeated"
        )
        parser.add_argument("--examples", type=int, help="number of examples")
        parser.add_argument("--beta", type=decimal_argument, help="percent to review by rank")
        parser.add_argument(
            "--budget", type=decimal_argument, help="USD for votes, instead of --beta"
        )
        parser.add_argument("--everything", action="store_true", help="people label all examples")
        parser.add_argument("--audit", type=int, help="number of audited examples")
        parser.add_argument("--votes", type=int, default=3, help="votes per example (default 3)")
        parser.add_argument(
            "--route", choices=[*ROUTES], default="bpde", help="ranking (default: bpde)"
        )
        parser.add_argument("--learn", type=int, default=0, help="size of the learning sample")
        parser.add_argument(
            "--epsilon", type=decimal_argument, default=Decimal(repr(EPSILON)),
            help=f"largest share of wrong labels to certify (default {EPSILON})",
        )  # fmt: skip
        parser.add_argument(
            "--alpha", type=decimal_argument, default=Decimal(repr(ALPHA)),
            help=f"error of the certificate (default {ALPHA})",
        )  # fmt: skip
        parser.add_argument("--looks", type=int, nargs="*", default=[], metavar="SIZE",
                            help="audit sizes at which the certificate is checked")  # fmt: skip
        parser.add_argument("--seed", type=int, help="seed of the round")
        parser.add_argument(
            "--template", action="append", default=[], help="a judge template; may be repeated"
        )
        parser.add_argument(
            "--analysis", action="append", default=[], choices=list(ANALYSES), metavar="NAME",
            help=f"an analysis to report; may be repeated: {', '.join(ANALYSES)}",
        )  # fmt: skip
        parser.add_argument(
            "--aim", choices=GOALS, help="compute the labels that this goal needs, as `sizes` does"
        )
        for name in _STUDY:
            parser.add_argument(f"--{name.replace('_', '-')}", type=decimal_argument,
                                help="with --aim: as for `sizes`")  # fmt: skip
        parser.add_argument(
            "--verify",
            type=Path,
            metavar="FILE",
            help="check that a file is a plan as it was registered",
        )
        parser.add_argument(
            "--show",
            type=int,
            metavar="VERSION",
            help="with -o or --json: the version to write (default: newest)",
        )
        parser.add_argument("-o", "--output", type=Path, help="write a version as .json or .md")

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        if options["verify"] is not None:
            self._verify(project, options["verify"])
            return
        if options["goal"] is not None:
            made = register(project, None, _plan(project, options))
            self.stdout.write(f"Version {made.number} of the plan is registered: {made.sha256}")
        else:
            made = self._chosen(project, options["show"])
        if options["output"] is not None:
            self._write(made, options["output"])
        self.tell({"project": project.slug, "number": made.number} | as_file(made))

    def _chosen(self, project: Project, number: int | None) -> Preregistration:
        made = versions(project)
        if not made:
            raise UserError(f"{project.slug} has no registered plan. Make one with --goal.")
        for version in made:
            existing = json.loads(version.text)["existing"]
            self.stdout.write(
                f"version {version.number}, {version.made_at:%Y-%m-%d %H:%M} UTC, "
                f"{number_of(existing['votes'], 'vote')} existed: {version.sha256}"
            )
        chosen = next((version for version in made if number in (None, version.number)), None)
        if chosen is None:
            raise UserError(f"{project.slug} has no version {number} of its plan.")
        return chosen

    def _write(self, made: Preregistration, path: Path) -> None:
        text = as_markdown(made)
        if path.suffix != _MARKDOWN:
            text = json.dumps(as_file(made), indent=2, ensure_ascii=False) + "\n"
        write_text(path, text)

    def _verify(self, project: Project, path: Path) -> None:
        with path.open("rb") as file:
            # One byte too many is enough to tell that a file is too large.
            check = check_file(file.read(LARGEST_FILE + 1), project)
        stored = check.stored.number if check.stored else None
        # Before the error: a program reads the outcome also for a file that doesn't hold.
        self.tell({"project": project.slug, "holds": check.holds, "sha256": check.sha256,
                   "number": stored})  # fmt: skip
        if check.stored is None:
            raise UserError(check.sentence)
        self.stdout.write(check.sentence)


def _plan(project: Project, options: dict[str, Any]) -> Plan:
    figures = {name: float(options[name]) for name in _STUDY if options[name] is not None}
    if figures and options["aim"] is None:
        raise Misuse("Say with --aim what the number of labels is for. Nothing was registered.")
    study = None
    if options["aim"] is not None:
        study = Study(
            **figures, epsilon=float(options["epsilon"]), examples=options["examples"],
            votes=options["votes"], rate=rate_in(project),
        )  # fmt: skip
    same = ("goal", "examples", "beta", "budget", "everything", "audit", "votes", "route", "learn",
            "seed")  # fmt: skip
    return Plan(
        **{name: options[name] for name in same},
        hypotheses=tuple(options["hypothesis"]),
        study=study,
        aim=options["aim"] or GOALS[0],
        epsilon=float(options["epsilon"]),
        alpha=float(options["alpha"]),
        looks=tuple(options["looks"]),
        templates=tuple(options["template"]),
        analyses=tuple(options["analysis"]),
    )
