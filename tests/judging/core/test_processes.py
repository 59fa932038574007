import os
import subprocess
import sys

import pytest

from judging.core.processes import ProcessIdentity
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


def test_a_command_whose_parent_is_already_gone_does_not_start():
    command = [
        sys.executable,
        "-m",
        "judging.core.processes",
        "1",
        sys.executable,
        "-c",
        "print('ran')",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ran" not in done.stdout


@pytest.mark.parametrize(("hard", "room"), [(1000, 300), (250, 150), (50, 1)])
def test_there_is_room_for_as_many_connections_as_files_may_be_open(hard, room):
    program = (
        "import resource; from judging.core.processes import room_for\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, {hard}), {hard}))\n"
        "print(room_for(300))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{room}\n", "")
