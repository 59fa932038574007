"""`manage.py likelihood`: how likely a model finds responses, and if that sways the judge."""

from argparse import ArgumentTypeError
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand, add_project
from judging.core.formatting import decimals, interval, number_of
from judging.methods.intervals.estimates import Figure, Undefined, to_json
from judging.projects.access import project_for_command
from judging.runs.engine.likelihoods import LikelihoodsAsked, ask_likelihoods, texts_of
from judging.runs.forms.likelihood import NotCompared, PointwiseReport, ShotsComparison
from judging.runs.forms.point_shots import whole_report
from judging.runs.models import Form, find_run

LINES = {
    "bias": "BiasScore: Spearman of LS and US",
    "given_length": "  given the length",
    "per_token": "  with LS per token",
    "per_token_given_length": "  with LS per token, given the length",
    "length": "LS and length",
    "length_per_token": "LS per token and length",
    "performance": "judge's and people's scores",
}


class Command(FairJudgeCommand):
    help = "Ask a model how likely it finds the responses of a run. Each text is asked about once."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument(
            "--run", default="latest", help="the run's number or name; default: latest"
        )
        parser.add_argument("--endpoint", help="default: the run's endpoint")
        parser.add_argument(
            "--model",
            type=model_name,
            help="the model whose likelihoods are used; default: the run's judge",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        run = find_run(project, options["run"])
        with self.progress("Likelihoods", len(texts_of(run))) as progress:
            asked = ask_likelihoods(
                run,
                endpoint=options["endpoint"] or "",
                model=options["model"] or "",
                say=self.stderr.write,
                advance=progress.advance,
            )
        self.stdout.write(described(asked))
        told = asdict(asked) | {"project": project.slug, "run": run.number, "report": None}
        if run.form != Form.POINTWISE:
            self.stdout.write(
                "Its preference for likelier responses: manage.py report "
                f"{project.slug} --run {run.number} --json, under judge_card."
            )
            self.tell(told)
            return
        run.refresh_from_db()
        figures = whole_report(run)
        for line in lines(figures):
            self.stdout.write(line)
        self.tell(told | {"report": to_json(figures)})


def model_name(text: str) -> str:
    if len(text) > 200:
        raise ArgumentTypeError("a model's name has at most 200 characters")
    return text


def described(asked: LikelihoodsAsked) -> str:
    cost = "unknown" if asked.usd is None else f"{asked.usd:.6f} USD"
    untold = f", {asked.untold} without a likelihood" if asked.untold else ""
    sent = f"{number_of(asked.texts, 'text')}, {asked.asked} sent"
    return f"{sent} to {asked.model}{untold}. Cost: {cost}."


def lines(report: PointwiseReport) -> Iterator[str]:
    if isinstance(report.likelihood, Undefined):
        yield f"– ({report.likelihood.reason})"
        return
    for criterion, figures in report.likelihood.items():
        yield ""
        yield f"{criterion}, n = {figures.n}"
        for name, words in LINES.items():
            yield f"  {words.ljust(40)} {text_of(getattr(figures, name))}"
    yield from changes(report.comparison)


def changes(comparison: ShotsComparison | NotCompared | None) -> Iterator[str]:
    """Say what showing the most biased items changed, on the items that were not shown."""
    if comparison is None:
        return
    yield ""
    if isinstance(comparison, NotCompared):
        yield f"Before and after: – ({comparison.reason})"
        return
    items = number_of(comparison.test_items, "test item")
    yield f"Against run {comparison.before}, on {items}:"
    for criterion, change in comparison.criteria.items():
        for test, words in ((change.bias, "BiasScore"), (change.performance, "judge and people")):
            if isinstance(test, Undefined):
                yield f"  {criterion}, {words}: – ({test.reason})"
                continue
            before, after = (decimals(value, 3, signed=True) for value in (test.before, test.after))
            yield f"  {criterion}, {words}: {before} → {after}, p = {test.p:.4f}, n = {test.n}"


def text_of(figure: Figure) -> str:
    if isinstance(figure, Undefined):
        return f"– ({figure.reason})"
    text = decimals(figure.value, 3, signed=True)
    if figure.low is not None and figure.high is not None:
        text += f" [{interval(figure.low, figure.high, 3, signed=True)}]"
    return text
