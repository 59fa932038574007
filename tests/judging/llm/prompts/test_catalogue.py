"""The templates that ship: where they come from, what they hold, and that nobody changes one."""

import pytest

from judging.llm.own_templates import problems
from judging.llm.prompts.templates import (
    JudgeForm,
    ReplyFormat,
    UnknownTemplate,
    default_template,
    names,
    reply_schema,
    template,
    templates_of,
)

# A changed text is another template: results under the old one can't be compared with it.
HASHES = {
    "faireval-table1": "643729a0a98df5417292488e28acd2b83200413343c97cb3a5eac10ed8fda8e6",
    "faireval-table3": "d35bd414140b3577fa228dd414d4e9ff9fd4e96a47653686a7ec237febb597ae",
    "faireval-table3-json": "2d919235d001c6a59c52759064c6dc39fba448892a21a01052f67c02eabab993",
    "faireval-table5": "2fca47d349bfbd6a2d8231a86f39d024cffd73dc61e8d8a24a94991c5df5efb3",
    "portia-table13": "cdaccb77975eca307440a8580883a0339685a490808e7efc80e2f538835f2da7",
    "portia-table14": "fa037b10642dbece8c09f398ed4f34f072d34417c0d0a4391dfc6b1c6f6f1fdf",
    "portia-table15": "faaa223dcc0a3eeb34810f91a7fe97e4fb0393f87e718aa36dec65062dd835e3",
    "calibraeval-default": "20aad9a94779fd01a39c2686efa8dacce50c72b0b702acba533ab73710c40bed",
    "calibraeval-variant-1-di": "d245454d5fc6c7f35f216e6d4813fb94f0a1d9f8a4d19e761bf2bcbc03cca5a1",
    "ohi-correctness": "d1ac6ecca059ad4d05554b856093239278d9ce72b2ed062ab806e8e1694064bf",
    "ohi-fluency": "0cbc3265b378d4d7e2b8bb3dcd2ed98516f5af659b86562b167cf593bfb352dc",
}


@pytest.mark.parametrize("name", HASHES)
def test_a_published_template_keeps_its_text(name):
    assert template(name).sha256 == HASHES[name]


@pytest.mark.parametrize("name", names())
def test_every_template_is_usable_and_names_its_source(name):
    assert problems(template(name)) == []
    assert template(name).source


@pytest.mark.parametrize("form", JudgeForm)
def test_every_form_has_a_default_among_its_templates(form):
    assert default_template(form) in templates_of(form)


def test_the_twins_name_each_other():
    text = template("faireval-table3")
    assert template(text.twin).twin == text.name
    assert template(text.twin).reply is ReplyFormat.SCORE_JSON
    assert template(text.twin).sha256 != text.sha256
    assert default_template(JudgeForm.SCORE, json=True).name == text.twin


def test_a_form_without_a_twin_keeps_its_text_template():
    assert default_template(JudgeForm.RELATION, json=True) == default_template(JudgeForm.RELATION)


def test_the_twin_asks_for_the_evidence_before_the_scores():
    text = template("faireval-table3-json").text
    assert text.index('"evidence"') < text.index('"score_1"') < text.index('"score_2"')


def test_the_schema_has_the_evidence_first_and_leaves_room_for_the_scores():
    schema = reply_schema(template("faireval-table3-json"), max_tokens=300)
    properties = schema["properties"]
    assert list(properties) == ["evidence", "score_1", "score_2"]
    assert properties["evidence"]["maxLength"] == 240
    assert properties["score_1"] == {"type": "integer", "minimum": 1, "maximum": 10}
    assert schema["required"] == list(properties)


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("faireval-table3", ["evidence", "score_1", "score_2"]),
        ("portia-table13", ["evidence", "verdict"]),
        # Their texts ask for the verdict first, which is their method.
        ("faireval-table1", ["score_1", "score_2", "evidence"]),
        ("faireval-table5", ["verdict", "evidence"]),
        ("portia-table15", ["rating", "evidence"]),
    ],
)
def test_a_schema_keeps_the_order_that_the_template_asks_for(name, properties):
    shipped = template(name)
    assert not shipped.has_schema
    schema = reply_schema(shipped, max_tokens=300)
    assert list(schema["properties"]) == schema["required"] == properties


def test_what_one_token_answers_has_no_schema():
    with pytest.raises(ValueError, match="one token"):
        reply_schema(template("calibraeval-default"), max_tokens=300)


def test_an_unknown_template_is_refused_with_the_known_names():
    with pytest.raises(UnknownTemplate, match="faireval-table3, faireval-table3-json"):
        template("faireval-table33")
