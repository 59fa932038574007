"""Print tables of the papers again from public data: our value beside the paper's for each.

python -m benchmarks.published.papers FOLDER [--write docs/reproduce.md]
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from annotation.results.data.sheet import sheet_of
from annotation.results.sections.analysis import Analysis, ResponseLengths, dataset_of
from benchmarks.published.validation import new_project
from judging.core.commands import FairJudgeCommand
from judging.core.errors import Failed, UserError
from judging.dataset.writing import import_files
from judging.methods.review.cost import HumanRate, human_usd, paper_usd
from judging.runs.models import Run

PAGE = Path("docs/reproduce.md")
BEGIN, END = "<!-- begin of regenerated values -->", "<!-- end of regenerated values -->"
# PORTIA, Table 4: longest, shortest, mean and standard deviation, in characters.
LENGTHS = {
    "alpaca-13b": ("Alpaca-13b", "1149", "6", "508.99", "222.98"),
    "gpt35": ("GPT-3.5", "2218", "193", "1206.29", "460.26"),
    "vicuna-13b": ("Vicuna-13b", "2441", "212", "1416.92", "371.0"),
    "gpt-4": ("GPT-4", "3842", "201", "2044.14", "768.59"),
}
# FairEval, Table 4: USD for the judge alone, by judge and method.
JUDGE = {
    ("GPT-4", "VANILLA"): Decimal("2.00"),
    ("GPT-4", "MEC (k = 6)"): Decimal("6.38"),
    ("GPT-4", "MEC+BPC"): Decimal("6.38"),
    ("ChatGPT", "VANILLA"): Decimal("0.10"),
    ("ChatGPT", "MEC (k = 6)"): Decimal("0.34"),
    ("ChatGPT", "MEC+BPC"): Decimal("0.34"),
}
# The same with people who label 20 %, and how PORTIA's Table 17 sums both judges up.
WITH_PEOPLE = {"GPT-4": "23.1", "ChatGPT": "18.3"}
TIMES = {"MEC (k = 6)": "3.29", "MEC+BPC": "3.29", "HITLC": "97.3"}
OTHER_ANSWERS = "PORTIA used other responses of GPT-4"
ROUNDED = "the paper divides FairEval's rounded costs"
PEOPLE, SHARE = 3, Decimal("0.2")
PAIRS = (("answer_gpt35.jsonl", "answer_vicuna-13b.jsonl"),
         ("answer_alpaca-13b.jsonl", "answer_gpt-4.jsonl"))  # fmt: skip
QUESTIONS = "question.jsonl"


@dataclass(frozen=True)
class Value:
    """A number of a paper as it is printed, and ours. why: the reason if they differ, as known."""

    source: str
    what: str
    paper: str
    ours: Decimal
    why: str = ""

    @property
    def _digits(self) -> int:
        return len(self.paper.partition(".")[2])

    @property
    def same(self) -> bool:
        """Return True if ours, rounded as in the paper, is the paper's."""
        return abs(self.ours - Decimal(self.paper)) <= Decimal("0.5").scaleb(-self._digits)

    @property
    def shown(self) -> str:
        """Ours with the paper's digits; with one more if it lies between two of them."""
        exact = f"{self.ours:.{self._digits}f}"
        return (
            exact if exact == self.paper or not self.same else f"{self.ours:.{self._digits + 1}f}"
        )


def regenerated(folder: Path) -> Iterator[Value]:
    """Yield each value. Projects are made for the data, and are to be rolled back."""
    lengths = _lengths(folder)
    for model, (name, *printed) in LENGTHS.items():
        found = lengths[model]
        ours = (found.longest, found.shortest, found.mean, found.sd)
        for what, paper, value in zip(("longest", "shortest", "mean", "standard deviation"),
                                      printed, ours, strict=True):  # fmt: skip
            source = "PORTIA, Table 4"
            why = OTHER_ANSWERS if model == "gpt-4" else ""
            yield Value(source, f"{name}, {what}, characters", paper, Decimal(repr(value)), why)
    n = _examples(folder)
    usual = HumanRate()
    yield Value("FairEval, Table 4", "one person labels all, USD", "30.0", human_usd(n, usual))
    first = HumanRate(wage=Decimal(15))
    source = "FairEval (first version), §4.1"
    yield Value(source, "three people label all, USD", "180", human_usd(PEOPLE * n, first))
    reviewed = int(n * SHARE)
    totals = {}
    for judge, printed in WITH_PEOPLE.items():
        people = human_usd(PEOPLE * reviewed, usual)
        found_usd = paper_usd(n, reviewed, people, JUDGE[judge, "MEC+BPC"])
        assert found_usd is not None
        totals[judge, "HITLC"] = found_usd
        what = f"{judge}, MEC+BPC+HITLC with β = 20 %, USD"
        yield Value("FairEval, Table 4", what, printed, found_usd)
    for method, printed in TIMES.items():
        ratios = [
            (JUDGE | totals)[judge, method] / JUDGE[judge, "VANILLA"] for judge in WITH_PEOPLE
        ]
        mean = sum(ratios, Decimal(0)) / len(ratios)
        what = f"{method}, cost as a multiple of VANILLA"
        yield Value("PORTIA, Table 17", what, printed, mean, ROUNDED if method == "HITLC" else "")


def _lengths(folder: Path) -> dict[str, ResponseLengths]:
    found = {}
    for number, answers in enumerate(PAIRS):
        project = new_project(f"papers-{number}")
        files = [_file(folder / "faireval" / name) for name in (QUESTIONS, *answers)]
        import_files(project, None, files, file_format="faireval")
        of = Analysis(project, Run(project=project))
        # The data needs no judge, so there is no run.
        of.__dict__["sheet"] = sheet_of(project, None)
        found |= {one.model: one for one in dataset_of(of).by_model}
    return found


def _examples(folder: Path) -> int:
    return len(_file(folder / "faireval" / QUESTIONS).read_text(encoding="utf-8").splitlines())


def _file(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"{path} is missing. The file is in the FairEval repository.")
    return path


def as_table(values: list[Value]) -> Iterator[str]:
    yield "| Paper | Value | Paper's | Ours | Why they differ |"
    yield "|---|---|---|---|---|"
    for one in values:
        yield f"| {one.source} | {one.what} | {one.paper} | {one.shown} | {one.why} |"


class Command(FairJudgeCommand):
    help = "Compute values of the papers again from public data. Leaves no project behind."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="holds faireval/ with FairEval's files")
        parser.add_argument("--write", type=Path, help=f"write the table into a page, {PAGE}")

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            values = list(regenerated(options["folder"]))
            transaction.set_rollback(True)
        lines = list(as_table(values))
        for line in lines:
            self.stdout.write(line)
        if options["write"]:
            path: Path = options["write"]
            before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
            after = rest.partition(END)[2]
            text = "\n".join([f"{before}{BEGIN}\n", *lines, f"\n{END}{after}"])
            path.write_text(text, encoding="utf-8")
        if differing := [one.what for one in values if one.same == bool(one.why)]:
            raise Failed(f"Not as expected: {', '.join(differing)}.")


if __name__ == "__main__":
    Command().run_from_argv(["python", "-m benchmarks.published.papers", *sys.argv[1:]])
