"""A judge template: a text with named slots, and how the reply to it is read."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Any


class Form(StrEnum):
    """What is asked of the judge."""

    SCORE = "score"
    RELATION = "relation"
    LIKERT = "likert"
    CHOICE = "choice"
    POINTWISE = "pointwise"


class ReplyFormat(StrEnum):
    """How the verdict stands in a reply; each has one parser."""

    SCORE_LINES = "score_lines"
    SCORE_JSON = "score_json"
    SCORE_PAIR = "score_pair"
    VERDICT_MARK = "verdict_mark"
    VERDICT_LINE = "verdict_line"
    RATING_LINE = "rating_line"
    CHOICE_TOKEN = "choice_token"


REPLIES_OF_FORM = {
    Form.SCORE: (ReplyFormat.SCORE_LINES, ReplyFormat.SCORE_JSON, ReplyFormat.SCORE_PAIR),
    Form.RELATION: (ReplyFormat.VERDICT_MARK, ReplyFormat.VERDICT_LINE),
    Form.LIKERT: (ReplyFormat.RATING_LINE,),
    Form.CHOICE: (ReplyFormat.CHOICE_TOKEN,),
    Form.POINTWISE: (ReplyFormat.RATING_LINE,),
}

# The papers' names for a slot, and ours.
ALIASES = {"Q": "question", "R1": "first", "R2": "second"}
_PAIR = {"question", "first", "second", "reference", "criteria"}
_IDS = {"id_1", "id_2", "id_first", "id_second"}
SLOTS = frozenset(_PAIR | _IDS | {"input", "output"})
SLOT = re.compile(r"\{(" + "|".join(sorted(SLOTS | ALIASES.keys())) + r")\}")


@dataclass(frozen=True)
class Scale:
    """The lowest and the highest value that a judge may give; `whole`: no fractions."""

    low: Decimal
    high: Decimal
    whole: bool = False

    def __contains__(self, value: Decimal) -> bool:
        whole = not self.whole or value == value.to_integral_value()
        return self.low <= value <= self.high and whole

    def turned(self, rating: Decimal) -> Decimal:
        """A rating that favours the first, as one that favours the second by as much."""
        return self.low + self.high - rating


SCORES = Scale(Decimal(1), Decimal(10))
LIKERT = Scale(Decimal(1), Decimal(7), whole=True)


@dataclass(frozen=True)
class Template:
    """`ids` are the option-ID tokens of the form `choice`, and a probability within `band` of 1/2
    is a tie; `task` describes what an output is for.

    `twin` names the template that asks the same in text or in JSON.
    """

    name: str
    text: str
    form: Form
    reply: ReplyFormat
    scale: Scale = SCORES
    source: str = ""
    twin: str = ""
    task: str = ""
    ids: tuple[str, str] = ("A", "B")
    band: Fraction = Fraction(0)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def slots(self) -> frozenset[str]:
        return frozenset(canonical(name) for name in SLOT.findall(self.text))

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with its slots filled in one pass: what is filled in is never read again."""
        return SLOT.sub(lambda match: values[canonical(match[1])], self.text)


def canonical(slot: str) -> str:
    return ALIASES.get(slot, slot)


DEFAULT_OF_FORM = {
    Form.SCORE: "faireval-table3",
    Form.RELATION: "portia-table13",
    Form.LIKERT: "portia-table15",
    Form.CHOICE: "calibraeval-default",
    Form.POINTWISE: "ohi-correctness",
}


class UnknownTemplate(LookupError):
    """No template of this name ships with FairJudge."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no template {name!r}. The templates are: {', '.join(names())}.")


def names() -> list[str]:
    return list(_catalogue())


def template(name: str) -> Template:
    try:
        return _catalogue()[name]
    except KeyError:
        raise UnknownTemplate(name) from None


def templates_of(form: Form) -> list[Template]:
    return [found for found in _catalogue().values() if found.form is form]


def default_template(form: Form, *, json: bool = False) -> Template:
    """The form's default; `json` gives its JSON twin where it has one."""
    found = template(DEFAULT_OF_FORM[form])
    return template(found.twin) if json and found.twin else found


@cache
def _catalogue() -> Mapping[str, Template]:
    folder = files("judging.llm") / "templates"
    declared = tomllib.loads((folder / "templates.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: _load(name, entry) for name, entry in declared.items()})


def _load(name: str, entry: Mapping[str, Any]) -> Template:
    folder = files("judging.llm") / "templates"
    texts = [
        (folder / f"{file}.txt").read_text(encoding="utf-8") for file in entry.get("files", [name])
    ]
    form = Form(entry["form"])
    return Template(
        name=name,
        text="".join(texts).removesuffix("\n"),
        form=form,
        reply=ReplyFormat(entry["reply"]),
        scale=_scale(form, entry.get("scale")),
        source=entry["source"],
        twin=entry.get("twin", ""),
        task=entry.get("task", ""),
    )


def _scale(form: Form, bounds: list[int] | None) -> Scale:
    if bounds is None:
        return LIKERT if form is Form.LIKERT else SCORES
    return Scale(Decimal(bounds[0]), Decimal(bounds[1]), whole=form is Form.LIKERT)


# The braces, keys and scores after the evidence, in tokens. A token is at least one character, so
# evidence of at most this much less than the limit leaves room for the scores.
TOKENS_AFTER_EVIDENCE = 60
SHORTEST_EVIDENCE = 20


def reply_schema(template: Template, max_tokens: int, *, whole: bool = True) -> dict[str, object]:
    """Evidence first, as a model writes the properties in the schema's order.

    `whole` asks for whole scores; what parses is not changed by it.
    """
    if template.reply is not ReplyFormat.SCORE_JSON:
        raise ValueError(f"The template {template.name!r} is not answered in JSON.")
    score = {
        "type": "integer" if whole else "number",
        "minimum": int(template.scale.low),
        "maximum": int(template.scale.high),
    }
    longest = max(SHORTEST_EVIDENCE, max_tokens - TOKENS_AFTER_EVIDENCE)
    return {
        "type": "object",
        "properties": {
            "evidence": {"type": "string", "maxLength": longest},
            "score_1": dict(score),
            "score_2": dict(score),
        },
        "required": ["evidence", "score_1", "score_2"],
        "additionalProperties": False,
    }
