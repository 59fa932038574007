"""An operator's own template: accepted when it can work, refused with all its reasons."""

from decimal import Decimal

import pytest

from judging.llm.own_templates import TemplateRefused, custom_template, read_template
from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import render

FILE = """
form = "score"
scale = [0, 100]
text = '''
Criteria: {criteria}
{question}
A sample answer: {reference}
1) {R1}
2) {R2}
End with two lines, "The score of Assistant 1: N" and "The score of Assistant 2: N".
'''
sample_reply = "The score of Assistant 1: 80/100\\nThe score of Assistant 2: 35"
"""


def fields(**changes):
    text = "{question} {first} {second} Answer [[A]], [[B]] or [[C]]."
    return {"form": "relation", "text": text} | changes


def refused(**changes):
    with pytest.raises(TemplateRefused) as refusal:
        custom_template("own", fields(**changes))
    return refusal.value.problems


def test_a_template_file_is_read_rendered_and_its_reply_parsed_on_its_scale():
    own = read_template("own", FILE)
    prompt = render(own, "Q?", "one", "two", "swapped", reference="ref", criteria="clarity")
    assert prompt[0].content.startswith("Criteria: clarity\nQ?\nA sample answer: ref\n1) two\n")
    parsed = parse(own, "The score of Assistant 1: 80\nThe score of Assistant 2: 35/100", "stop")
    assert (parsed.status, parsed.first, parsed.second) == (Status.VALID, Decimal(80), Decimal(35))
    over = parse(own, "The score of Assistant 1: 101\nThe score of Assistant 2: 35", "stop")
    assert over.status is Status.UNPARSED


def test_a_digit_that_may_go_on_is_cut_on_a_long_scale():
    text = "The score of Assistant 1: 80\nThe score of Assistant 2: 3"
    assert parse(read_template("own", FILE), text, "length").status is Status.TRUNCATED


def test_a_relation_template_is_accepted():
    assert custom_template("own", fields()).sha256


def test_all_problems_are_told_at_once():
    assert refused(text="{first} {first} {winner} {input}") == [
        "The slot {question} is missing.",
        "The slot {second} is missing.",
        "{input} is not a slot of the form relation. Its slots are "
        "{conversation_first}, {conversation_second}, {criteria}, {first}, {question}, "
        "{reference}, {second}.",
        "{winner} is not a slot of the form relation. Its slots are "
        "{conversation_first}, {conversation_second}, {criteria}, {first}, {question}, "
        "{reference}, {second}.",
        "The slot {first} occurs 2 times. It must occur once.",
        "The template must ask for an answer with “[[A]]” in it.",
    ]


def test_whole_conversations_take_the_place_of_question_and_responses():
    asked = "{conversation_first} or {conversation_second}? [[A]]"
    assert custom_template("own", {"form": "relation", "text": asked}).text == asked
    assert refused(text="{conversation_first} {conversation_first} [[A]]") == [
        "The slot {conversation_second} is missing.",
        "The slot {conversation_first} occurs 2 times. It must occur once.",
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"form": "duel"}, "The form is one of"),
        ({"reply": "smoke"}, "The reply is one of"),
        ({"reply": "score_json"}, "not answered by score_json"),
        ({"scale": [10, 1]}, "lowest number must be below"),
        ({"scale": ["NaN", 1]}, "lowest number must be below"),
        ({"scale": [0, "1e500000"]}, "within 1,000,000 of 0"),
        ({"scale": ["-1e7", 1]}, "within 1,000,000 of 0"),
        ({"scale": ["1e-500000", 1]}, "two decimals at most"),
        ({"scale": "1-10"}, "The scale is two numbers"),
        ({"ids": ["A"]}, "The ids are two texts"),
        ({"sample_reply": "B is better."}, "no readable verdict. It is unparsed"),
    ],
)
def test_what_can_not_work_is_refused_with_the_reason(changes, reason):
    assert reason in " ".join(refused(**changes))


@pytest.mark.parametrize("ids", [("A", "A"), ("A", "AB"), ("", "B"), (" A", "B")])
def test_option_ids_that_no_token_tells_apart_are_refused(ids):
    text = "{question} {id_first} {first} {id_second} {second}"
    assert any("can't be told apart" in p for p in refused(form="choice", text=text, ids=ids))


def test_a_file_that_is_not_toml_is_refused():
    with pytest.raises(TemplateRefused, match="not TOML"):
        read_template("own", "form: score")
