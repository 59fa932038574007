"""Final labels: people's where a round of the run asked them, the judge's elsewhere."""

import gc
from decimal import Decimal

import pytest
from django.core.management import call_command

from annotation.models import Draft, Item
from annotation.queue.queue import claim_next, skip
from annotation.results.delivery.verify import verify
from annotation.results.merge import final_labels
from annotation.results.merge.final_labels import HumanLabel, merged
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import decide, record_vote
from judging.dataset.models import Example
from judging.projects.models import Project
from judging.runs.models import Verdict
from tests.factories import make_annotator, make_examples, make_run, make_user, make_verdict


@pytest.fixture
def run(project):
    """Ten examples, BPDE rising with the number, each judged a win."""
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10, usd=Decimal("0.01"))
    return run


def vote(round_, person, label):
    """Vote the same label on everything that the person is given."""
    while isinstance(draft := claim_next(round_, person), Draft):
        sides = {"win": draft.left_response == 1, "lose": draft.left_response == 2}
        choice = "tie" if label == "tie" else ("left" if sides[label] else "right")
        record_vote(draft, {"overall": choice})


def by_id(project, run):
    return {one.example.external_id: one for one in merged(project, run)}


def test_people_replace_the_judge_only_where_they_were_asked(project, run):
    people = [make_annotator(project) for _ in range(3)]
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20)))
    for person, label in zip(people, ["lose", "lose", "tie"], strict=True):
        vote(round_, person, label)
    rows = by_id(project, run)
    assert {key: row.label for key, row in rows.items() if row.source == "majority"} == {
        "e8": "lose",
        "e9": "lose",
    }
    assert rows["e0"].label == "win"
    assert rows["e0"].source == "judge"
    assert (rows["e9"].human_label, rows["e9"].people.selection) == ("lose", "top")
    assert rows["e9"].people.counts == {"win": 0, "tie": 1, "lose": 2}
    # Three votes of three minutes at 7.50 an hour.
    assert rows["e9"].human_usd == Decimal("1.125")
    assert rows["e0"].human_usd is None


def test_labels_of_all_examples_are_never_in_memory_together(project, run, monkeypatch):
    monkeypatch.setattr(final_labels, "_EXAMPLES_AT_ONCE", 2)
    round_ = open_round(project, None, run, RoundSettings(everything=True, votes=1))
    vote(round_, make_annotator(project), "lose")
    seen = []
    for row in merged(project, run):
        assert row.label == "lose"
        seen.append(sum(type(one) is HumanLabel for one in gc.get_objects()))
    # Those of a chunk, and of the next examples.
    assert max(seen) <= 4


def test_until_an_item_is_complete_the_judges_label_stands(project, run):
    person = make_annotator(project)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20)))
    vote(round_, person, "lose")
    row = by_id(project, run)["e9"]
    assert (row.source, row.rule) == ("judge", "the judge's label: 1 of 3 votes so far")
    changes.close(round_, None)
    row = by_id(project, run)["e9"]
    assert (row.label, row.source, row.people.n_votes) == ("lose", "majority", 1)


@pytest.mark.parametrize(
    ("policy", "label", "source"),
    [
        ("adjudicate", None, "none"),
        ("tie", "tie", "policy:tie"),
        ("judge", "win", "policy:judge"),
    ],
)
def test_no_majority_follows_the_policy(project, run, policy, label, source):
    project.no_majority = policy
    people = [make_annotator(project) for _ in range(2)]
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=2))
    for person, choice in zip(people, ["lose", "tie"], strict=True):
        vote(round_, person, choice)
    row = by_id(project, run)["e9"]
    assert (row.label, row.source) == (label, source)


def test_the_judge_never_decides_an_audit_item(project, run):
    project.no_majority = "judge"
    people = [make_annotator(project) for _ in range(2)]
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=2, audit=9))
    for person, choice in zip(people, ["lose", "tie"], strict=True):
        vote(round_, person, choice)
    rows = by_id(project, run)
    assert rows["e9"].source == "policy:judge"
    assert {rows[f"e{n}"].source for n in range(9)} == {"none"}


def test_a_decision_settles_it_and_the_last_one_holds(project, run):
    people = [make_annotator(project) for _ in range(2)]
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=2))
    for person, choice in zip(people, ["lose", "tie"], strict=True):
        vote(round_, person, choice)
    item = Item.objects.get(round=round_)
    olga = make_user("olga")
    decide(item, olga, "tie", "both are right")
    item.refresh_from_db()
    decide(item, olga, "lose", "the second cites its source")
    row = by_id(project, run)["e9"]
    assert (row.label, row.source, row.people.adjudicator) == ("lose", "adjudicated", "olga")
    assert item.adjudications.count() == 2


def test_votes_elsewhere_are_gold_and_leave_the_judges_label_alone(project, run):
    person = make_annotator(project)
    other = make_run(project)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    vote(round_, person, "lose")
    row = by_id(project, run)["e3"]
    assert (row.label, row.source, row.human_label) == ("win", "judge", "lose")
    assert {row.label for row in merged(project, None)} == {"lose"}
    assert by_id(project, other)["e3"].source == "none"


def test_no_verdict_and_no_votes_is_no_label(project, run):
    Verdict.objects.filter(example__external_id="e0").delete()
    assert by_id(project, run)["e0"].source == "none"
    assert sum(row.label is not None for row in merged(project, run)) == 9


def test_a_decision_without_votes_holds_against_an_older_round_that_found_none(project, run):
    person = make_annotator(project)
    older, newer = (
        open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=1)) for _ in range(2)
    )
    changes.close(older, None)
    skip(claim_next(newer, person))
    decide(Item.objects.get(round=newer), make_user("olga"), "lose", "nobody could tell")
    row = by_id(project, run)["e9"]
    assert (row.label, row.source, row.people.adjudicator) == ("lose", "adjudicated", "olga")


def test_another_runs_round_gives_no_reason_and_no_cost_to_this_one(project, run):
    """Its votes are shown, as those given elsewhere are."""
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    vote(round_, make_annotator(project), "lose")
    other = make_run(project)
    for example in Example.objects.filter(project=project):
        make_verdict(other, example, 0.5)
    row = by_id(project, other)["e9"]
    assert (row.people.n_votes, row.people.selection, row.human_usd) == (1, "", None)
    assert (row.label, row.source, row.human_label) == ("win", "judge", "lose")
    assert by_id(project, run)["e9"].human_usd > 0


def test_examples_of_two_imports_that_have_the_same_numbers_are_all_merged(
    project, run, monkeypatch
):
    monkeypatch.setattr(final_labels, "_EXAMPLES_AT_ONCE", 3)
    Example.objects.filter(project=project).update(number=1)
    assert [one.example.external_id for one in merged(project, run)] == [f"e{n}" for n in range(10)]


def test_what_a_round_asks_about_is_not_covered_by_votes_given_elsewhere(project, run, tmp_path):
    make_annotator(project, "ana")
    open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=4, seed=1))
    # Another question is another protocol, whose votes fill no place of the round.
    Project.objects.update(question_asked="Which one is shorter?")
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\n" + "".join(f"e{n},kim,lose\n" for n in range(9)))
    call_command("import_votes", project.slug, str(path))
    rows = list(merged(project, run))
    kinds = [row.people.selection if row.people else "" for row in rows]
    assert [kinds.count(kind) for kind in ("top", "audit", "")] == [2, 4, 4]
    assert all(bool(row.people.votes) != bool(row.people.selection) for row in rows if row.people)
    # The figures know it as asked as well, so that a report delivered meanwhile holds.
    delivered = tmp_path / "report.zip"
    call_command("report", project.slug, run="1", output=delivered)
    assert verify(delivered) == []
