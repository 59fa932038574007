"""teach PROJECT: have people's labels teach the judge, and keep what is shown to be better."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.models import Lesson
from annotation.results.delivery.teaching import (
    ANNOTATORS,
    MOST_SHOTS,
    SHOTS,
    VOTES_OF_EACH,
    approve,
    begin_lesson,
    compare_lesson,
    document,
    draft,
    plan_document,
    plan_lesson,
    plan_lines,
    runs_of,
    solved_by,
    told,
)
from annotation.results.management.verdicts import end_with
from judging.core.commands import FairJudgeCommand, add_project, positive
from judging.core.errors import Misuse, UserError
from judging.core.formatting import usd
from judging.management.commands.judge import amount, price
from judging.methods.intervals.looks import Ruling
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import find_run


class Command(FairJudgeCommand):
    reads = ("rubric",)
    help = (
        "Teach the judge by people's labels: by solved examples on which it erred, by a rubric "
        "that a model drafts and you approve, or by both. Or simulate annotators by their votes: "
        "how many agree says how sure the judge is. No figure uses labels that taught. "
        "Without options, list the lessons so far."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--by",
            choices=Lesson.Way.values,
            help="make a lesson this way; a rubric is drafted at once",
        )
        what.add_argument("--show", type=positive, metavar="N", help="show lesson N")
        what.add_argument(
            "--approve",
            type=positive,
            metavar="N",
            help="make a template of lesson N, once you have read it",
        )
        what.add_argument(
            "--compare",
            type=positive,
            metavar="N",
            help="test the template of lesson N: compare the taught run with the one whose errors "
            "taught it; exit code 0: better, 10: worse, 11: not shown to be better",
        )
        parser.add_argument(
            "--run",
            help="with --by: the run whose errors teach (default: the primary run). With "
            "--compare: the taught run (default: the newest with the template)",
        )
        parser.add_argument(
            "--shots",
            type=positive,
            help=f"how many solved examples a prompt shows, 1 to {MOST_SHOTS} (default {SHOTS}, or "
            f"{VOTES_OF_EACH} votes of each simulated annotator)",
        )
        parser.add_argument(
            "--annotators",
            type=positive,
            metavar="N",
            help=f"with --by annotators: how many are simulated (default {ANNOTATORS})",
        )
        parser.add_argument("--name", help="the name of the taught template")
        parser.add_argument(
            "--endpoint", help="endpoint that drafts the rubric (default: the run's)"
        )
        parser.add_argument("--model", help="model that drafts the rubric (default: the run's)")
        parser.add_argument(
            "--price",
            type=price,
            metavar="IN,OUT",
            help="USD per million prompt and completion tokens, if FairJudge doesn't know them",
        )
        parser.add_argument(
            "--budget", type=amount, metavar="USD", help="refuse a draft that could cost more"
        )
        parser.add_argument(
            "--estimate",
            action="store_true",
            help="with --by: say what teaches and what it costs; send nothing",
        )
        parser.add_argument(
            "--rubric",
            type=Path,
            metavar="FILE",
            help="with --approve: the rubric as you edited it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        if options["rubric"] and not options["approve"]:
            raise Misuse("--rubric goes with --approve.")
        # An option that does nothing is refused, so that nobody believes it did something.
        if options["run"] and not (options["by"] or options["compare"]):
            raise Misuse("--run goes with --by or --compare.")
        if options["by"]:
            self._teach(project, options)
        elif options["approve"]:
            lesson = approve(_lesson(project, options["approve"]), None, _rubric(options["rubric"]))
            self.stdout.write(
                f"Template {lesson.name} has a new version. Judge with it: manage.py judge "
                f"{project.slug} --template {lesson.name}"
            )
            self.tell(document(lesson))
        elif options["compare"]:
            self._compare(project, _lesson(project, options["compare"]), options["run"])
        elif options["show"]:
            lesson = _lesson(project, options["show"])
            self._show(lesson)
            self.tell(document(lesson))
        else:
            lessons = list(project.lessons.select_related("run", "version").order_by("number"))
            for lesson in lessons:
                self.stdout.write(_line(lesson))
            self.tell({"lessons": [document(lesson) for lesson in lessons]})

    def _teach(self, project: Project, options: dict[str, Any]) -> None:
        run = find_run(project, options["run"]) if options["run"] else project.primary_run
        if run is None:
            raise UserError(f"{project.slug} has no run yet. Judge first.")
        names = ("shots", "annotators", "name", "endpoint", "model", "price", "budget")
        settings = {name: options[name] for name in names if options[name] is not None}
        plan = plan_lesson(project, run, options["by"], **settings)
        for line in plan_lines(plan):
            self.stdout.write(line)
        if options["estimate"]:
            self.tell(plan_document(plan))
            return
        lesson = begin_lesson(project, None, plan, options["budget"])
        if plan.request is not None:
            # Here and not by a worker, because the command shows the draft.
            lesson = draft(lesson)
        self._show(lesson)
        self.stdout.write(f"Read it: manage.py teach {project.slug} --approve {lesson.number}")
        self.tell(document(lesson))

    def _compare(self, project: Project, lesson: Lesson, name: str | None) -> None:
        runs = runs_of(lesson)
        if name is None and not runs:
            raise UserError(f"No run has judged with the template of lesson {lesson.number} yet.")
        run = find_run(project, name) if name else runs[0]
        lesson = compare_lesson(lesson, None, run)
        # The same data is no new test, so the last one of this run may be an earlier one.
        test = next(earlier for earlier in reversed(lesson.tests) if earlier["run"] == run.number)
        self.stdout.write(told(test))
        self.tell(document(lesson))
        end_with(Ruling(test["verdict"]))

    def _show(self, lesson: Lesson) -> None:
        self.stdout.write(_line(lesson))
        if lesson.usd is not None:
            self.stdout.write(f"The draft cost {usd(lesson.usd)}.")
        pairs, *annotators = solved_by(lesson)
        for pair in pairs:
            self.stdout.write(f"  solved example {pair['external_id']}: {pair['label']}")
        for number, own in enumerate(annotators, start=1):
            shown = ", ".join(f"{solved['external_id']} {solved['label']}" for solved in own)
            self.stdout.write(f"  simulated annotator {number}: {shown}")
        if lesson.rubric:
            self.stdout.write(lesson.rubric)
        for test in lesson.tests:
            self.stdout.write(told(test))


def _line(lesson: Lesson) -> str:
    return (
        f"Lesson {lesson.number}, by {lesson.get_way_display()} from {lesson.run.name}, for the "
        f"template {lesson.name}: {lesson.state_words}."
    )


def _lesson(project: Project, number: int) -> Lesson:
    lesson = project.lessons.select_related("run", "version").filter(number=number).first()
    if lesson is None:
        raise UserError(f"Project {project.slug} has no lesson {number}.")
    return lesson


def _rubric(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} can't be read: it is not UTF-8 text.") from None
