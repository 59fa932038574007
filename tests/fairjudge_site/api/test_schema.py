"""The schema keeps its promises: nothing that a client relies on goes or changes."""

import copy
import json

import pytest

from fairjudge_site.api.reference import document
from fairjudge_site.api.urls import api
from tests.fairjudge_site.api.stored_schema import FILE, breaking_changes

STORED = json.loads(FILE.read_text(encoding="utf-8"))


def test_no_change_breaks_a_client():
    assert breaking_changes(STORED, document(api)) == []


def test_the_stored_schema_is_the_newest():
    """Write it again by `python -m tests.fairjudge_site.api.stored_schema`."""
    assert document(api) == STORED


def gone(schema):
    del schema["paths"]["/api/v1/me"]


def other_scope(schema):
    schema["paths"]["/api/v1/projects/{slug}/runs"]["post"]["x-scope"] = "write"


def fewer_parameters(schema):
    schema["paths"]["/api/v1/projects"]["get"]["parameters"].pop()


def newly_required(schema):
    schema["paths"]["/api/v1/projects"]["get"]["parameters"].append(
        {"in": "query", "name": "new", "required": True, "schema": {"type": "string"}}
    )


def tighter(schema):
    schema["paths"]["/api/v1/projects"]["get"]["parameters"][0]["schema"]["maximum"] = 10


def field_gone(schema):
    del schema["components"]["schemas"]["ProjectOut"]["properties"]["slug"]


def field_of_another_type(schema):
    schema["components"]["schemas"]["ProjectOut"]["properties"]["slug"]["type"] = "integer"


def field_to_send(schema):
    schema["components"]["schemas"]["ProjectIn"]["properties"]["new"] = {"type": "string"}
    schema["components"]["schemas"]["ProjectIn"]["required"].append("new")


def other_answer(schema):
    answers = schema["paths"]["/api/v1/projects"]["post"]["responses"]
    answers["201"]["content"]["application/json"]["schema"] = {"type": "string"}


@pytest.mark.parametrize(
    "change",
    [gone, other_scope, fewer_parameters, newly_required, tighter, field_gone,
     field_of_another_type, field_to_send, other_answer],
)  # fmt: skip
def test_what_would_break_a_client_is_found(change):
    changed = copy.deepcopy(STORED)
    change(changed)
    assert breaking_changes(STORED, changed)


def test_what_is_only_added_breaks_nobody():
    changed = copy.deepcopy(STORED)
    changed["paths"]["/api/v1/new"] = changed["paths"]["/api/v1/me"]
    changed["components"]["schemas"]["ProjectOut"]["properties"]["new"] = {"type": "string"}
    changed["components"]["schemas"]["ProjectOut"]["required"].append("new")
    changed["components"]["schemas"]["RunIn"]["properties"]["new"] = {"type": "string"}
    assert breaking_changes(STORED, changed) == []
