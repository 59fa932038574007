"""Conversations: lists of messages, the text form of each, and what two lists share.

A question or a response may come as a list of messages, `[{"role": …, "content": …}]`. Its text
form is what judges, lengths and searches take of it:

- A list of one message is its content: a user's as a question, an assistant's as a response.
- Otherwise each message is a line that names the speaker, such as `User:`, and its content, with
  an empty line between messages. The speakers are `System`, `Developer`, `User`, `Assistant`,
  `Tool NAME` for what a tool returned, and `Assistant calls NAME` for a tool call, whose content
  is its arguments.
- A line of a content that looks like such a line gets a middle dot: `U·ser:`.

An image within a message becomes Markdown, `![description](address)`, on a line of its own.

IDs of messages and of tool calls are in no text form: they name the vendor of a model.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judging.core.bounds import is_deep
from judging.core.images import marked
from judging.core.text import a_name, is_name

Message = dict[str, Any]
Messages = list[Message]

# Who speaks if a list has a single message and no speaker is named.
ALONE = {"question": "user", "response_1": "assistant", "response_2": "assistant"}
SPEAKERS = {
    "system": "System", "developer": "Developer", "user": "User", "assistant": "Assistant",
    "tool": "Tool", "function": "Tool",
}  # fmt: skip
DOT = "\u00b7"
LONGEST_TOOL = 200
_READ = frozenset(("role", "content", "tool_calls", "tool_call_id", "function_call"))
# The names of tools have at most LONGEST_TOOL characters. A longer line can't be taken for a
# speaker's.
_SPEAKER_LINE = re.compile(
    r"^([ \t]*)(system|developer|user|assistant(?: calls [^\n]{1,200})?|tool(?: [^\n]{1,200})?)"
    r"(?=:[ \t]{0,80}\r?$)",
    re.IGNORECASE | re.MULTILINE,
)


class NumberText(str):
    """A number of a JSON file, as the text that the file has for it."""

    __slots__ = ()


class Unusable(ValueError):
    """Why a value is no conversation, in a sentence."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker says, or one call of a tool.

    role: whose it is: system, developer, user, assistant or tool. A call is an assistant's.
    speaker: as the text form names it. It may hold the name of a tool.
    call: the text is the arguments of a tool call.
    """

    role: str
    speaker: str
    text: str
    call: bool = False


def checked(value: Any, name: str) -> Messages:
    """Return a list of messages. Raises Unusable unless every message can be shown as text.

    Args:
        name: what sentences call the list.
    """
    if not isinstance(value, list):
        raise Unusable(f"{name} should be a list of messages.")
    if not value:
        raise Unusable(f"{name} is an empty list. A conversation has at least one message.")
    if is_deep(value):
        raise Unusable(f"{name} has values that are nested too deeply.")
    for number, message in enumerate(value, start=1):
        _check(message, f"Message {number} of {name}")
    return value


def _check(message: Any, which: str) -> None:
    if not isinstance(message, dict) or "role" not in message:
        raise Unusable(f"{which} is no object with a role and a content.")
    role = message["role"]
    if not isinstance(role, str) or role not in SPEAKERS:
        known = ", ".join(SPEAKERS)
        raise Unusable(f"{which} has the unknown role {str(role)[:40]!r}. The roles are {known}.")
    calls = list(_calls(message, which))
    if calls and role != "assistant":
        raise Unusable(f"{which} calls a tool, which only an assistant does.")
    content = message.get("content")
    if content is None and not calls:
        raise Unusable(f"{which} has no content.")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        is_text = kind == "text" and isinstance(part.get("text"), str)
        if not is_text and (image_of(part) is None or role not in ("user", "assistant")):
            raise Unusable(
                f"{which} has a part of the type {str(kind)[:40]}. FairJudge takes only text, and "
                "images of users and assistants with their address or content: leave the row out, "
                "or describe the part in words."
            )
    if not isinstance(content, str | list | None):
        raise Unusable(f"The content of {which[0].lower()}{which[1:]} should be text.")
    if role in ("tool", "function") and message.get("name") is not None:
        _tool_name(message["name"], which)


def _tool_name(name: Any, which: str) -> str:
    if isinstance(name, str) and is_name(name, LONGEST_TOOL):
        return name
    raise Unusable(f"{which} should name its tool in {a_name(LONGEST_TOOL)}.")


def _calls(message: Message, which: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the arguments of each tool call."""
    calls = message.get("tool_calls") or []
    # OpenAI's older form has one call in a message.
    if message.get("function_call"):
        calls = [*calls, {"function": message["function_call"]}]
    for call in calls if isinstance(calls, list) else [None]:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise Unusable(f"{which} has a tool call without a function.")
        arguments = function.get("arguments")
        text = (
            # A number is a `NumberText`, which is a str as well, and is dumped as the number that
            # it was.
            arguments if type(arguments) is str else "" if arguments is None else dumped(arguments)
        )
        yield _tool_name(function.get("name"), which), text


def image_of(part: Any) -> tuple[str, str] | None:
    """Return the description and the address of an image, as OpenAI or Anthropic write it.

    None for any other part of a message.
    """
    if not isinstance(part, dict) or part.get("type") not in ("image", "image_url"):
        return None
    alt = part["alt"] if isinstance(part.get("alt"), str) else ""
    values = (part.get(name) for name in ("image_url", "source", "image", "url", "path"))
    value = next((value for value in values if value), None)
    if isinstance(value, dict) and value.get("type") == "base64":
        value = f"data:{value.get('media_type')};base64,{value.get('data')}"
    elif isinstance(value, dict):
        value = value.get("url") or value.get("path")
    return (alt, value) if isinstance(value, str) and value.strip() else None


def with_images(messages: Messages, text: Callable[[str], str], image: Callable[[str], str]) -> Any:
    """Return messages with other texts, and with other addresses of images."""

    def part_of(part: Message) -> Message:
        picture = image_of(part)
        if picture is None:
            return {**part, "text": text(part["text"])}
        named: Message = {"type": "image_url", "image_url": {"url": image(picture[1])}}
        return named | ({"alt": picture[0]} if picture[0] else {})

    def message_of(message: Message) -> Message:
        content = message.get("content")
        if isinstance(content, list):
            return {**message, "content": [part_of(part) for part in content]}
        return {**message, "content": text(content)} if isinstance(content, str) else message

    return [message_of(message) for message in messages]


def turns(messages: Sequence[Message]) -> list[Turn]:
    """Return what checked messages say, in their order."""
    spoken = []
    for message in messages:
        role, content = message["role"], message.get("content")
        if isinstance(content, list):
            images = map(image_of, content)
            content = "\n".join(
                marked(*image) if image else part["text"]
                for part, image in zip(content, images, strict=True)
            )
        calls = [
            Turn(role, f"Assistant calls {name}", text, True) for name, text in _calls(message)
        ]
        speaker = SPEAKERS[role]
        if speaker == "Tool":
            role, speaker = "tool", f"{speaker} {message.get('name') or ''}".strip()
        # An assistant that only calls a tool has said nothing, so it gets no empty turn.
        if content or not calls:
            spoken.append(Turn(role, speaker, content or ""))
        spoken += calls
    return spoken


def text_of(messages: Sequence[Message], field: str) -> str:
    """Return the text form of checked messages.

    Args:
        field: question, response_1 or response_2.
    """
    spoken = turns(messages)
    if len(spoken) == 1 and spoken[0].role == ALONE[field] and not spoken[0].call:
        return spoken[0].text
    return "\n\n".join(f"{turn.speaker}:\n{disarmed(turn.text)}" for turn in spoken)


def disarmed(content: str) -> str:
    """Return a content with a middle dot in each line that looks like a speaker's."""
    return _SPEAKER_LINE.sub(lambda match: f"{match[1]}{match[2][0]}{DOT}{match[2][1:]}", content)


def is_claim(messages: Sequence[Message]) -> bool:
    """Return True if a response begins as a whole conversation does, with its question."""
    return messages[0]["role"] in ("system", "developer", "user")


def after(question: Sequence[Message], messages: Messages) -> Messages | None:
    """Return what follows a question in a whole conversation; None if it has another question."""
    # By turns, since messages may have IDs, which differ between records of the same words.
    n = len(question)
    if len(messages) > n and turns(messages[:n]) == turns(question):
        return messages[n:]
    return None


def parted(first: Messages, second: Messages) -> tuple[Messages, Messages, Messages]:
    """Return what two conversations share at their start, and what each of them has of its own.

    What they share ends before a message of an assistant, so that no response begins with a
    question. Raises Unusable if they share no user's message.
    """
    n = 0
    # The last message of each is never shared, so that no response is empty.
    while n < min(len(first), len(second)) - 1 and turns(first[n : n + 1]) == turns(
        second[n : n + 1]
    ):
        n += 1
    while n and not first[n]["role"] == second[n]["role"] == "assistant":
        n -= 1
    if not any(message["role"] == "user" for message in first[:n]):
        raise Unusable("The two conversations begin with other questions.")
    return first[:n], first[n:], second[n:]


def other_keys(messages: Sequence[Message]) -> set[str]:
    """Return the keys of messages that are kept and shown nowhere.

    The name of a person or a model is one of them: it would tell annotators who writes.
    """
    return {
        key
        for message in messages
        for key, value in message.items()
        if key not in _READ and value is not None
        if key != "name" or SPEAKERS[message["role"]] != "Tool"
    }


def dumped(value: Any) -> str:
    """Return JSON, with numbers as numbers again. Bytes, which Parquet has, become their `repr`."""
    return json.dumps(_with_numbers(value), ensure_ascii=False, separators=(",", ":"), default=repr)


def _with_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_numbers(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _with_numbers(entry) for key, entry in value.items()}
    if isinstance(value, NumberText):
        if re.fullmatch(r"-?\d+", value):
            # Python converts no whole number of more than 4,300 digits from or to text.
            return int(value) if len(value) < 4000 else str(value)
        number = float(value)
        # A number such as 1e999 would become Infinity, which JSON doesn't have.
        return number if math.isfinite(number) else str(value)
    return value


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    for entry in value if isinstance(value, list) else ():
        yield from texts_in(entry)
    for key, entry in value.items() if isinstance(value, dict) else ():
        yield key
        yield from texts_in(entry)


def unpacked(conversation: str) -> dict[str, Messages]:
    """Return the lists of an example by field: those of its texts that are conversations."""
    lists: dict[str, Messages] = json.loads(conversation)
    return lists


def turns_by_field(texts: Sequence[str], conversation: str | None) -> Mapping[str, list[Turn]]:
    """Return the turns of the question and of both responses. A plain text is a single turn."""
    lists = unpacked(conversation) if conversation else {}
    return {
        field: turns(lists[field]) if field in lists else [Turn(role, SPEAKERS[role], text)]
        for (field, role), text in zip(ALONE.items(), texts, strict=True)
    }
