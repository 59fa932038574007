"""An operator's own template: what it must hold, and why one is refused."""

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from judging.llm.parsing.choice import UnusableIds, check_ids
from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import (
    LIKERT,
    REPLIES_OF_FORM,
    SCORES,
    JudgeForm,
    ReplyFormat,
    Scale,
    Template,
    canonical,
)

_PAIR = frozenset({"question", "first", "second"})
_IDS = frozenset({"id_1", "id_2", "id_first", "id_second"})
REQUIRED_SLOTS = {
    JudgeForm.SCORE: _PAIR,
    JudgeForm.RELATION: _PAIR,
    JudgeForm.LIKERT: _PAIR,
    JudgeForm.CHOICE: _PAIR | {"id_first", "id_second"},
    JudgeForm.POINTWISE: frozenset({"output"}),
}
_ALLOWED_SLOTS = {
    form: (required | {"input", "criteria"})
    if form is JudgeForm.POINTWISE
    else (
        required | {"reference", "criteria"} | (_IDS if form is JudgeForm.CHOICE else frozenset())
    )
    for form, required in REQUIRED_SLOTS.items()
}
# What a template must say to the judge, or the reply can't be read.
OUTPUT_MARKS = {
    ReplyFormat.SCORE_LINES: "The score of Assistant 1:",
    ReplyFormat.SCORE_JSON: '"score_1"',
    ReplyFormat.VERDICT_MARK: "[[A]]",
    ReplyFormat.VERDICT_LINE: "Assistant 1",
}
# What a score may be kept as, with room to spare; exact arithmetic on 1e500000 never ends.
LARGEST_SCORE = Decimal(1_000_000)
SCORE_STEP = Decimal("0.01")
_ANY_SLOT = re.compile(r"\{([A-Za-z][A-Za-z0-9_]{0,40})\}")


class TemplateRefused(ValueError):
    """A template that can't be used; `problems` are sentences, one for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def read_template(name: str, source: str) -> Template:
    """A template from a TOML file: form, reply, text, and where they matter scale and ids."""
    try:
        return custom_template(name, tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise TemplateRefused([f"The template file is not TOML: {error}."]) from None


def custom_template(name: str, fields: Mapping[str, object]) -> Template:
    """A template as declared, checked. `sample_reply`, where given, must be read as a verdict."""
    try:
        form = JudgeForm(str(fields.get("form", "")))
    except ValueError:
        raise TemplateRefused([f"The form is one of: {', '.join(JudgeForm)}."]) from None
    replies = REPLIES_OF_FORM[form]
    try:
        reply = ReplyFormat(str(fields.get("reply") or replies[0]))
    except ValueError:
        raise TemplateRefused([f"The reply is one of: {', '.join(ReplyFormat)}."]) from None
    ids = fields.get("ids", ("A", "B"))
    if not isinstance(ids, list | tuple) or len(ids) != 2:
        raise TemplateRefused(["The ids are two texts."])
    template = Template(
        name=name,
        text=str(fields.get("text", "")).strip("\n"),
        form=form,
        reply=reply,
        scale=_scale(form, fields.get("scale")),
        source=str(fields.get("source", "written here")),
        ids=(str(ids[0]), str(ids[1])),
    )
    found = problems(template, sample_reply=str(fields.get("sample_reply") or ""))
    if found:
        raise TemplateRefused(found)
    return template


def problems(template: Template, *, sample_reply: str = "") -> list[str]:
    """Why the template can't be used; empty when it can."""
    form, text = template.form, template.text
    allowed = _ALLOWED_SLOTS[form]
    named = [canonical(name) for name in _ANY_SLOT.findall(text)]
    found = [
        f"The slot {{{slot}}} is missing." for slot in sorted(REQUIRED_SLOTS[form] - set(named))
    ]
    found += [
        f"{{{slot}}} is no slot of the form {form}; its slots are "
        + ", ".join(f"{{{name}}}" for name in sorted(allowed))
        + "."
        for slot in sorted(set(named) - allowed)
    ]
    found += [
        f"The slot {{{slot}}} stands {named.count(slot)} times; it must stand once."
        for slot in ("first", "second", "output")
        if named.count(slot) > 1
    ]
    if template.reply not in REPLIES_OF_FORM[form]:
        found.append(f"The form {form} is not answered by {template.reply}.")
    mark = OUTPUT_MARKS.get(template.reply, "")
    if mark not in text:
        found.append(f"The template must ask for an answer with “{mark}” in it.")
    if form is JudgeForm.CHOICE:
        try:
            check_ids(template.ids)
        except UnusableIds as error:
            found.append(str(error))
    elif sample_reply and not found:
        status = parse(template, sample_reply, "stop").status
        if status is not Status.VALID:
            found.append(f"The sample reply holds no verdict that can be read: it is {status}.")
    return found


def _scale(form: JudgeForm, bounds: object) -> Scale:
    if bounds is None:
        return LIKERT if form is JudgeForm.LIKERT else SCORES
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise TemplateRefused(["The scale is two numbers, the lowest and the highest."])
    try:
        low, high = (Decimal(str(bound)) for bound in bounds)
    except InvalidOperation:
        raise TemplateRefused(["The scale is two numbers, the lowest and the highest."]) from None
    if not (low.is_finite() and high.is_finite() and low < high):
        raise TemplateRefused(["The scale's lowest number must be below its highest."])
    within = all(abs(bound) <= LARGEST_SCORE for bound in (low, high))
    if not within or any(bound != bound.quantize(SCORE_STEP) for bound in (low, high)):
        raise TemplateRefused(
            [f"The scale's ends lie within {LARGEST_SCORE:,} of 0 and have two decimals at most."]
        )
    if form is JudgeForm.LIKERT and (low, high) != (LIKERT.low, LIKERT.high):
        raise TemplateRefused(["The form likert has the scale 1 to 7."])
    return Scale(low, high, whole=form is JudgeForm.LIKERT)
