"""A project's own votes export, imported again: nothing is added and nobody is changed."""

import csv
import io

import pytest
from django.core.management import call_command

from annotation.models import Annotator, Protocol, Round, Vote
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.votes.imports import import_votes
from tests.factories import make_annotator, make_examples, make_project, make_vote

# Each is also a column.
CRITERIA = ["label", "Accuracy", "vote_id"]


@pytest.fixture
def voted(project):
    """Two people, each on two examples, under two protocols; the second asks for criteria."""
    make_examples(project, 2)
    people = [make_annotator(project, name) for name in ("ann", "bob")]
    for criteria in ([], CRITERIA):
        project.criteria = criteria
        project.save()
        settings = RoundSettings(everything=True, votes=2)
        for item in open_round(project, None, None, settings).items.all():
            for person, label in zip(people, ("win", "lose"), strict=True):
                answer = {"overall": "left"}
                if criteria:
                    answer["criteria"] = dict.fromkeys(criteria, "right")
                make_vote(item, person, label, answer=answer)
    return project


def everything(project):
    return (
        list(Vote.objects.order_by("pk").values()),
        list(Annotator.objects.order_by("pk").values()),
        Round.objects.count(),
        Protocol.objects.count(),
    )


def write(project, path, **options):
    request = ExportRequest(what="votes", format=path.suffix[1:], **options)
    path.write_bytes(b"".join(export(project, None, None, request)))
    return path


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "xlsx", "parquet"])
def test_ones_own_export_adds_nothing_and_changes_nobody(voted, tmp_path, form, names):
    before = everything(voted)
    # Another question is asked now, under which nobody has voted.
    voted.question_asked = "Which is shorter?"
    voted.save()
    done = import_votes(voted, None, write(voted, tmp_path / f"votes.{form}", names=names))
    assert (done.added, done.known, done.conflicts) == (0, 8, ())
    assert everything(voted) == before


def test_ones_own_data_set_adds_nothing(voted, tmp_path):
    before = everything(voted)
    folder = tmp_path / "votes"
    call_command("export", voted.slug, "--what=votes", "--format=dataset", f"-o{folder}")
    done = import_votes(voted, None, folder)
    assert (done.added, done.known, done.conflicts) == (0, 8, ())
    assert everything(voted) == before


def test_a_vote_that_was_changed_since_is_a_conflict(voted, tmp_path):
    path = write(voted, tmp_path / "votes.csv")
    Vote.objects.filter(pk=Vote.objects.first().pk).update(label="tie")
    before = everything(voted)
    done = import_votes(voted, None, path)
    assert (done.added, done.known, len(done.conflicts)) == (0, 7, 1)
    assert everything(voted) == before


def test_an_export_of_before_has_no_ids_and_adds_nothing_either(voted, tmp_path):
    rows = list(csv.DictReader(io.StringIO(write(voted, tmp_path / "new.csv").read_text())))
    for row in rows:
        del row["vote_id"], row["protocol_fingerprint"], row["fairjudge_escape"]
        row["Accuracy"] = row.pop("criterion:Accuracy")
        del row["criterion:label"], row["criterion:vote_id"]
    path = tmp_path / "old.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    before = everything(voted)
    assert import_votes(voted, None, path).known == 8
    assert everything(voted) == before


def test_votes_come_into_another_project_with_criteria_under_their_protocols(voted, tmp_path):
    path = write(voted, tmp_path / "votes.csv")
    other = make_project("other")
    make_examples(other, 2)
    current_protocol(other)
    other.criteria = CRITERIA
    other.save()
    current_protocol(other)
    done = import_votes(other, None, path)
    votes = Vote.objects.filter(example__project=other)
    assert (done.added, votes.count()) == (8, 8)
    asked = votes.filter(protocol__criteria=CRITERIA)
    assert [vote.answer["criteria"] for vote in asked] == [dict.fromkeys(CRITERIA, "right")] * 4
    assert import_votes(other, None, path).known == 8


@pytest.mark.databases
@pytest.mark.parametrize("form", ["csv", "jsonl", "xlsx", "parquet"])
def test_answers_on_criteria_that_no_protocol_asks_about_are_exported(project, tmp_path, form):
    make_examples(project, 2)
    given = tmp_path / "given.csv"
    ids = list(project.examples.order_by("number").values_list("external_id", flat=True))
    head = "external_id,annotator,label,criterion:tone,criterion:accuracy\n"
    given.write_text(f"{head}{ids[0]},ann,win,win,tie\n{ids[1]},ann,tie,lose,\n", encoding="utf-8")
    import_votes(project, None, given)
    path = write(project, tmp_path / f"votes.{form}")
    other = make_project("other")
    make_examples(other, 2)
    import_votes(other, None, path)
    answers = Vote.objects.filter(example__project=other).order_by("example__number")
    first, second = (vote.answer["criteria"] for vote in answers)
    assert (first, second) == ({"tone": "win", "accuracy": "tie"}, {"tone": "lose"})
