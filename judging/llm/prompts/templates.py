"""What a judge may be asked: the variants of a prompt, the templates, and how one is filled.

- `PromptVariant` reads and writes the stored text `part` of a call, which says what its prompt
  shows, and in which order.
- `Template`, `template` and `default_template` are the shipped catalogue: texts with named slots,
  and how the replies to them are read.
- `render`, `render_parts` and `render_point` write the messages of a call, and `solved_pairs` what
  a taught judge reads first. Responses change places here and nowhere else before a reply is read.
  Questions, responses and references are disarmed (see `marks`) before they fill a slot.
"""

import hashlib
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from judging.core import conversations
from judging.core.enums import LabelledEnum
from judging.llm.client.messages import Message
from judging.llm.prompts.marks import DISARMED, disarm
from judging.methods.calibration.probabilities import PERMUTATIONS, SHOWN_FIRST, bears_t1
from judging.methods.portia.stages import Stage
from judging.methods.review.teaching import balanced_sides
from judging.methods.verdicts.verdicts import CriteriaRule

Order = Literal["original", "swapped"]
Shown = TypeVar("Shown")

ORDERS: tuple[Order, Order] = ("original", "swapped")
UNSPLIT = Stage.UNSPLIT.value
_PORTIA = "portia:"
_ITEM = "item:"


class UnknownPart(ValueError):
    """A part that names no order."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"The part {part!r} names no order; it ends in original, swapped or X0-X3."
        )


@dataclass(frozen=True, slots=True)
class PromptVariant:
    """One way to ask about an example or a single response; `str()` gives its stored text `part`.

        original, swapped          both responses, with response 1 or response 2 first
        X0, X1, X2, X3             a choice: also which response bears which ID token (CalibraEval)
        portia:semantic:swapped    the parts of a PORTIA stage, in an order
        cc:X0, dc:3:X0             a content-free input of a calibration, in a permutation
        item:fluency               one response alone, by a criterion

    Databases, exports and backups hold these texts, so they never change.

    Attributes:
        arrangement: `original`, `swapped`, or a permutation `X0` to `X3`. Empty if one response
            is shown alone.
        stage: The PORTIA stage; `unsplit` if the responses are shown whole.
        criterion: What a single response is scored for.
        input: The content-free input that is shown in place of an example: `cc`, or `dc:3` for
            input 3 of DC. A file of recorded judgments may use names of its own here.
    """

    arrangement: str = ""
    stage: str = UNSPLIT
    criterion: str = ""
    input: str = ""

    @staticmethod
    def parse(part: str) -> "PromptVariant":
        """Read a stored text. Raises UnknownPart if it names neither an order nor a criterion."""
        return _parse(part)

    def __str__(self) -> str:
        if not self.arrangement:
            return f"{_ITEM}{self.criterion}"
        if self.stage != UNSPLIT:
            return f"{_PORTIA}{self.stage}:{self.arrangement}"
        return f"{self.input}:{self.arrangement}" if self.input else self.arrangement

    @property
    def permutation(self) -> str | None:
        """The permutation of a choice, `X0` to `X3`, if one was asked for."""
        return self.arrangement if self.arrangement in PERMUTATIONS else None

    @property
    def swapped(self) -> bool:
        """True if response 2 is shown first. Raises UnknownPart for a single response."""
        if not self.arrangement:
            raise UnknownPart(str(self))
        if self.permutation:
            return self.permutation not in SHOWN_FIRST
        return self.arrangement == "swapped"

    @property
    def order(self) -> Order:
        return "swapped" if self.swapped else "original"

    @property
    def response_1_bears_first_token(self) -> bool:
        return bears_t1(self.permutation) if self.permutation else not self.swapped

    @property
    def first_bears_first_token(self) -> bool:
        """True if the response shown first bears the first ID token, as outside X1 and X3."""
        return self.response_1_bears_first_token != self.swapped

    def shown(self, of_1: Shown, of_2: Shown) -> tuple[Shown, Shown]:
        """Order what belongs to responses 1 and 2 as it is shown, or turn it back again."""
        return (of_2, of_1) if self.swapped else (of_1, of_2)

    def shown_ids(self, ids: tuple[str, str]) -> tuple[str, str]:
        """Return the ID tokens in the order in which they are shown."""
        return ids if self.first_bears_first_token else (ids[1], ids[0])

    def token_probability(self, p_first: float) -> float:
        """Return P(t1), CalibraEval's s, from the probability of the response shown first."""
        return p_first if self.first_bears_first_token else 1 - p_first


# Results ask about the part of every recorded sample, and a run has few parts.
@lru_cache(maxsize=512)
def _parse(part: str) -> PromptVariant:
    if part.startswith(_ITEM):
        return PromptVariant(criterion=part.removeprefix(_ITEM))
    before, _, arrangement = part.rpartition(":")
    if arrangement not in ORDERS and arrangement not in PERMUTATIONS:
        raise UnknownPart(part)
    if part.startswith(_PORTIA):
        return PromptVariant(arrangement, stage=before.removeprefix(_PORTIA))
    return PromptVariant(arrangement, input=before)


def stage_parts(stage: str) -> tuple[str, str]:
    """Return the parts of a PORTIA stage, one for each order.

    Those of the unsplit stage are the parts of any other method.
    """
    original, swapped = (str(PromptVariant(order, stage=stage)) for order in ORDERS)
    return original, swapped


def balanced(permutations: Collection[str]) -> tuple[str, ...]:
    """Return the permutations in which position and ID token cancel: all four, or X0 and X2.

    If neither set is complete, the first permutation counts alone, as with a method that asks for
    one order. X0, X1 and X2 together show response 1 first once in three times, so they are not
    balanced.
    """
    for cancelling in (PERMUTATIONS, ("X0", "X2")):
        if set(cancelling) <= set(permutations):
            return cancelling
    return tuple(sorted(permutations)[:1])


class JudgeForm(LabelledEnum):
    """What is asked of the judge."""

    SCORE = "score", "two scores, 1 to 10"
    RELATION = "relation", "better one or tie"
    LIKERT = "likert", "rating 1 to 7"
    CHOICE = "choice", "one ID token with log-probabilities"
    POINTWISE = "pointwise", "one response alone"
    CRITERIA = "criteria", "two scores on each criterion"


class ReplyFormat(StrEnum):
    """How a reply states the verdict. Each format has one parser."""

    SCORE_LINES = "score_lines"
    SCORE_JSON = "score_json"
    SCORE_PAIR = "score_pair"
    VERDICT_MARK = "verdict_mark"
    VERDICT_LINE = "verdict_line"
    RATING_LINE = "rating_line"
    CHOICE_TOKEN = "choice_token"
    CRITERIA_JSON = "criteria_json"


REPLIES_OF_FORM = {
    JudgeForm.SCORE: (ReplyFormat.SCORE_LINES, ReplyFormat.SCORE_JSON, ReplyFormat.SCORE_PAIR),
    JudgeForm.RELATION: (ReplyFormat.VERDICT_MARK, ReplyFormat.VERDICT_LINE),
    JudgeForm.LIKERT: (ReplyFormat.RATING_LINE,),
    JudgeForm.CHOICE: (ReplyFormat.CHOICE_TOKEN,),
    JudgeForm.POINTWISE: (ReplyFormat.RATING_LINE,),
    JudgeForm.CRITERIA: (ReplyFormat.CRITERIA_JSON,),
}

# The papers' names for slots, and ours.
ALIASES = {"Q": "question", "R1": "first", "R2": "second"}
PAIR_SLOTS = frozenset({"question", "first", "second"})
ID_SLOTS = frozenset({"id_1", "id_2", "id_first", "id_second"})
# Whole conversations, the question's messages and the response's own, in MT-bench's layout.
CONVERSATION_SLOTS = frozenset({"conversation_first", "conversation_second"})
_SLOTS = PAIR_SLOTS | ID_SLOTS | CONVERSATION_SLOTS | {"reference", "criteria", "input", "output"}
SLOT = re.compile(r"\{(" + "|".join(sorted(_SLOTS | ALIASES.keys())) + r")\}")


@dataclass(frozen=True)
class Scale:
    """The lowest and the highest value that a judge may give. `whole` allows no fractions."""

    low: Decimal
    high: Decimal
    whole: bool = False

    def __contains__(self, value: Decimal) -> bool:
        whole = not self.whole or value == value.to_integral_value()
        return self.low <= value <= self.high and whole

    def turned(self, rating: Decimal) -> Decimal:
        """Return the rating that favours the other response by as much."""
        return self.low + self.high - rating


LEAST_MASS = 0.5
SCORES = Scale(Decimal(1), Decimal(10))
LIKERT = Scale(Decimal(1), Decimal(7), whole=True)


# These are answered by one token, which has no JSON form.
BY_ONE_TOKEN = (JudgeForm.CHOICE, JudgeForm.POINTWISE)


def default_scale(form: JudgeForm) -> Scale:
    return LIKERT if form is JudgeForm.LIKERT else SCORES


@dataclass(frozen=True, slots=True)
class TaughtPairs:
    """What people's labels taught a template.

    Attributes:
        pairs: The keys of solved examples, each with its label. There may be one more
            than is shown, in case that another one is about the question that is asked.
        shown: How many of them a prompt shows.
        taught: The keys of all examples whose labels taught. Their labels measure nothing any more.
        number: The project's number of the lesson.
        annotators: In place of `pairs`, what each simulated annotator is shown: one annotator's own
            votes, without a name. Sample s of an order is given by simulated annotator s.
    """

    pairs: tuple[tuple[int, str], ...]
    shown: int
    taught: tuple[int, ...]
    number: int
    annotators: tuple[tuple[tuple[int, str], ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        kept = {"shown": self.shown, "taught": list(self.taught), "number": self.number}
        # Only of such lessons, so that the hashes of other versions stay.
        if self.annotators:
            kept["annotators"] = [[list(pair) for pair in own] for own in self.annotators]
        return {"pairs": [list(pair) for pair in self.pairs]} | kept

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "TaughtPairs":
        pairs, *annotators = (
            tuple((int(key), str(label)) for key, label in own)
            for own in (kept["pairs"], *kept.get("annotators", ()))
        )
        taught = kept["shown"], tuple(kept["taught"]), kept["number"]
        return cls(pairs, *taught, tuple(annotators))


@dataclass(frozen=True)
class Template:
    """A text with slots, and how its reply is read.

    Attributes:
        twin: The template that asks for the same in JSON, or in text.
        task: What the output to score is for (form `pointwise`).
        ids: The option-ID tokens (form `choice`).
        band: A probability within this much of 1/2 is a tie (form `choice`).
        least_mass: The IDs, or the scores on the scale, must have this much of the probability
            where the reply states its verdict. With less there is no verdict.
        criteria: What the judge must score the responses on, and nothing else (form `criteria`).
        rule: How the verdict follows from these scores. Without one, the means decide.
        enforced: Whether the endpoint is asked to hold replies to a JSON schema. None leaves it to
            the template: a text that asks for JSON is, others are not.
        lesson: What people's labels taught it, if it was taught.
    """

    name: str
    text: str
    form: JudgeForm
    reply: ReplyFormat
    scale: Scale = SCORES
    source: str = ""
    twin: str = ""
    task: str = ""
    ids: tuple[str, str] = ("A", "B")
    band: Fraction = Fraction(0)
    least_mass: float = LEAST_MASS
    criteria: tuple[str, ...] = ()
    rule: CriteriaRule | None = None
    enforced: bool | None = None
    lesson: TaughtPairs | None = None

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def has_schema(self) -> bool:
        return self.reply in IN_JSON if self.enforced is None else self.enforced

    @cached_property
    def slots(self) -> frozenset[str]:
        return frozenset(canonical(name) for name in SLOT.findall(self.text))

    def fill(self, values: Mapping[str, str]) -> str:
        """Fill all slots in one pass, so that a slot's name in a response stays as it is."""
        return SLOT.sub(lambda match: values[canonical(match[1])], self.text)


def canonical(slot: str) -> str:
    return ALIASES.get(slot, slot)


DEFAULT_OF_FORM = {
    JudgeForm.SCORE: "faireval-table3",
    JudgeForm.RELATION: "portia-table13",
    JudgeForm.LIKERT: "portia-table15",
    JudgeForm.CHOICE: "calibraeval-default",
    JudgeForm.POINTWISE: "ohi-correctness",
    JudgeForm.CRITERIA: "criteria-json",
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


def templates_of(form: JudgeForm) -> list[Template]:
    return [entry for entry in _catalogue().values() if entry.form is form]


def default_template(form: JudgeForm, *, json: bool = False) -> Template:
    """Return the form's default template, or with `json` its JSON twin if it has one."""
    in_text = template(DEFAULT_OF_FORM[form])
    return template(in_text.twin) if json and in_text.twin else in_text


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
    form = JudgeForm(entry["form"])
    low_high, scale = entry.get("scale"), default_scale(form)
    if low_high is not None:
        scale = replace(scale, low=Decimal(low_high[0]), high=Decimal(low_high[1]))
    return Template(
        name=name, text="".join(texts).removesuffix("\n"), form=form,
        reply=ReplyFormat(entry["reply"]), scale=scale, source=entry["source"],
        twin=entry.get("twin", ""), task=entry.get("task", ""),
    )  # fmt: skip


# The tokens of the braces, keys and scores after the evidence. A token has at least one character,
# so evidence that is this many characters shorter than the token limit leaves room for the scores.
TOKENS_AFTER_EVIDENCE = 60
SHORTEST_EVIDENCE = 20


IN_JSON = (ReplyFormat.SCORE_JSON, ReplyFormat.CRITERIA_JSON)
# Their templates ask for the verdict first and the explanation after it.
VERDICT_FIRST = (ReplyFormat.SCORE_PAIR, ReplyFormat.VERDICT_LINE, ReplyFormat.RATING_LINE)
# What the templates let the judge say, in the order first, second, tie.
VERDICT_WORDS = {
    ReplyFormat.VERDICT_MARK: ("A", "B", "C"),
    ReplyFormat.VERDICT_LINE: ("Assistant 1", "Assistant 2", "Same"),
}


def reply_schema(template: Template, max_tokens: int, *, whole: bool = True) -> dict[str, object]:
    """Return the JSON schema of a reply, for endpoints that take one.

    A model writes the properties in the schema's order. So the evidence comes first, unless the
    template asks for the verdict first, which defines its method. `whole` asks for whole scores;
    the parser reads others all the same.
    """
    if template.form in BY_ONE_TOKEN:
        raise ValueError(f"The template {template.name!r} is answered by one token.")
    score = {
        "type": "integer" if whole else "number",
        "minimum": int(template.scale.low),
        "maximum": int(template.scale.high),
    }
    both: dict[str, object] = {"score_1": dict(score), "score_2": dict(score)}
    after = TOKENS_AFTER_EVIDENCE * max(1, len(template.criteria))
    evidence = {"type": "string", "maxLength": max(SHORTEST_EVIDENCE, max_tokens - after)}
    if template.reply is ReplyFormat.CRITERIA_JSON:
        both = {"scores": _closed({name: _closed(both) for name in template.criteria})}
    elif words := VERDICT_WORDS.get(template.reply):
        both = {"verdict": {"type": "string", "enum": list(words)}}
    elif template.reply is ReplyFormat.RATING_LINE:
        both = {"rating": score}
    if template.reply in VERDICT_FIRST:
        return _closed(both | {"evidence": evidence})
    return _closed({"evidence": evidence} | both)


def _closed(properties: dict[str, object]) -> dict[str, object]:
    """Return the schema of an object with these properties, all of them, and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Shot:
    """A solved pair, shown before the pair in question. `better`: response 1 or 2; 0 for a tie."""

    question: str
    response_1: str
    response_2: str
    better: int
    reference: str = ""
    conversation: str | None = None


@dataclass(frozen=True, slots=True)
class PointShot:
    """A scored output, shown before the output in question."""

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
    conversation: str | None = None,
    taught: str = "",
) -> list[Message]:
    """Return the messages of one call about a pair; `part` says which response is shown first.

    The texts are the text forms of what came as lists of messages. `conversation` holds these
    lists, for templates that show whole conversations. `taught` comes first: see `solved_pairs`.
    """
    variant = PromptVariant.parse(part)
    values = {"reference": disarm(reference), "criteria": criteria}
    messages = []
    for shot in shots:
        of_shot = values | {"reference": disarm(shot.reference)}
        texts = shot.question, shot.response_1, shot.response_2
        text = _pair(template, texts, variant, of_shot, shot.conversation)
        # The shot is shown in this call's order, so the right answer turns with it.
        first_token = (shot.better == 1) == variant.response_1_bears_first_token
        answer = template.ids[0] if first_token else template.ids[1]
        messages += [Message("user", text), Message("assistant", answer)]
    texts = question, response_1, response_2
    text = _pair(template, texts, variant, values, conversation)
    return [*messages, Message("user", taught + text)]


PREFERRED = {1: "the first response", 2: "the second response", 0: "neither response: it is a tie"}
_BY_PEOPLE = "People compared the responses below. Judge as they did.", "people prefer"
_BY_ONE = "A person compared the responses below. Judge as this person did.", "the person prefers"


def solved_pairs(
    shots: Sequence[Shot], part: str, *, first: bool, by_one_person: bool = False
) -> str:
    """Return the text that shows a judge how people decided, whatever it answers with.

    As many pairs show the better response first as second. For that, a pair may be shown the other
    way round; its label goes with it. In the prompt of the other order, every pair is turned.

    Args:
        first: Whether the first pair shows its better response first, if response 1 is shown first.
        by_one_person: The labels are the votes of one annotator, who is simulated.
    """
    if not shots:
        return ""
    swapped = PromptVariant.parse(part).swapped
    sides = balanced_sides([shot.better != 0 for shot in shots], first=first != swapped)
    begins, prefer = _BY_ONE if by_one_person else _BY_PEOPLE
    shown = [begins]
    for number, (shot, better_first) in enumerate(zip(shots, sides, strict=True), start=1):
        # A tie counts as if response 1 were better, so that ties take turns too.
        turned = better_first != (shot.better != 2)
        responses = shot.response_1, shot.response_2
        if turned:
            responses = responses[1], responses[0]
        preferred = PREFERRED[0 if not shot.better else 1 if better_first else 2]
        named = [(f"example {number}'s question", shot.question)]
        named += (
            [(f"example {number}'s reference answer", shot.reference)] if shot.reference else []
        )
        for name, text in zip(("first", "second"), responses, strict=True):
            named.append((f"example {number}'s {name} response", text))
        shown += [
            f"[The Start of {name}]\n{disarm(text)}\n[The End of {name}]" for name, text in named
        ]
        shown.append(f"In example {number}, {prefer} {preferred}.")
    return "\n\n".join(shown) + "\n\nNow it is your turn.\n\n"


def render_parts(
    template: Template,
    question: str,
    parts_1: Sequence[str],
    parts_2: Sequence[str],
    part: str,
    *,
    reference: str = "",
    criteria: str = "",
    taught: str = "",
) -> list[Message]:
    """Return the messages of one PORTIA call, which shows the aligned parts in turn (Table 16).

    The template's two response blocks are repeated for each part, with "part i" in their marks.
    Raises NoResponseBlocks if the template has none.
    """
    if len(parts_1) != len(parts_2) or not parts_1:
        raise ValueError("Both responses have the same number of parts, at least one.")
    head, blocks, tail = (replace(template, text=text) for text in response_blocks(template))
    variant = PromptVariant.parse(part)
    values = _values(template, question, variant)
    values |= {"reference": disarm(reference), "criteria": criteria}
    shown = []
    for number, pair in enumerate(zip(parts_1, parts_2, strict=True), start=1):
        first, second = variant.shown(*pair)
        # Numbered before it is filled, so that marks within a response are not numbered too.
        numbered = replace(blocks, text=_numbered(blocks.text, number))
        shown.append(numbered.fill(values | {"first": disarm(first), "second": disarm(second)}))
    text = head.fill(values) + "\n\n".join(shown) + tail.fill(values)
    return [Message("user", taught + text)]


def render_point(
    template: Template,
    input_text: str,
    output: str,
    *,
    criteria: str = "",
    shots: Sequence[PointShot] = (),
) -> list[Message]:
    """Return the messages of one call about a single output."""
    messages = []
    for shot in shots:
        values = {"input": disarm(shot.input), "output": disarm(shot.output), "criteria": criteria}
        messages += [Message("user", template.fill(values)), Message("assistant", shot.score)]
    values = {"input": disarm(input_text), "output": disarm(output), "criteria": criteria}
    return [*messages, Message("user", template.fill(values))]


class NoResponseBlocks(ValueError):
    """A template without marks of their own around the responses."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The template {name!r} can't show a response in parts: {{first}} and {{second}} must "
            "each stand alone on a line, between a line [The Start of ...] and a line "
            "[The End of ...]."
        )


def response_blocks(template: Template) -> tuple[str, str, str]:
    """Return the template's text before, in and after its two response blocks."""
    match = _BLOCKS.search(template.text)
    if match is None or {canonical(match["a"]), canonical(match["b"])} != {"first", "second"}:
        raise NoResponseBlocks(template.name)
    return template.text[: match.start()], match["blocks"], template.text[match.end() :]


_BLOCK = r"\[The Start of [^\n\[\]]*\]\n\{(?P<%s>\w+)\}\n\[The End of [^\n\[\]]*\]"
_BLOCKS = re.compile(rf"(?P<blocks>{_BLOCK % 'a'}\n+{_BLOCK % 'b'})")


def _numbered(blocks: str, number: int) -> str:
    return re.sub(r"(\[The (?:Start|End) of [^\n\[\]]*)\]", rf"\1 part {number}]", blocks)


def _pair(
    template: Template,
    texts: tuple[str, str, str],
    variant: PromptVariant,
    values: dict[str, str],
    conversation: str | None = None,
) -> str:
    question, response_1, response_2 = texts
    first, second = variant.shown(response_1, response_2)
    shown = {"first": disarm(first), "second": disarm(second)}
    if template.slots & CONVERSATION_SLOTS:
        by_field = conversations.turns_by_field(texts, conversation)
        sides = variant.shown(by_field["response_1"], by_field["response_2"])
        names = variant.shown_ids(template.ids)
        for slot, own, name in zip(("first", "second"), sides, names, strict=True):
            shown[f"conversation_{slot}"] = _laid_out(by_field["question"], own, name)
    return template.fill(_values(template, question, variant) | shown | values)


def _values(template: Template, question: str, variant: PromptVariant) -> dict[str, str]:
    id_first, id_second = variant.shown_ids(template.ids)
    ids = {"id_1": template.ids[0], "id_2": template.ids[1]}
    return {"question": disarm(question), "id_first": id_first, "id_second": id_second} | ids


# What a message may not forge: the lines that name speakers, and the marks around a conversation.
_HEADING = re.compile(
    r"^([ \t]*#)(?=#{0,5}[ \t]*(?:system|developer|user|assistant|tool)\b)"
    r"|(<)(?=\|the (?:start|end) of [^|\n]{1,80}\|>)",
    re.IGNORECASE | re.MULTILINE,
)


def _laid_out(
    shared: Sequence[conversations.Turn], own: Sequence[conversations.Turn], name: str
) -> str:
    """Return a conversation in the layout of MT-bench's multi-turn prompt (Zheng et al., Fig. 9).

    Only messages of the response itself are by `Assistant A` or `Assistant B`.
    """
    turns = [(disarm(turn.speaker), turn.text) for turn in shared]
    for turn in own:
        speaker = disarm(turn.speaker)
        if turn.role == "assistant":
            speaker = f"Assistant {name}{speaker.removeprefix('Assistant')}"
        turns.append((speaker, turn.text))
    return "\n\n".join(
        f"### {speaker}:\n{_HEADING.sub(_dotted, disarm(text))}" for speaker, text in turns
    )


def _dotted(match: re.Match[str]) -> str:
    return f"{match[1] or match[2]}{DISARMED}"
