import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from judging.core.leases import ProcessIdentity, is_over, over
from judging.core.models import Worker
from judging.runs.models import Run
from tests.factories import make_project, make_run
from tests.processes import eventually


def test_a_process_lives_until_it_ends():
    me = ProcessIdentity.of(os.getpid())
    assert me.lives()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert identity.lives()
    child.stdin.close()
    # A zombie, which nobody has waited for yet, is dead as well.
    assert eventually(lambda: not identity.lives())
    child.wait()


def test_a_later_process_with_the_same_number_is_another_one():
    me = ProcessIdentity.of(os.getpid())
    assert not ProcessIdentity(me.pid, me.started - 1).lives()


@pytest.mark.parametrize(("ahead", "lives"), [(-40, False), (-5, True), (5, True), (3600, False)])
def test_a_worker_of_a_time_to_come_is_dead(db, ahead, lives):
    """The clock was an hour fast when it was last seen, and was set back."""
    now = timezone.now()
    seen_at = now + timedelta(seconds=ahead)
    Worker.objects.create(name="w", started_at=now, seen_at=seen_at)
    assert Worker.objects.alive().exists() is lives


@pytest.mark.parametrize(("ahead", "ended"), [(-1, True), (60, False), (3600, True), (None, True)])
def test_a_lease_of_a_time_to_come_is_over(db, ahead, ended):
    until = None if ahead is None else timezone.now() + timedelta(seconds=ahead)
    make_run(make_project(), lease_until=until)
    assert is_over(until) is ended
    assert Run.objects.filter(over()).exists() is ended
