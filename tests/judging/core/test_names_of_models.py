"""Finding and hiding models' names in their own texts."""

import pytest

from judging.core.text import HIDDEN_NAME, hide_names, names_itself

HIDDEN = [
    ("I am Vicuna, a model.", "vicuna-13b", f"I am {HIDDEN_NAME}, a model."),
    ("As **Vicuna**-13B, I", "vicuna-13b", f"As **{HIDDEN_NAME}, I"),
    ("As Vicuna, I think", "vicuna-13b", f"As {HIDDEN_NAME}, I think"),
    ("GPT-4, gpt 4 and GPT4.", "gpt-4-0613", f"{HIDDEN_NAME}, {HIDDEN_NAME} and {HIDDEN_NAME}."),
    ("I'm Llama 2.", "meta-llama/Llama-2-7b-chat-hf", f"I'm {HIDDEN_NAME}."),
    ("我是Vicuna13b模型", "vicuna-13b", f"我是{HIDDEN_NAME}模型"),
    ("通义千问说", "通义千问", f"{HIDDEN_NAME}说"),
    ("I’m Claude!", "claude-instant-v1", f"I’m {HIDDEN_NAME}!"),
    ("Vi\u200bcuna-13b", "vicuna-13b", HIDDEN_NAME),
    ("I am o1.", "o1", f"I am {HIDDEN_NAME}."),
]
KEPT = [
    ("Pour maple syrup on it.", "maple-7b"),
    ("It is famous as maple trees are.", "maple-7b"),
    ("GPT-4o", "gpt-4"),
    ("atlas-20", "atlas-2"),
    ("a human said", "human"),
    ("model_1 = Sequential()", "model_1"),
    ("I am a person", "a"),
    ("anything", ""),
    ("variable o1 = 3", "o1"),
    ("2024", "2024"),
]


@pytest.mark.parametrize(("text", "name", "shown"), HIDDEN)
def test_a_name_is_found_and_hidden(text, name, shown):
    assert names_itself(text, name)
    assert hide_names(text, name, "other-1") == shown


@pytest.mark.parametrize(("text", "name"), KEPT)
def test_what_is_no_name_stays(text, name):
    assert not names_itself(text, name)
    assert hide_names(text, name) == text
