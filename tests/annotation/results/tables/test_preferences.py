"""What may be trained on: final labels with a preference, and nothing that contradicts itself."""

import json

import pytest
from django.core.management import CommandError, call_command

from annotation.votes.imports import import_votes
from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def judged(project):
    """e0 a win, e1 a lose, e2 a tie, e3 with equal responses, e4 and e5 one pair turned round."""
    run = make_run(project)
    examples = make_examples(project, 6)
    project.examples.filter(external_id="e3").update(response_2="First response to 3.")
    same = {"question": "Same?", "response_1": "One.", "response_2": "Two."}
    project.examples.filter(external_id__in=["e4", "e5"]).update(**same)
    labels = ["win", "lose", "tie", "win", "win", "lose"]
    outcomes = {"original": ["win", "win", "tie"], "swapped": ["win", "lose", "lose"]}
    for example, label in zip(examples, labels, strict=True):
        make_verdict(run, example, 0.5, label=label, outcomes=outcomes, rank=example.number + 1)
    project.primary_run = run
    project.save()
    return run


def exported(project, path):
    call_command("export", project.slug, what="preferences", output=path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_only_what_has_a_preference_is_exported(project, judged, tmp_path, capsys):
    first, second = exported(project, tmp_path / "preferences.jsonl")
    assert list(first) == (
        "prompt chosen rejected source reviewed p_chosen bpde external_id reference".split()
    )
    assert (first["chosen"], first["rejected"]) == ("First response to 0.", "Second response to 0.")
    assert (second["chosen"], second["external_id"]) == ("Second response to 1.", "e1")
    # Wins are 2/3 of one order and 1/3 of the other; loses none and 2/3.
    assert first["p_chosen"] == pytest.approx(0.5)
    assert second["p_chosen"] == pytest.approx(1 / 3)
    assert first["reviewed"] is False
    told = capsys.readouterr().err
    assert "opposite label: e4" in told
    assert "opposite label: e5" in told
    assert project.exports.get().options["contradictory"] == ["e4", "e5"]


def test_people_alone_give_preferences_with_their_share(project, tmp_path):
    make_examples(project, 2)
    path = tmp_path / "votes.csv"
    votes = "e0,kim,win\ne0,lou,win\ne0,mo,tie\ne1,kim,tie\ne1,lou,tie\ne1,mo,win\n"
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(project, None, path)
    (row,) = exported(project, tmp_path / "preferences.jsonl")
    assert (row["external_id"], row["source"], row["reviewed"]) == ("e0", "majority", True)
    assert row["p_chosen"] == pytest.approx(2 / 3)
    assert row["bpde"] is None


@pytest.mark.parametrize("more", [{"format": "csv"}, {}, {"format": "jsonl"}])
def test_no_table_of_preferences_is_made(project, judged, tmp_path, more):
    """JSON lines in a file that is named a table would mislead whoever opens it."""
    path = tmp_path / "preferences.csv"
    with pytest.raises(CommandError, match="Preferences are JSON lines"):
        call_command("export", project.slug, what="preferences", output=path, **more)
    assert not path.exists()


def test_the_name_of_the_file_says_its_format(project, judged, tmp_path):
    path = tmp_path / "labels.jsonl"
    call_command("export", project.slug, output=path)
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["external_id"] == "e0"
    with pytest.raises(CommandError, match="--format csv contradicts the name"):
        call_command("export", project.slug, format="csv", output=path)
