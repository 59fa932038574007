"""What surrounds a verdict doesn't change it, and no beginning of a reply means something else."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judging.llm.parsing.replies import TRUNCATED, UNPARSED, lines, read

# Words of a judge; none is a mark, a number a criterion or a word that announces a verdict.
WORDS = st.lists(
    st.sampled_from("both are clear but one of them takes more care and shows its steps".split()),
    max_size=12,
).map(" ".join)
THOUGHT = st.sampled_from(
    ["", "<think>{}</think>\n", "<thinking>\n{}</thinking>\n\n", "{}\n</think>\n"]
)
EMPHASIS = st.sampled_from(["{}", "**{}**", "*{}*", "`{}`", "__{}__"])
ENDS = st.sampled_from(
    ["", "\n", "\r\n", "  \n\n", "\n\nThat is all.", "\n---\nI hope this helps!"]
)
BREAKS = st.sampled_from(["\n", "\r\n"])

VERDICTS = [
    ("faireval-table3", lines(3, 9), lines(8, "7.5"), (8, Decimal("7.5"))),
    ("faireval-table3", "Assistant 1: 3\nAssistant 2: 9", "Assistant 1: 8\nAssistant 2: 7", (8, 7)),
    (
        "faireval-table3-json",
        '{"evidence": "x", "score_1": 3, "score_2": 9}',
        '{"evidence": "a {b}", "score_1": 8, "score_2": 7.5}',
        (8, Decimal("7.5")),
    ),
    ("portia-table13", "[[B]]", "[[A]]", "first"),
]
ANSWERS_FIRST = [
    ("portia-table14", "3 9", "8 7.5", (8, Decimal("7.5"))),
    ("portia-table15", "2", "6", 6),
    ("faireval-table5", "Assistant 2", "Assistant 1", "first"),
]


@pytest.mark.parametrize(("name", "other", "verdict", "meaning"), VERDICTS)
@given(words=WORDS, thought=THOUGHT, ends=ENDS, line_break=BREAKS)
def test_a_verdict_after_the_evidence(
    name, other, verdict, meaning, words, thought, ends, line_break
):
    text = f"{thought.format(other)}{words}\n{verdict}{ends}".replace("\n", line_break)
    assert read(name, text) == meaning


@pytest.mark.parametrize(("name", "other", "verdict", "meaning"), ANSWERS_FIRST)
@given(words=WORDS, thought=THOUGHT, emphasis=EMPHASIS, line_break=BREAKS)
def test_a_verdict_before_the_evidence(
    name, other, verdict, meaning, words, thought, emphasis, line_break
):
    text = f"{thought.format(other)}{emphasis.format(verdict)}\n{words}"
    assert read(name, text.replace("\n", line_break)) == meaning


WHOLE = [
    ("faireval-table3", lines("8.5", "7.5") + "\nDone."),
    ("faireval-table3", lines("8.5/10", "10/10 points") + "\n"),
    ("faireval-table3", lines("\\boxed{8.5}", "\\boxed{7}") + "\n"),
    ("faireval-table3", lines(10, 10)),
    ("faireval-table3", "Assistant 1: 8.5 (good)\nAssistant 2: 10 (great)"),
    ("faireval-table3", "| Assistant 1 | 9.5 |\n| Assistant 2 | 10 |"),
    ("faireval-table3", f"<think>{lines(1, 2)}</think>{lines(8, 10)}"),
    ("faireval-table3", "助手1的得分：8.5分\n助手2的得分：7分\n"),
    ("faireval-table3-json", '{"evidence": "ok {x}", "score_1": 8, "score_2": 7.5}'),
    ("faireval-table3-json", "{'evidence': 'ok', 'score_1': 8, 'score_2': 10}"),
    ("faireval-table3-json", '```json\n{"score_1": 8, "score_2": 10, "evidence": "x"}\n```'),
    ("portia-table14", "8.5 7.5\nx"),
    ("portia-table14", "8/10 10/10\nx"),
    ("portia-table14", "A: 8.5, B: 7.5\nx"),
    ("portia-table14", "8.5\n7.5\nx"),
    ("portia-table13", "If I may: **[[ B ]]**\n"),
    ("faireval-table5", "Assistant 1 is better than Assistant 2.\nx"),
    ("faireval-table5", "Same\nx"),
    ("portia-table15", "6/7\nx"),
    ("portia-table15", "\\boxed{6}\nx"),
    ("ohi-fluency", "Fluency: 3/4"),
]


@pytest.mark.parametrize(("name", "text"), WHOLE)
def test_no_beginning_of_a_reply_has_another_verdict(name, text):
    whole = read(name, text)
    assert whole not in (UNPARSED, TRUNCATED)
    for end in range(len(text)):
        assert read(name, text[:end], "length") in (TRUNCATED, whole), text[:end]
