"""Every operation, asked for by every role with every scope, and by whoever is not let in.

The table names each operation of the schema once. A new one that is not in it fails the test.
"""

import json
import time

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, Q
from django.test import Client

from annotation.models import Adjudication, Flag, Item, Job, Team
from annotation.people import crowds
from annotation.people.invitations import Terms, invite
from annotation.people.teams import make_team
from annotation.results.planner.registration import Plan, register
from annotation.rounds.opening import RoundSettings, open_round
from fairjudge_site.api.reference import document
from fairjudge_site.api.urls import api
from judging.dataset.models import Import
from judging.dataset.subsets import change_tag
from judging.projects.models import AuditEvent, Delivery, Membership, Project, Role
from judging.projects.tokens import SCOPES
from judging.projects.webhooks import add_webhook, send_test
from judging.runs.models import JudgeTemplate
from tests.factories import (
    make_annotator,
    make_examples,
    make_lesson,
    make_member,
    make_project,
    make_run,
    make_user,
    make_verdict,
)
from tests.test_access_walk import LET_IN

pytestmark = pytest.mark.system

# By the smallest role that is let in; those that need the site permission, too, say so.
TABLE = {
    "anybody": "get_sizes me list_projects list_deletions list_teams set_team_people",
    "its owner": "change_name_of_team remove_team",
    "site permission": "new_project",
    "member": "get_project leave",
    "reviewer": """
        list_rounds get_round list_undecided list_decisions new_decision
        undo_decision list_flags settle_flag_of
    """,
    "observer": """
        list_examples list_runs get_run get_report get_certificate get_people_report
        list_jobs get_job get_job_file cancel_job get_report_file get_project_sizes get_plot
        get_table get_parquet get_tool_file list_rows list_exports
        list_preregistrations get_preregistration check_preregistration
    """,
    "researcher": """
        get_practice
        gate compare escalate cheapest list_gates get_gate begin_import
        get_refused choose_primary reparse_run stop_reparsing assign_people new_judgments new_scores
        change_known_label
        tag_examples undo_tags upsert_examples estimate_examples get_import pause_run
        cancel_run plan_round new_round pause_round resume_round close_round
        reopen_round extend_round raise_votes new_votes put_aside count_again
        release_person cancel_round list_imports undo_import list_templates new_template
        retire_template restore_template new_preregistration
        list_lessons get_lesson approve_lesson compare_lesson
    """,
    "researcher with the site permission": """
        estimate new_run resume_run raise_budget list_models new_lesson estimate_lesson
    """,
    "owner": """
        list_annotators list_invitations new_invitation withdraw_invitation
        list_webhooks new_webhook get_webhook pause_webhook resume_webhook rotate_webhook
        get_settings update_settings list_events list_members change_member remove_member
        add_team send_test_event delete_webhook list_deliveries send_delivery
        delete_project new_password_link get_crowd set_crowd withdraw_crowd list_submissions
        get_submissions_file mark_submissions put_rejected_aside get_retention set_retention
    """,
}
GROUP = {name: group for group, names in TABLE.items() for name in names.split()}
BODIES = {
    "new_project": {"name": "Another one"},
    "estimate": {},
    "new_run": {},
    "resume_run": {},
    "plan_round": {"everything": True},
    "new_round": {"everything": True},
    "extend_round": {"beta": 50},
    "raise_votes": {"votes": 4},
    "new_decision": {"external_id": "e0", "label": "win", "reason": "So."},
    "new_invitation": {},
    "new_template": {
        "name": "own",
        "form": "relation",
        "reply": "verdict_mark",
        "sample_reply": "[[A]]",
        "text": "{question} {first} {second} Answer [[A]], [[B]] or [[C]].",
    },
    "change_member": {"role": "annotator"},
    "update_settings": {"name": "Renamed"},
    "raise_budget": {"budget_usd": "5"},
    "assign_people": {"annotators": []},
    "add_team": {"team": "Berlin"},
    "set_team_people": {"name": "Berlin"},
    "change_name_of_team": {"name": "Bonn"},
    "set_retention": {"comments": None},
    "put_aside": {"reason": "Clicked without reading."},
    "new_judgments": b'{"external_id": "e0", "order": "original", "outcome": "win"}\n',
    "new_scores": (
        b'{"external_id": "p", "input": "Q", "output": "A", "model": "m", "criterion": "fluency",'
        b' "rater": "r", "value": 3}\n'
    ),
    "delete_project": {"confirm": "vicuna"},
    "begin_import": {},
    "set_crowd": {"consent": "So.", "completion_code": "C1"},
    "mark_submissions": b"worker_id,status\nw1,approved\n",
    "gate": {"require": ["accuracy>=0.5"]},
    "escalate": {"agreement": "0.9"},
    "cheapest": {"goal": "certificate"},
    "compare": {"before": 1, "after": 1},
    "new_lesson": {"way": "examples"},
    "estimate_lesson": {"way": "examples"},
    "approve_lesson": {},
    "compare_lesson": {},
    "new_webhook": {"url": "https://example.org/hook"},
    "tag_examples": {"tag": "hard"},
    "change_known_label": {"external_id": "e0", "gold_label": "win"},
    "upsert_examples": b'{"question": "Q", "response_1": "a", "response_2": "b"}\n',
    "estimate_examples": b'{"question": "Q", "response_1": "a", "response_2": "b"}\n',
    "new_preregistration": {"goal": "Which is better?"},
    "check_preregistration": {
        "preregistration": {"format": "fairjudge-preregistration"},
        "sha256": "0" * 64,
    },
    "new_votes": b'{"external_id": "e0", "label": "win", "annotator": "ana"}\n',
}


def operations():
    for path, methods in document(api)["paths"].items():
        for method, operation in methods.items():
            yield operation["operationId"], method.upper(), path, operation["x-scope"]


OPERATIONS = {name: (method, path, scope) for name, method, path, scope in operations()}


@pytest.fixture(scope="module")
def made(rows_of_module):
    """Who has which role in one of everything, by their numbers."""
    project = make_project("vicuna")
    outsider = make_user("otto", researcher=True)
    people = {
        "outsider": outsider, "annotator": make_annotator(project, "ana").user,
        "reviewer": make_member(project, Role.REVIEWER, "rene"),
        "observer": make_member(project, Role.OBSERVER, "oona"),
        "researcher": make_member(project, Role.RESEARCHER, "rosa"),
        "owner": make_member(project, Role.OWNER, "olga"),
        "superuser": make_user("sue", is_superuser=True),
    }  # fmt: skip
    example, *_ = make_examples(project, 2)
    run = make_run(project)
    make_verdict(run, example, 0.5)
    make_lesson(run)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    item = Item.objects.filter(round=round_).first()
    Adjudication.objects.create(item=item, label="win", decided_by=people["owner"])
    Flag.objects.create(item=item, annotator=project.annotators.get(), reason="odd")
    Import.objects.create(
        project=project, number=9, state=Import.State.CHECKED, stored_files=["imports/x/p.csv"],
        summary={"n_rows": 0, "refused_files": ["p.refused.csv"]},
    )  # fmt: skip
    register(project, people["owner"], Plan(goal="Which is better?"))
    make_team(people["owner"], "Paris")
    Job.objects.create(project=project, kind="gate", asked={})
    Job.objects.create(project=project, kind="report", asked={}, result={"file": "imports/j/r"})
    terms = {"consent": "So.", "completion_code": "C1"}
    crowds.set_up(round_, people["owner"], terms)
    JudgeTemplate.objects.create(project=project, name="kept", form="score", text="{question}")
    invite(project, None, Terms())
    send_test(add_webhook(project, None, "https://example.org/hook", ["run.done"]), None)
    change_tag(project, None, "easy", [example.pk], added=True)
    # The outsider has the highest role somewhere else, which must not help here.
    another = make_project("another")
    Membership.objects.create(project=another, user=outsider, role="owner")
    return {role: user.pk for role, user in people.items()}


@pytest.fixture
def world(made, db, settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    settings.FAIRJUDGE_API_RATE = 1_000_000
    refused = tmp_path / "imports" / "x" / "p.refused.csv"
    refused.parent.mkdir(parents=True)
    refused.write_text("question\n")
    (tmp_path / "imports" / "j").mkdir()
    (tmp_path / "imports" / "j" / "r").write_text("A report.")
    users = User.objects.in_bulk(made.values())
    return {role: users[number] for role, number in made.items()}


@pytest.fixture
def project(world):
    return Project.objects.get(slug="vicuna")


@pytest.fixture
def owner(world):
    return world["owner"]


@pytest.fixture
def outsider(world):
    return world["outsider"]


def address(path, project):
    names = ("imports", "lessons", "preregistrations", "rounds", "runs", "webhooks")
    numbers = {name: getattr(project, name) for name in names}
    numbers["tags"] = project.tag_changes.annotate(number=F("pk"))
    numbers["teams"] = Team.objects.annotate(number=F("pk"))
    gates = Q(kind="gate")
    numbers["gates"] = project.jobs.filter(gates).annotate(number=F("pk"))
    numbers["jobs"] = project.jobs.exclude(gates).annotate(number=F("pk"))
    numbers["imports"] = project.imports.order_by("-number")
    numbers["templates"] = project.templates.annotate(number=F("pk"))
    members = project.memberships.exclude(role=Role.OWNER)
    numbers["members"] = members.annotate(number=F("pk")).order_by("pk")
    named = next((rows for name, rows in numbers.items() if f"/{name}/" in path), None)
    number = named.first().number if named is not None else project.invitations.first().pk
    found = path.replace("{slug}", project.slug).replace("{number}", str(number))
    delivery = str(Delivery.objects.get().pk)
    found = found.replace("{delivery}", delivery)
    found = found.replace("{annotator}", str(project.annotators.get().number))
    found = found.replace("{decision}", str(Adjudication.objects.get().pk))
    found = found.replace("{flag}", str(Flag.objects.get().pk))
    kind = "zip" if "report." in found else "svg" if "/plots/" in found else "jsonl"
    found = found.replace("{name}", "agreement").replace("{index}", "0")
    found = found.replace("{tool}", "argilla")
    return found.replace("{what}", "labels").replace("{kind}", kind)


def ask(client, name, project):
    """As if nothing had been asked before: whatever it changes is rolled back."""
    method, path, _ = OPERATIONS[name]
    with transaction.atomic():
        response = client.ask(method, address(path, project), BODIES.get(name))
        b"".join(response)
        transaction.set_rollback(True)
    return response


def expected(name, role, user):
    group = GROUP[name]
    researcher = user.has_perm("judging.researcher")
    if group == "anybody":
        return "in"
    if group == "its owner":
        return "in" if role in ("owner", "superuser") else 404
    if group == "site permission":
        return "in" if researcher else "refused"
    if role == "outsider":
        return 404
    smallest = group.split()[0]
    if role not in LET_IN[smallest]:
        return 403
    return 403 if "site permission" in group and not researcher else "in"


def test_the_table_names_every_operation_and_no_other():
    assert sorted(GROUP) == sorted(OPERATIONS)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.django_db
def test_each_operation_lets_in_whom_it_may(world, token_for, project, name):
    _, _, needed = OPERATIONS[name]
    for role, user in world.items():
        for scope in SCOPES:
            response = ask(token_for(user, scope), name, project)
            what = f"{role} with {scope}: {response.status_code}"
            assert response.status_code != 500, what
            if scope != needed:
                assert (response.status_code, response.json()["code"]) == (403, "scope_missing")
                continue
            wanted = expected(name, role, user)
            if wanted == "in":
                assert response.status_code not in (401, 403, 404), what
            elif wanted == "refused":
                assert response.status_code == 422, what
            else:
                assert response.status_code == wanted, what


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.django_db
def test_nobody_comes_in_without_a_token_or_with_one_of_another_project(
    world, token_for, project, outsider, owner, name
):
    method, path, _ = OPERATIONS[name]
    client = Client()
    client.force_login(owner)
    where = address(path, project)
    body = BODIES.get(name, {})
    kind = "application/json" if isinstance(body, dict) else "application/x-ndjson"
    sent = json.dumps(body) if isinstance(body, dict) else body
    assert client.generic(method, where, sent, content_type=kind).status_code == 401
    if "{slug}" in path:
        another = outsider.memberships.get().project
        Membership.objects.create(project=project, user=outsider, role="owner")
        assert ask(token_for(outsider, project=another), name, project).status_code == 404


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.django_db
def test_whoever_gets_judge_output_is_marked_and_a_repeat_does_nothing_twice(
    world, token_for, project, owner, name
):
    method, path, _ = OPERATIONS[name]
    client, where, body = token_for(owner), address(path, project), BODIES.get(name)
    first = client.ask(method, where, body, **{"Idempotency-Key": "once"})
    content = b"".join(first)
    if method == "POST" and first.status_code < 300:
        before = AuditEvent.objects.count()
        again = client.ask(method, where, body, **{"Idempotency-Key": "once"})
        assert (again.status_code, again.headers["Idempotency-Replayed"]) == (
            first.status_code, "true",
        )  # fmt: skip
        # The link that sets a password is kept nowhere, so it is signed again.
        assert b"".join(again) == content or name == "new_password_link"
        assert AuditEvent.objects.count() == before
    elif method == "GET":
        before = AuditEvent.objects.count(), project.exports.count()
        assert client.ask("HEAD", where).status_code == first.status_code
        assert (AuditEvent.objects.count(), project.exports.count()) == before
    mine = Membership.objects.filter(user=owner, project=project).first()
    seen = mine is not None and mine.unblinded_at is not None
    shows = {
        "list_examples", "get_report", "get_certificate", "get_table", "list_rows", "get_parquet",
        "gate", "compare", "escalate", "cheapest", "get_report_file", "list_gates", "get_gate",
        "get_refused", "get_plot", "get_tool_file", "get_project_sizes", "get_job_file",
        "new_lesson", "estimate_lesson", "list_lessons", "get_lesson", "approve_lesson",
        "compare_lesson",
    }  # fmt: skip
    assert seen == (name in shows)


@pytest.mark.django_db
def test_an_answer_is_the_same_while_its_content_is(world, token_for, project, owner):
    """A second later, each read that has an ETag says that nothing has changed."""
    reads = [name for name, (method, _, _) in OPERATIONS.items() if method == "GET"]
    where = {name: address(OPERATIONS[name][1], project) for name in reads}
    client = token_for(owner)

    def tags(names):
        found = {name: client.get(where[name]) for name in names}
        for response in found.values():
            b"".join(response)
        return {name: {"If-None-Match": r["ETag"]} for name, r in found.items() if "ETag" in r}

    # Reading the first time shows what the judge said, and puts exports on record.
    before = tags(tags(reads))
    time.sleep(1.1)
    after = {name: client.get(where[name], **tag).status_code for name, tag in before.items()}
    assert after == dict.fromkeys(before, 304)
    assert {"get_crowd", "list_invitations", "me", "list_rows"} <= set(before)
