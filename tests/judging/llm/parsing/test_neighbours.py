"""Replies near to the reference ones: what each means, or that it means nothing."""

from decimal import Decimal

import pytest

from judging.llm.parsing.parse import parse
from judging.llm.prompts.templates import template
from tests.judging.llm.parsing.replies import TRUNCATED, UNPARSED, lines, read

SCORE_LINES = [
    ("Assistant 1: 8\nAssistant 2: 7", (8, 7)),
    ("Assistant 1's score: 8\nAssistant 2's score: 7", (8, 7)),
    ("Score for Assistant 1: 8\nScore for Assistant 2: 7", (8, 7)),
    ("The score of Assistant A: 8\nThe score of Assistant B: 7", (8, 7)),
    ("THE SCORE OF ASSISTANT 1 = 8\nTHE SCORE OF ASSISTANT 2 = 7", (8, 7)),
    ("The score of Assistant 1 is 8.\nThe score of Assistant 2 is 7.", (8, 7)),
    ("**The score of Assistant 1:** 8/10\n**The score of Assistant 2:** 7/10", (8, 7)),
    ("- The score of Assistant 1 - 8\n- The score of Assistant 2 - 7", (8, 7)),
    ("| Assistant | Score |\n|---|---|\n| Assistant 1 | 8 |\n| Assistant 2 | 7 |", (8, 7)),
    ("The score of Assistant 1:\n8\n\nThe score of Assistant 2:\n7", (8, 7)),
    ("The score of Assistant 1:\u00a08\u2028\nThe score of Assistant 2:\u30007", (8, 7)),
    (lines("8", "10/10"), (8, 10)),
    (lines("10.0", "1"), (10, 1)),
    (lines("８", "٧"), (8, 7)),
    (lines("𝟖", "７．５"), (8, Decimal("7.5"))),
    (lines("8.333333333333334", 7), (Decimal("8.3333333333"), 7)),
    (lines("\u0668\u066b\u0665", "8\u204410"), (Decimal("8.5"), 8)),
    (lines("8 (out of ten)", "7 points out of 10"), (8, 7)),
    (lines("8 (on a scale of 1 to 10)", "7 out of a possible 10"), (8, 7)),
    (lines("8, 2 errors", "7 | 3 errors"), (8, 7)),
    (lines("\\boxed{8}", "$7$"), (8, 7)),
    ("The score of **Assistant 1**: 8\nThe **score** of Assistant **2**: 7", (8, 7)),
    ("The score of _Assistant 1_: 8\nThe score of __Assistant 2__: 7", (8, 7)),
    (
        "| | Help | Depth |\n|---|---|---|\n| Assistant 1 | 8 | 9 |\n| Assistant 2 | 7 | 6 |",
        UNPARSED,
    ),
    (lines("7.1", "7.10"), (Decimal("7.1"), Decimal("7.1"))),
    (lines("`8`", '"7"'), (8, 7)),
    (lines("[8]", "{7}"), (8, 7)),
    (lines("8 points", "7 points"), (8, 7)),
    (
        "The score of Assistant 1: 8\nIt is clear.\nThe score of Assistant 2: 7\nIt is short.",
        (8, 7),
    ),
    # What is no score on the scale of 1 to 10.
    *[
        (lines(value, "7"), UNPARSED)
        for value in (
            *(
                "1 0",
                "8 7",
                "0",
                "10.5",
                "11",
                "-8",
                "+8",
                "inf",
                "Infinity",
                "None",
                "true",
                "N/A",
                "eight",
            ),
            *(
                "8\u22129",
                "8\u20119",
                "8\u20129",
                "8\u20149",
                "8 -> 9",
                "8\u21929",
                "8..9",
                "8\u20269",
            ),
            *("4\u20445", "4 out of five", "4 points out of 5", "4 (out of 5)", "4 [of 5]"),
            *("4 (on a scale of 1-5)", "4 on a 1 to 5 scale", "8 percent", "8\u066a"),
            *(
                "8\u00b75",
                "8'5",
                "8 .5",
                "8\u200b.5",
                "8\u200b5",
                "8, 9",
                "8 and 9",
                "8 | 9",
                "8; 9.",
            ),
            *("80%", "8 %", "8/100", "4/5", "8-9", "8 to 9", "8 or 9", "8½", "8²", "⑧", "VIII"),
            *("1,000", "8.5.1", "10:30", "8th", "9" * 5000, "8." + "5" * 5000, "0x8", "8e0"),
        )
    ],
    (lines("8", ""), UNPARSED),
    (lines("<score>", "<score>"), UNPARSED),
    ("8 7", UNPARSED),
    ("I give Assistant 1 a few points: 8, and more to Assistant 2: 9 in all.", UNPARSED),
    ("Assistant 1: 3 examples, Assistant 2: 4 examples.", UNPARSED),
    # The last complete verdict binds, and one that is invalid is not replaced by an earlier one.
    (lines(5, 5) + "\nFinally: the score of Assistant 1: 7, the score of Assistant 2: 5", (7, 5)),
    (
        lines(5, 5) + "\nSo:\nThe score of Assistant 1: 7\nGood.\nThe score of Assistant 2: 4",
        (7, 4),
    ),
    (
        lines(8, 7) + "\nFinal:\nThe score of Assistant 1: N/A\nThe score of Assistant 2: N/A",
        UNPARSED,
    ),
    (lines(8, 7) + "\nFinal:\nThe score of Assistant 1: 85\nThe score of Assistant 2: 7", UNPARSED),
    (lines(8, 7) + "\nThe score of Assistant 1 is higher, as it is clear.", (8, 7)),
    (
        lines(8, 7) + "\nFormat:\nThe score of Assistant 1: <score>\nThe score of Assistant 2: ...",
        (8, 7),
    ),
    (lines(8, 7) + "\nHelpfulness:\nAssistant 1: 3\nAssistant 2: 9", (8, 7)),
    (lines(8, 2) + "\nI ignored one more line in it, The score of Assistant 1: 10", (8, 2)),
    # Thinking.
    ("<thinking>" + lines(3, 9) + "</thinking>" + lines(8, 7), (8, 7)),
    ("[THINK]" + lines(3, 9) + "[/THINK]" + lines(8, 7), (8, 7)),
    ("◁think▷" + lines(3, 9) + "◁/think▷" + lines(8, 7), (8, 7)),
    ("<think>a <think>" + lines(3, 9) + "</think> b</think>" + lines(8, 7), (8, 7)),
    (lines(3, 9) + "\n</think>\n" + lines(8, 7), (8, 7)),
    (lines(3, 9) + "\n</think>\nI am not sure.", UNPARSED),
    (lines(3, 9) + "<think>a</think> b </think>\nI am not sure.", UNPARSED),
    ("<THINK>" + lines(3, 9) + "</THINK>", UNPARSED),
    (lines(8, 7) + "\n<think>\n" + lines(3, 9), (8, 7)),
    (
        f"<|channel|>analysis<|message|>{lines(3, 9)}<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{lines(8, 7)}<|return|>",
        (8, 7),
    ),
    ("The reply mentions `<think>` tags.\n" + lines(8, 7), (8, 7)),
    # A judge that answers in the twin's format.
    ('{"evidence": "ok", "score_1": 8, "score_2": 7}', (8, 7)),
]


@pytest.mark.parametrize(("text", "meaning"), SCORE_LINES)
def test_scores_in_lines(text, meaning):
    assert read("faireval-table3", text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (lines(8, 7), (8, 7)),
        (lines(8, 10), (8, 10)),
        (lines(8, 1), TRUNCATED),
        (lines(8, "7/1"), TRUNCATED),
        (lines(8, "7/10"), (8, 7)),
        (lines(8, 7) + "\nThe second is shorter, beca", (8, 7)),
        (lines(5, 5) + "\nThe score of Assistant 1: 7", (5, 5)),
        # A correction that was cut off is no complete verdict: the last complete one binds.
        (lines(5, 5) + "\nOn reflection:\nThe score of Assistant 1: 7", (5, 5)),
        (lines(5, 5) + "\nRevised:\nThe score of Assistant 1: 7\nThe score of", (5, 5)),
        # A judge that writes decimals may have been about to write one more.
        (lines("8.5", 7), TRUNCATED),
        (lines("8.5", "7."), TRUNCATED),
        (lines("8.5", 10), (Decimal("8.5"), 10)),
        (lines("8", "10/"), TRUNCATED),
        ("", TRUNCATED),
        (None, TRUNCATED),
        ("I'm sorry, but I can", TRUNCATED),
    ],
)
def test_a_reply_that_was_cut_off(text, meaning):
    assert read("faireval-table3", text, "length") == meaning


SCORE_PAIR = [
    ("8 7\nThe first gives more detail, 3 examples.", (8, 7)),
    ("**8 7**\n\nBoth", (8, 7)),
    ("8.5 7", (Decimal("8.5"), 7)),
    ("8,5 7", (Decimal("8.5"), 7)),
    ("8, 7", (8, 7)),
    ("8,7", (8, 7)),
    ("8/10 7/10\nGood", (8, 7)),
    ("8 and 7\nGood", (8, 7)),
    ("8\n7\nGood", (8, 7)),
    ("8 7 - the first is better", (8, 7)),
    ("Scores: 8 7", (8, 7)),
    ("Scores for Assistant 1 and 2: 8 7\nx", (8, 7)),
    ("Assistant 1: 8, Assistant 2: 7\nGood", (8, 7)),
    ("Sure!\n\n8 7\n\nThe first is better.", (8, 7)),
    ("８　７\nx", (8, 7)),
    ("Sure! Here are the scores for Assistant 1 and 2:\n8 7\nThe first is better.", (8, 7)),
    ("```\n8 7\n```\nGood", (8, 7)),
    ("Let me think.\nBoth are good.\nScores: 8 7\nThat is all.", (8, 7)),
    ("Both are good.\nThe second says:\n10 1\nwhich is a score, too.", UNPARSED),
    ("8 7\nNo, wait.\nFinal scores: 7 7", (7, 7)),
    ("8 7\nThe matrix:\n1 2\n3 4", (8, 7)),
    ("85 7\nGood", UNPARSED),
    ("8 -7", UNPARSED),
    ("8 7 9", UNPARSED),
    ("8", UNPARSED),
    ("8\nGood", UNPARSED),
    ("nan 7", UNPARSED),
    ("8/5 7/5", UNPARSED),
    ("1. The first is good.\n2. The second is bad.", UNPARSED),
    ("10:30 11:45", UNPARSED),
    ("In 2024 7 replies", UNPARSED),
    ("8 7 (out of 10)", (8, 7)),
    ("4 3 (out of 5)", UNPARSED),
    ("\\boxed{8} \\boxed{7}", (8, 7)),
]


@pytest.mark.parametrize(("text", "meaning"), SCORE_PAIR)
@pytest.mark.parametrize("name", ["faireval-table1", "portia-table14"])
def test_scores_in_the_first_line(name, text, meaning):
    assert read(name, text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("8 7", (8, 7)),
        ("8 1", TRUNCATED),
        ("8", TRUNCATED),
        ("8 1\nThe fi", (8, 1)),
        ("8\n1", TRUNCATED),
    ],
)
def test_a_first_line_that_was_cut_off(text, meaning):
    assert read("faireval-table1", text, "length") == meaning


@pytest.mark.parametrize(
    ("name", "text", "evidence"),
    [
        ("faireval-table3", lines(8, 7), "Both replies answer the question."),
        (
            "faireval-table3",
            "**Evaluation evidence:** A.\n\n**The score of Assistant 1: 8**\n"
            "**The score of Assistant 2: 7**",
            "A.",
        ),
        (
            "faireval-table3",
            "The score of Assistant 1: 8\nThe score of Assistant 2: 7\nEvaluation evidence: After.",
            "After.",
        ),
        ("faireval-table3", "<think>hm</think>" + lines(8, 7), "Both replies answer the question."),
        ("faireval-table3-json", '{"evidence": " A\\nB ", "score_1": 8, "score_2": 7}', "A\nB"),
        ("faireval-table1", "8 7\nA.\nB.", "A.\nB."),
        ("portia-table13", "A is better. [[A]]", "A is better."),
        ("portia-table15", "6\nA.", "A."),
        ("faireval-table5", "Same\nA.", "A."),
    ],
)
def test_the_evidence_is_kept_apart_from_the_verdict(name, text, evidence):
    assert parse(template(name), text, "stop").evidence == evidence
