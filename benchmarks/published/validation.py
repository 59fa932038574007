"""Import and analyse published judgments, and write docs/validation.md.

python -m benchmarks.published.validation FOLDER [--write docs/validation.md]
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from annotation.results.report.report import Report, report
from annotation.results.report.text import figure
from annotation.results.sections.analysis import Analysis
from annotation.votes.imports import import_votes
from benchmarks.published.cheapest import cheapest_lines
from benchmarks.published.routing import DRAWS, routing_lines
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.dataset.writing import import_files
from judging.methods.intervals.estimates import Figure, Undefined
from judging.projects.models import Project
from judging.runs.models import Run
from judging.runs.recorded.writing import import_judgments

SUBSETS = ("Natural", "Adversarial/Neighbor")
JUDGES = ("GPT-4", "ChatGPT")
PROMPTS = ("Swap", "Swap_CoT")
PANDALM = ("testset-v1.json", "gpt-3.5-turbo-testset-v1.json")

SEED = 20230529


def validated(folder: Path, project: Any, draws: int = DRAWS) -> Iterator[str]:
    """Yield the page's lines.

    Args:
        project: Makes an empty project, for each part one.
        draws: Learning samples per figure of learned routing and of the cheapest plan.
    """
    yield from _head()
    yield from _llmbar_orders(folder, project)
    yield from _llmbar_both(folder, project)
    cases = [
        (subset, judge, partial(_both_judges, folder, project, subset, judge))
        for subset in SUBSETS
        for judge in JUDGES
    ]
    yield from routing_lines(cases, draws)
    both = [
        (f"LLMBar, {subset}", (60,), partial(_both_judges, folder, project, subset, "GPT-4"))
        for subset in SUBSETS
    ]
    pandalm = ("PandaLM", (100, 200, 400), partial(_pandalm_judged, folder, project))
    yield from cheapest_lines([*both, pandalm], draws)
    yield from _pandalm(folder, project)


def _head() -> Iterator[str]:
    yield from [
        "# Published judgments, analysed",
        "",
        "`make validation DATA=folder` imports the recorded judgments of LLMBar and the votes and",
        "judgments of PandaLM, computes the report of each, and writes this page. No judge is",
        "asked. Intervals are 95 %. If a judge says tie and the known labels have no ties, the tie",
        "counts as half right or as wrong. Both are shown, because the choice can change a",
        "conclusion.",
        "",
    ]


def _llmbar_orders(folder: Path, project: Any) -> Iterator[str]:
    """Each prompt as a run: right in each order, and the same winner in both."""
    yield "## LLMBar, each prompt\n"
    head = ("Subset", "Judge", "Prompt", "Pairs", "Right", "Right, swapped", "Same winner in both")
    yield from _table(head, _order_rows(folder, project))


def _order_rows(folder: Path, project: Any) -> Iterator[Sequence[str]]:
    for subset in SUBSETS:
        for judge in JUDGES:
            for prompt in PROMPTS:
                found = _llmbar(folder, project(), subset, judge, (prompt,))
                n, orders = found.coverage.examples, found.orders
                counts = [
                    _count(orders.original.accuracy_over_all, n),
                    _count(orders.swapped.accuracy_over_all, n),
                    _count(orders.consistency, orders.consistency.n),
                ]
                yield (subset, judge, prompt, str(n), *counts)


def _llmbar_both(folder: Path, project: Any) -> Iterator[str]:
    """Both prompts as two samples of each order: a MEC + BPC run with k = 2."""
    yield "\n## LLMBar, both prompts as two samples of each order\n"
    head = ("Subset", "Judge", "Ties", "Accuracy", "AUROC of BPDE for errors", "Conflict rate")
    yield from _table(head, _both_rows(folder, project))


def _both_rows(folder: Path, project: Any) -> Iterator[Sequence[str]]:
    for subset in SUBSETS:
        for judge in JUDGES:
            found = _llmbar(folder, project(), subset, judge, PROMPTS)
            for ties, words in (("half", "half right"), ("wrong", "wrong")):
                part = getattr(found.ties, ties)
                figures = (part.accuracy, part.auroc, found.position.conflict_rate)
                yield (subset, judge, words, *map(figure, figures))


def _both_judges(folder: Path, project: Any, subset: str, judge: str) -> tuple[Project, Run]:
    """Return this judge's run over both prompts, in a project that also has the other judge's."""
    made, runs = project(), {}
    for name in JUDGES:
        paths = [_file(folder / "llmbar" / subset / name / one / "result.json") for one in PROMPTS]
        if not runs:
            import_files(made, None, paths[:1], file_format="llmbar")
        runs[name] = import_judgments(made, None, paths, file_format="llmbar", name=name)
    return made, runs[judge]


def _llmbar(
    folder: Path, project: Project, subset: str, judge: str, prompts: Sequence[str]
) -> Report:
    paths = [_file(folder / "llmbar" / subset / judge / one / "result.json") for one in prompts]
    import_files(project, None, paths[:1], file_format="llmbar")
    return _figures(project, paths, "llmbar")


def _pandalm_people(folder: Path, project: Any) -> tuple[Project, Path]:
    """Return a project with the people's votes, and the file of the judge."""
    people, judge = (_file(folder / "pandalm" / name) for name in PANDALM)
    made = project()
    import_files(made, None, [people], file_format="pandalm")
    import_votes(made, None, people, file_format="pandalm")
    return made, judge


def _pandalm_judged(folder: Path, project: Any) -> tuple[Project, Run]:
    made, judge = _pandalm_people(folder, project)
    return made, import_judgments(made, None, [judge], file_format="pandalm")


def _pandalm(folder: Path, project: Any) -> Iterator[str]:
    made, judge = _pandalm_people(folder, project)
    found = _figures(made, [judge], "pandalm")
    agreed = found.people
    own = next(row for row in found.methods if row.run and not row.beta)
    yield "\n## PandaLM: three people, and gpt-3.5-turbo asked once\n"
    rows = [
        ("Fleiss' kappa of the people", figure(agreed.fleiss_kappa)),
        ("Krippendorff's alpha", figure(agreed.krippendorff_alpha)),
        ("Gwet's AC1", figure(agreed.gwet_ac1)),
        ("Judge's accuracy over what could be parsed", figure(own.accuracy)),
        ("over all, unparsable as not right", figure(own.accuracy_over_all)),
        ("Judge's Cohen's kappa", figure(own.kappa)),
        ("Win rate of response 1 by people", figure(found.win_rate.people)),
        ("by the judge, sampling error only", figure(found.win_rate.judge)),
        ("Judge's length bias, γ minus people's γ", figure(found.length.bias)),
    ]
    rows += [
        (f"Agreement of {' and '.join(pair.annotators)}: Cohen's kappa", figure(pair.kappa))
        for pair in agreed.pairwise
    ]
    yield from _table(("Figure", "Value"), rows)


def _figures(project: Project, judgments: Sequence[Path], file_format: str) -> Report:
    run = import_judgments(project, None, judgments, file_format=file_format)
    # The seed of the resampling: the page comes out the same each time.
    run.seed = SEED
    run.save(update_fields=["seed"])
    return report(Analysis(project, run))


def _count(share: Figure, n: int) -> str:
    return "–" if isinstance(share, Undefined) else f"{round(share.value * n)}"


def _table(head: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _file(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"{path} is missing. The data are in the repositories LLMBar and PandaLM.")
    return path


# Text after this line of the page is written by people, and kept.
MARK = "<!-- what follows is kept -->"


class Command(FairJudgeCommand):
    help = "Analyse LLMBar's and PandaLM's recorded judgments. Leaves no project behind."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="holds llmbar/ and pandalm/")
        parser.add_argument(
            "--write", type=Path, default=Path("docs/validation.md"), help="the page to write"
        )
        parser.add_argument(
            "--draws",
            type=int,
            default=DRAWS,
            help="learning samples per figure of learned routing and of the cheapest plan",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = (f"validation-{n}" for n in count(1))
        with transaction.atomic():
            made = validated(options["folder"], lambda: new_project(next(names)), options["draws"])
            lines = list(made)
            transaction.set_rollback(True)
        path: Path = options["write"]
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        kept = "\n" + before[before.index(MARK) :] if MARK in before else ""
        path.write_text("\n".join(lines) + "\n" + kept, encoding="utf-8")
        for line in lines:
            self.stdout.write(line)


def new_project(slug: str) -> Project:
    """Create a project. It is rolled back at the end, so that the name is free the next time."""
    return Project.objects.create(slug=slug, name=slug)


if __name__ == "__main__":
    Command().run_from_argv(["python", "-m benchmarks.published.validation", *sys.argv[1:]])
