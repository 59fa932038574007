"""The tables of a delivered ZIP hold what its figures rest on, however well a forgery is sealed."""

import csv
import io
import json
import zipfile
from decimal import Decimal

import numpy as np
import pytest
from django.core.management import call_command

from annotation.models import Draft
from annotation.queue.queue import claim_next
from annotation.results.delivery.package import hash_of, signed
from annotation.results.delivery.verify import verify
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from tests.annotation.results.learning import biased_run
from tests.factories import make_annotator

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def made():
    """The delivered files, made by the first test: checking them takes no database."""
    return {}


@pytest.fixture
def files(request, made, tmp_path):
    if not made:
        project = request.getfixturevalue("project")
        run = biased_run(project, tmp_path, n=60)
        asked = RoundSettings(beta=Decimal(20), votes=1, audit=20, seed=1)
        round_ = open_round(project, None, run, asked)
        person = make_annotator(project)
        while isinstance(draft := claim_next(round_, person), Draft):
            record_vote(draft, {"overall": "left"}, added_seconds=5.0)
        path = tmp_path / "report.zip"
        call_command("report", project.slug, output=path)
        with zipfile.ZipFile(path) as archive:
            made |= {name: archive.read(name) for name in archive.namelist()}
    return dict(made)


@pytest.fixture
def problems(files, tmp_path):
    """What verify finds once every hash and the certificate's seal fit what is there."""

    def found():
        certificate = json.loads(files["certificate.json"])["certificate"]
        seal = signed(certificate, hash_of(files["labels.csv"]))
        files["certificate.json"] = json.dumps(seal).encode()
        hashes = {name: hash_of(files[name]) for name in files if name != "manifest.json"}
        manifest = json.loads(files["manifest.json"]) | {"sha256": hashes}
        files["manifest.json"] = json.dumps(manifest).encode()
        path = tmp_path / "forged.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return verify(path)

    return found


def edited(files, name, change):
    """change: given the rows of a table, edits or returns them."""
    rows = list(csv.DictReader(io.StringIO(files[name].decode(), newline="")))
    head = list(rows[0])
    rows = change(rows) or rows
    out = io.StringIO()
    writer = csv.DictWriter(out, head)
    writer.writeheader()
    writer.writerows(rows)
    files[name] = out.getvalue().encode()


def arrays(files, change):
    with np.load(io.BytesIO(files["data.npz"])) as found:
        held = dict(found)
    change(held)
    out = io.BytesIO()
    np.savez_compressed(out, **held)
    files["data.npz"] = out.getvalue()


def turned(label):
    return "lose" if label == "win" else "win"


def turn_a_vote(rows):
    rows[0]["label"] = turned(rows[0]["label"])


def turn_its_ballot(files):
    voted = next(csv.DictReader(io.StringIO(files["votes.csv"].decode())))["external_id"]
    labels = csv.DictReader(io.StringIO(files["labels.csv"].decode()))
    place = [row["external_id"] for row in labels].index(voted)

    def turn(held):
        held["ballots.votes"][place] *= -1

    arrays(files, turn)
    return place


@pytest.mark.system
def test_what_was_delivered_holds(files, problems):
    assert problems() == []


def test_a_vote_that_was_turned_is_named(files, problems):
    edited(files, "votes.csv", turn_a_vote)
    (problem,) = problems()
    assert problem.startswith("1 votes that the figures rest on are not in votes.csv, or differ")


def test_a_vote_that_was_taken_out_or_put_in_is_found(files, problems):
    whole = files["votes.csv"]
    edited(files, "votes.csv", lambda rows: rows[1:])
    assert any("1 votes that the figures rest on are not in votes.csv" in one for one in problems())
    files["votes.csv"] = whole
    edited(files, "votes.csv", lambda rows: [*rows, rows[0] | {"annotator": "annotator 9"}])
    assert any("votes.csv has 1 votes besides those" in one for one in problems())


def test_a_vote_turned_in_the_arrays_too_contradicts_the_labels(files, problems):
    edited(files, "votes.csv", turn_a_vote)
    place = turn_its_ballot(files)
    assert any(one.startswith("votes_win of 1 examples") for one in problems())

    def count_again(rows):
        row = rows[place]
        row["votes_win"], row["votes_lose"] = row["votes_lose"], row["votes_win"]

    edited(files, "labels.csv", count_again)
    assert "final_label of 1 examples does not follow from its source" in problems()


def test_another_time_for_a_vote_is_found(files, problems):
    edited(files, "votes.csv", lambda rows: rows[0].update(active_seconds="1.0"))
    assert problems() == ["active_seconds of votes.csv are not what the figures rest on"]


def test_a_sample_that_says_something_else_is_named(files, problems):
    edited(files, "samples.csv", lambda rows: rows[0].update(outcome=turned(rows[0]["outcome"])))
    (problem,) = problems()
    assert problem.startswith("1 samples that the figures rest on are not in samples.csv")


def test_a_sample_that_was_put_in_is_found(files, problems):
    edited(files, "samples.csv", lambda rows: [*rows, rows[0] | {"slot": "2"}])
    assert problems() == ["samples.csv has 241 valid samples, and the figures rest on 240"]


def test_samples_turned_in_the_arrays_too_contradict_the_judges_label(files, problems):
    judged = list(csv.DictReader(io.StringIO(files["labels.csv"].decode())))
    place = next(n for n, row in enumerate(judged) if row["bpde"] == "0.0")
    name = judged[place]["external_id"]

    def turn(rows):
        for row in rows:
            if row["external_id"] == name:
                row["outcome"] = turned(row["outcome"])

    def turn_arrays(held):
        held["samples.difference"][place] *= -1

    edited(files, "samples.csv", turn)
    arrays(files, turn_arrays)
    assert "the judge's label of 1 examples does not follow from its samples" in problems()


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        ("judge_label", "tie", "judge_label of 1 examples"),
        ("final_label", "tie", "final_label of 1 examples"),
        ("rank", "60", "rank of"),
        ("score_1", "7", "the gap between score_1 and score_2 of 1 examples"),
        ("category", "another", "category of 1 examples"),
        ("model_1", "another", "model_1 of 1 examples"),
        ("response_1", "longer " * 300, "the difference in length of 1 examples"),
    ],
)
def test_a_label_that_was_changed_is_named_by_its_column(files, problems, column, value, named):
    edited(files, "labels.csv", lambda rows: rows[0].update({column: value}))
    assert any(one.startswith(named) for one in problems())


def test_another_certificate_is_not_what_the_data_certify(files, problems):
    certificate = json.loads(files["certificate.json"])["certificate"]
    certificate["epsilon"] = 0.01
    files["certificate.json"] = json.dumps({"certificate": certificate}).encode()
    assert problems() == ["the certificate differs from the one in the report"]
    figures = json.loads(files["report.json"])
    files["report.json"] = json.dumps(figures | {"certificate": certificate}).encode()
    assert any(one.startswith("certificate.epsilon is 0.01, and computes to") for one in problems())
