"""Rules about attention checks: when they act, what follows, and who learns of it."""

from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.models import Draft, Intervention, Item, Round, Seat, Slot, Vote
from annotation.queue.queue import NoItem, claim_next
from annotation.rounds.opening import CheckRule, RoundSettings, open_round, read_check_rules
from annotation.rounds.progress import interventions_in
from annotation.votes import aside
from annotation.votes.voting import edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects.models import AuditEvent, Project
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


def round_of(project, *rules, checks=4, pairs=2, **fields):
    make_examples(project, checks, is_check=True, gold_label="win")
    make_examples(project, pairs)
    rules = tuple(CheckRule(after, Decimal(below), then) for after, below, then in rules)
    settings = RoundSettings(everything=True, votes=2, seed=1, check_rules=rules, **fields)
    return open_round(project, None, None, settings)


def answer(round_, annotator, *right):
    """Answer everything handed out, checks in turn as said, None if they can't be judged; the first
    refusal ends it."""
    right = list(right)
    while right and isinstance(draft := claim_next(round_, annotator), Draft):
        is_check = draft.item.selection.kind == "check"
        wins = right.pop(0) if is_check else True
        if wins is None:
            record_vote(draft, {"overall": "cant_judge"}, comment="Both are in Finnish.")
            continue
        side = draft.left_response if wins else 3 - draft.left_response
        record_vote(draft, {"overall": "left" if side == 1 else "right"})
    return claim_next(round_, annotator)


def made(round_, kind):
    return Intervention.objects.get(round=round_, kind=kind, ended_at=None)


def test_rules_are_read_as_they_are_written():
    rules = read_check_rules("after 3 below 100 % warn; after 5 below 62.5 stop\n")
    assert rules == (CheckRule(3, Decimal(100), "warn"), CheckRule(5, Decimal("62.5"), "stop"))
    assert [str(rule) for rule in rules] == [
        "after 3 checks, below 100 % right: warn",
        "after 5 checks, below 62.5 % right: stop",
    ]
    assert read_check_rules("; ".join(map(str, rules))) == rules
    assert str(CheckRule(1, Decimal(50), "pause")) == "after 1 check, below 50 % right: pause"
    assert read_check_rules(" ") == ()
    for wrong in ("after five below 60 stop", "after 5 below 60 shout", "stop"):
        with pytest.raises(UserError, match="isn't a rule"):
            read_check_rules(wrong)


@pytest.mark.django_db(transaction=True)
def test_stopping_puts_the_votes_aside_and_gives_the_pairs_to_others(project, ana):
    round_ = round_of(project, (2, 60, "stop"))
    assert answer(round_, ana, True, False) == NoItem("failed")
    assert not Vote.objects.filter(annotator=ana).exists()
    assert Vote.every.filter(annotator=ana).count() >= 2
    assert not Slot.objects.filter(annotator=ana).exists()
    assert Seat.objects.get(annotator=ana).hold == Seat.Hold.FAILED
    why = "1 of 2 attention checks right. The rule is “after 2 checks, below 60 % right: stop”."
    assert {made(round_, kind).reason for kind in ("stop", "aside")} == {why}
    assert made(round_, "stop").actor == Intervention.RULE
    told = AuditEvent.objects.filter(project=project, action="votes put aside").get()
    assert (told.detail["by"], told.detail["reason"]) == ("rule", why)
    assert told.detail["votes"] == aside.standing_of(round_, ana).n_aside


@pytest.mark.django_db(transaction=True)
def test_a_paused_person_is_let_go_on_and_judged_by_later_checks_alone(project, ana):
    round_ = round_of(project, (1, 100, "pause"), checks=3)
    assert answer(round_, ana, False) == NoItem("held")
    assert Vote.objects.filter(annotator=ana, example__is_check=True).count() == 1
    aside.let_go_on(round_, ana, None)
    assert answer(round_, ana, True, True, True) == NoItem("done")
    assert not interventions_in(round_).exists()


@pytest.mark.django_db(transaction=True)
def test_a_warned_person_reads_it_and_goes_on(client, project, ana):
    round_ = round_of(project, (1, 100, "warn"), checks=3)
    assert isinstance(answer(round_, ana, False), Draft)
    client.force_login(ana.user)
    token = claim_next(round_, ana).token
    warning = "Some of your answers differ from answers that are known to be right."
    assert warning in client.get(reverse("annotate_item", args=[token])).text
    first = made(round_, "warn").at
    answer(round_, ana, False)
    assert made(round_, "warn").at == first
    assert aside.let_go_on(round_, ana, None) is False
    assert warning not in client.get(reverse("annotate_item", args=[token])).text


def test_nothing_happens_at_the_mark_or_before_enough_checks(project, ana):
    round_ = round_of(project, (3, 50, "stop"), checks=4)
    # Two wrong of two are too few to judge, and two of four are not below 50 %.
    assert answer(round_, ana, False, True, True, False) == NoItem("done")
    assert not Intervention.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_who_cannot_judge_a_check_was_neither_right_nor_wrong(project, ana):
    Project.objects.filter(pk=project.pk).update(cant_judge=True)
    project.refresh_from_db()
    round_ = round_of(project, (2, 60, "stop"))
    assert isinstance(answer(round_, ana, None, None, True), Draft)
    assert not Intervention.objects.exists()
    assert answer(round_, ana, False) == NoItem("failed")
    assert made(round_, "stop").reason.startswith("1 of 2 attention checks right")


@pytest.mark.django_db(transaction=True)
def test_a_check_whose_answer_is_changed_counts_as_it_is_now(project, ana):
    round_ = round_of(project, (2, 100, "stop"))
    answer(round_, ana, True, True)
    assert not Intervention.objects.exists()
    pair, *_, check = Vote.objects.filter(annotator=ana).order_by("example__is_check", "pk")
    edit_vote(pair, {"overall": "tie"}, "")
    assert not Intervention.objects.exists()
    edit_vote(check, {"overall": "tie"}, "")
    assert made(round_, "stop").reason.startswith("1 of 2 attention checks right")
    assert not Vote.objects.filter(annotator=ana).exists()


@pytest.mark.django_db(transaction=True)
def test_the_severest_of_several_rules_acts(project, ana):
    round_ = round_of(project, (1, 100, "warn"), (2, 50, "pause"))
    answer(round_, ana, False)
    assert made(round_, "warn")
    assert answer(round_, ana, False) == NoItem("held")
    assert made(round_, "pause")


def test_a_round_keeps_its_rules_and_describes_others_as_before(project):
    round_ = round_of(project, (2, 60, "stop"))
    stored = Round.objects.get(pk=round_.pk).parameters["check_rules"]
    assert stored == [{"after": 2, "below": "60", "then": "stop"}]
    without = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert "check_rules" not in without.parameters


def test_a_rule_needs_enough_checks_with_a_known_label(project):
    with pytest.raises(UserError, match="has 4 attention checks with a known label, so a rule"):
        round_of(project, (5, 60, "stop"))
    with pytest.raises(UserError, match="above 0 and up to 100"):
        round_of(project, (1, 0, "stop"))


def test_only_votes_on_checks_ask_for_the_rules(project, ana):
    """Once with rules that never act, and once in a project without."""
    with_rules = counted(round_of(project, (4, 1, "stop"), pairs=4), ana)
    assert with_rules["check"] == with_rules["pair"] + 2
    another = make_project("another")
    without = counted(round_of(another, pairs=4), make_annotator(another, "ben"))
    assert without["check"] == without["pair"] == with_rules["pair"]


def counted(round_, annotator):
    numbers = {"pair": [], "check": []}
    while isinstance(draft := claim_next(round_, annotator), Draft):
        kind = Item.objects.get(pk=draft.item_id).selection.kind
        side = "left" if draft.left_response == 1 else "right"
        with CaptureQueriesContext(
            connection,
        ) as queries:
            record_vote(draft, {"overall": side})
        numbers["check" if kind == "check" else "pair"].append(len(queries))
    # Items before have other queries than the last of a round.
    return {kind: min(found) for kind, found in numbers.items()}


@pytest.mark.django_db(transaction=True)
def test_the_rounds_page_says_who_and_why(client, project, owner, ana):
    round_ = round_of(project, (1, 100, "pause"))
    answer(round_, ana, False)
    client.force_login(owner)
    page = client.get(reverse("round", args=[project.slug, round_.number])).text
    assert "0 of 1 attention checks right" in page
    assert "rule of the round" in page
    assert "after 1 check, below 100 % right: pause" in page


def test_the_planner_and_the_command_take_rules(client, project, owner):
    make_examples(project, 2, is_check=True, gold_label="win")
    make_examples(project, 2)
    client.force_login(owner)
    plan = reverse("plan", args=[project.slug])
    form = {"how": "all", "votes": 1, "asks_audit": "1"}
    refused = client.post(plan, form | {"check_rules": "after 9 below 60 stop"})
    assert "so a rule after 9 never acts" in refused.text.replace("&#x27;", "'")
    assert "isn&#x27;t a rule" in client.post(plan, form | {"check_rules": "often"}).text
    client.post(plan, form | {"check_rules": "after 2 below 60 stop"})
    round_ = Round.objects.get()
    assert round_.parameters["check_rules"][0]["then"] == "stop"
    call_command("open_round", project.slug, all=True, check_rule=["after 1 below 50 warn"])
    assert Round.objects.latest("number").parameters["check_rules"][0]["then"] == "warn"
    with pytest.raises(CommandError, match="isn't a rule"):
        call_command("open_round", project.slug, all=True, check_rule=["never"])
