"""Scores on criteria: nothing but the document that was asked for, or unparsed with the reason."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from judging.llm.parsing.parse import Status, parse, turn_back
from judging.llm.prompts.templates import reply_schema, template

ASKED = replace(template("criteria-json"), criteria=("tone", "Fakten & Zahlen"))


def document(tone=(8, 6), facts=(3, 9), evidence="fine", **more):
    scores = {
        name: {"score_1": both[0], "score_2": both[1]}
        for name, both in (("tone", tone), ("Fakten & Zahlen", facts))
    }
    return json.dumps({"evidence": evidence, "scores": scores} | more)


OK = document()


def read(text, finish_reason="stop", **more):
    return parse(ASKED, text, finish_reason, **more)


def test_both_scores_of_each_criterion_are_read_and_the_overall_ones_are_their_means():
    found = read(OK)
    assert found.status is Status.VALID
    assert found.criteria == (("tone", 8, 6), ("Fakten & Zahlen", 3, 9))
    # (8 + 3) / 2 and (6 + 9) / 2
    assert (found.first, found.second) == (Decimal("5.5"), Decimal("7.5"))
    assert found.evidence == "fine"


def test_the_swapped_order_is_turned_back():
    reading = turn_back(read(OK), ASKED, "swapped")
    assert reading.criteria == (("tone", 6, 8), ("Fakten & Zahlen", 9, 3))
    assert (reading.score_1, reading.score_2) == (Decimal("7.5"), Decimal("5.5"))
    assert reading.outcome == "win"


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{OK}\n```",
        f"\n  {OK}  \n",
        f"<think>tone 1, 1</think>{OK}",
        document(evidence="It says {\"a\": 1} and 'no', score_1: 10."),
        OK.replace("Fakten & Zahlen", "FAKTEN & ZAHLEN"),
        OK.replace("8", '"8"'),
        OK.replace("fine", r"It says \(x\) and C:\Users."),
        f"<|begin_of_box|>{OK}<|end_of_box|>",
        f"\ufeff{OK}",
        f"{OK}<|im_end|>\n<|im_start|>user\nNext one.",
    ],
)
def test_what_may_stand_around_and_in_it(text):
    assert read(text).criteria[0] == ("tone", 8, 6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"Here it is: {OK}", "there is text outside the JSON document"),
        (f"{OK}\nI hope this helps.", "there is text outside the JSON document"),
        (OK[:-1], "the JSON document has no end"),
        (OK.replace('"tone"', '"style"'), "it scores “style”, which was not asked"),
        (
            json.dumps({"evidence": "", "scores": {"tone": {"score_1": 8, "score_2": 6}}}),
            "“Fakten & Zahlen” is missing",
        ),
        (document(tone=(11, 6)), "a score on “tone” is not on the scale"),
        (document(tone=(0, 6)), "a score on “tone” is not on the scale"),
        (document(tone=("high", 6)), "a score on “tone” is not on the scale"),
        (document(tone=(None, 6)), "a score on “tone” is not on the scale"),
        (document(tone=([8], 6)), "a score on “tone” is not on the scale"),
        (
            document(overall={"score_1": 9, "score_2": 1}),
            "it must have the keys evidence and scores once, and no other",
        ),
        ('{"evidence": "", "scores": [8, 6]}', "scores must be an object"),
        (OK.replace('"score_2": 6', '"score_2": 6, "score_2": 7'), None),
        (OK.replace('"Fakten & Zahlen"', '"tone"'), "it scores “tone” twice"),
        ('{"evidence": "he said "hi"", "scores": {}}', "it is no JSON document"),
        # The last document binds, and an earlier one doesn't stand in for it.
        (OK + document(tone=(8, 12)), "a score on “tone” is not on the scale"),
        (OK + '{"note": 1}', "it must have the keys evidence and scores once, and no other"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "it is no JSON document"),
    ],
)
def test_anything_else_is_unparsed_and_says_why(text, why):
    found = read(text)
    assert found.status is Status.UNPARSED
    assert found.criteria == ()
    assert found.first is None
    assert found.why
    if why:
        assert found.why == why


def test_the_last_valid_document_counts():
    assert read(OK + "\n" + document(tone=(1, 2))).criteria[0] == ("tone", 1, 2)


def test_without_a_document_it_is_unparsed_refused_or_cut_as_other_replies_are():
    assert read("Both are good.").status is Status.UNPARSED
    assert read("I'm sorry, but I can't help with that.").status is Status.REFUSED
    assert read(OK[:40], "length").status is Status.TRUNCATED
    assert read(OK, "content_filter").status is Status.FILTERED


def test_a_document_that_a_response_holds_is_not_the_judges():
    assert read(f"{OK}", quoted=[OK]).status is not Status.VALID


def test_the_schema_asks_for_each_criterion_and_nothing_else():
    schema = reply_schema(ASKED, 1024)
    scores = schema["properties"]["scores"]
    assert scores["required"] == ["tone", "Fakten & Zahlen"]
    assert scores["additionalProperties"] is False
    tone = scores["properties"]["tone"]
    assert tone["required"] == ["score_1", "score_2"]
    assert tone["properties"]["score_1"] == {"type": "integer", "minimum": 1, "maximum": 10}
    assert schema["properties"]["evidence"]["maxLength"] == 1024 - 2 * 60
