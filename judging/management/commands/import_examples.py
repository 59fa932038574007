"""`manage.py import_examples`: check files of pairs and import them into a project."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize

from judging.core.commands import FairJudgeCommand, add_format, add_labels, add_project
from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.core.storage import is_shared
from judging.dataset.files import FORMATS
from judging.dataset.images import folder_of
from judging.dataset.models import Import
from judging.dataset.reading import NAMED, Summary, one_mapping
from judging.dataset.records import FIELDS, IGNORE, codes_of, spelled
from judging.dataset.uploads import FirstPass, discard_unused, first_pass, refused_files_of
from judging.dataset.wide import LARGEST_SEED, RESPONSE, PairDesign
from judging.dataset.writing import (
    hide_models,
    refuse_ambiguous,
    refuse_undesigned,
    undo,
    write_checked,
)
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import find_run
from judging.runs.planning.estimate import PairsPrice, price_of_pairs


class Command(FairJudgeCommand):
    help = "Import pairs of responses. Importing the same file again adds nothing."
    reads = ("files",)

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser, "; a new project is created")
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="*",
            type=Path,
            help="a file of pairs, the folder of a data set, or a ZIP of pairs and their images; "
            "- is stdin",
        )
        add_format(parser, FORMATS)
        add_labels(parser)
        parser.add_argument(
            "--map",
            metavar="COL=FIELD",
            action="append",
            default=[],
            help=f"read the column COL as FIELD, one of: {', '.join(FIELDS)}. COL={RESPONSE}: the "
            f"column holds the responses of the model COL. COL={IGNORE}: leave the column out. For "
            "the question and the responses, COL=question:messages says that cells hold messages "
            "as JSON, and COL=question:text that they hold texts",
        )
        parser.add_argument(
            "--design",
            help="which pairs to make of the responses to a question: all, baseline=MODEL, "
            "random=OPPONENTS or blocks=RESPONSES",
        )
        parser.add_argument(
            "--seed",
            type=int,
            default=0,
            help=f"for random and blocks: 0 to {LARGEST_SEED}; default: 0",
        )
        parser.add_argument(
            "--run", help="with --design: the run to price the pairs by; default: the primary one"
        )
        parser.add_argument("--dry-run", action="store_true", help="check, and write nothing")
        parser.add_argument(
            "--skip-invalid",
            action="store_true",
            help="leave invalid rows out, and copy them to a file with .refused in its name",
        )
        parser.add_argument(
            "--hide-models",
            action="store_true",
            help="hide models' names in the responses from annotators; exports keep the texts",
        )
        parser.add_argument("--owner", metavar="USER", help="the owner of a new project")
        parser.add_argument("--undo", metavar="NUMBER", type=int, help="undo an import")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["undo"] is not None:
            self.undo(options["project"], options["undo"])
            return
        paths = options["files"]
        if not paths:
            raise UserError("No file was named. Nothing was imported.")
        mapping = dict(one_mapping(text) for text in options["map"])
        # The file is compared to the project, and a new project has nothing to compare to.
        existing = Project.objects.filter(slug=options["project"]).first()
        labels = None if options["labels"] is None else codes_of(options["labels"])
        design = options["design"]
        checked = first_pass(
            existing,
            paths,
            options["format"],
            mapping,
            labels,
            sheet=options["sheet"] or "",
            design=None if design is None else PairDesign.read(design, options["seed"]),
            keep=not options["dry_run"],
        )
        try:
            self.write(existing, checked, options)
        finally:
            # After a dry run or a refusal, no import needs what a ZIP was unpacked to.
            discard_unused(checked.paths)

    def write(self, existing: Project | None, checked: FirstPass, options: dict[str, Any]) -> None:
        summary = checked.summary
        self.describe(checked)
        price = self.price(existing, checked, options["run"]) if summary.wide else None
        if options["dry_run"]:
            self.tell(document_of(summary, price))
            if summary.n_problems:
                raise UserError(f"{problem_count(summary)} found. Nothing was written.")
            self.stdout.write("Nothing was written.")
            return
        if summary.n_problems and (summary.fatal or not options["skip_invalid"]):
            # A program gets the problems by their lines. The error below is one sentence.
            self.tell(document_of(summary))
            hint = "" if summary.fatal else ", or leave these rows out with --skip-invalid"
            raise UserError(
                f"{problem_count(summary)} found. Nothing was imported. Fix the file{hint}."
            )
        refuse_ambiguous(summary.readings)
        refuse_undesigned(summary.wide)
        # Not before this, so that a wrong file makes no project.
        project = project_for_command(options["project"], options["owner"], create=True)
        if options["hide_models"]:
            hide_models(project, None)
        with self.progress("Importing", summary.n_rows) as progress:
            imported = write_checked(
                project,
                None,
                checked,
                skip_invalid=options["skip_invalid"],
                advance=progress.advance,
            )
        self.report(imported, summary, price)

    def price(self, project: Project | None, checked: FirstPass, named: str | None) -> PairsPrice:
        """Say what the pairs of wide rows are, and what a judge would need for the new ones."""
        wide, write = checked.summary.wide, self.stdout.write
        write(
            f"  {number_of(wide['questions'], 'question')} with "
            f"{number_of(wide['responses'], 'response')} of "
            f"{number_of(wide['n_models'], 'model')}: {number_of(wide['pairs'], 'pair')}, "
            f"{wide['words']}"
        )
        fewest, most = wide["fewest"], number_of(wide["most"], "pair")
        each = most if fewest == wide["most"] else f"{count(fewest)} to {most}"
        write(f"  each model is in {each}")
        if wide["groups"] > 1:
            write(
                f"  these and earlier pairs leave the models in {wide['groups']} groups that are "
                "never compared, "
                "so no ranking orders all of them"
            )
        run = project.primary_run if project else None
        if named:
            run = find_run(project, named) if project else None
        price = price_of_pairs(checked.comparison.n_new, run)
        write(f"  {price.words}")
        return price

    def describe(self, checked: FirstPass) -> None:
        summary, write = checked.summary, self.stdout.write
        n = summary.n_rows
        write(f"{n} row{pluralize(n)} can be imported ({summary.format}).")
        for field, source in summary.columns.items():
            if field != source:
                write(f"  {field} is read from {source}")
        if summary.unused:
            write(f"  not read: {', '.join(summary.unused)}")
        if any(summary.gold.values()) and not summary.readings:
            shares = ", ".join(f"{count(n)} {label}" for label, n in summary.gold.items())
            write(f"  gold labels: {shares}")
        if summary.labels:
            verb = "can mean" if summary.readings else "are read as"
            meant = " or ".join(map(spelled, summary.readings or [summary.labels]))
            write(f"  codes of gold labels {verb} {meant}, of response 1")
        for notice in summary.notices:
            lines = ", ".join(str(line) for line in notice.lines)
            more = ", …" if notice.count > len(notice.lines) else ""
            write(f"  {notice.sentence}" + (f" Lines {lines}{more}" if lines else ""))
        for problem in summary.problems:
            folder, of_zip = folder_of(Path(problem.place.file))
            # A ZIP is read from a folder of the site's own, which nobody knows.
            inside = Path(problem.place.file).relative_to(folder) if of_zip else None
            named = f"{inside}, {problem.place.here}: {problem.sentence}"
            self.stderr.write(named if of_zip else str(problem))
        if summary.n_problems > len(summary.problems):
            more = summary.n_problems - len(summary.problems)
            self.stderr.write(f"… and {number_of(more, 'more problem')}.")
        for conflict in checked.comparison.conflicts:
            self.stderr.write(conflict)

    def report(self, imported: Import, summary: Summary, price: PairsPrice | None) -> None:
        n = imported.n_written
        parts = [f"{n} example{pluralize(n)} imported into {imported.project.slug}"]
        if imported.n_known:
            parts.append(f"already in the project: {count(imported.n_known)}")
        if imported.n_conflicts:
            parts.append(
                f"already in the project with different content: {count(imported.n_conflicts)}"
            )
        self.stdout.write(f"{'; '.join(parts)} (import {imported.number}).")
        with refused_files_of(imported) as copies:
            refused = [self.kept(path) for path in copies]
        for path in refused:
            self.stdout.write(f"{count(imported.n_refused)} refused: {path}")
        named = NAMED in {notice["kind"] for notice in imported.summary.get("notices", [])}
        hidden = Project.objects.filter(pk=imported.project_id, hide_models=True).exists()
        if named and not hidden:
            self.stdout.write(
                "Annotators see the models' names. --hide-models hides them in rounds that open "
                "from now on, also when the same file is imported again."
            )
        self.tell(
            document_of(summary, price)
            | {
                "project": imported.project.slug,
                "import": imported.number,
                "written": imported.n_written,
                "known": imported.n_known,
                "conflicts": imported.n_conflicts,
                "refused_files": refused,
            }
        )

    def kept(self, path: Path) -> Path:
        """Return where refused rows stay: those of standard input in the working directory.

        So do those of a ZIP that was unpacked to a folder which ends with this command.
        """
        passes = path.is_relative_to(settings.MEDIA_ROOT) and is_shared()
        if path.parent != self.spool and not passes:
            return path
        return Path(shutil.move(path, path.name))

    def undo(self, slug: str, number: int) -> None:
        imported = Import.objects.filter(project__slug=slug, number=number).first()
        if imported is None:
            raise UserError(f"Project {slug} has no import {number}. Nothing was changed.")
        undo(imported, None)
        self.stdout.write(f"Import {number} is undone. Its examples are deleted.")
        self.tell({"project": slug, "import": number, "undone": True})


def document_of(summary: Summary, price: PairsPrice | None = None) -> dict[str, Any]:
    """What `--json` prints of a check. Nothing is written unless `import` is a number."""
    return {
        "project": None,
        "import": None,
        "format": summary.format,
        "rows": summary.n_rows,
        "written": 0,
        "known": 0,
        "conflicts": 0,
        "refused": summary.n_refused,
        "n_problems": summary.n_problems,
        "problems": [
            {
                "file": Path(problem.place.file).name,
                "line": problem.place.line,
                "column": problem.column,
                "sentence": problem.sentence,
            }
            for problem in summary.problems
        ],
        "notices": [asdict(notice) for notice in summary.notices],
        "refused_files": [],
        "wide": summary.wide or None,
        "price": price
        and {
            "pairs": price.pairs,
            "calls": price.calls,
            "usd": price.usd,
            "run": price.run and price.run.number,
        },
    }


def problem_count(summary: Summary) -> str:
    return (
        f"{number_of(summary.n_problems, 'problem')} {'was' if summary.n_problems == 1 else 'were'}"
    )
