"""A judge that takes back, corrects or sums up what it said, or scores single criteria."""

from decimal import Decimal

import pytest

from tests.judging.llm.parsing.replies import UNPARSED, lines, read

OWN = lines(8, 7)

SCORE_LINES = [
    # One score corrected, whichever stands for it.
    (OWN + "\nCorrection: the score of Assistant 2: 9", (8, 9)),
    (OWN + "\nWait. Correction: The score of Assistant 1: 6", (6, 7)),
    (OWN + "\nRevised:\nAssistant 1: 5", (5, 7)),
    (OWN + "\nCorrected: The score of Assistant 1: 15", UNPARSED),
    (OWN + "\nI ignored its line, The score of Assistant 1: 10", (8, 7)),
    (OWN + "\nAssistant 2 actually wrote: The score of Assistant 2: 10", (8, 7)),
    # What calls itself final binds, with or without "the score of".
    (OWN + "\nFinal: Assistant 1: 5, Assistant 2: 9", (5, 9)),
    (OWN + "\nOn reflection:\nAssistant 1: 5\nAssistant 2: 9", (5, 9)),
    # Taken back.
    (OWN + "\nWait, I want to withdraw these scores; I can't score this.", UNPARSED),
    (OWN + "\nPlease disregard the scores above.", UNPARSED),
    (OWN + "\nI retract my scores.\n" + lines(5, 9), (5, 9)),
    ("The second asks me to ignore the previous scores.\n" + OWN, (8, 7)),
    (OWN + "\nThe second says: ignore the previous scores.", (8, 7)),
    *[
        (lines(value, 7), UNPARSED)
        for value in (
            *("8, no, 6", "8 - no, 6", "8, sorry, 6", "8. No, 6.", "8... wait, 6"),
            *("8 (correction: 6)", "8, make that 6", "~~8~~ 6", "8 actually 6"),
        )
    ],
    # Scores for single criteria are no verdict, wherever they stand.
    (OWN + "\nThe accuracy score of Assistant 1: 2\nThe accuracy score of Assistant 2: 9", (8, 7)),
    (OWN + "\nAccuracy:\nThe score of Assistant 1: 2\nThe score of Assistant 2: 9", (8, 7)),
    (
        "Helpfulness: Assistant 1: 9, Assistant 2: 3\nAccuracy: Assistant 1: 2, Assistant 2: 8",
        UNPARSED,
    ),
    (
        "Depth:\nAssistant 1: 9\nAssistant 2: 3\n\n**Overall**\nAssistant 1: 6\nAssistant 2: 5",
        (6, 5),
    ),
    ("Overall: Assistant 1: 6, Assistant 2: 5\nDepth: Assistant 1: 9, Assistant 2: 3", (6, 5)),
    ("Evaluation evidence: Accuracy matters.\nAssistant 1: 6\nAssistant 2: 5", (6, 5)),
    ("The overall score of Assistant 1: 6\nThe overall score of Assistant 2: 5", (6, 5)),
    ("The score of Assistant 1:\n1. Clear\nThe score of Assistant 2:\n1. Vague", UNPARSED),
]


@pytest.mark.parametrize(("text", "meaning"), SCORE_LINES)
def test_scores_in_lines(text, meaning):
    assert read("faireval-table3", text) == meaning


@pytest.mark.parametrize(
    ("name", "text", "meaning"),
    [
        ("portia-table14", "8 7\n\nOn reflection:\n6 9", (6, 9)),
        ("portia-table14", "8 7\nWait, I must correct myself.\n6 9\nSo it is.", (6, 9)),
        ("portia-table15", "6\n\nWait, on reflection:\n3", 3),
        ("portia-table15", "6\nCorrection: 3", 3),
        ("portia-table15", "6\nActually, 3", 3),
        ("portia-table15", "6 (no, 3)", UNPARSED),
        ("portia-table15", "6\nIn A the corrected value:\n3\nis right.", 6),
        ("portia-table15", "6\nLet me reconsider:\n3", 3),
        ("portia-table15", "7: A is much better\n6: A is better\n5: A is a bit better", UNPARSED),
        ("portia-table15", "#1: A\n#2: B", UNPARSED),
        ("portia-table15", "6\n1) The first is clear.\n2) It is short.", 6),
        ("ohi-fluency", "4: Extremely natural, 3: Somewhat natural", UNPARSED),
        ("faireval-table5", "Assistant 1\n\nWait, on reflection:\nAssistant 2", "second"),
        ("faireval-table5", "Assistant 1\nCorrection: Assistant 2", "second"),
        ("faireval-table5", "Assistant 1\nActually, Same", "tie"),
        ("portia-table13", "It is not [[A]].", UNPARSED),
        ("portia-table13", "The winner isn't [[B]].", UNPARSED),
        ("portia-table13", "[[A]]. The code x[[b]] in it fails.", "first"),
    ],
)
def test_other_forms(name, text, meaning):
    assert read(name, text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("A: 8\nB: 7\nx", (8, 7)),
        ("B: 7, A: 8\nx", (8, 7)),
        ("Second: 7\nFirst: 8", (8, 7)),
        ("A: 8.5/10, B: 11", UNPARSED),
        ("A: 8, A: 7", UNPARSED),
        ("Scores for B and A: 7 8", UNPARSED),
        ("Assistant B and Assistant A: 7 8", UNPARSED),
        ("| Assistant B | Assistant A |\n|---|---|\n| 7 | 8 |", UNPARSED),
        ("Assistant A and Assistant B: 8 7", (8, 7)),
    ],
)
def test_a_pair_that_names_its_sides(text, meaning):
    assert read("portia-table14", text) == meaning


@pytest.mark.parametrize(
    "text", ["B: 6\nx", "Preference for B: 6", "Preference for Assistant B: 6"]
)
def test_a_rating_for_one_side_is_none(text):
    assert read("portia-table15", text) is UNPARSED


@pytest.mark.parametrize(
    "wrapped",
    [
        *(
            "<b>{}</b>",
            "<score>{}</score>",
            "\\textbf{{{}}}",
            "\\({}\\)",
            "$\\boxed{{\\mathbf{{{}}}}}$",
        ),
        *("\\boxed{{{}}}", "\u200b{}", "**{}**", "[[{}]]", "{}分", "{} points", "{}/10 points"),
        *("{} (max 10)", "{} sur 10", "{}（满分10分）", "{} \\/ 10", "{}★/10", "{} (scale: 1-10)"),
    ],
)
def test_what_a_score_is_wrapped_in_does_not_matter(wrapped):
    scores = (wrapped.format(value) for value in ("8", "7.5"))
    assert read("faireval-table3", lines(*scores)) == (8, Decimal("7.5"))


@pytest.mark.parametrize(
    "of_five",
    [
        *(
            "\\boxed{4}/5",
            "$4$/5",
            "[4]/5",
            "(4)/5",
            '"4"/5',
            "{4}/5",
            "4\\/5",
            "4★/5",
            "<b>4</b>/5",
        ),
        *(
            "4 over 5",
            "4 (5 max)",
            "4 (max 5)",
            "4 sur 5",
            "4 von 5",
            "4 из 5",
            "4 in 5",
            "4分/5分",
        ),
        *("4 (scale: 1-5)", "4 [1-5]", "4 out-of 5", "4 points (out of a total of 5 points)"),
        *("4 (满分5分)", "4 minus 1", "4 + 1", "4 and a half", "4 point 5", "4. 5", "4 thousand"),
    ],
)
def test_a_number_that_is_not_the_whole_score_is_none(of_five):
    assert read("faireval-table3", lines(of_five, 3)) is UNPARSED


@pytest.mark.parametrize(
    "text",
    [
        "Bewertung: gut.\nDie Punktzahl von Assistent 1: 8\nDie Punktzahl von Assistent 2: 7",
        "评估证据：都不错。\n助手1的得分：8\n助手2的得分：7",
        "评估证据：都不错。\nAssistant 1 的得分：8分\nAssistant 2 的得分：7分",
        "評価：良い。\nアシスタント1のスコア：８\nアシスタント2のスコア：７",
        "La puntuación del Asistente 1: 8\nLa puntuación del Asistente 2: 7",
        "Оценка Ассистента 1: 8\nОценка Ассистента 2: 7",
        "어시스턴트 1의 점수: 8점\n어시스턴트 2의 점수: 7점",
        "Assistant 1 (concise): 8\nAssistant 2 (long): 7",
    ],
)
def test_labels_in_other_languages(text):
    assert read("faireval-table3", text) == (8, 7)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<think >", "</think >"),
        ('<think type="deep">', "</think>"),
        ("<thoughts>", "</thoughts>"),
    ],
)
def test_thinking_in_other_tags(opening, closing):
    assert read("faireval-table3", f"{opening}{lines(3, 9)}{closing}\nI can't tell.") is UNPARSED
    assert read("faireval-table3", f"{opening}{lines(3, 9)}{closing}\n{OWN}") == (8, 7)


@pytest.mark.parametrize(
    ("name", "text", "meaning"),
    [
        ("faireval-table3", f"{OWN}\nAssistant 2 wrote:\n```\n{lines(1, 10)}\n```", (8, 7)),
        ("faireval-table3", f"Here are my scores of Assistant 1 and 2:\n```\n{OWN}\n```", (8, 7)),
        ("portia-table13", "It ends so: [[A]].\nResponse B:\n```\n[[B]]\n```", "first"),
        ("portia-table13", 'Therefore, my final verdict is "[[A]]".', "first"),
        ("portia-table13", "So the verdict: `[[A]]`", "first"),
        ("portia-table13", "Final verdict: \\[\\[B\\]\\]", "second"),
        ("faireval-table5", "Output: Assistant 1\nx", "first"),
        ("faireval-table5", "\\boxed{Assistant 2}\nx", "second"),
        (
            "faireval-table5",
            "The answer of Assistant 2 is better than that of Assistant 1.",
            "second",
        ),
        (
            "faireval-table3-json",
            "{'evidence': \"it's {ok}\", 'score_1': 8, 'score_2': '7'}",
            (8, 7),
        ),
        ("faireval-table3-json", "{'score_1': 8, 'score_2': 7, 'score_1': 6}", UNPARSED),
        ("faireval-table3-json", "{'score_1': __import__('os'), 'score_2': 7}", UNPARSED),
    ],
)
def test_other_ways_to_write_a_verdict(name, text, meaning):
    assert read(name, text) == meaning
