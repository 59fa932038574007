import os
import subprocess
import sys

from judging.core.leases import ProcessIdentity
from tests.processes import eventually


def test_a_process_lives_until_it_ends():
    me = ProcessIdentity.of(os.getpid())
    assert me.lives()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert identity.lives()
    child.stdin.close()
    # A zombie, which nobody has waited for yet, is dead as well.
    assert eventually(lambda: not identity.lives(), 20)
    child.wait()


def test_a_later_process_with_the_same_number_is_another_one():
    me = ProcessIdentity.of(os.getpid())
    assert not ProcessIdentity(me.pid, me.started - 1).lives()
