"""A round that learns goes on by itself: once, by the score, with an audit drawn after it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from annotation.models import Item, Round, RoutingScores, Selection, Vote
from annotation.queue.settling import settle
from annotation.results.sections.routing import select_what_was_learned
from annotation.results.tasks import go_on_with_round
from annotation.rounds.changes import extend, reopen, rounds_due, wake_due
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.projects.models import AuditEvent
from tests.annotation.results.learning import biased_run, go_on, gold, label_all
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

SETTINGS = RoundSettings(beta=Decimal(50), votes=1, audit=20, learn=40, seed=3)


@pytest.fixture
def person(project):
    return make_annotator(project)


@pytest.fixture
def learning(project, person, tmp_path):
    """A round of 120 examples that starts with 40 of them."""
    run = biased_run(project, tmp_path)
    return open_round(project, None, run, SETTINGS)


def kinds(round_):
    items = Item.objects.filter(round=round_)
    return {kind: items.filter(selection__kind=kind).count() for kind in ("learn", "top", "audit")}


def errors_in(items):
    verdicts = {v.example_id: v.label for v in items.first().round.run.verdicts.all()}
    return sum(verdicts[item.example_id] != gold(item.example) for item in items)


@pytest.mark.databases
def test_a_random_sample_comes_first_and_the_rest_by_what_it_taught(learning, person):
    assert kinds(learning) == {"learn": 40, "top": 0, "audit": 0}
    assert learning.certificate_plan is None
    assert go_on() == 0
    label_all(learning, [person])
    assert go_on() == 1
    learning.refresh_from_db()
    assert learning.stage == Round.Stage.SELECT
    # m = 60 counts the learning sample
    assert kinds(learning) == {"learn": 40, "top": 20, "audit": 20}
    top = Item.objects.filter(round=learning, selection__kind="top")
    audit = Item.objects.filter(round=learning, selection__kind="audit")
    # a third of all labels are wrong; nearly all that were selected are
    assert errors_in(top) >= 17
    assert errors_in(audit) <= 8
    assert min(item.routing_score for item in top) >= max(item.routing_score for item in audit)


def test_the_learning_sample_is_random_and_the_same_for_the_same_seed(project, person, tmp_path):
    run = biased_run(project, tmp_path)
    drawn = []
    for seed in (3, 3, 4):
        opened = open_round(
            project, None, run, RoundSettings(beta=Decimal(50), votes=1, learn=40, seed=seed)
        )
        items = Item.objects.filter(round=opened).order_by("position")
        drawn.append(list(items.values_list("example__external_id", flat=True)))
    assert drawn[0] == drawn[1] != drawn[2]
    ranks = Item.objects.filter(round=opened).values_list("rank", flat=True)
    # the mean rank of 40 of 120 at random, within three of its standard errors of 4.5
    assert sum(ranks) / 40 == pytest.approx(60.5, abs=13.5)
    assert set(Item.objects.values_list("probability", flat=True)) == {40 / 120}


def test_what_it_learned_is_kept_with_its_scores_and_the_plan_goes_by_them(learning, person):
    label_all(learning, [person])
    go_on()
    learning.refresh_from_db()
    kept = RoutingScores.objects.get(round=learning)
    assert kept.fit["used"] is True
    assert kept.fit["n"] == 40
    ratio = next(c for c in kept.fit["coefficients"] if c["name"] == "length in favour")
    assert ratio["odds_ratio"]["low"] > 1
    assert len(kept.examples) == len(kept.scores) == 120
    plan = learning.certificate_plan
    assert plan["score"] == "routing"
    assert plan["looks"] == [20]
    rest = set(Example.objects.filter(project=learning.project).values_list("pk", flat=True))
    rest -= set(
        Item.objects.filter(round=learning)
        .exclude(selection__kind="audit")
        .values_list("example", flat=True)
    )
    scores = dict(zip(kept.examples, kept.scores, strict=True))
    assert plan["grid"] == sorted({scores[pk] for pk in rest})


@pytest.mark.databases
def test_a_second_process_finds_nothing_to_do(learning, person):
    label_all(learning, [person])
    stale = Round.objects.get(pk=learning.pk)
    assert select_what_was_learned(learning) is True
    assert select_what_was_learned(stale) is False
    go_on_with_round(learning.pk)
    assert kinds(learning) == {"learn": 40, "top": 20, "audit": 20}
    assert AuditEvent.objects.filter(action="round selected by what it learned").count() == 1


def test_an_unsettled_learning_item_holds_it_back(learning, person):
    label_all(learning, [person])
    item = Item.objects.filter(round=learning).first()
    Item.objects.filter(pk=item.pk).update(state=Item.State.ADJUDICATE)
    assert not rounds_due().exists()
    assert select_what_was_learned(learning) is False
    assert not RoutingScores.objects.exists()
    settle(item)
    assert rounds_due().get() == learning


def test_the_last_vote_wakes_a_worker(
    learning, person, monkeypatch, django_capture_on_commit_callbacks
):
    sent = []
    monkeypatch.setattr("celery.current_app.send_task", lambda *given, headers: sent.append(given))
    items = list(Item.objects.filter(round=learning).select_related("example", "round__protocol"))
    Item.objects.filter(pk__in=[item.pk for item in items[1:]]).update(state="complete")
    with django_capture_on_commit_callbacks(execute=True):
        make_vote(items[0], person, "win")
    assert sent == [("annotation.results.tasks.go_on_with_round", [learning.pk])]
    assert go_on_with_round.name == sent[0][0]


def test_votes_given_earlier_can_settle_the_sample_at_once(learning, person, project):
    label_all(learning, [person])
    again = open_round(project, None, learning.run, SETTINGS)
    assert {round_.pk for round_ in rounds_due()} == {learning.pk, again.pk}


def test_what_people_could_not_agree_on_is_decided_by_a_person_even_by_policy_judge(
    project, tmp_path
):
    project.no_majority = "judge"
    project.save()
    people = [make_annotator(project), make_annotator(project)]
    run = biased_run(project, tmp_path)
    settings = RoundSettings(beta=Decimal(50), votes=2, learn=40, seed=3)
    round_ = open_round(project, None, run, settings)
    item = Item.objects.filter(round=round_).select_related("example", "round__protocol").first()
    make_vote(item, people[0], "win")
    make_vote(item, people[1], "lose")
    item.refresh_from_db()
    assert item.state == Item.State.ADJUDICATE


def test_where_nothing_was_learned_bpde_selects_and_says_why(project, person):
    run = make_run(project)
    for example in make_examples(project, 100):
        make_verdict(run, example, example.number / 100)
    round_ = open_round(
        project, None, run, RoundSettings(beta=Decimal(30), votes=1, audit=10, learn=20, seed=1)
    )
    for item in Item.objects.filter(round=round_):
        Item.objects.filter(pk=item.pk).update(state="complete")
    assert go_on() == 1
    round_.refresh_from_db()
    kept = RoutingScores.objects.get(round=round_)
    assert kept.fit["reason"] == "no valid sample was recorded yet"
    assert round_.certificate_plan["score"] == "bpde"
    top = Item.objects.filter(round=round_, selection__kind="top").values_list("rank", flat=True)
    sample = Item.objects.filter(round=round_, selection__kind="learn")
    taken = set(sample.values_list("rank", flat=True))
    expected = [rank for rank in range(1, 101) if rank not in taken][:10]
    assert sorted(top) == expected


def test_a_closed_round_does_not_go_on_until_it_is_reopened(learning, person):
    label_all(learning, [person])
    Round.objects.filter(pk=learning.pk).update(state=Round.State.CLOSED)
    assert go_on() == 0
    learning.refresh_from_db()
    reopen(learning, None)
    assert go_on() == 1


def test_a_round_can_be_extended_by_its_score_once_it_has_learned(learning, person):
    with pytest.raises(UserError, match="still learning"):
        extend(learning, None, Decimal(60))
    label_all(learning, [person])
    go_on()
    learning.refresh_from_db()
    scores = Item.objects.filter(round=learning, selection__kind="top")
    lowest = min(scores.values_list("routing_score", flat=True))
    assert extend(learning, None, Decimal(60)) > 0
    newest = Selection.objects.filter(round=learning).latest("pk")
    added = Item.objects.filter(selection=newest).values_list("routing_score", flat=True)
    assert max(added) <= lowest
    # 72 in all: the sample, the 20, and 12 that are new or were audited
    assert len(added) + len(newest.parameters["covers_audit_items"]) == 12


def test_new_items_come_after_those_of_the_first_stage(learning, person):
    label_all(learning, [person])
    go_on()
    first = Item.objects.filter(round=learning, selection__kind="learn")
    later = Item.objects.filter(round=learning).exclude(selection__kind="learn")
    assert max(first.values_list("position", flat=True)) < min(
        later.values_list("position", flat=True)
    )
    # selected and audited are mixed
    order = list(later.order_by("position").values_list("selection__kind", flat=True))
    assert 4 <= order[:20].count("audit") <= 16


def test_attention_checks_are_spread_over_both_stages(project, person, tmp_path):
    run = biased_run(project, tmp_path)
    make_examples(project, 12, is_check=True, gold_label="win")
    round_ = open_round(project, None, run, SETTINGS)
    planned = sum(round_.selections.values_list("n_items", flat=True))
    assert planned == 60 + 20 + 12
    checks = Item.objects.filter(round=round_, selection__kind="check")
    # 40 of 80 items come first
    assert checks.count() == 6
    label_all(round_, [person])
    go_on()
    assert checks.count() == 12
    assert sum(round_.selections.values_list("n_items", flat=True)) == 92


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"beta": Decimal(20), "learn": 60}, r"smallest β that works is 30.25 %"),
        ({"beta": Decimal(30), "learn": 60}, r"selects 60 examples, and 60 are for learning"),
        ({"beta": Decimal(100), "learn": 200}, "smaller learning sample: the round is about 200"),
        ({"everything": True, "learn": 10}, "no learning sample is needed"),
        ({"beta": Decimal(50), "learn": -1}, "can't be smaller than 0"),
        ({"beta": Decimal(50), "learn": 60, "audit": 101}, "more than the 100 examples"),
        (
            {"beta": Decimal(50), "learn": 60, "audit": 30, "looks": (40,)},
            "can't be checked after 40",
        ),
    ],
)
def test_settings_that_leave_nothing_to_select_are_refused(project, settings, says):
    run = make_run(project)
    for example in make_examples(project, 200):
        make_verdict(run, example, 0.1)
    with pytest.raises(UserError, match=says):
        open_round(project, None, run, RoundSettings(**settings))
    assert not Round.objects.exists()


def test_the_smallest_beta_named_is_the_smallest_that_works(project):
    run = make_run(project)
    for example in make_examples(project, 200):
        make_verdict(run, example, 0.1)
    opened = open_round(project, None, run, RoundSettings(beta=Decimal("30.25"), learn=60))
    assert opened.parameters["m"] == 61
    with pytest.raises(UserError, match=r"30\.25"):
        open_round(project, None, run, RoundSettings(beta=Decimal("30.24"), learn=60))


def test_labels_edited_after_the_fit_change_no_score(learning, person):
    label_all(learning, [person])
    go_on()
    before = RoutingScores.objects.get(round=learning).scores
    Vote.objects.filter(item__round=learning).update(label="tie")
    assert go_on() == 0
    assert RoutingScores.objects.get(round=learning).scores == before


def test_a_lost_wake_is_made_up_for_once_a_minute_for_each_round(learning, person, monkeypatch):
    sent = []
    monkeypatch.setattr("celery.current_app.send_task", lambda *given, headers: sent.append(given))
    wake_due()
    assert sent == []
    label_all(learning, [person])
    behind = open_round(learning.project, None, learning.run, replace(SETTINGS, seed=4))
    label_all(behind, [person])
    for _ in range(3):
        wake_due()
    task = go_on_with_round.name
    assert sorted(sent) == [(task, [learning.pk]), (task, [behind.pk])]
