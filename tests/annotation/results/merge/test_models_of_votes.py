"""Labels by a model of all votes: one rule, which every reading of people follows."""

import csv
import io
from decimal import Decimal

import numpy as np
import pytest
from django.core.management import call_command

from annotation.models import Item, Round
from annotation.pages.forms import SettingsForm
from annotation.pages.settings import change_settings
from annotation.results.delivery.verify import compare_labels, verify
from annotation.results.merge.final_labels import human_labels, merged, merged_page
from annotation.results.merge.posteriors import posteriors
from annotation.results.report.cache import fingerprint
from annotation.results.report.report import people_alone, report
from annotation.results.sections.analysis import Analysis
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import decide
from judging.core.errors import UserError
from judging.methods.agreement.skills import CastVotes, dawid_skene, hierarchical
from judging.projects.models import Project, Role
from judging.runs.models import Run
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db
CHECK = 3


@pytest.fixture
def run(project):
    """40 examples: two careful people, and two careless ones who outvote one of them at times. The
    last example is still open, and the one before it waits for a decision."""
    rng = np.random.default_rng(5)
    run = make_run(project)
    truth = {}
    for example in make_examples(project, 40):
        truth[example.pk] = ("win", "tie", "lose")[example.number % 3]
        verdict = {"rank": example.number + 1, "label": truth[example.pk]}
        make_verdict(run, example, 0.5, **verdict)
    people = [make_annotator(project) for _ in range(4)]
    settings = RoundSettings(beta=Decimal(80), votes=3, audit=6, seed=1)
    round_ = open_round(project, None, run, settings)
    items = list(round_.items.select_related("example", "round__protocol").order_by("pk"))
    for place, item in enumerate(items[:-2]):
        right = truth[item.example_id]
        wrong = {"win": "lose", "tie": "win", "lose": "win"}[right]
        careful = people[place % 2]
        make_vote(item, careful, right if rng.random() < 0.95 else wrong)
        both = [people[1 - place % 2], people[2]] if place % 3 else people[2:]
        for person in both:
            chance = 0.95 if person in people[:2] else 0.4
            make_vote(item, person, right if rng.random() < chance else wrong)
    for person, label in zip(people[:3], ("win", "tie", "lose"), strict=True):
        make_vote(items[-2], person, label)
    make_vote(items[-1], people[0], "tie")
    return run


def by_rule(run, rule):
    """The run and its project, read again after the setting was changed."""
    Project.objects.filter(pk=run.project_id).update(label_rule=rule)
    return Run.objects.select_related("project").get(pk=run.pk)


def finals(run):
    return {one.example.pk: one for one in merged(run.project, run)}


def table(run, **wanted):
    data = b"".join(export(run.project, run, None, ExportRequest(**wanted)))
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.databases
@pytest.mark.parametrize("rule", ["dawid_skene", "hierarchical"])
def test_labels_are_the_likeliest_by_the_model_wherever_votes_settle_them(run, rule):
    before, state = finals(run), fingerprint(run.project)
    run = by_rule(run, rule)
    after = finals(run)
    assert fingerprint(run.project) != state
    # The model itself, on votes that are read in another way.
    asked = [pk for pk, one in after.items() if one.people and one.people.votes]
    people = sorted({vote.annotator_id for pk in asked for vote in after[pk].people.votes})
    votes, there = np.zeros((len(asked), 4), np.int8), np.zeros((len(asked), 4), bool)
    for row, pk in enumerate(asked):
        for vote in after[pk].people.votes:
            column = people.index(vote.annotator_id)
            votes[row, column] = {"win": 1, "tie": 0, "lose": -1}[vote.label]
            there[row, column] = True
    model = {"dawid_skene": dawid_skene, "hierarchical": hierarchical}[rule]
    expected = model(CastVotes.from_table(votes, there)).posterior
    differ = 0
    for row, pk in enumerate(asked):
        one = after[pk]
        assert one.people.posterior == pytest.approx(expected[row].tolist())
        if before[pk].source != "majority":
            # One waits for a decision, and one has two votes to come.
            assert (one.label, one.source) == (before[pk].label, before[pk].source)
            continue
        likeliest = ("win", "tie", "lose")[expected[row].argmax()]
        assert (one.label, one.source, one.human_label) == (likeliest, rule, likeliest)
        assert "likely by the" in one.rule
        differ += likeliest != before[pk].label
    assert differ
    # Other readings, and the arrays of the report.
    asked_for = human_labels(run.project, run)[1]
    sheet = Analysis(run.project, run).sheet
    signs = {"win": 1, "tie": 0, "lose": -1}
    for place, pk in enumerate(sheet.ids.tolist()):
        (again,) = merged_page(run.project, run, [after[pk].example])
        assert (again.label, again.source) == (after[pk].label, after[pk].source)
        if pk in asked:
            assert asked_for[pk].label == after[pk].people.label
        if after[pk].label:
            assert sheet.final[place] == signs[after[pk].label]
    back = finals(by_rule(run, "majority"))
    assert {pk: (one.label, one.source) for pk, one in back.items()} == {
        pk: (one.label, one.source) for pk, one in before.items()
    }


def test_a_persons_decision_stays(run):
    run = by_rule(run, "dawid_skene")
    item = Item.objects.get(state=Item.State.ADJUDICATE)
    assert finals(run)[item.example_id].label is None
    owner = make_member(run.project, Role.OWNER)
    decide(item, owner, "lose", "")
    one = finals(run)[item.example_id]
    assert (one.label, one.source) == ("lose", "adjudicated")
    assert one.people.posterior is not None


@pytest.mark.system
def test_a_delivery_by_a_model_can_be_verified_and_gives_no_certificate(run, tmp_path):
    majority = report(Analysis(run.project, run))
    assert "needs majorities" not in majority.certificate.reason
    run = by_rule(run, "hierarchical")
    found = report(Analysis(run.project, run))
    assert "a certificate needs majorities" in found.certificate.reason
    assert (majority.skills.rule, found.skills.rule) == ("majority", "hierarchical")
    assert majority.skills.annotators == found.skills.annotators
    path = tmp_path / "report.zip"
    call_command("report", run.project.slug, "--run", "1", "--output", str(path))
    assert verify(path) == []
    rows = table(run, what="labels")
    assert list(rows[0])[-5:-1] == ["model_of_votes", "p_win", "p_tie", "p_lose"]
    for row in rows:
        if row["source"] == "hierarchical":
            assert row["model_of_votes"] == "hierarchical"
            likely = {name: float(row[f"p_{name}"]) for name in ("win", "tie", "lose")}
            assert sum(likely.values()) == pytest.approx(1)
            assert row["final_label"] == max(likely, key=likely.get)
        elif row["n_votes"] == "0":
            assert (row["model_of_votes"], row["p_win"]) == ("", "")
    # With majorities, the table has a model's probabilities if they are asked for.
    run = by_rule(run, "majority")
    assert {row["p_win"] for row in table(run, what="labels")} == {""}
    rows = table(run, what="labels", model="dawid_skene")
    assert {row["model_of_votes"] for row in rows} == {"dawid_skene", ""}
    with pytest.raises(UserError, match="no model of votes"):
        table(run, what="labels", model="guess")
    assert {row["source"] for row in rows} == {"majority", "judge", "none"}


def test_a_label_that_the_model_does_not_give_is_found_in_a_delivery(run):
    run = by_rule(run, "dawid_skene")
    content = b"".join(export(run.project, run, None, ExportRequest(what="labels")))
    sheet = Analysis(run.project, run).sheet
    assert list(compare_labels(content, sheet)) == []
    row = next(one for one in table(run, what="labels") if one["source"] == "dawid_skene")
    changed = content.replace(f",{row['p_win']},".encode(), b",0.0,").replace(
        f",{row['p_tie']},".encode(), b",0.0,"
    )
    other = changed.replace(f",{row['p_lose']},".encode(), b",0.0,")
    problems = [*compare_labels(changed, sheet), *compare_labels(other, sheet)]
    assert any("not the likeliest one by the model of votes" in one for one in problems)


def test_who_is_careful_is_shown_and_changing_the_rule_is_on_record(run):
    project = run.project
    waiting = Item.objects.get(state=Item.State.ADJUDICATE)
    decide(waiting, make_member(project, Role.OWNER), "lose", "")
    close(Round.objects.get(run=run), None)
    alone = people_alone(project)
    skill = {one.annotator: one.skill.value for one in alone.skills.annotators}
    names = sorted(skill)
    assert min(skill[name] for name in names[:2]) > max(skill[name] for name in names[2:])
    assert all(one.judge_accuracy is None for one in alone.skills.labels)
    found = report(Analysis(project, run))
    accuracy = {one.rule: one.judge_accuracy.value for one in found.skills.labels}
    # The judge is right throughout, which the model comes closer to than the majority does.
    assert accuracy["hierarchical"] > accuracy["majority"]
    assert found.noise.corrected.value > found.noise.with_one_vote.value
    assert 0 < found.noise.share.value <= 1
    owner = make_member(project, Role.OWNER)
    fields = SettingsForm(instance=project).initial
    form = change_settings(project, owner, lambda now: fields | {"label_rule": "dawid_skene"})
    assert not form.errors
    event = project.audit_events.latest("pk")
    assert event.detail == {"label_rule": {"before": "majority", "now": "dawid_skene"}}


def test_nothing_to_fit_leaves_majorities_and_says_why(project):
    assert posteriors(project, "dawid_skene").reason == "no vote that counts was given yet"
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(100), votes=1, seed=1))
    person = make_annotator(project)
    for item in round_.items.all():
        make_vote(item, person, "lose")
    run = by_rule(run, "hierarchical")
    assert "fewer than three annotators" in posteriors(run.project, "hierarchical").reason
    assert {(one.label, one.source) for one in finals(run).values()} == {("lose", "majority")}
