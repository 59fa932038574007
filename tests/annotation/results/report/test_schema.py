"""Every key of `report --json` is in docs/report.md, and every key there occurs in some report."""

import json
import math
import random
from datetime import timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from django.utils import timezone

from annotation.models import Item, Repeat, RoutingScores
from annotation.results.planner.registration import Plan, register
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from benchmarks import simulate
from benchmarks.simulations import shown
from benchmarks.simulations.coverage import INTERVALS
from benchmarks.simulations.figures import FIGURES
from judging.dataset.scores import import_scores
from judging.methods.intervals.estimates import to_json
from judging.runs.engine.likelihoods import ask_likelihoods
from judging.runs.forms.point_shots import whole_report
from judging.runs.forms.portia import PortiaOptions
from tests.annotation.results.choosing import make_choice_run, make_graded_project
from tests.annotation.results.learning import biased_run, go_on, gold, label_all
from tests.annotation.results.sections.test_disagreement import (
    ask_again_with_a_clause,
    run_with_gaps,
)
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)
from tests.judging.runs.judging import judged, loopback
from tests.judging.runs.portia_pairs import make_pairs
from tests.loopback import PointJudge
from tests.loopback.judges import criteria_judge
from tests.loopback.portia import StagedJudge, first_when_whole, longer_wins

DOCS = Path(__file__).resolve().parents[4] / "docs" / "report.md"
FIGURE = {"value", "low", "high", "n"}
KINDS = {
    "text": lambda value: isinstance(value, str),
    "amount": lambda value: isinstance(value, str) and Decimal(value) >= 0,
    "true or false": lambda value: isinstance(value, bool),
    "whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "figure": lambda value: isinstance(value, dict) and value.keys() - {"note"} == FIGURE,
    "object": lambda value: isinstance(value, dict),
    "anything": lambda value: True,
}
# The figures that say more than others do.
MORE = {
    "win_rate.judge": "hollow",
    "win_rate.final": "hollow",
    "hitlc.bpde": "lower_band",
    "ties.half.hitlc": "lower_band",
    "ties.wrong.hitlc": "lower_band",
}


def documented(part):
    """The keys of a part of the page with their types."""
    text = DOCS.read_text().split("## Runs over single responses")[part]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0].removeprefix("| ").strip("`"): row[1] for row in rows}


class Walk:
    """What is wrong with reports by the page, and which of its keys they have."""

    def __init__(self, part):
        self.types, self.seen, self.problems = documented(part), set(), set()
        self.inner = {}
        for path in self.types:
            parent, _, name = path.rpartition(".")
            self.inner.setdefault(parent, {})[name] = path

    def report(self, figures):
        self.keys(json.loads(json.dumps(figures, allow_nan=False)), "")

    def check(self):
        assert sorted(self.problems) == []
        assert sorted(self.types.keys() - self.seen) == []

    def keys(self, value, parent):
        """An object against the keys listed below it."""
        inner = self.inner.get(parent, {})
        for name in value.keys() - inner.keys():
            self.problems.add(f"{parent}.{name} is not documented")
        for name, path in inner.items():
            if name in value:
                self.seen.add(path)
                self.value(value[name], path, self.types[path].removesuffix(", optional"))
            elif not self.types[path].endswith(", optional"):
                self.problems.add(f"{path} is missing")

    def value(self, value, path, kind):
        if kind.endswith(" or null"):
            if value is not None:
                self.value(value, path, kind.removesuffix(" or null"))
        elif kind.endswith(" or reason") or kind == "figure":
            # A round that could not learn gives its number with the reason.
            without = isinstance(value, dict) and value.get("value", 0) is None
            if without and value.keys() - {"round"} == {"value", "reason"}:
                assert value["reason"], path
            elif kind == "figure":
                self.figure(value, path)
            else:
                self.value(value, path, kind.removesuffix(" or reason"))
        elif kind.startswith("list of "):
            for inner in value:
                self.part(inner, f"{path}[]", path, kind.removeprefix("list of "))
        elif kind.startswith("map of "):
            for inner in value.values():
                self.part(inner, f"{path}.*", path, kind.removeprefix("map of "))
        else:
            self.part(value, path, path, kind)

    def part(self, value, parent, path, kind):
        if kind.startswith("("):
            self.value(value, path, kind.strip("()"))
        elif kind == "object":
            self.keys(value, parent)
        elif kind == "figure" or kind.startswith("list of "):
            self.value(value, path, kind)
        elif not KINDS[kind](value):
            self.problems.add(f"{path} is {value!r} and not {kind}")

    def figure(self, value, path):
        if path in MORE:
            value = {name: part for name, part in value.items() if name != MORE[path]}
        ends = {value.get("low"), value.get("high")}
        plain = path.replace("[]", "")
        if shown.checks_of(path) == () and plain not in shown.RANGES and ends != {None}:
            self.problems.add(f"{path} has an interval that no simulation stands behind")
        if not KINDS["figure"](value) or not KINDS["number"](value["value"]):
            self.problems.add(f"{path} is {value!r} and not a figure")


def of_nothing():
    yield make_run(make_project())


def of_no_labels():
    """Two runs, and nobody has labelled anything."""
    project = make_project()
    runs = [make_run(project), make_run(project, method="vanilla", k=1)]
    for example in make_examples(project, 3):
        for run in runs:
            make_verdict(run, example, 0.1, rank=example.number + 1)
    yield runs[0]


def of_portia(settings):
    """With whole responses first, other parts, another judge, and people's known ties."""
    project = make_pairs(10, short=1)
    project.examples.update(gold_label="win", category="odd")
    project.examples.filter(number=0).update(gold_label="tie")
    with loopback(settings, judge=StagedJudge(first_when_whole)):
        price = (Decimal(1), Decimal(0))
        portia = PortiaOptions(unsplit_first=True)
        choices = {"method": "portia", "form": "relation"}
        run = judged(project, **choices, name="three", portia=portia, price=price)
        judged(project, **choices, name="two", portia=PortiaOptions(parts=2))
    with loopback(settings, judge=StagedJudge(longer_wins), models=("reference",)):
        judged(project, form="relation", k=1, name="other judge", model="reference")
    yield run
    project.examples.update(gold_label=None)
    yield run


def of_a_choice():
    """Four permutations, and the same judge under other biases."""
    draw = random.Random(3)
    gaps = [draw.gauss(0, 1) for _ in range(40)]
    project = make_project()
    examples = make_graded_project(project, gaps)
    run = make_choice_run(project, examples, gaps)
    make_choice_run(project, examples, gaps, position=0.1, token=0.1, name="xy")
    yield run


def of_criteria(settings):
    """A judge that scored criteria, and a person who voted on them."""
    project = make_project(criteria=["accuracy", "tone"])
    make_examples(project, 12)
    with loopback(settings, judge=criteria_judge):
        run = judged(project, form="criteria", k=1, name="on criteria")
    open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=1))
    person = make_annotator(project)
    for n, item in enumerate(Item.objects.filter(round__project=project)):
        side = "right" if n < 3 else "left"
        make_vote(item, person, "win", answer={"criteria": {"accuracy": side, "tone": side}})
    yield run


def of_learned_routing(folder):
    """A round that learned and has an audit with a plan; before that, one that still learns."""
    project = make_project()
    run = biased_run(project, folder)
    wise = make_run(project, name="wise")
    for example in project.examples.all():
        make_verdict(wise, example, 0.0, label=gold(example), rank=1)
    person = make_annotator(project)
    settings = RoundSettings(
        beta=Decimal(65), votes=1, learn=40, audit=30, seed=2, epsilon=0.5, looks=(30,)
    )
    round_ = open_round(project, None, run, settings)
    yield run
    label_all(round_, [person])
    assert go_on() == 1
    label_all(round_, [person])
    yield run
    # What is kept of a round that had no sample to learn from.
    RoutingScores.objects.filter(round=round_).update(fit={"reason": "no valid sample"})
    yield run


def of_people():
    """Three people at different speeds on every example, which the judge gets wrong in part.

    They answer two criteria, and all that can be asked in addition."""
    asks = {"ask_confidence": True, "ask_spans": True, "reason_tags": ["wrong", "long"]}
    project = make_project(scale="five", **asks)
    run = make_run(project)
    for example in make_examples(project, 40):
        place = {"rank": example.number + 1, "label": "lose" if example.number < 8 else "win"}
        make_verdict(run, example, (40 - example.number) / 40, **place)
    settings = RoundSettings(everything=True, votes=3, seed=1)
    open_round(project, None, run, settings)
    people = [make_annotator(project) for _ in range(3)]
    start = timezone.now()
    for n, item in enumerate(Item.objects.filter(round__project=project)):
        for place, person in enumerate(people):
            label = "tie" if n % 9 == 0 else "lose" if n % 5 == 0 or n % 7 == place else "win"
            timed = {"active_seconds": 30.0 + n, "submitted_at": start + timedelta(minutes=n)}
            said = {"tone": ("left", "tie", "right")[(n * 7 + place) % 3], "facts": label}
            start_of = 2 * ((n + place) % 3)
            marked = {"response": 1, "start": start_of, "end": start_of + 6, "text": "xxxxxx"}
            timed["answer"] = {
                "overall": ("left", "left_much", "tie")[(n + place) % 3],
                "criteria": said,
                "confidence": ("low", "medium", "high")[(n * place) % 3],
                "reasons": ["wrong"] if n % 4 else ["long"],
                "spans": [marked],
            }
            vote = make_vote(item, person, label, left_response=1 + (n + place) % 2, **timed)
            if n % 4 == place:
                again = {"label": "win", "first_label": label, "submitted_at": start}
                Repeat.objects.create(
                    vote=vote, round=item.round, annotator=person, due=n + 10, **again
                )
    yield run


def of_a_review_among_known_labels():
    """A round over the first of examples that all came with their labels."""
    project = make_project()
    run = make_run(project)
    for example in make_examples(project, 40, gold_label="win"):
        label = "lose" if example.number < 6 else "win"
        make_verdict(run, example, math.exp(-example.number), label=label, rank=example.number + 1)
    register(project, None, Plan(goal="Which is better?", hypotheses=("a",), beta=Decimal(20)))
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    person = make_annotator(project)
    for item in round_.items.all():
        make_vote(item, person, "win")
    yield run


def of_models_that_never_met():
    """Three models that all met, and one that no label compares."""
    project = make_project()
    run = make_run(project)
    games = [("a", "b"), ("b", "c"), ("c", "a")] * 4
    for n, (one, other) in enumerate([*games, ("e", "e")]):
        (example,) = make_examples(project, 1, model_1=one, model_2=other)
        make_verdict(run, example, 0.1, label=("win", "lose", "tie", "win")[n % 4], rank=n + 1)
    yield run


def figures_shown():
    """The figures of both kinds of report by their keys, and those of a gate by their names."""
    yield from (
        key for part in (0, 1) for key, kind in documented(part).items() if "figure" in kind
    )
    for line in (DOCS.parent / "gate.md").read_text().split("## What it takes")[0].splitlines():
        if line.startswith("| `"):
            yield "gate " + line.split("`")[1].split("(")[0]
    yield from (f"gate {name}" for name in ("changed", "shift", "accuracy_difference"))
    yield from ("planner at_least", "adaptive agreement")


def test_each_figure_with_an_interval_has_a_row_in_make_simulate():
    """So a new figure on these pages is red until a check stands behind its interval."""
    listed = {key: shown.checks_of(key) for key in figures_shown()}
    assert [key for key, checks in listed.items() if checks is None] == []
    checks = {*INTERVALS, *FIGURES, simulate.CERTIFICATES, simulate.STAGES}
    assert {name for names in shown.SIMULATED_BY.values() for name in names} <= checks
    # No pattern is left over from a figure that is gone, and each is reached.
    used = {
        next(p for p in shown.SIMULATED_BY if fnmatchcase(plain, p))
        for plain in (key.replace("[]", "").replace(".*.", ".") for key in listed)
    }
    assert used == set(shown.SIMULATED_BY)


def test_a_figure_that_nobody_listed_is_noticed():
    assert shown.checks_of("methods[].kappa")
    assert shown.checks_of("portia.stages[].by_chance") == ()
    assert shown.checks_of("something.new") is None


def of_gaps():
    """Disagreements that nothing explains, and some of them labelled again with a clause."""
    run = run_with_gaps()
    ask_again_with_a_clause(run)
    return [run]


@pytest.mark.system
@pytest.mark.django_db(transaction=True)
def test_every_key_is_documented_and_every_documented_key_occurs(settings, tmp_path):
    walk = Walk(0)
    for runs in (
        of_nothing(),
        of_no_labels(),
        of_portia(settings),
        of_a_choice(),
        of_learned_routing(tmp_path),
        of_people(),
        of_criteria(settings),
        of_a_review_among_known_labels(),
        of_models_that_never_met(),
        of_gaps(),
    ):
        for run in runs:
            run.refresh_from_db()
            walk.report(report_json(Analysis(run.project, run)))
    walk.check()


@pytest.mark.django_db(transaction=True)
def test_so_is_every_key_of_a_run_over_single_responses(project, settings, tmp_path):
    walk, path = Walk(1), tmp_path / "scores.csv"
    rows = [f"<y>{n}</y>,Text {n}.,fluency,ana,{1 + (n * 3) % 5}" for n in range(24)]
    path.write_text("\n".join(["input,output,criterion,rater,score", *rows]) + "\n")
    import_scores(project, None, path)
    choices = {"form": "pointwise", "criteria": "fluency", "template": "ohi-any"}
    with loopback(settings, judge=PointJudge(), likelihoods="echo"):
        first = judged(project, **choices)
        walk.report(to_json(whole_report(first)))
        ask_likelihoods(first, endpoint="loop")
        second = judged(project, **choices, shots_from="1")
        judged(project, **choices, scale="0,10")
    walk.report(to_json(whole_report(second)))
    first.delete()
    walk.report(to_json(whole_report(second)))
    walk.check()
