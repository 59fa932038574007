import subprocess
import sys


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
