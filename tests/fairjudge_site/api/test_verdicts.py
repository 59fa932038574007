"""Gates and comparisons by program: the verdicts, looks and rounds of the commands."""

import contextlib
import json

import jsonschema_rs
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone

from annotation.models import GateLook, Job
from annotation.results.delivery import drift, jobs
from annotation.results.delivery.jobs import wake_jobs
from annotation.results.demo import finished_study
from fairjudge_site.api.reference import document
from fairjudge_site.api.urls import api
from judging.core.models import Worker
from judging.dataset.models import Example
from judging.projects.models import AuditEvent, Membership, Project
from judging.runs.models import Verdict
from tests.factories import make_examples, make_member, make_run, make_verdict

CHATGPT = "ChatGPT, published"


@pytest.fixture(scope="module")
def slug(rows_of_module):
    return finished_study().slug


@pytest.fixture
def study(slug, db):
    return Project.objects.get(slug=slug)


@pytest.fixture
def client(token_for, study):
    return token_for(make_member(study, "researcher", "rosa"), "write")


def validated(name, found):
    made = document(api)
    schema = {"$ref": f"#/components/schemas/{name}", "components": made["components"]}
    jsonschema_rs.validate(schema, found)
    assert set(found) == set(made["components"]["schemas"][name]["properties"])


@pytest.mark.system
@pytest.mark.parametrize(
    ("requirement", "verdict"),
    [("accuracy>=0.45", "pass"), ("accuracy>=0.56", "inconclusive"), ("accuracy>=90%", "fail")],
)
def test_a_gate_says_what_the_command_says(client, study, capsys, requirement, verdict):
    run = study.runs.get(name=CHATGPT)
    asked = {"require": [requirement, "coverage>=0.9"], "run": run.number}
    response = client.post(f"projects/{study.slug}/gate", asked)
    found = response.json()
    assert (response.status_code, found["verdict"], found["look"]) == (200, verdict, 1)
    validated("GateOut", found)
    codes = {"pass": 0, "fail": 10, "inconclusive": 11}
    try:
        call_command("gate", study.slug, "--run", CHATGPT, "--json",
                     *(f"--require={one}" for one in asked["require"]))  # fmt: skip
        code = 0
    except SystemExit as ended:
        code = ended.code
    assert code == codes[verdict]
    # The command's look is the same one: its data is the same.
    assert json.loads(capsys.readouterr().out) == found
    assert GateLook.objects.count() == 1


def test_a_comparison_says_what_the_command_says(client, study, capsys):
    runs = [run for run in study.runs.order_by("number") if run.ranked_at][:2]
    asked = {"before": runs[0].number, "after": runs[1].number, "margin": "0.02"}
    found = client.post(f"projects/{study.slug}/compare", asked).json()
    validated("CompareOut", found)
    with contextlib.suppress(SystemExit):
        call_command(
            "compare", study.slug, str(runs[0].number), str(runs[1].number), "--margin", "0.02",
            "--json",
        )  # fmt: skip
    assert json.loads(capsys.readouterr().out) == found
    assert found["other"] == runs[0].number
    assert GateLook.objects.count() == 1


@pytest.fixture
def judged(project):
    run = make_run(project)
    Project.objects.filter(pk=project.pk).update(primary_run=run)
    for example in make_examples(project, 20):
        make_verdict(run, example, 0.1)
    return run


@pytest.mark.django_db
def test_the_round_that_decides_opens_once_and_by_whom_is_on_record(token_for, owner, judged):
    client = token_for(owner)
    asked = {"require": ["accuracy>=0.5"], "votes": 1}
    found = client.post("projects/vicuna/gate", asked).json()
    assert found["needed"]["opens_round"]
    assert not judged.rounds.exists()
    asked["open_round"] = True
    key = {"Idempotency-Key": "one"}
    first = client.post("projects/vicuna/gate", asked, **key)
    round_ = judged.rounds.get()
    needed = first.json()["needed"]
    assert (needed["round"], needed["votes"], needed["opens_round"]) == (round_.number, 20, False)
    assert client.post("projects/vicuna/gate", asked, **key).content == first.content
    assert client.post("projects/vicuna/gate", asked).json()["needed"] == needed
    assert judged.rounds.count() == 1
    assert AuditEvent.objects.filter(user=owner, action__contains="round").exists()


@pytest.mark.django_db
def test_examples_that_changed_need_a_restart(token_for, owner, judged):
    client = token_for(owner)
    asked = {"require": ["coverage>=0.5"]}
    assert client.post("projects/vicuna/gate", asked).json()["verdict"] == "pass"
    Example.objects.filter(external_id="e0").update(question="Another?")
    refused = client.post("projects/vicuna/gate", asked)
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")
    assert "`restart` by program" in refused.json()["detail"]
    asked["restart"] = True
    assert client.post("projects/vicuna/gate", asked).json()["look"] == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("where", "asked", "said"),
    [
        ("gate", {"require": ["speed>=3"]}, "The figures are: accuracy"),
        ("gate", {"require": ["win_rate(nobody)>=0.5"]}, "No example has a response by nobody"),
        ("gate", {"require": []}, "at least 1"),
        ("gate", {"require": ["coverage>=0.5"], "run": 2}, "is not ranked yet"),
        ("compare", {"before": 1, "after": 1}, "can't be compared with itself"),
        ("compare", {"before": 1, "after": 1, "margin": 1}, "less than 1"),
    ],
)
def test_what_cannot_be_decided_is_refused_in_a_sentence(
    token_for, owner, judged, where, asked, said
):
    make_run(judged.project, state="running", ranked_at=None)
    refused = token_for(owner).post(f"projects/vicuna/{where}", asked)
    assert refused.status_code == 422
    assert said in refused.json()["detail"]
    assert not GateLook.objects.exists()


@pytest.mark.django_db
def test_a_project_without_a_run_has_nothing_to_decide(token_for, owner, project):
    refused = token_for(owner).post("projects/vicuna/gate", {"require": ["coverage>=0.5"]})
    assert "has no run yet" in refused.json()["detail"]
    missing = token_for(owner).post("projects/vicuna/compare", {"before": 1, "after": 2})
    assert missing.status_code == 404


# Left to a worker

ASYNC = {"Prefer": "respond-async, wait=10"}


@pytest.fixture
def large(monkeypatch):
    """Projects of any size are large, and a worker is there that never gets a message."""
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 0)
    now = timezone.now()
    Worker.objects.create(name="w", queues="quick", started_at=now, seen_at=now)


@pytest.mark.django_db
def test_a_worker_decides_for_those_who_prefer_it(token_for, owner, judged, large):
    client = token_for(owner)
    asked = {"require": ["coverage>=0.5"], "votes": 1}
    now = client.post("projects/vicuna/gate", asked)
    assert now.status_code == 200
    key = {"Idempotency-Key": "one"}
    sent = client.post("projects/vicuna/gate", asked, **ASYNC, **key)
    assert (sent.status_code, sent["Preference-Applied"]) == (202, "respond-async")
    validated("GateRequestOut", sent.json())
    assert (sent.json()["state"], sent.json()["gate"]) == ("waiting", None)
    assert client.post("projects/vicuna/gate", asked, **ASYNC, **key).content == sent.content
    wake_jobs()
    jobs.work_on(Job.objects.get().pk)
    done = client.get(sent["Location"]).json()
    validated("GateRequestOut", done)
    assert (done["state"], done["at_work"], done["gate"]) == ("done", False, now.json())
    assert client.get("projects/vicuna/gates").json()["items"] == [done]
    # A message that comes twice finds nothing to do.
    jobs.work_on(Job.objects.get().pk)
    assert GateLook.objects.count() == 1


@pytest.mark.django_db
def test_a_comparison_is_decided_by_a_worker_too(token_for, owner, judged, large):
    other = make_run(judged.project)
    for example in Example.objects.all():
        make_verdict(other, example, 0.1)
    client = token_for(owner)
    asked = {"before": judged.number, "after": other.number, "margin": "0.1"}
    now = client.post("projects/vicuna/compare", asked).json()
    sent = client.post("projects/vicuna/compare", asked, **ASYNC)
    jobs.work_on(Job.objects.get().pk)
    done = client.get(sent["Location"]).json()
    assert (done["kind"], done["comparison"], done["gate"]) == ("compare", now, None)


@pytest.mark.django_db
def test_without_a_worker_or_for_a_small_project_the_verdict_comes_at_once(
    token_for, owner, judged, large, monkeypatch
):
    client, asked = token_for(owner), {"require": ["coverage>=0.5"]}
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 20)
    assert client.post("projects/vicuna/gate", asked, **ASYNC).status_code == 200
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 19)
    assert client.post("projects/vicuna/gate", asked, **ASYNC).status_code == 202
    Worker.objects.all().delete()
    assert client.post("projects/vicuna/gate", asked, **ASYNC).status_code == 200


@pytest.mark.django_db
def test_the_answer_is_kept_with_the_round_that_the_worker_opens(
    token_for, owner, judged, large, monkeypatch
):
    client = token_for(owner)
    asked = {"require": ["accuracy>=0.5"], "votes": 1, "open_round": True}
    sent = client.post("projects/vicuna/gate", asked, **ASYNC)
    request = Job.objects.get()
    with monkeypatch.context() as crash:
        # Another process takes it over, while this one opens the round.
        real = drift.decide_gate

        def overtaken(*args, **options):
            Job.objects.update(holder="another")
            return real(*args, **options)

        crash.setattr(drift, "decide_gate", overtaken)
        jobs.work_on(request.pk)
    assert not judged.rounds.exists()
    Job.objects.update(holder="", lease_until=None)
    jobs.work_on(request.pk)
    done = client.get(sent["Location"]).json()
    assert done["gate"]["needed"]["round"] == judged.rounds.get().number
    assert judged.rounds.get().opened_by == owner
    assert GateLook.objects.count() == 0, "no vote was seen, so no error is spent"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda project: Membership.objects.update(role="annotator"), "no longer has permission"),
        (lambda project: Membership.objects.all().delete(), "no longer has permission"),
        (lambda project: User.objects.all().delete(), "no longer has permission"),
        (lambda project: Verdict.objects.all().delete(), ""),
        (lambda project: Job.objects.update(asked={}), "reference"),
    ],
)
def test_what_a_worker_may_or_can_not_decide_is_refused(
    token_for, owner, judged, large, broken, said
):
    asked = {"require": ["accuracy>=0.5"], "votes": 1, "open_round": True}
    token_for(owner).post("projects/vicuna/gate", asked, **ASYNC)
    broken(judged.project)
    jobs.work_on(Job.objects.get().pk)
    found = Job.objects.get()
    assert found.state in ("refused", "done")
    assert said in found.reason
    if said:
        assert (found.state, found.result) == ("refused", None)
        assert not judged.rounds.exists()


@pytest.mark.django_db
def test_what_is_misspelt_is_refused_before_a_worker_is_woken(token_for, owner, judged, large):
    refused = token_for(owner).post("projects/vicuna/gate", {"require": ["speed>=3"]}, **ASYNC)
    assert refused.status_code == 422
    assert not Job.objects.exists()


@pytest.mark.system
def test_the_cheapest_plan_says_what_the_command_says_and_opens_its_round(client, study, capsys):
    where, prices = f"projects/{study.slug}/cheapest", {"1": "0.001", "2": "0.05"}
    asked = {"goal": "accuracy", "value": "0.9", "prices": prices}
    found = client.post(where, asked)
    assert found.status_code == 200, found.content
    told = found.json()
    validated("CheapestOut", told)
    assert told["round"] is None
    named = ["--price", "1=0.001", "--price", "2=0.05"]
    call_command("cheapest", study.slug, *named, "--accuracy", "0.90", json=True)
    said = json.loads(capsys.readouterr().out)
    assert [row["words"] for row in told["rows"]] == [row["words"] for row in said["rows"]]
    assert (told["best"], told["sentence"]) == (said["best"], said["sentence"])
    before = study.rounds.count()
    opened = client.post(where, asked | {"open_round": True}).json()["round"]
    assert study.rounds.get(number=opened).parameters["goal"]["value"] == "0.9"
    for wrong in ({"value": "0.2"}, {"open_round": True, "plan": 900}, {"confidence": "1"}):
        refused = client.post(where, asked | wrong)
        assert refused.status_code in (409, 422), refused.content
    assert study.rounds.count() == before + 1


def test_a_worker_compares_plans_for_a_program(token_for, study):
    client = token_for(make_member(study, "researcher", "rosa"))
    now = timezone.now()
    Worker.objects.create(name="one", queues="quick", started_at=now, seen_at=now)
    asked = {"goal": "certificate", "value": "0.3", "prices": {"2": "0.05"}}
    given = client.post(f"projects/{study.slug}/cheapest", asked, **ASYNC)
    assert given.status_code == 202
    number = given.json()["id"]
    jobs.work_on(number)
    done = client.get(f"projects/{study.slug}/gates/{number}").json()
    assert (done["state"], done["kind"]) == ("done", "cheapest")
    assert done["cheapest"]["left_out"] == [
        f"{CHATGPT} is left out, because its price is not known."
    ]
