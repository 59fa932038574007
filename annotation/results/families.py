"""Which family a model belongs to, by its name: a judge may favour its kin."""

import re

# Words of a name, the vendor's or the model's own, and the family that they tell.
_FAMILIES = {
    "openai": ("gpt", "chatgpt", "openai", "davinci", "o1", "o3", "o4"),
    "anthropic": ("claude", "anthropic"),
    "google": ("gemini", "gemma", "palm", "bard"),
    "meta": ("llama", "alpaca", "vicuna", "meta"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral"),
    "alibaba": ("qwen", "qwq"),
    "deepseek": ("deepseek",),
    "cohere": ("command", "cohere", "aya"),
    "microsoft": ("phi",),
    "huggingface": ("smollm", "zephyr"),
    "ibm": ("granite",),
    "nvidia": ("nemotron",),
    "pandalm": ("pandalm",),
    "thudm": ("chatglm", "glm"),
    "databricks": ("dolly", "dbrx"),
}
_WORD = re.compile(r"[a-z]+(?:\d(?![a-z\d]))?")


def family_of(model: str) -> str | None:
    """By a known word in the name; a name without one is a family of its own where not empty."""
    name = model.rpartition("/")[2].casefold()
    words = [word for word in _WORD.findall(name) if word]
    for family, known in _FAMILIES.items():
        if any(word == one or word.rstrip("0123456789") == one for word in words for one in known):
            return family
    return name or None
