"""Requests that come at once, from threads with connections of their own."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone

from annotation.models import GateLook, Item, Slot, Vote
from annotation.rounds.opening import RoundSettings, open_round
from fairjudge_site.api import gate
from judging.dataset.models import Import
from judging.dataset.writing import write
from judging.projects.models import KeptAnswer, Project
from tests.factories import make_examples, make_run, make_verdict

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


def at_once(n, ask):
    """Return the answers of n threads that ask at the same moment."""
    barrier = Barrier(n)

    def one(number):
        barrier.wait()
        try:
            return ask(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(n) as threads:
        return list(threads.map(one, range(n)))


def test_the_same_key_at_once_does_it_once(token_for, outsider):
    client, key = token_for(outsider), {"Idempotency-Key": "k"}
    answers = at_once(6, lambda _: client.post("projects", {"name": "New"}, **key))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert Project.objects.filter(slug="new").count() == 1
    assert KeptAnswer.objects.count() == 1


def test_the_same_gate_at_once_takes_one_look_and_opens_one_round(token_for, owner, project):
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, 0.1)
    client, key = token_for(owner), {"Idempotency-Key": "k"}
    asked = {
        "require": ["coverage>=0.5", "accuracy>=0.5"], "run": 1, "votes": 1, "open_round": True,
    }  # fmt: skip
    answers = at_once(4, lambda _: client.post("projects/vicuna/gate", asked, **key))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["needed"]["round"] == run.rounds.get().number
    assert GateLook.objects.count() == 1


@pytest.mark.parametrize(("minutes", "status"), [(1, 409), (11, 200)])
def test_a_key_whose_request_was_killed_at_work_is_free_again_after_a_while(
    token_for, owner, project, monkeypatch, minutes, status
):
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, 0.1)
    client = token_for(owner)
    killed = KeptAnswer.objects.create(token=client.kept, key="k", request_digest="x")
    at = timezone.now() - timedelta(minutes=minutes)
    KeptAnswer.objects.filter(pk=killed.pk).update(at=at)
    monkeypatch.setattr(gate, "WAITS_SECONDS", 0.3)
    asked = {"require": ["coverage>=0.5"], "run": 1}
    answered = client.post("projects/vicuna/gate", asked, **{"Idempotency-Key": "k"})
    assert answered.status_code == status
    assert GateLook.objects.count() == (status == 200)


def test_a_refused_gate_leaves_its_key_free(token_for, owner, project):
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, 0.1)
    client, key = token_for(owner), {"Idempotency-Key": "k"}
    asked = {"require": ["win_rate(nobody)>=0.5"], "run": 1}
    assert client.post("projects/vicuna/gate", asked, **key).status_code == 422
    assert not KeptAnswer.objects.exists()
    asked["require"] = ["coverage>=0.5"]
    assert client.post("projects/vicuna/gate", asked, **key).status_code == 200


def test_the_same_upsert_twice_at_once_adds_each_example_once(
    token_for, owner, project, settings, tmp_path
):
    settings.MEDIA_ROOT = tmp_path
    client = token_for(owner)
    rows = b'{"external_id": "a", "question": "Q", "response_1": "a", "response_2": "b"}\n'
    answers = at_once(4, lambda _: client.post("projects/vicuna/examples", rows))
    statuses = sorted(answer.status_code for answer in answers)
    # One import of a project is written at a time. The others are told, and nothing of them stays.
    assert set(statuses) <= {202, 422}
    assert statuses.count(202) == 1
    assert Import.objects.count() == 1


def test_the_same_upsert_with_a_key_at_once_is_one_import(
    token_for, owner, project, settings, tmp_path
):
    settings.MEDIA_ROOT = tmp_path
    client, key = token_for(owner), {"Idempotency-Key": "k"}
    rows = b"".join(
        b'{"external_id": "%d", "question": "Q", "response_1": "a", "response_2": "b"}\n' % n
        for n in range(50)
    )
    answers = at_once(4, lambda _: client.post("projects/vicuna/examples", rows, **key))
    done = [answer for answer in answers if answer.status_code == 202]
    # One is written at a time; whoever comes while it is not yet kept is told so, by a sentence.
    assert done
    assert {answer.status_code for answer in answers} <= {202, 409, 422}
    assert len({answer.content for answer in done}) == 1
    assert write(Import.objects.get().pk)
    assert project.examples.count() == 50


def test_votes_that_come_while_a_round_closes_count_once_and_leave_no_item_open(
    token_for, owner, project, settings, tmp_path
):
    settings.MEDIA_ROOT = tmp_path
    client = token_for(owner)
    make_examples(project, 40)
    settings_of_round = RoundSettings(everything=True, votes=1, seed=1)
    round_ = open_round(project, None, None, settings_of_round)
    votes = b"".join(
        b'{"external_id": "e%d", "label": "win", "annotator": "ana"}\n' % n for n in range(40)
    )

    def ask(number):
        if number == 0:
            return client.post("projects/vicuna/rounds/1/close")
        return client.post("projects/vicuna/votes", votes)

    answers = at_once(3, ask)
    assert answers[0].status_code == 200
    assert {answer.status_code for answer in answers[1:]} <= {201, 422}
    assert 201 in {answer.status_code for answer in answers[1:]}
    assert Vote.objects.count() == 40
    round_.refresh_from_db()
    assert round_.state == "closed"
    items = Item.objects.filter(round=round_)
    filled = items.filter(slots__vote__isnull=False).distinct()
    # What counted before the round was closed settled its item, and nothing counts twice.
    assert not filled.exclude(state=Item.State.COMPLETE).exists()
    assert Slot.objects.filter(round=round_, vote__isnull=False).count() == filled.count()
    again = client.post("projects/vicuna/votes", votes)
    assert (again.status_code, again.json()["known"], again.json()["added"]) == (201, 40, 0)


def test_webhooks_that_are_added_at_once_get_numbers_of_their_own(token_for, owner, project):
    client = token_for(owner)
    body = {"url": "https://example.org/hook"}
    answers = at_once(5, lambda _: client.post("projects/vicuna/webhooks", body))
    assert sorted(answer.json()["number"] for answer in answers) == [1, 2, 3, 4, 5]
    assert len({answer.json()["secret"] for answer in answers}) == 5
