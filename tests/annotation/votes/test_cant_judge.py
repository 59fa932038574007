""" "Can't judge" is received and paid, and is no label: the other votes decide, or a person."""

import csv
import io

import pytest

from annotation.models import Item, Protocol, Vote
from annotation.queue.drafts import answer_options, checked_answer
from annotation.queue.queue import claim_next
from annotation.results.merge.final_labels import merged
from annotation.results.tables.exports import vote_rows
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.rounds.progress import round_progress
from annotation.votes.agreement import RoundAgreement
from annotation.votes.imports import import_votes
from annotation.votes.voting import edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_project

pytestmark = pytest.mark.django_db
CANNOT = {"overall": "cant_judge"}


@pytest.fixture
def open_project():
    return make_project(cant_judge=True)


def voted(project, *labels, policy="adjudicate"):
    """One item with a vote of each person: win, tie or lose of response 1, or None."""
    Project.objects.filter(pk=project.pk).update(no_majority=policy)
    project.refresh_from_db()
    make_examples(project, 1)
    settings = RoundSettings(everything=True, votes=len(labels))
    round_ = open_round(project, None, None, settings)
    for label in labels:
        draft = claim_next(round_, make_annotator(project))
        if label is None:
            record_vote(draft, CANNOT, "The code can't be run here.", 60.0)
            continue
        left, right = ("win", "lose") if draft.left_response == 1 else ("lose", "win")
        answers = {left: "left", right: "right", "tie": "tie"}
        record_vote(draft, {"overall": answers[label]}, "", 60.0)
    return round_


@pytest.mark.parametrize(
    ("labels", "state", "final"),
    [
        (("win", "win", None), "complete", "win"),
        (("win", None, None), "complete", "win"),
        (("win", "lose", None), "adjudicate", None),
        (("win", "lose", "lose", None, None), "complete", "lose"),
        ((None, None, None), "adjudicate", None),
        ((None,), "adjudicate", None),
    ],
)
def test_the_other_votes_decide_if_they_have_a_majority(open_project, labels, state, final):
    round_ = voted(open_project, *labels)
    assert Item.objects.get(round=round_).state == state
    (row,) = merged(open_project, None)
    assert (row.human_label, row.people.n_cant_judge) == (final, labels.count(None))
    assert f"{labels.count(None)} couldn't judge" in row.people.rule


@pytest.mark.parametrize("policy", ["tie", "judge"])
def test_no_policy_makes_a_label_of_nothing(open_project, policy):
    assert Item.objects.get(round=voted(open_project, None, None, policy=policy)).state == (
        Item.State.ADJUDICATE
    )


def test_it_is_received_and_paid_and_missing_in_agreement(open_project):
    round_ = voted(open_project, "win", "win", None)
    progress = round_progress(round_)
    assert (progress.votes_given, progress.done, progress.seconds) == (3, 1, 180.0)
    assert progress.cost == 3 * round_.wage_usd * round_.minutes_per_vote / 60
    agreement = RoundAgreement(round_)
    assert agreement.percent.value == 1.0
    assert [one.n_votes for one in agreement.records] == [1, 1]


def test_it_needs_a_reason_and_no_criterion(open_project):
    open_project.criteria = ["accuracy"]
    open_project.save()
    protocol = current_protocol(open_project)
    with pytest.raises(UserError, match="why you can't judge"):
        checked_answer(protocol, CANNOT, "  ")
    assert checked_answer(protocol, CANNOT, "No idea.") == CANNOT


def test_only_a_protocol_that_offers_it_takes_it(project):
    with pytest.raises(UserError, match="Choose which response is better"):
        checked_answer(current_protocol(project), CANNOT, "No idea.")
    assert "cant_judge" not in [one.value for one in answer_options(current_protocol(project))]


def test_a_vote_is_changed_to_it_and_back(open_project):
    round_ = voted(open_project, "win", "win", "lose")
    item = Item.objects.get(round=round_)
    for vote in Vote.objects.filter(label="win"):
        edit_vote(vote, CANNOT, "I had misread it.")
    item.refresh_from_db()
    assert merged(open_project, None).__next__().human_label == "lose"
    vote = Vote.objects.filter(label="").first()
    edit_vote(vote, {"overall": "tie"}, "")
    item.refresh_from_db()
    assert (item.state, vote.revisions.filter(label="").count()) == ("adjudicate", 1)


def test_an_export_says_it_and_comes_back(open_project, tmp_path):
    voted(open_project, "win", None)
    rows = list(vote_rows(open_project, names=False))
    cannot = next(row for row in rows if row["raw_answer"] == "cant_judge")
    assert (cannot["label"], cannot["comment"]) == (None, "The code can't be run here.")
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    path = tmp_path / "votes.csv"
    path.write_text(text.getvalue())
    again = import_votes(open_project, None, path)
    assert (again.added, again.known, again.conflicts) == (0, 2, ())
    other = make_project(cant_judge=True)
    make_examples(other, 1)
    path.write_text(text.getvalue().replace(cannot["external_id"], "e0"))
    there = import_votes(other, None, path)
    assert there.added == 2
    held = Vote.objects.get(example__project=other, label="")
    assert (held.answer, held.comment) == (CANNOT, "The code can't be run here.")


def test_an_old_protocol_stays_the_same(project):
    """Its digest is that of the settings before these two existed."""
    before = current_protocol(project)
    assert Protocol.objects.count() == 1
    project.cant_judge = project.hide_models = True
    assert current_protocol(project) != before
    project.cant_judge = project.hide_models = False
    assert current_protocol(project) == before
