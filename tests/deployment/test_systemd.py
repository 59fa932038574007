"""What deploy/systemd promises: units that systemd takes, without rights, stopped in time."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from fairjudge_site import processes
from fairjudge_site.management.commands.runall import NAMES

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
PROGRAM = "/opt/fairjudge/bin/fairjudge"


class Lines(dict):
    """The last line of a key counts, as in systemd, except that here all are kept."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            value = [*self[key], *value]
        super().__setitem__(key, value)


def read(name):
    unit = configparser.RawConfigParser(strict=False, dict_type=Lines, empty_lines_in_values=False)
    unit.optionxform = str
    unit.read(FOLDER / name)
    return {section: dict(unit[section]) for section in unit.sections()}


def test_systemd_takes_every_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed here")
    program = shutil.which("true")
    for path in FOLDER.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAM, program))
    done = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "fairjudge" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_right_that_it_does_not_need(name):
    service = read(name)["Service"]
    assert service["User"] == service["Group"] == "fairjudge"
    assert service["NoNewPrivileges"] == service["ProtectHome"] == service["PrivateTmp"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["UMask"] == "0077"
    assert service["ExecStart"].split()[0] == PROGRAM


def test_each_part_starts_after_the_tables_and_with_all_others():
    parts = [part for part in NAMES if part != "judge"]
    wanted = read("fairjudge.target")["Unit"]["Wants"].split()
    assert sorted(wanted) == sorted(f"fairjudge-{part}.service" for part in parts)
    for part in parts:
        unit = read(f"fairjudge-{part}.service")
        assert unit["Unit"]["Requires"] == "fairjudge-migrate.service"
        assert "fairjudge-migrate.service" in unit["Unit"]["After"].split()
        assert unit["Unit"]["PartOf"] == "fairjudge.target"
        assert unit["Service"]["ExecStart"] == f"{PROGRAM} runall --only {part}"
    assert read("fairjudge-migrate.service")["Service"]["ExecStart"] == f"{PROGRAM} migrate"


def test_a_part_is_killed_only_after_it_has_stopped_by_itself():
    for part in ("web", "runs", "quick"):
        service = read(f"fairjudge-{part}.service")["Service"]
        variables = dict(word.split("=", 1) for word in service["Environment"].split())
        patience = int(variables["FAIRJUDGE_STOP_SECONDS"]) + processes.STOP_WITHIN
        assert patience < int(service["TimeoutStopSec"])
        assert service["KillMode"] == "mixed"


def test_keys_are_only_where_judges_are_asked():
    with_keys = {name for name in SERVICES if "/etc/fairjudge/keys" in (FOLDER / name).read_text()}
    assert with_keys == {"fairjudge-web.service", "fairjudge-runs.service"}


def test_a_backup_is_written_where_its_service_may_write():
    service = read("fairjudge-backup.service")["Service"]
    folders = {f"/var/lib/{name}" for name in service["StateDirectory"].split()}
    assert service["WorkingDirectory"] in folders
    assert (FOLDER / "fairjudge-backup.timer").exists()
