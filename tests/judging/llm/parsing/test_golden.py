"""Reference replies and what they mean: reference/judge_outputs.jsonl."""

from decimal import Decimal

from judging.llm.parsing.parse import parse
from judging.llm.prompts.templates import template

TEMPLATES = {
    "score": "faireval-table3",
    "score_json": "faireval-table3-json",
    "relation": "portia-table13",
    "likert": "portia-table15",
}


def test_every_reference_reply_is_read_as_it_is_meant(reference):
    wrong = []
    for case in reference("judge_outputs.jsonl"):
        parsed = parse(template(TEMPLATES[case["form"]]), case["text"], case["finish_reason"])
        found = {"status": parsed.status.value}
        if parsed.first is not None:
            found |= {"score_1": parsed.first, "score_2": parsed.second}
        if parsed.verdict is not None:
            found["verdict"] = parsed.verdict.value
        if parsed.rating is not None:
            found["rating"] = parsed.rating
        expected = {
            key: Decimal(str(value)) if isinstance(value, int | float) else value
            for key, value in case["expect"].items()
        }
        if found != expected:
            wrong.append((case["id"], found, expected))
    assert wrong == []
