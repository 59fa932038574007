"""Votes on examples that no round of the run asked about: people agree or don't there as well."""

from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.votes.imports import import_votes
from tests.factories import make_examples, make_run, make_verdict


def test_two_people_on_one_example_agree_there(project, tmp_path):
    run = make_run(project)
    for example in make_examples(project, 12):
        make_verdict(run, example, 0.1)
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\ne0,ann,win\ne0,bob,win\n")
    import_votes(project, None, path)
    people = report(Analysis(project, run)).people
    assert (people.agreement.value, people.agreement.n) == (1.0, 1)
    assert people.on == "the 1 of 12 examples that have votes from elsewhere"
    assert [one.n for one in people.annotators] == [1, 1]


def test_one_vote_an_example_is_said_to_be_one(project, tmp_path):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.1)
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\ne0,ann,win\ne1,bob,win\n")
    import_votes(project, None, path)
    people = report(Analysis(project, run)).people
    assert people.agreement.reason == "none of these examples has two votes that count"


def test_a_model_that_won_its_only_comparison_keeps_no_others_from_their_ranks(project):
    run = make_run(project)
    signs = ("win", "lose", "tie", "win")
    games = [("a", "b"), ("b", "c"), ("c", "a")] * 10
    for n, (one, other) in enumerate([*games, ("d", "c"), ("e", "e")]):
        (example,) = make_examples(project, 1, model_1=one, model_2=other)
        make_verdict(run, example, 0.1, label=signs[n % 4] if n < 30 else "win")
    models = report(Analysis(project, run)).models
    assert {row.model for row in models.ranking} == {"a", "b", "c"}
    assert [row.model for row in models.apart] == ["d", "e"]
    assert models.apart[0].reason.startswith("it won every comparison")
