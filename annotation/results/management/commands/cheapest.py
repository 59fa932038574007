"""cheapest PROJECT: the cheapest plan of judges and people that reaches a goal."""

from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.management.verdicts import add_who_labels, write_who_labels
from annotation.results.planner.cheapest import (
    CONFIDENCE,
    DEFAULTS,
    Wish,
    answer_here,
    checked,
    goal_checks,
    kept_answer,
    open_plan,
    who_labels,
)
from judging.core.commands import FairJudgeCommand, add_project, decimal_argument
from judging.core.formatting import decimals, percent, usd
from judging.methods.review.pipelines import Goal
from judging.projects.access import project_for_command


class Command(FairJudgeCommand):
    writes = ("output", "people")
    help = (
        "Find the cheapest plan that reaches a goal, as labels of a random sample show. Plans "
        "differ in judges, samples and orders, and in which examples people label how often."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        goal = parser.add_mutually_exclusive_group()
        goal.add_argument(
            "--accuracy",
            type=decimal_argument,
            help="the goal is that this share of the final labels is right (default 0.9)",
        )
        goal.add_argument(
            "--win-rate",
            type=decimal_argument,
            help="the goal is a win rate within ± this, such as 0.05",
        )
        goal.add_argument(
            "--certificate",
            type=decimal_argument,
            help="the goal is a certificate that at most this share of the labels that nobody "
            "reviews is wrong, such as 0.1",
        )
        parser.add_argument(
            "--confidence",
            type=decimal_argument,
            default=CONFIDENCE,
            help="confidence that the plan reaches it (default 0.95)",
        )
        parser.add_argument(
            "--examples", type=int, help="price plans for this many (default: all of the project)"
        )
        parser.add_argument(
            "--price",
            action="append",
            type=_price,
            default=[],
            metavar="RUN=USD",
            help="what a run costs per example, if that was not recorded; may be repeated",
        )
        parser.add_argument(
            "--plan", type=int, help="number of a plan in the list (default: the recommended one)"
        )
        parser.add_argument("--open", action="store_true", help="open the round of this plan")
        add_who_labels(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        wish = _wish(options)
        # An answer takes long to compute, and is kept until the data changes.
        told = kept_answer(project, wish) or answer_here(project, None, wish)
        for line in _lines(told):
            self.stdout.write(line)
        if options["output"] or options["people"]:
            rows = who_labels(project, told, options["plan"])
            write_who_labels(options, rows, "people")
        opened = None
        # After the plans are shown, so that a refusal leaves them readable.
        if options["open"]:
            opened = open_plan(project, None, told, options["plan"]).number
            self.stdout.write(f"Round {opened} is open.")
        checks = goal_checks(project)
        for check in checks:
            self.stdout.write(f"Round {check.round}: {check.words}")
        self.tell(dict(told) | {"round": opened, "checks": [vars(check) for check in checks]})


def _price(text: str) -> tuple[int, Decimal]:
    number, _, price = text.partition("=")
    if not number.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no price. Write a run's number and USD, like 2=0.01.")
    return int(number), decimal_argument(price)


def _wish(options: Mapping[str, Any]) -> Wish:
    # The options exclude each other, so at most one of them has a value.
    named = {Goal(name): options[str(name)] for name in Goal}
    goal = next((name for name, value in named.items() if value is not None), Goal.ACCURACY)
    value = DEFAULTS[goal] if named[goal] is None else named[goal]
    return checked(
        Wish(
            goal=goal,
            value=value,
            confidence=options["confidence"],
            examples=options["examples"],
            prices=dict(options["price"]),
        )
    )


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    yield f"{told['sentence']} {told['takes']}".rstrip()
    if told["plans"]:
        yield (
            f"{told['plans']:,} plans were compared on {told['labels']} labels of a random sample, "
            f"and priced for {told['examples']:,} examples."
        )
    marks = {told["best"]: "recommended", told["second"]: "runner-up", told["hoped"]: "not shown"}
    as_share = told["goal"] != Goal.WIN_RATE
    for row in told["rows"]:
        figures = [row["value"], row["low"], row["high"]]
        value, low, high = (
            percent(figure, 1) if as_share else f"± {decimals(figure)}" for figure in figures
        )
        mark = f"  [{marks[row['number']]}]" if row["number"] in marks else ""
        cost = usd(Decimal(row["usd"]))
        yield f"  {row['number']:>2}. {cost:>10}  {value} ({low} to {high})  {row['words']}{mark}"
    for why in told["left_out"]:
        yield f"Left out: {why}"
