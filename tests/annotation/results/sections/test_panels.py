"""The jury's lines in Table 4, and cascades, on a judge beside one that is always right."""

from decimal import Decimal

import pytest

from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import cost_plot
from judging.llm.prices import TokenRate
from tests.annotation.results.learning import biased_run, gold
from tests.factories import make_run, make_verdict

RATE = TokenRate(Decimal(1)).to_json()
PRICE = {"prompt": RATE, "cached": RATE, "completion": RATE, "source": "tests"}


@pytest.fixture
def run(project, tmp_path):
    """Every label is known. A second judge, for 8 USD, is always right; a third labels hardly
    anything."""
    found = biased_run(project, tmp_path)
    priced = {"price": PRICE, "spent_usd": Decimal(8)}
    wise, idle = make_run(project, name="wise", **priced), make_run(project, name="idle")
    for example in project.examples.all():
        example.gold_label = gold(example)
        example.save()
        make_verdict(wise, example, 0.0, label=gold(example), rank=1)
        if example.number < 5:
            make_verdict(idle, example, 0.0, label="tie", rank=1)
    return found


def row_named(figures, name):
    return next(row for row in figures.methods if row.name == name)


def test_the_jury_stands_in_table_4_between_the_run_and_what_people_review(project, run):
    figures = report(Analysis(project, run))
    names = [row.name for row in figures.methods]
    own = names.index("MEC+BPC", names.index("Jury of 2") - 1)
    assert names[own + 1 : own + 3] == ["Jury of 2", "Jury of 2, weighted"]
    assert names[own + 3].endswith("+HITLC")
    equal = row_named(figures, "Jury of 2")
    assert equal.members == [run.name, "wise"]
    # Where the two differ it is a tie, half right; the run alone is wrong there.
    alone = figures.ties.half.accuracy.value
    assert equal.accuracy.value == pytest.approx((1 + alone) / 2, abs=0.01)
    # By weight, who is always right outvotes who is not.
    assert row_named(figures, "Jury of 2, weighted").accuracy.value == 1
    # What recorded judgments cost is not known, so neither is the panel's cost.
    assert equal.judge_usd is None


def test_a_cascade_costs_its_share_and_is_right_where_the_second_judge_is(project, run):
    run.price, run.spent_usd = PRICE, Decimal("0.40")
    run.save()
    figures = report(Analysis(project, run))
    rows = figures.cascades
    assert {row.run for row in rows} == {"wise"}
    fifth = next(row for row in rows if row.share == 20)
    assert (fifth.m, fifth.judge_usd) == (24, Decimal(2))
    reached = [row.accuracy.value for row in rows]
    alone = figures.ties.half.accuracy.value
    assert reached == sorted(reached)
    assert alone < reached[0] < 1
    assert row_named(figures, "Jury of 2").judge_usd == Decimal("8.4")
    assert "Jury of 2" in {row["method"] for row in cost_plot(figures.methods).table}


def test_one_run_alone_is_no_jury(project, tmp_path):
    run = biased_run(project, tmp_path, n=10)
    figures = report(Analysis(project, run))
    assert figures.cascades == []
    assert not any("Jury" in row.name for row in figures.methods)


def test_without_labels_to_weigh_by_every_member_counts_the_same(project, run):
    project.examples.update(gold_label=None)
    names = [row.name for row in report(Analysis(project, run)).methods]
    assert "Jury of 2" in names
    assert "Jury of 2, weighted" not in names
