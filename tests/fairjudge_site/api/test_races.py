"""Requests that come at once, from threads with connections of their own."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from judging.dataset.models import Import
from judging.projects.models import KeptAnswer, Project

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
