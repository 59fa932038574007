"""A figure that several places show is the same in each of them."""

from decimal import Decimal

import numpy as np
import pytest

from annotation.models import Annotator
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.win_rates import by_category
from annotation.votes.agreement import RoundAgreement
from annotation.votes.imports import import_votes
from judging.dataset.models import Example
from judging.runs.engine.progress import progress_of
from judging.runs.models import Verdict
from judging.runs.verdicts.judge_figures import report_on
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import make_examples, make_run, make_verdict
from tests.judging.runs.recorded_files import record_sample, record_scores


@pytest.fixture
def run(project):
    """Twenty examples about five questions; the judge contradicts itself on two of the five."""
    run = make_run(project, k=1, ranked_at=None)
    examples = make_examples(project, 20)
    for example in examples:
        example.question = f"Question {example.number % 5}?"
        example.response_1 += " longer" * (example.number % 3)
        record_scores(run, example, "original", [(8, 5)])
        record_scores(run, example, "swapped", [(5, 8) if example.number % 5 < 2 else (8, 5)])
    Example.objects.bulk_update(examples, ["question", "response_1"])
    rebuild_verdicts(run)
    run.refresh_from_db()
    return run


def test_what_is_said_of_position_knows_that_questions_repeat(project, run):
    analysis, page = Analysis(project, run), report_on(run, Decimal(20))
    shown = report_json(analysis)["position"]
    assert shown["conflict_rate"] == page.conflict_rate.as_json()
    assert shown["first_position_rate"] == page.first.rate.as_json()
    assert shown["first_position_p"] == page.first.p
    (category,) = by_category(analysis.sheet, analysis.samples, analysis.rng)
    assert category.conflict_rate.as_json() == shown["conflict_rate"]
    # Two of five, which are less than eight of twenty: .22 to .61.
    assert (shown["conflict_rate"]["value"], shown["conflict_rate"]["n"]) == (0.4, 20)
    assert shown["conflict_rate"]["low"] < 0.12
    assert shown["conflict_rate"]["high"] > 0.77


def test_both_pages_count_the_last_of_two_valid_attempts(project):
    """A slot that failed was asked again, and a later parser read what the first attempt said."""
    run = make_run(project, k=1, ranked_at=None)
    (example,) = make_examples(project, 1)
    record_scores(run, example, "original", [(8, 5)])
    record_scores(run, example, "swapped", [(1, 8)])
    record_sample(record_scores(run, example, "swapped", []), 0, (8, 5), attempt=1)
    rebuild_verdicts(run)
    run.refresh_from_db()
    analysis, page = Analysis(project, run), report_on(run, Decimal(20))
    shown = report_json(analysis)["position"]
    # The first attempt contradicts the original order, by so much that the mean would as well.
    assert page.conflict_rate.value == 0.0
    assert shown["conflict_rate"] == page.conflict_rate.as_json()
    assert analysis.statuses == progress_of(run).statuses == {"valid": 2}
    assert [order.win for order in page.orders] == [1, 1]
    assert Verdict.objects.get(run=run).conflict is False


def test_both_pages_draw_bpde_between_the_same_edges(project):
    run = make_run(project)
    bpdes = [0.0, 0.05, 0.1, 0.6, 0.65, 1.0986122886681098, None]
    for rank, (example, bpde) in enumerate(
        zip(make_examples(project, len(bpdes)), bpdes, strict=True), start=1
    ):
        make_verdict(run, example, bpde, rank=rank)
    bars = report_on(run, Decimal(0)).spread.bars
    shown = report_json(Analysis(project, run))["distribution"]
    assert shown == [
        {"low": bar.low, "high": bar.high, "selected": 0, "others": bar.n} for bar in bars
    ]
    assert [bar.n for bar in bars] == [1, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1]


def test_a_win_rate_has_one_interval_and_it_knows_of_questions_too(project, run):
    shown = report_json(Analysis(project, run))
    judge = shown["win_rate"]["judge"]
    (category,), (pair,) = shown["by_category"], shown["models"]["pairwise"]
    figure = {name: judge[name] for name in ("value", "low", "high", "n")}
    assert shown["length"]["judge"]["raw_win_rate"] == figure
    assert category["judge_win_rate"] == pair["win_rate"] == figure
    # Two questions are tied and three won: .8. As 20 examples of their own: .55 to .92.
    assert (judge["value"], judge["n"]) == (pytest.approx(0.8), 20)
    assert judge["low"] < 0.45


def test_what_another_run_reaches_has_one_interval_too(project, run):
    """In the rows of the methods and beside this run, and of its only category in that of all."""
    for example in project.examples.all():
        example.gold_label = "win" if example.number % 3 else "lose"
        example.save()
    other = make_run(project, k=1, method="vanilla", form=run.form, model=run.model)
    for example in project.examples.all():
        label = "win" if example.number % 4 else "lose"
        make_verdict(other, example, 0.0, label=label, rank=example.number + 1)
    shown = report_json(Analysis(project, run))
    method = next(row for row in shown["methods"] if row.get("run") == other.name)
    beside = next(row for row in shown["ablation"] if row["run"] == other.name)
    own = next(row for row in shown["methods"] if row.get("run") == run.name)
    (category,) = shown["by_category"]
    for name in ("accuracy", "kappa"):
        assert method[name] == beside[name]
        assert own[name] == category[name]
    assert method["kappa"]["low"] is not None


def test_people_are_numbered_as_they_come_in_the_file(project, tmp_path):
    """As a set they would be numbered otherwise in each process, and so would their figures."""
    make_examples(project, 1)
    names = ["kim", "lou", "mo", "ann", "zoe", "bo", "eve"]
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\n" + "".join(f"e0,{n},win\n" for n in names))
    import_votes(project, None, path)
    numbered = Annotator.objects.order_by("number").values_list("name", flat=True)
    assert list(numbered) == names


def test_how_people_agree_does_not_depend_on_why_they_were_asked(project, run, tmp_path):
    """Of twenty examples four have votes: two have two, which agree once."""
    file = tmp_path / "votes.csv"
    rows = [(1, "ann", "win"), (1, "ben", "win"), (2, "ann", "win"), (2, "ben", "tie")]
    rows += [(3, "ann", "win"), (4, "ben", "lose")]
    ids = dict(project.examples.values_list("number", "external_id"))
    lines = [f"{ids[number]},{who},{vote}" for number, who, vote in rows]
    file.write_text("\n".join(["id,annotator,label", *lines]), encoding="utf-8")
    import_votes(project, None, file)
    shown = report_json(Analysis(project, run))["people"]
    assert (shown["agreement"]["value"], shown["agreement"]["n"]) == (0.5, 2)
    assert shown["on"].startswith("the 4 of 20 examples")
    # Shares of an example's votes for win, tie, lose: (1,0,0), (1/2,1/2,0), (1,0,0), (0,0,1).
    share = np.array([2.5, 0.5, 1]) / 4
    chance = (share * (1 - share)).sum() / 2
    assert shown["gwet_ac1"]["value"] == pytest.approx((0.5 - chance) / (1 - chance))
    assert RoundAgreement(project.rounds.get()).ac1.value == shown["gwet_ac1"]["value"]
