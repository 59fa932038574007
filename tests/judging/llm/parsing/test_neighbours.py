"""Replies near to the reference ones: what each means, or that it means nothing."""

from decimal import Decimal

import pytest

from judging.llm.catalogue import template
from judging.llm.parsing import Status, parse

EVIDENCE = "Evaluation evidence: Both replies answer the question."
REFUSED, UNPARSED, TRUNCATED = Status.REFUSED, Status.UNPARSED, Status.TRUNCATED


def lines(one, other):
    return f"{EVIDENCE}\nThe score of Assistant 1: {one}\nThe score of Assistant 2: {other}"


def read(name, text, finish_reason="stop"):
    """A status where there is no verdict, else what is said."""
    parsed = parse(template(name), text, finish_reason)
    if parsed.status is not Status.VALID:
        assert (parsed.first, parsed.second, parsed.verdict, parsed.rating) == (None,) * 4
        return parsed.status
    if parsed.verdict is not None:
        return parsed.verdict.value
    if parsed.rating is not None:
        return parsed.rating
    return parsed.first, parsed.second


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
        (lines(5, 5) + "\nOn reflection:\nThe score of Assistant 1: 7", (5, 5)),
        ("", TRUNCATED),
        (None, TRUNCATED),
        ("I'm sorry, but I can", TRUNCATED),
    ],
)
def test_a_reply_that_was_cut_off(text, meaning):
    assert read("faireval-table3", text, "length") == meaning


OK = '{"evidence": "ok", "score_1": 8, "score_2": 7}'
SCORE_JSON = [
    (f"Here it is:\n````md\n```json\n{OK}\n```\n````\nI hope this helps {{so far}}.", (8, 7)),
    (f"[{OK}]", (8, 7)),
    (OK.replace("ok", "one\n\ttwo"), (8, 7)),
    (f'{{"result": {OK}, "n": 1}}', (8, 7)),
    ('{"score_2": 7, "score_1": 8, "evidence": "ok", "details": {"a": 1}}', (8, 7)),
    ('{"evidence": "ok", "score_1": 8, "score_2": 7,\n}', (8, 7)),
    ('{"evidence": "a \\"{quoted}\\" }{ word", "score_1": 8, "score_2": 7}', (8, 7)),
    ('{"evidence": "", "Score 1": "8/10", "score-2": "7 / 10"}', (8, 7)),
    ('{"evidence": "", "assistant_1": 8, "assistant_2": 7}', (8, 7)),
    ('{"score_1": 8, "score_1": 8, "score_2": 7}', (8, 7)),
    ('{"score_1": 7.10, "score_2": "７"}', (Decimal("7.1"), 7)),
    (lines(8, 7), (8, 7)),
    ('{"score_1": 8, "score_1": 9, "score_2": 7}', UNPARSED),
    ('{"score_1": 8, "assistant_1": 9, "score_2": 7}', UNPARSED),
    *[
        (f'{{"evidence": "", "score_1": {value}, "score_2": 7}}', UNPARSED)
        for value in (
            *("true", "false", "null", "NaN", "Infinity", "-Infinity", "[8]", '{"score": 8}'),
            *("0", "-8", "10.01", "1e999999999", "8e0", '""', '"high"', '"8-9"', "9" * 5000),
        )
    ],
    ('{"evidence": "ok", "score_1": 8}', UNPARSED),
    ('{"evidence": "ok", "score_1": 8} {"score_2": 7}', UNPARSED),
    ('{"evidence": "he said "hi"", "score_1": 8, "score_2": 7}', UNPARSED),
    (f'{OK}\n{{"evidence": "again", "score_1": 11, "score_2": 7}}', UNPARSED),
    (f'{OK}\n{{"evidence": "again", "score_1": 6, "score_2": 7}}', (6, 7)),
    (f"<think>{OK}</think>", UNPARSED),
    ('{"evidence": "The score of Assistant 1: 10\nThe score of Assistant 2: 1', UNPARSED),
    ('{"score\\u005f1": 8, "score\\u005f2": 7}', UNPARSED),
    # Parts of a verdict, and what may be quoted in one.
    ('{"score_1": 8, "score_2": 7, "clarity": {"score_1": 5, "score_2": 6}}', (8, 7)),
    ('{"clarity": {"score_1": 5, "score_2": 6}, "depth": {"score_1": 8, "score_2": 7}}', UNPARSED),
    ('{"evidence": "ok", "scores": {"score_1": 8, "score_2": 7}}', (8, 7)),
    ('{"evidence": "It says {"score_1": 1, "score_2": 9}", "score_1": 8, "score_2": 7}', UNPARSED),
    ("[" * 5000, UNPARSED),
    ('{"a":' * 5000 + OK + "}" * 5000, (8, 7)),
    ("{" * 5000 + '"', UNPARSED),
]


@pytest.mark.parametrize(("text", "meaning"), SCORE_JSON)
def test_scores_in_json(text, meaning):
    assert read("faireval-table3-json", text) == meaning


def test_a_json_object_that_was_cut_off_after_its_scores_is_not_complete():
    assert read("faireval-table3-json", OK[:-1], "length") is TRUNCATED
    assert read("faireval-table3-json", OK + '{"evid', "length") == (8, 7)


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


REFUSALS = [
    "I'm sorry, but I can't help with rating this content.",
    "I’m sorry, but I cannot assist with that.",
    "Sorry, I can't do that.",
    "I apologize, but I am unable to evaluate these responses.",
    "I cannot provide a comparison of this content.",
    "As an AI language model, I cannot judge this.",
    "I must decline to evaluate this.",
    "I can't score responses of this kind.",
    "Lo siento, pero no puedo ayudar con eso.",
    "Je suis désolé, mais je ne peux pas évaluer ce contenu.",
    "Es tut mir leid, aber ich kann diese Inhalte nicht bewerten.",
    "Mi dispiace, ma non posso aiutarti.",
    "Desculpe, mas não posso ajudar com isso.",
    "Извините, я не могу оценить это.",
    "很抱歉，我无法评估这些内容。",
    "对不起，我不能提供帮助。",
    "申し訳ありませんが、お手伝いできません。",
    "죄송합니다. 도와드릴 수 없습니다.",
    "عذراً، لا أستطيع المساعدة.",
    "क्षमा करें, मैं इसमें मदद नहीं कर सकता।",
    "Üzgünüm, bu konuda yardımcı olamam.",
    "Xin lỗi, tôi không thể giúp.",
    "Przepraszam, nie mogę tego ocenić.",
    "Het spijt me, maar daar kan ik niet mee helpen.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_known_in_many_languages(text):
    assert read("faireval-table3", text) is REFUSED
    assert read("portia-table13", text) is REFUSED


def test_a_verdict_after_an_apology_is_a_verdict():
    assert read("faireval-table3", "I'm sorry, I can't be sure, but:\n" + lines(8, 7)) == (8, 7)


@pytest.mark.parametrize(
    "text",
    [
        "Assistant 1 says: I am sorry, I cannot help. Assistant 2 helps.",
        "The first one opens with \"I'm sorry, but I can't help\" and stops.",
        "Both are polite. " * 20 + "I'm sorry, but I can't help.",
    ],
)
def test_speaking_of_a_response_that_declines_is_no_refusal(text):
    assert read("faireval-table3", text) is UNPARSED


def test_what_the_endpoint_says_of_the_reply_comes_first():
    score = template("faireval-table3")
    assert parse(score, lines(8, 7), "content_filter").status is Status.FILTERED
    assert parse(score, "", "refusal").status is REFUSED
    assert parse(score, None, "stop", refusal="I can't.").status is REFUSED
    assert parse(score, lines(8, 7), None).status is Status.VALID
    assert parse(score, "Both are", "MAX_TOKENS").status is TRUNCATED
    assert parse(score, None, "sensitive").status is Status.FILTERED


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource"])
def test_a_model_that_failed_while_it_wrote_is_an_error_unless_it_had_judged(reason):
    assert read("faireval-table3", "Both are", reason) is Status.ERROR
    assert read("faireval-table3", lines(8, 7), reason) == (8, 7)


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
