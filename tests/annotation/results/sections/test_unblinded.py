"""Votes given unblinded, in and out of labels, reports and exports."""

import csv
import io
from decimal import Decimal

import pytest
from django.core.management import call_command

from annotation.models import Vote
from annotation.queue.settling import settle_unblinded
from annotation.results.delivery.verify import verify
from annotation.results.merge.final_labels import (
    human_labels,
    human_labels_for_run,
    merged,
    merged_page,
)
from annotation.results.report.cache import current_report, fingerprint
from annotation.results.report.page import in_short
from annotation.results.sections.trust import Unblinded
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds.opening import RoundSettings, open_round
from judging.projects.models import Project
from judging.runs.models import Run
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db
# By example: two blind votes and one that turns them, all blind, all unblinded, no majority left.
VOTES = {
    "e0": ("lose", "tie!", "tie!"),
    "e1": ("lose", "lose", "win"),
    "e2": ("lose!", "lose!", "lose!"),
    "e3": ("win", "lose!", "lose"),
}


@pytest.fixture
def run(project):
    """Four examples judged a win, all of them put to three people."""
    run = make_run(project)
    for example in make_examples(project, 4):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    people = [make_annotator(project) for _ in range(3)]
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(100), votes=3, seed=1))
    for item in round_.items.select_related("example", "round__protocol"):
        for person, label in zip(people, VOTES[item.example.external_id], strict=True):
            make_vote(item, person, label.strip("!"), unblinded=label.endswith("!"))
    return run


def leave_out(run, on=True):
    """The run and its project, read again after the setting was changed."""
    Project.objects.filter(pk=run.project_id).update(leave_out_unblinded=on)
    settle_unblinded(run.project)
    return Run.objects.select_related("project").get(pk=run.pk)


def finals(run):
    rows = merged(run.project, run)
    return {one.example.external_id: (one.label, one.source, one.rule) for one in rows}


def table(project, run, what):
    data = b"".join(export(project, run, None, ExportRequest(what)))
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_a_final_label_is_the_majority_of_the_votes_that_count(run):
    assert {name: found[:2] for name, found in finals(run).items()} == {
        "e0": ("tie", "majority"),
        "e1": ("lose", "majority"),
        "e2": ("lose", "majority"),
        "e3": ("lose", "majority"),
    }
    assert finals(leave_out(run)) == {
        "e0": ("lose", "majority", "more than half of 1 votes (0–0–1); 2 given unblinded left out"),
        "e1": ("lose", "majority", "more than half of 3 votes (1–0–2)"),
        "e2": (
            None,
            "none",
            "no vote that counts: waits for a decision; 3 given unblinded left out",
        ),
        "e3": (
            None,
            "none",
            "no majority (1–0–1): waits for a decision; 1 given unblinded left out",
        ),
    }
    assert finals(leave_out(run, on=False))["e0"][0] == "tie"


def test_every_reading_of_people_follows(run):
    run = leave_out(run)
    asked, alone = human_labels_for_run(run), human_labels(run.project, None)[0]
    for one in merged(run.project, run):
        (again,) = merged_page(run.project, run, [one.example])
        assert (again.label, again.source, again.rule) == (one.label, one.source, one.rule)
        pk = one.example.pk
        assert asked[pk].votes == alone[pk].votes == (one.people.votes if one.people else ())


@pytest.mark.parametrize(("policy", "label"), [("tie", "tie"), ("judge", "win")])
def test_without_a_majority_the_policy_holds(run, policy, label):
    run.rounds.update(no_majority=policy)
    found = finals(leave_out(run))
    assert found["e3"][:2] == (label, f"policy:{policy}")
    assert found["e2"][:2] == (None, "none")


def test_a_report_says_how_many_there_are_and_is_made_anew(run):
    before = current_report(run.project, run)
    assert before.coverage.unblinded == Unblinded(12, 0, 6)
    (said,) = [one for one in in_short(before) if "unblinded" in one.text]
    assert said.warns
    assert said.text.startswith(
        "6 of 12 votes were given unblinded, by people who had seen judge output"
    )
    run = leave_out(run)
    after = current_report(run.project, run)
    assert after.coverage.unblinded == Unblinded(12, 6, 0)
    (said,) = [one for one in in_short(after) if "unblinded" in one.text]
    assert (said.text, said.warns) == (
        "6 of 12 votes were given unblinded and are left out.",
        False,
    )
    assert after.coverage.final_labels == {"win": 0, "tie": 0, "lose": 2}


def test_the_setting_alone_is_another_state_of_the_data(run):
    states = []
    for on in (False, True):
        Project.objects.update(leave_out_unblinded=on)
        states.append(fingerprint(Project.objects.get()))
    assert states[0] != states[1]


def test_a_report_of_blind_votes_alone_says_nothing_of_it(run):
    Vote.objects.update(unblinded=False)
    report = current_report(run.project, run)
    assert not [one for one in in_short(report) if "unblinded" in one.text]


def test_votes_that_are_left_out_were_paid_for(run):
    before = current_report(run.project, run).cost
    run = leave_out(run)
    assert current_report(run.project, run).cost == before
    rows = table(run.project, run, "labels")
    assert sum(Decimal(row["human_usd"]) for row in rows) == before.human_usd


def test_the_results_page_says_so(client, owner, run):
    client.force_login(owner)
    assert "6 of 12 votes were given unblinded" in client.get("/p/vicuna/results/trust").text
    leave_out(run)
    assert "unblinded and are left out" in client.get("/p/vicuna/results/trust").text


def test_what_waits_for_a_person_is_not_covered_by_votes_given_elsewhere(run, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\ne2,kim,win\n")
    # Another question is another protocol, whose votes fill no place of the round.
    Project.objects.update(question_asked="Which one is shorter?")
    call_command("import_votes", run.project.slug, str(path))
    run = leave_out(run)
    row = table(run.project, run, "labels")[2]
    assert (row["selection"], row["source"], row["n_votes"]) == ("top", "none", "0")
    assert row["rule"].startswith("no vote that counts")


@pytest.mark.parametrize("on", [False, True])
def test_a_delivered_report_holds(run, tmp_path, on):
    run = leave_out(run, on)
    path = tmp_path / "report.zip"
    call_command("report", run.project.slug, run="1", output=path)
    assert verify(path) == []


def test_the_votes_export_keeps_every_vote_and_an_import_its_mark(run, tmp_path):
    run = leave_out(run)
    rows = table(run.project, run, "votes")
    assert len(rows) == 12
    assert [row["unblinded"] for row in rows].count("true") == 6
    counted = {row["external_id"]: row["n_votes"] for row in table(run.project, run, "labels")}
    assert counted == {"e0": "1", "e1": "3", "e2": "0", "e3": "2"}
    path = tmp_path / "votes.csv"
    path.write_bytes(b"".join(export(run.project, run, None, ExportRequest("votes"))))
    other = make_project("other")
    make_examples(other, 4)
    call_command("import_votes", "other", str(path))
    again = table(other, None, "votes")
    marks = [
        [(row["external_id"], row["label"], row["unblinded"]) for row in one]
        for one in (rows, again)
    ]
    assert sorted(marks[0]) == sorted(marks[1])


def test_the_mark_is_behind_the_criteria_and_only_the_language_follows(project, run):
    Project.objects.update(criteria=["depth"])
    project.refresh_from_db()
    open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=1))
    data = b"".join(export(project, run, None, ExportRequest("votes", escape=False)))
    assert data.splitlines()[0].endswith(
        b"source,criterion:depth,vote_id,protocol_fingerprint,unblinded,language"
    )
