import subprocess
import sys

import pytest


@pytest.mark.parametrize(("hard", "room"), [(1000, 300), (250, 150), (50, 1)])
def test_there_is_room_for_as_many_connections_as_files_may_be_open(hard, room):
    program = (
        "import resource; from judging.llm.client.limits import room_for\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, {hard}), {hard}))\n"
        "print(room_for(300))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{room}\n", "")
