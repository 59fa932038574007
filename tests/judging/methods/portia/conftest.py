import json

import pytest


@pytest.fixture(scope="session")
def answers(test_data):
    """The 80 answers of each of FairEval's four models, by question id."""
    models = ("gpt35", "vicuna-13b", "alpaca-13b", "gpt-4")

    def read(model):
        lines = (test_data / "faireval" / f"answer_{model}.jsonl").read_text(encoding="utf-8")
        return {str(row["question_id"]): row["text"] for row in map(json.loads, lines.splitlines())}

    return {model: read(model) for model in models}
