"""What happens in a project is told to webhooks: once, and with the change itself."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.utils import timezone

from annotation.models import Item, Round, RoundTold
from annotation.results.delivery.telling import tell_of_certificate
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.telling import tell_of_rounds
from annotation.votes.imports import import_votes
from annotation.votes.voting import decide
from judging.core import waking
from judging.core.caching import report_cache
from judging.dataset.writing import import_files
from judging.projects.models import Delivery
from judging.projects.webhooks import EVENTS, add_webhook
from judging.runs import lifecycle
from judging.runs.engine.recording import recover
from judging.runs.recorded.writing import import_judgments
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote
from tests.judging.runs.judging import judged, loopback
from tests.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def hook(project):
    return add_webhook(project, None, "https://example.org/hook", list(EVENTS))


def told():
    """The events that were told since the last call, with what they say."""
    found = [
        json.loads(body) for body in Delivery.objects.order_by("pk").values_list("body", flat=1)
    ]
    Delivery.objects.all().delete()
    return [(one["type"], one["data"]) for one in found]


def names():
    return [name for name, _ in told()]


def sweep():
    tell_of_rounds()
    return names()


@pytest.mark.django_db(transaction=True)
def test_a_run_is_told_when_it_is_done(hook, project, settings):
    make_examples(project, 2)
    with loopback(settings):
        run = judged(project, k=1)
    assert told() == [
        ("run.done", {
            "project": "vicuna", "run": run.number, "name": run.name, "endpoint": "loop",
            "model": "loopback-judge", "state": "done", "reason": "",
        })
    ]  # fmt: skip


def test_a_run_is_told_when_it_pauses_and_not_before(hook, project, owner):
    run = make_run(project, state="running", holder="me", lease_until=None)
    lifecycle.pause(run, "the budget is spent", owner)
    assert names() == []
    assert lifecycle.settle(run.pk, "me", {"pausing": "paused"})
    ((name, data),) = told()
    assert (name, data["reason"]) == ("run.paused", "the budget is spent")
    waits = make_run(project, state="queued")
    assert lifecycle.pause(waits, "later")
    assert names() == ["run.paused"]
    assert not lifecycle.pause(waits, "later")
    assert names() == []


def test_a_run_is_told_when_it_fails_and_not_when_it_is_stopped(hook, project):
    run = make_run(project, state="running", holder="me")
    lifecycle.fail(run, "me", "the key is wrong")
    assert [(name, data["reason"]) for name, data in told()] == [("run.failed", "the key is wrong")]
    lifecycle.fail(run, "me", "again")
    assert names() == []
    stopped = make_run(project, state="running", holder="me")
    lifecycle.cancel(stopped)
    lifecycle.settle(stopped.pk, "me", {"cancelling": "cancelled"})
    assert names() == []


def test_a_run_whose_worker_was_killed_while_it_paused_is_told(hook, project):
    before = timezone.now() - timedelta(minutes=1)
    run = make_run(project, state="pausing", holder="gone", lease_until=before)
    assert recover(run)
    assert names() == ["run.paused"]


def test_every_kind_of_import_is_told_once_it_is_written(hook, project, tmp_path):
    pairs, votes, judgments = (tmp_path / f"{n}.jsonl" for n in ("pairs", "votes", "judgments"))
    pairs.write_text('{"external_id": "a", "question": "Q", "response_1": "x", "response_2": "y"}')
    import_files(project, None, [pairs])
    votes.write_text('{"external_id": "a", "label": "win", "annotator": "ana"}')
    import_votes(project, None, votes)
    judgments.write_text('{"external_id": "a", "order": "original", "outcome": "win"}')
    import_judgments(project, None, [judgments])
    found = told()
    assert {name for name, _ in found} == {"import.done"}
    assert [(data["kind"], data["rows"]) for _, data in found] == [
        ("examples", 1), ("votes", 1), ("judgments", 1),
    ]  # fmt: skip


def test_scores_are_told(hook, project, tmp_path):
    scores = tmp_path / "scores.jsonl"
    scores.write_text(
        '{"external_id": "p", "input": "Q", "output": "A", "model": "m", "criterion": "fluency",'
        ' "rater": "r", "value": 3}'
    )
    call_command("import_scores", project.slug, str(scores))
    assert [(name, data["kind"]) for name, data in told()] == [("import.done", "points")]


@pytest.fixture
def round_(project):
    make_examples(project, 3)
    settings = RoundSettings(everything=True, votes=2, seed=1)
    return open_round(project, None, None, settings)


def vote(item, *labels):
    people = list(item.round.project.annotators.order_by("number"))
    for person, label in zip(people, labels, strict=True):
        make_vote(item, person, label)


def test_a_round_is_told_when_every_item_has_its_label(hook, project, round_, owner):
    for name in ("ana", "ben"):
        make_annotator(project, name)
    first, second, third = Item.objects.order_by("pk")
    assert sweep() == []
    vote(first, "win", "win")
    vote(second, "win", "lose")
    assert sweep() == ["round.needs_decision"]
    assert sweep() == []
    vote(third, "tie", "lose")
    tell_of_rounds()
    assert told() == [
        ("round.needs_decision", {
            "project": "vicuna", "round": 1, "state": "open", "undecided": 2, "new": 1,
        })
    ]  # fmt: skip
    second.refresh_from_db()
    decide(second, owner, "win", "clear")
    assert sweep() == []
    third.refresh_from_db()
    decide(third, owner, "tie", "clear")
    assert sweep() == ["round.complete"]
    assert sweep() == []


def test_a_round_that_opens_again_is_told_again(hook, project, round_):
    for name in ("ana", "ben"):
        make_annotator(project, name)
    for item in Item.objects.all():
        vote(item, "win", "win")
    assert sweep() == ["round.complete"]
    changes.raise_votes(round_, None, 3)
    assert sweep() == []
    changes.close(round_, None)
    assert sweep() == ["round.complete"]


def test_a_round_that_is_complete_is_no_news_to_a_later_webhook(project, round_):
    changes.close(round_, None)
    tell_of_rounds()
    add_webhook(project, None, "https://example.org/", list(EVENTS))
    assert sweep() == []


def test_closed_rounds_cost_nothing_after_a_day(hook, project, round_, django_assert_num_queries):
    changes.close(round_, None)
    assert sweep() == ["round.complete"]
    Round.objects.update(closed_at=timezone.now() - timedelta(days=2))
    with django_assert_num_queries(1):
        tell_of_rounds()


def test_the_sweep_asks_as_much_of_many_rounds_as_of_one(
    hook, project, round_, django_assert_num_queries
):
    tell_of_rounds()
    with django_assert_num_queries(2):
        tell_of_rounds()
    for seed in range(4):
        open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=seed))
    tell_of_rounds()
    with django_assert_num_queries(2):
        tell_of_rounds()


@pytest.mark.django_db(transaction=True)
def test_of_several_workers_one_tells(hook, project, round_):
    changes.close(round_, None)
    found = at_once(lambda _: tell_of_rounds())
    assert not [one for one in found if isinstance(one, Exception)]
    assert names() == ["round.complete"]


# Certificates


@pytest.fixture
def audited(project, monkeypatch):
    """An audit of 40 of 200 judged examples, with looks at 20 and 40, and one vote on each."""
    woken = []
    monkeypatch.setattr(waking, "wake", lambda task, *values: woken.append((task, *values)) or True)
    run = make_run(project)
    for example in make_examples(project, 200):
        make_verdict(run, example, 0.1)
    person = make_annotator(project, "ana")
    settings = RoundSettings(
        beta=Decimal(0), audit=40, votes=1, seed=5, epsilon=0.2, looks=(20, 40)
    )
    round_ = open_round(project, None, run, settings)
    report_cache.delete(f"certificate:{round_.pk}")

    def label(start, end, wrong=False):
        items = Item.objects.filter(round=round_).order_by("audit_order")[start:end]
        for item in items:
            make_vote(item, person, "lose" if wrong else "win")
        report_cache.delete(f"certificate:{round_.pk}")

    return round_, label, woken


def work(woken):
    """Do what a worker does when it is woken for a certificate."""
    mine = [values for task, *values in woken if task == waking.TELL_CERTIFICATE]
    woken.clear()
    for (key,) in mine:
        tell_of_certificate(Round.objects.select_related("project", "run").get(pk=key))
    return [one for one in told() if one[0].startswith("certificate")]


def test_a_certificate_is_told_at_the_look_that_issues_it(hook, audited):
    _, label, woken = audited
    label(0, 19)
    tell_of_rounds()
    assert work(woken) == []
    label(19, 20)
    tell_of_rounds()
    ((name, data),) = work(woken)
    assert name == "certificate.issued"
    assert (data["round"], data["run"], data["audited"]) == (1, 1, 20)
    assert data["largest_error"] == 0.2
    assert data["sentence"].startswith("At most 20")
    label(20, 40)
    tell_of_rounds()
    assert work(woken) == []


def test_a_certificate_is_refused_once_all_looks_are_over(hook, audited):
    _, label, woken = audited
    label(0, 20, wrong=True)
    tell_of_rounds()
    assert work(woken) == []
    label(20, 40, wrong=True)
    tell_of_rounds()
    ((name, data),) = work(woken)
    assert name == "certificate.refused"
    assert data["sentence"]
    tell_of_rounds()
    assert work(woken) == []


def test_a_round_that_is_closed_early_is_refused_a_certificate(hook, audited):
    round_, label, woken = audited
    label(0, 10)
    changes.close(round_, None)
    report_cache.delete(f"certificate:{round_.pk}")
    tell_of_rounds()
    assert [name for name, _ in work(woken)] == ["certificate.refused"]


def test_no_certificate_is_computed_if_nobody_listens(project, audited):
    _, label, woken = audited
    label(0, 40)
    tell_of_rounds()
    assert work(woken) == []
    assert RoundTold.objects.get().level == 3
    add_webhook(project, None, "https://example.org/", list(EVENTS))
    tell_of_rounds()
    assert work(woken) == []


def test_a_message_that_comes_twice_tells_once(hook, audited):
    _, label, woken = audited
    label(0, 20)
    tell_of_rounds()
    woken += woken
    assert len(work(woken)) == 1


def test_a_gate_is_told_at_each_look_at_new_data(hook, audited, project):
    _, label, _ = audited
    label(0, 40)
    told()
    with pytest.raises(SystemExit):
        call_command("gate", project.slug, "--run", "1", "--require", "accuracy>=0.99")
    ((name, data),) = told()
    assert name == "gate.decided"
    assert data["verdict"] == data["requirements"]["accuracy>=0.99"]
    assert (data["run"], data["other"], data["look"]) == (1, None, 1)
    with pytest.raises(SystemExit):
        call_command("gate", project.slug, "--run", "1", "--require", "accuracy>=0.99")
    assert told() == []
