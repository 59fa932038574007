"""Text as a database takes it: an answer that was paid for must be kept."""

from typing import Any


def storable(text: str) -> str:
    """With U+FFFD for half a character and for NUL."""
    text = text.replace("\0", "\ufffd")
    return (
        text
        if text.isascii()
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def storable_json(value: Any) -> Any:
    """The same of all text in a JSON value."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [storable_json(one) for one in value]
    if isinstance(value, dict):
        return {storable(name): storable_json(one) for name, one in value.items()}
    return value
