"""The head of the report: the honest answer, and what stands against it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from annotation.results.report.page import citation, in_short, overview_context
from annotation.results.report.report import CHAPTERS, report
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import MethodRow
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.methods.intervals.estimates import Estimate
from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def figures(project, tmp_path):
    """The judge always says win; two people agree with it on 50 of 60."""
    run = make_run(project)
    for example in make_examples(project, 60):
        make_verdict(run, example, example.number / 60, rank=60 - example.number)
    rows = "".join(
        f"e{n},{name},{'win' if n < 50 else 'lose'}\n" for n in range(60) for name in ("kim", "lou")
    )
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\n" + rows)
    import_votes(project, None, path)
    return report(Analysis(project, run))


@pytest.fixture
def unlabelled(project):
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, 0.1, rank=example.number + 1)
    return report(Analysis(project, run))


def test_a_citation_says_how_many_pairs_the_judge_labelled(figures):
    narrow = Estimate(0.8, 60, low=0.7, high=0.85)
    cited = replace(figures, win_rate=replace(figures.win_rate, judge_and_people=narrow))
    assert (
        "People voted on all 60 pairs. The judge labelled every pair (" in citation(cited).sentence
    )
    fewer = replace(cited.coverage, labels={"win": 57, "tie": 0, "lose": 0})
    assert "The judge labelled 57 of them (" in citation(replace(cited, coverage=fewer)).sentence


def texts(figures):
    return {one.section: one.text for one in in_short(figures)}


def test_a_name_from_right_to_left_keeps_its_direction_to_itself(figures):
    pair = replace(figures.models.pairwise[0], model_1="نموذج")
    named = replace(figures, models=replace(figures.models, pairwise=[pair]))
    assert texts(named)["win-rate"].startswith("\u2068نموذج\u2069 is better than birch-3b: ")


def test_the_first_sentence_says_who_is_better_for_people(figures):
    found = texts(figures)
    assert found["win-rate"].startswith(
        "maple-7b is better than birch-3b: people give maple-7b a win rate of 83\u202f% ("
    )
    assert found["win-rate"].endswith(", n = 60).")
    assert "50" not in found["win-rate"]
    assert found["methods"].startswith(
        "Without review, the judge agrees with people's majority on 83\u202f% of pairs ("
    )
    assert "better than chance" in found["review"]


def test_without_people_the_judges_word_is_no_answer(unlabelled):
    first = in_short(unlabelled)[0]
    assert first.warns
    assert "isn't known yet" in first.text
    assert "its bias is unknown" in first.text


def test_an_interval_around_one_half_shows_nothing(figures):
    half = Estimate(0.52, 60, 0.41, 0.63)
    rates = replace(figures.win_rate, people=half, judge_and_people=half)
    even = replace(figures, win_rate=rates)
    said = "No clear winner: people give maple-7b a win rate of 52\u202f% (41–63\u202f%, n = 60)."
    assert texts(even)["win-rate"] == said


def test_a_worse_model_is_named_after_the_better_one(figures):
    low = Estimate(0.3, 60, 0.21, 0.38)
    rates = replace(figures.win_rate, people=low, judge_and_people=low)
    assert texts(replace(figures, win_rate=rates))["win-rate"] == (
        "birch-3b is better than maple-7b: people give maple-7b a win rate of 30\u202f% "
        "(21–38\u202f%, n = 60)."
    )


def test_a_win_rate_without_an_interval_says_why(figures):
    alone = Estimate(0.8, 60, note="all examples are of one question")
    rates = replace(figures.win_rate, people=alone, judge_and_people=alone)
    said = texts(replace(figures, win_rate=rates))["win-rate"]
    assert "isn't known yet (all examples are of one question)" in said


def test_models_that_change_places_are_not_called_by_response_1(project, figures):
    project.examples.filter(number__lt=30).update(model_1="birch-3b", model_2="maple-7b")
    swapped = report(Analysis(project, project.runs.get()))
    assert swapped.models.same_places is False
    assert "win-rate" not in texts(swapped)
    said = texts(swapped)["models"]
    assert "response 1" not in said
    assert said.startswith("Of 60 final labels, ")
    assert CHAPTERS[0].answer(swapped).text == said
    assert citation(swapped).reason.startswith("response 1 is not the same model")
    assert overview_context(project.runs.get(), swapped)["rate"] is None


def test_of_many_models_the_first_is_named(project, figures):
    project.examples.filter(number__gte=20).update(model_2="oak-1b")
    project.examples.filter(number__gte=40).update(model_1="birch-3b")
    many = report(Analysis(project, project.runs.get()))
    first = in_short(many)[0]
    assert first.section == "models"
    assert ("Of 3 models" in first.text) != ("can't be ranked" in first.text)


def test_the_kappa_beside_the_accuracy_is_of_this_run(figures):
    before = texts(figures)["methods"]
    known = Estimate(0.9, 60)
    row = {"name": "VANILLA", "run": "another", "k": 1, "bpc": False, "beta": 0}
    vanilla = MethodRow(**row, accuracy=known, kappa=known)
    assert ".900" not in before
    assert texts(replace(figures, methods=[vanilla, *figures.methods]))["methods"] == before


def test_a_leaning_judge_is_warned_of(figures):
    position = replace(
        figures.position,
        conflict_rate=Estimate(0.4, 60, 0.3, 0.5),
        first_position_rate=Estimate(0.9, 20, 0.7, 0.98),
    )
    leaning = replace(figures, position=position)
    found = next(one for one in in_short(leaning) if one.section == "position")
    assert found.warns
    assert found.text == (
        "Swapping the two responses changes the verdict on 40\u202f% of pairs (30–50\u202f%, "
        "n = 60). Position bias: on 20 pairs, the same position won in both orders, and in "
        "90\u202f% of these it was the first."
    )


def test_a_certificate_names_the_score_that_it_is_about(figures):
    fixed = {"epsilon": 0.1, "confidence": 0.95, "n_from_judge": 40, "threshold": 0.2}
    issued = replace(figures.certificate, issued=True, **fixed)
    for score, words in (("bpde", "a BPDE of"), ("routing", "a learned probability of an error")):
        said = texts(replace(figures, certificate=replace(issued, score=score)))["trust"]
        assert f"labels with {words}" in said


def test_a_judge_that_never_wavers_is_not_said_to_waver_where_it_errs(project, figures):
    run = project.runs.get()
    run.verdicts.update(bpde=0.0)
    assert "can't rank them" in texts(report(Analysis(project, run)))["review"]


@pytest.fixture
def many(project):
    """Three models, and the judge's labels of twelve comparisons."""
    run = make_run(project)
    for example in make_examples(project, 12):
        example.model_1, example.model_2 = ("ab", "bc", "ca")[example.number % 3]
        example.save()
        label = "win" if example.number % 4 else "lose"
        make_verdict(run, example, 0.1, rank=example.number + 1, label=label)
    return run


def ranking(run):
    return next(one for one in in_short(report(Analysis(run.project, run))) if "ranks" in one.text)


def vote_on_all(run, tmp_path, n_examples=12):
    path = tmp_path / "votes.csv"
    rows = "".join(f"e{n},kim,{'lose' if n % 5 else 'win'}\n" for n in range(n_examples))
    path.write_text("external_id,annotator,label\n" + rows)
    import_votes(run.project, None, path)


def test_a_ranking_of_models_says_whose_labels_it_rests_on(many, tmp_path):
    found = ranking(many)
    assert "by the judge's labels" in found.text
    assert found.text.endswith("; nobody has checked these labels.")
    assert found.warns
    # One vote, on one example, and somebody has checked.
    vote_on_all(many, tmp_path, 1)
    assert ranking(many).text.endswith("; people's labels are not part of this ranking.")
    vote_on_all(many, tmp_path)
    found = ranking(many)
    assert found.text.endswith("; people's labels are not part of this ranking.")
    assert found.warns
    settings = RoundSettings(beta=Decimal(50), votes=1)
    open_round(many.project, None, many, settings)
    assert ranking(many).text.endswith("; people gave 6 of these 12 labels, the judge the others.")
    open_round(many.project, None, many, RoundSettings(everything=True, votes=1))
    found = ranking(many)
    assert "ranks first by people's labels" in found.text
    assert not found.warns
