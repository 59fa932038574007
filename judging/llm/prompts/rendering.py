"""What is said to a judge. Responses change places here, and nowhere else before a reply is read.

Everything that comes from outside, question, responses, reference, is disarmed (marks.py) and
filled in in one pass, so that nothing in it is read as a slot or as the template's own mark.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judging.llm.client.messages import Message
from judging.llm.prompts import parts
from judging.llm.prompts.marks import disarm
from judging.llm.prompts.templates import Template, canonical


@dataclass(frozen=True, slots=True)
class Shot:
    """A solved pair, shown before the one that is asked about. `better` is response 1 or 2."""

    question: str
    response_1: str
    response_2: str
    better: int


@dataclass(frozen=True, slots=True)
class PointShot:
    """A scored output, shown before the one that is asked about."""

    input: str
    output: str
    score: str


def render(
    template: Template,
    question: str,
    response_1: str,
    response_2: str,
    part: str,
    *,
    reference: str = "",
    criteria: str = "",
    shots: Sequence[Shot] = (),
) -> list[Message]:
    """The messages of one call; `part` says which response is shown first."""
    values = {"reference": disarm(reference), "criteria": criteria}
    messages = []
    for shot in shots:
        text = _pair(template, (shot.question, shot.response_1, shot.response_2), part, values)
        better_is_1 = shot.better == 1
        answer = template.ids[0] if better_is_1 == _first_token_is_1(part) else template.ids[1]
        messages += [Message("user", text), Message("assistant", answer)]
    text = _pair(template, (question, response_1, response_2), part, values)
    return [*messages, Message("user", text)]


def render_parts(
    template: Template,
    question: str,
    parts_1: Sequence[str],
    parts_2: Sequence[str],
    part: str,
    *,
    reference: str = "",
    criteria: str = "",
) -> list[Message]:
    """The messages of one PORTIA call: the aligned parts in turn (Table 16).

    The two response blocks of the template are repeated for each part, "part i" in their marks.
    """
    if len(parts_1) != len(parts_2) or not parts_1:
        raise ValueError("Both responses have the same number of parts, at least one.")
    head, blocks, tail = (replace(template, text=text) for text in response_blocks(template))
    values = _values(template, question, part)
    values |= {"reference": disarm(reference), "criteria": criteria}
    shown = []
    for number, pair in enumerate(zip(parts_1, parts_2, strict=True), start=1):
        first, second = _by_position(*pair, part)
        numbered = replace(blocks, text=_numbered(blocks.text, number))
        shown.append(numbered.fill(values | {"first": disarm(first), "second": disarm(second)}))
    return [Message("user", head.fill(values) + "\n\n".join(shown) + tail.fill(values))]


def render_point(
    template: Template,
    input_text: str,
    output: str,
    *,
    criteria: str = "",
    shots: Sequence[PointShot] = (),
) -> list[Message]:
    """The messages of one pointwise call: one output, alone."""
    messages = []
    for shot in shots:
        values = {"input": disarm(shot.input), "output": disarm(shot.output), "criteria": criteria}
        messages += [Message("user", template.fill(values)), Message("assistant", shot.score)]
    values = {"input": disarm(input_text), "output": disarm(output), "criteria": criteria}
    return [*messages, Message("user", template.fill(values))]


class NoResponseBlocks(ValueError):
    """A template whose responses don't stand between marks of their own."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The template {name!r} can't show a response in parts: {{first}} and {{second}} must "
            "each stand alone on a line, between a line [The Start of ...] and a line "
            "[The End of ...]."
        )


def response_blocks(template: Template) -> tuple[str, str, str]:
    """The template's text before, in, and after its two response blocks."""
    match = _BLOCKS.search(template.text)
    if match is None or {canonical(match["a"]), canonical(match["b"])} != {"first", "second"}:
        raise NoResponseBlocks(template.name)
    return template.text[: match.start()], match["blocks"], template.text[match.end() :]


_BLOCK = r"\[The Start of [^\n\]]*\]\n\{(?P<%s>\w+)\}\n\[The End of [^\n\]]*\]"
_BLOCKS = re.compile(rf"(?P<blocks>{_BLOCK % 'a'}\n+{_BLOCK % 'b'})")


def _numbered(blocks: str, number: int) -> str:
    return re.sub(r"(\[The (?:Start|End) of [^\n\]]*)\]", rf"\1 part {number}]", blocks)


def _pair(
    template: Template, texts: tuple[str, str, str], part: str, values: dict[str, str]
) -> str:
    question, response_1, response_2 = texts
    first, second = _by_position(response_1, response_2, part)
    shown = {"first": disarm(first), "second": disarm(second)}
    return template.fill(_values(template, question, part) | shown | values)


def _values(template: Template, question: str, part: str) -> dict[str, str]:
    id_first, id_second = parts.shown_ids(template.ids, part)
    ids = {"id_1": template.ids[0], "id_2": template.ids[1]}
    return {"question": disarm(question), "id_first": id_first, "id_second": id_second} | ids


def _by_position(response_1: str, response_2: str, part: str) -> tuple[str, str]:
    return (response_2, response_1) if parts.is_swapped(part) else (response_1, response_2)


def _first_token_is_1(part: str) -> bool:
    """Whether response 1 bears the first ID token."""
    return parts.first_token_is_first(part) != parts.is_swapped(part)
