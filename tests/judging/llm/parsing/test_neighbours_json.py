"""JSON replies near to the reference ones: what each means, or that it means nothing."""

from decimal import Decimal

import pytest

from tests.judging.llm.parsing.replies import TRUNCATED, UNPARSED, lines, read

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
