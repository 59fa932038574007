"""Replies of verdicts and ratings near to the reference ones: what each means, or nothing."""

from decimal import Decimal

import pytest

from tests.judging.llm.parsing.replies import TRUNCATED, UNPARSED, read

VERDICT_MARK = [
    ("[[A]]", "first"),
    ("Better: [[B]].", "second"),
    ("［［Ａ］］", "first"),
    ("[[C]] Both say the same.", "tie"),
    ("[[**B**]]", "second"),
    ("I first thought [[A]]. But B is right: [[B]]", "second"),
    ("[[A]]\n[[B]]", "second"),
    ("My verdict is [[A]], yes [[A]]!", "first"),
    ("Final verdict: `[[A]]`", "first"),
    ('My final verdict is: "[[A]]".', "first"),
    ("v1.5 beats v1.4 here: [[A]]", "first"),
    ("答案A更好。最终：[[A]]", "first"),
    ("<think>[[A]]</think>[[B]]", "second"),
    ("Either [[A]] or [[B]]", UNPARSED),
    ("[[A]] it is.\nThough one could say [[B]] or [[C]].", UNPARSED),
    ("[A]", UNPARSED),
    ("[[D]]", UNPARSED),
    ("[[A or B]]", UNPARSED),
    ("Assistant A is better.", UNPARSED),
    ("<think>[[A]]", UNPARSED),
    ('The second says "[[B]]".', UNPARSED),
    ("The second says «[[B]]» and “[[B]]”.", UNPARSED),
    ("> The user wants [[B]]\n\nI do not know.", UNPARSED),
    ('Verdict: [[A]]. (The second one contains "[[B]]", which I ignore.)', "first"),
]


@pytest.mark.parametrize(("text", "meaning"), VERDICT_MARK)
def test_a_verdict_by_mark(text, meaning):
    assert read("portia-table13", text) == meaning


def test_a_reply_cut_off_within_another_mark_has_no_verdict_by_mark():
    assert read("portia-table13", "Either [[A]] or [[", "length") is TRUNCATED
    assert read("portia-table13", "[[A]], since the fi", "length") == "first"


VERDICT_LINE = [
    ("Assistant 1\nIt is clear.", "first"),
    ("**Assistant 2**\nIt is clear.", "second"),
    ("Same", "tie"),
    ("same.\nBoth are right.", "tie"),
    ("Assistant 2 is better.\nIt is clear.", "second"),
    ("The better answer is Assistant 1.\nx", "first"),
    ("Well:\n\nAssistant 1\n\nIt is clear.", "first"),
    ("Assistant 1\n\nOn reflection:\nFinal verdict: Same", "tie"),
    ("Assistant 1\nAssistant 2:\nIt is short.", "first"),
    ("Let me see.\nAssistant 1:\nGood.\nAssistant 2:\nBad.", UNPARSED),
    ("Assistant 3", UNPARSED),
    ("Assistant 1 and Assistant 2 are good.", UNPARSED),
    ("The answers are not the same", UNPARSED),
]


@pytest.mark.parametrize(("text", "meaning"), VERDICT_LINE)
def test_a_verdict_in_a_line(text, meaning):
    assert read("faireval-table5", text) == meaning


RATING = [
    ("6", 6),
    ("**6**\nx", 6),
    ("6/7\nx", 6),
    ("6.\nx", 6),
    ("６", 6),
    ("Rating: 6\nThe first has 3 examples.", 6),
    ("6 - the first is better", 6),
    ("The first is better.\n\n6", 6),
    ("5\nNo, wait.\nFinal rating: 6", 6),
    ("<think>\n3\n</think>\n6", 6),
    ("Here is my rating:\n6\nThe first is better.", 6),
    ("Both are good.\nMy rating: 6\nThat is all.", 6),
    ("The first response says:\n7\nwhich is right.", UNPARSED),
    ("It is right.\nExample: 7\nThat is all.", UNPARSED),
    ("7" + " " * 200 + "dwarves live there.", UNPARSED),
    ("It is right.\n7" + " " * 200 + "dwarves live there.", UNPARSED),
    ("6 - the first is better, since " + "it is long and " * 20, 6),
    ("Confidence: 5\n6", 6),
    ("6 out of seven", 6),
    ("\\boxed{6}", 6),
    ("6 (out of 10)", UNPARSED),
    ("6.5", UNPARSED),
    ("5-6", UNPARSED),
    ("0", UNPARSED),
    ("8", UNPARSED),
    ("6/10", UNPARSED),
    ("6 7", UNPARSED),
    ("Assistant A: 6\nAssistant B: 4", UNPARSED),
    ("1. The first is clear.", UNPARSED),
    ("True", UNPARSED),
    ("", UNPARSED),
]


@pytest.mark.parametrize(("text", "meaning"), RATING)
def test_a_likert_rating(text, meaning):
    assert read("portia-table15", text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("0", 0),
        ("Fluency: 3", 3),
        ("4: Extremely natural", 4),
        ("2.5", Decimal("2.5")),
        ("5", UNPARSED),
    ],
)
def test_a_pointwise_rating(text, meaning):
    assert read("ohi-fluency", text) == meaning
