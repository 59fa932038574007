"""What deploy/kubernetes promises: objects that Kubernetes takes, with no rights, and probes."""

import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from fairjudge_site import processes

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
SECRET = {"DATABASE_URL", "CELERY_BROKER_URL", "FAIRJUDGE_SECRET_KEY", "OPENAI_API_KEY"}
NEWEST = "1.37"
OLDEST = "1.29"


def read(name):
    return [one for one in yaml.safe_load_all((FOLDER / name).read_text()) if one]


(KUSTOMIZATION,) = read("kustomization.yaml")
OBJECTS = [one for name in KUSTOMIZATION["resources"] for one in read(name)]


def name_of(one):
    return f"{one['kind']} {one['metadata']['name']}"


def pod_of(one):
    """The specification of an object's pods, or None."""
    spec = one["spec"]
    if one["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec["template"]["spec"] if "template" in spec else None


PODS = {one["metadata"]["name"]: pod_of(one) for one in OBJECTS if one.get("spec") and pod_of(one)}
SETTINGS = next(one["data"] for one in OBJECTS if one["kind"] == "ConfigMap")


def containers_of(pod):
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("one", OBJECTS, ids=name_of)
def test_kubernetes_knows_each_field(one, version):
    kubernetes_validate.validate(one, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_found():
    one = next(one for one in OBJECTS if one["kind"] == "Deployment")
    spoilt = one | {"spec": one["spec"] | {"replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(spoilt, NEWEST, strict=True)


def test_every_file_is_part_of_it():
    assert {path.name for path in FOLDER.iterdir()} == {
        "kustomization.yaml", *KUSTOMIZATION["resources"],
    }  # fmt: skip


def test_kustomize_builds_it():
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed here")
    built = subprocess.run(
        ["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True
    ).stdout
    assert len(list(yaml.safe_load_all(built))) == len(OBJECTS)
    assert "image: fairjudge\n" not in built


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_no_right_that_it_does_not_need(name):
    pod = PODS[name]
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == security["fsGroup"] == 1000
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in containers_of(pod):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]


@pytest.mark.parametrize("name", PODS)
def test_secrets_are_named_and_never_written(name):
    assert not SECRET & SETTINGS.keys()
    for container in containers_of(PODS[name]):
        assert "env" not in container
        named = [one["secretRef"]["name"] for one in container["envFrom"] if "secretRef" in one]
        # Only what talks to judges has the keys of judges.
        asks = container["name"] in ("web", "runs")
        assert named == (["fairjudge", "fairjudge-keys"] if asks else ["fairjudge"])
    assert not [one for one in OBJECTS if one["kind"] == "Secret"]


def test_there_is_a_part_for_each_command_and_each_waits_for_the_tables():
    commands = {
        name: [container["command"] for container in pod["containers"]]
        for name, pod in PODS.items()
        if "runall" in pod["containers"][0]["command"]
    }
    assert commands == {
        f"fairjudge-{part}": [["python", "manage.py", "runall", "--only", part]]
        for part in ("web", "runs", "quick")
    }
    for name in commands:
        (waits,) = PODS[name]["initContainers"]
        assert waits["command"] == ["python", "manage.py", "migrate", "--check"]
    migrates = PODS["fairjudge-migrate"]["containers"][0]["command"]
    assert migrates == ["python", "manage.py", "migrate"]


def test_a_pod_is_killed_only_after_it_has_stopped_by_itself():
    patience = int(SETTINGS["FAIRJUDGE_STOP_SECONDS"])
    for part in ("web", "runs", "quick"):
        grace = PODS[f"fairjudge-{part}"]["terminationGracePeriodSeconds"]
        assert patience + processes.STOP_WITHIN < grace


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_pages_are_asked_what_they_answer_without_any_worker(client, kind):
    (web,) = PODS["fairjudge-web"]["containers"]
    asked = web[kind]["httpGet"]
    assert asked["port"] in {port["name"] for port in web["ports"]}
    (host,) = asked["httpHeaders"]
    answer = client.get(asked["path"], headers={host["name"]: host["value"]})
    assert answer.status_code == 200
    # The whole site is not well: there is no worker.
    assert client.get(asked["path"].split("?")[0]).status_code == 503


def test_workers_are_asked_whether_one_was_given_up():
    for part in ("runs", "quick"):
        (worker,) = PODS[f"fairjudge-{part}"]["containers"]
        (_, _, code) = worker["livenessProbe"]["exec"]["command"]
        assert "gave_up_here" in code
        compile(code, part, "exec")


def test_only_the_pages_are_reached_and_by_their_name():
    rules = {one["metadata"]["name"]: one["spec"] for one in OBJECTS if "Policy" in one["kind"]}
    assert "ingress" not in rules["fairjudge"]
    assert rules["fairjudge"]["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "fairjudge"
    }
    assert rules["fairjudge-web"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": 8000}]}]
    ingress = next(one["spec"] for one in OBJECTS if one["kind"] == "Ingress")
    (rule,) = ingress["rules"]
    assert SETTINGS["FAIRJUDGE_URL"] == f"https://{rule['host']}"


def test_what_is_selected_has_these_labels():
    labels = [
        one["spec"]["template"]["metadata"]["labels"]
        for one in OBJECTS
        if one["kind"] in ("Deployment", "Job")
    ]
    for one in OBJECTS:
        spec = one.get("spec", {})
        selector = spec.get("selector", {})
        wanted = selector.get("matchLabels", selector if one["kind"] == "Service" else {})
        if wanted:
            assert any(wanted.items() <= have.items() for have in labels), name_of(one)
