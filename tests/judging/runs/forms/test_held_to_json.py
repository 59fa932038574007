"""Replies held to a JSON schema on request: read as the same replies in text are."""

import json

import pytest

from judging.core.errors import UserError
from judging.llm.parsing.parse import parse
from judging.llm.prompts.templates import template
from judging.runs.models import Parse
from judging.runs.planning.start import choose_judge
from judging.runs.templates import with_schema
from tests.judging.runs.judging import judged, loopback, make_judged_project
from tests.loopback import Quirks
from tests.loopback.judges import BiasedJudge

SHIPPED = {
    "faireval-table3": "score",
    "faireval-table1": "score",
    "portia-table13": "relation",
    "faireval-table5": "relation",
    "portia-table15": "likert",
}
VALUES = ("sample__call__example__external_id", "sample__call__part", "sample__slot")
READ = ("status", "score_1", "score_2", "rating", "outcome")


def asked(project, settings, name, quirks=None, **options):
    with loopback(settings, judge=BiasedJudge(noise=0.0), quirks=quirks) as server:
        run = judged(project, form=SHIPPED[name], template=name, k=1, **options)
    parses = Parse.objects.filter(sample__call__run=run)
    formats = [(entry.body.get("response_format") or {}).get("type") for entry in server.log]
    read = {row[:3]: row[3:] for row in parses.values_list(*VALUES, *READ)}
    return read, formats, set(parses.values_list("parser", flat=True)), run


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_read_is_the_same_as_in_text(name, settings):
    project = make_judged_project(3)
    in_text, formats, parsers, _ = asked(project, settings, name)
    assert (set(formats), parsers) == ({None}, {template(name).reply.value})
    assert {row[0] for row in in_text.values()} == {"valid"}
    held, formats, parsers, run = asked(project, settings, name, json_replies=True)
    assert (set(formats), parsers) == ({"json_schema"}, {"json_schema"})
    assert held == in_text
    assert run.template_text == template(name).text
    # An endpoint that takes no schema is asked for text, and that is remembered.
    quirks = Quirks(schema="json_object")
    refused, formats, parsers, run = asked(project, settings, name, quirks, json_replies=True)
    assert formats.count("json_schema") == 1
    assert set(formats) == {"json_schema", None}
    assert parsers == {template(name).reply.value}
    assert refused == in_text
    assert run.learned["schema"] == "json_object"


@pytest.mark.django_db(transaction=True)
def test_a_template_in_json_is_held_to_it_unless_that_is_switched_off(settings):
    project = make_judged_project(1)
    with loopback(settings):
        given = {"endpoint": "loop", "form": "score", "template": "faireval-table3-json"}
        assert choose_judge(project, **given).template.has_schema
        assert not choose_judge(project, json_replies=False, **given).template.has_schema
        with pytest.raises(UserError, match="one token"):
            choose_judge(project, endpoint="loop", form="choice", json_replies=True)


HELD = {name: with_schema(template(name), True) for name in SHIPPED}


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("faireval-table3", {"evidence": "", "score_1": 8, "score_2": 11}),
        ("faireval-table3", {"evidence": "", "score_1": 8}),
        ("faireval-table3", {"evidence": "", "score_1": 8, "score_2": 7, "score_3": 7}),
        ("portia-table13", {"evidence": "", "verdict": "D"}),
        ("portia-table13", {"evidence": "", "verdict": ["A"]}),
        ("faireval-table5", {"evidence": "", "verdict": "A"}),
        ("portia-table15", {"evidence": "", "rating": 4.5}),
        ("portia-table15", {"evidence": "", "rating": None}),
    ],
)
def test_another_document_is_unparsed_and_says_why(name, document):
    found = parse(HELD[name], json.dumps(document), "stop")
    assert (found.status, bool(found.why)) == ("unparsed", True)


def test_a_verdict_within_the_evidence_is_none():
    document = {"evidence": "I considered [[B]] first.", "verdict": "A"}
    assert parse(HELD["portia-table13"], json.dumps(document), "stop").verdict == "first"
    # Cut off within the evidence, so that no verdict was given.
    cut = '{"evidence": "The score of Assistant 1: 8\\nThe score of Assistant 2: 6'
    assert parse(HELD["faireval-table3"], cut, "length").status == "truncated"
    twice = json.dumps(document) * 2
    assert parse(HELD["portia-table13"], twice, "stop").status == "unparsed"
