"""What Dockerfile and compose.yaml promise: pinned images, no rights, keys in few places."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fairjudge_site import celery, processes
from judging.core.processes import gave_up_here, record_of_parts
from judging.llm.client.limits import RetryPolicy

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
DIGEST = re.compile(r"[a-z]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}")


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_no_right_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["read_only"] is True
    assert service["tmpfs"]
    user = service.get("user") or re.findall(r"^USER (\w+)$", DOCKERFILE, re.M)[-1]
    assert user not in ("root", "0")
    assert not {"privileged", "pid", "network_mode", "devices"} & service.keys()
    volumes = service.get("volumes", [])
    assert [volume for volume in volumes if volume.startswith(("/", "."))] == []


def test_every_image_is_pinned_by_its_digest():
    base, *stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.M)
    # The other stages begin with one of this file.
    assert set(stages) <= set(re.findall(r" AS (\S+)$", DOCKERFILE, re.M))
    images = [service["image"] for name, service in SERVICES.items() if name not in OURS]
    assert [image for image in (base, *images) if not DIGEST.fullmatch(image)] == []
    assert "--require-hashes" in DOCKERFILE


def test_the_programs_of_postgresql_have_the_version_of_the_server():
    (client,) = re.findall(r"postgresql-client-(\d+)", DOCKERFILE)
    assert SERVICES["postgres"]["image"].startswith(f"postgres:{client}@")


def test_keys_are_only_where_judges_are_asked():
    with_keys = {
        name
        for name, service in SERVICES.items()
        if any(isinstance(file, dict) for file in service.get("env_file", []))
    }
    assert with_keys == {"web", "runs"}
    for name in set(OURS) - with_keys:
        assert SERVICES[name]["environment"]["OPENAI_API_KEY"] == ""
    assert not any("env_file" in SERVICES[name] for name in ("postgres", "redis"))


def test_nothing_but_the_pages_is_reached_from_outside_and_they_only_from_this_machine():
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports == {"web": ["127.0.0.1:8000:8000"]}


@pytest.mark.parametrize("name", OURS)
def test_a_container_is_killed_only_after_it_has_stopped_by_itself(name):
    service = SERVICES[name]
    patience = int(service["environment"]["FAIRJUDGE_STOP_SECONDS"])
    assert patience >= RetryPolicy().request
    assert celery.STOP_WITHIN < processes.STOP_WITHIN
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert patience + processes.STOP_WITHIN < grace


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_asked_whether_it_is_well_or_ends(name):
    health = SERVICES[name].get("healthcheck")
    if name == "migrate":
        assert health == {"disable": True}
    elif name == "web":
        # It has that of the image.
        assert health is None
        assert "HEALTHCHECK" in DOCKERFILE
        assert "/healthz" in DOCKERFILE
    else:
        assert health["test"]


def test_tables_are_made_before_anything_starts():
    for name in set(OURS) - {"migrate"}:
        needs = SERVICES[name]["depends_on"]
        assert needs["migrate"] == {"condition": "service_completed_successfully"}
        assert needs["redis"] == {"condition": "service_healthy"}
    assert SERVICES["migrate"]["command"] == "python manage.py migrate"
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_redis_has_a_password():
    command = SERVICES["redis"]["command"]
    password = command[command.index("--requirepass") + 1]
    assert password.startswith("${REDIS_PASSWORD:?")
    for name in OURS:
        assert f":{password}@redis:" in SERVICES[name]["environment"]["CELERY_BROKER_URL"]


def test_only_the_container_in_which_a_part_was_given_up_is_unwell(tmp_path, monkeypatch):
    record_of_parts(tmp_path).write_text('{"runs": "restarting"}')
    assert not gave_up_here(tmp_path)
    record_of_parts(tmp_path).write_text('{"runs": "given up"}')
    assert gave_up_here(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert not gave_up_here(tmp_path)


SAYS_A_DIGEST = """#!/bin/sh
test "$1 $2 $3" = "buildx imagetools inspect" || exit 1
printf 'sha256:%s\\n' "$(printf %s "$4" | sha256sum | cut -d' ' -f1)"
"""


def test_pins_are_written_again_and_nothing_else_is_changed(tmp_path):
    """The program that asks a registry is replaced: there is none on a machine of tests."""
    for name in ("Makefile", "Dockerfile", "compose.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(SAYS_A_DIGEST)
    docker.chmod(0o755)
    path = f"{docker.parent}:{os.environ['PATH']}"

    def pins():
        return subprocess.run(
            ["make", "pins"], cwd=tmp_path, env=os.environ | {"PATH": path}, check=False
        ).returncode

    assert pins() == 0
    for name in ("Dockerfile", "compose.yaml"):
        before, after = (ROOT / name).read_text(), (tmp_path / name).read_text()
        pinned = re.compile(r"@sha256:[0-9a-f]{64}")
        assert pinned.sub("@", before) == pinned.sub("@", after)
        assert not set(pinned.findall(before)) & set(pinned.findall(after))
    written = (tmp_path / "compose.yaml").read_text()
    docker.write_text("#!/bin/sh\necho no such image\n")
    assert pins() != 0
    assert (tmp_path / "compose.yaml").read_text() == written
