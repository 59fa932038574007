"""Requests that are generated from the schema: no answer is a 500, or outside the schema.

Schemathesis makes requests that fit the schema and such that don't, for every operation. Addresses
name what is there, since a made-up project is always a 404.
"""

import hypothesis
import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import strategies
from schemathesis import checks
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks as openapi

from annotation.models import Item, Job
from annotation.people.invitations import Terms, invite
from annotation.rounds.opening import RoundSettings, open_round
from fairjudge_site.api.reference import document
from fairjudge_site.api.urls import api
from judging.core import waking
from judging.projects.webhooks import add_webhook, send_test
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote
from tests.fairjudge_site.api.test_walk import BODIES

pytestmark = [
    *(pytest.mark.django_db, pytest.mark.databases, pytest.mark.system),
    # Schemathesis's client leaves files open that it has read to their end.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
]

# Of each operation.
REQUESTS = 5
CHECKS = (
    checks.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_schema_conformance,
)


@schemathesis.serializer("application/x-ndjson", "application/jsonl", "text/csv")
def as_text(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


def schema():
    made = schemathesis.openapi.from_dict(document(api))
    made.app = get_wsgi_application()
    return made


SCHEMA = schema()
OPERATIONS = {
    one.ok().definition.raw["operationId"]: one.ok() for one in SCHEMA.get_all_operations()
}


@pytest.fixture(autouse=True)
def same_connection():
    """Requests share the test's transaction, as those of Django's own client do."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def world(project, owner, settings, tmp_path, monkeypatch):
    """One of everything, and the numbers by which addresses name it."""
    settings.MEDIA_ROOT = tmp_path
    settings.FAIRJUDGE_API_RATE = 1_000_000
    monkeypatch.setattr(waking, "wake", lambda *message: True)
    run = make_run(project)
    project.primary_run = run
    project.save()
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5)
    open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=1))
    make_vote(Item.objects.first(), make_annotator(project, "ana"), "win")
    hook = add_webhook(project, None, "https://example.org/hook", ["run.done"])
    Job.objects.create(project=project, kind="report", asked={"run": 1, "kind": "html"})
    return {
        "slug": project.slug,
        "delivery": send_test(hook, None).pk,
        "what": "labels",
        "annotator": 1,
        "invitations": invite(project, None, Terms()).pk,
    }


def numbered(path, world):
    """The values of an address's parameters."""
    named = {name: value for name, value in world.items() if f"{{{name}}}" in path}
    if "{number}" in path:
        named["number"] = world["invitations"] if "invitations" in path else 1
    return named


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_generated_request_is_answered_outside_the_schema(world, token_for, owner, name):
    operation = OPERATIONS[name]
    client = token_for(owner)
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    requests = strategies.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

    @hypothesis.seed(17)
    @hypothesis.settings(
        max_examples=REQUESTS,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(requests, strategies.integers(0, 3))
    def ask(case, made_up):
        if made_up:
            case.path_parameters |= numbered(operation.path, world)
        # As if nothing had been asked before: whatever it changes is rolled back.
        with transaction.atomic():
            headers = {"Authorization": f"Bearer {client.text}"}
            case.call_and_validate(headers=headers, checks=CHECKS)
            transaction.set_rollback(True)

    ask()


# What a rule refuses in this world, however right the body is. Other tests have their answers:
# that of `escalate`, which needs an audit, is in the tests of its section of the report.
REFUSED = {
    *("add_team", "begin_import", "change_known_label", "change_member", "change_name_of_team"),
    *("compare", "escalate", "extend_round", "new_decision", "raise_budget", "resume_run"),
    *("approve_lesson", "compare_lesson", "estimate_lesson", "new_lesson"),
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_request_that_is_right_is_answered_within_the_schema(world, token_for, owner, name):
    """Generated bodies seldom hold a requirement of a gate, an id that is there, or a date."""
    operation, body = OPERATIONS[name], BODIES[name]
    headers = {"Authorization": f"Bearer {token_for(owner).text}"}
    kind = "application/json" if isinstance(body, dict) else "application/x-ndjson"
    if name == "mark_submissions":
        kind = "text/csv"
    case = operation.Case(
        path_parameters=numbered(operation.path, world), body=body, media_type=kind
    )
    found = case.call_and_validate(headers=headers, checks=CHECKS)
    assert (found.status_code < 300) == (name not in REFUSED), found.text


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("get_run", lambda run: 1 / 0),
        ("get_round", lambda round_: {"number": "one"}),
    ],
)
def test_a_server_error_and_an_answer_outside_the_schema_are_found(
    world, token_for, owner, monkeypatch, name, broken
):
    headers = {"Authorization": f"Bearer {token_for(owner).text}"}
    case = OPERATIONS[name].Case(path_parameters=numbered(OPERATIONS[name].path, world))
    assert case.call_and_validate(headers=headers, checks=CHECKS).status_code == 200
    place = "runs._progress" if name == "get_run" else "rounds._standing"
    monkeypatch.setattr(f"fairjudge_site.api.{place}", broken)
    with pytest.raises((FailureGroup, Failure)):
        case.call_and_validate(headers=headers, checks=CHECKS)
