"""A user's own template: what it must contain, and why it is refused."""

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from judging.llm.parsing.choice import UnusableIds, check_ids
from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import (
    CONVERSATION_SLOTS,
    ID_SLOTS,
    LEAST_MASS,
    LIKERT,
    PAIR_SLOTS,
    REPLIES_OF_FORM,
    JudgeForm,
    ReplyFormat,
    Scale,
    Template,
    canonical,
    default_scale,
)

# Slots that a template must have, and others that it may have.
REQUIRED_SLOTS = dict.fromkeys(JudgeForm, PAIR_SLOTS) | {
    JudgeForm.CHOICE: PAIR_SLOTS | {"id_first", "id_second"},
    JudgeForm.POINTWISE: frozenset({"output"}),
    JudgeForm.CRITERIA: PAIR_SLOTS | {"criteria"},
}
_OPTIONAL_SLOTS = dict.fromkeys(JudgeForm, frozenset({"reference", "criteria"})) | {
    JudgeForm.CHOICE: ID_SLOTS | {"reference", "criteria"},
    JudgeForm.POINTWISE: frozenset({"input", "criteria"}),
    JudgeForm.CRITERIA: frozenset({"reference"}),
}
# Without these words in the template, the reply can't be read.
OUTPUT_MARKS = {
    ReplyFormat.SCORE_LINES: "The score of Assistant 1:",
    ReplyFormat.SCORE_JSON: '"score_1"',
    ReplyFormat.CRITERIA_JSON: '"scores"',
    ReplyFormat.VERDICT_MARK: "[[A]]",
    ReplyFormat.VERDICT_LINE: "Assistant 1",
}
# A database column holds these, with room to spare. Exact arithmetic on 1e500000 would never end.
LARGEST_SCORE = Decimal(1_000_000)
SCORE_STEP = Decimal("0.01")
_ANY_SLOT = re.compile(r"\{([A-Za-z][A-Za-z0-9_]{0,40})\}")


class TemplateRefused(ValueError):
    """A template that can't be used. `problems` has a sentence for each reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def read_template(name: str, source: str) -> Template:
    """Read a template from TOML: form, reply, text and, if they matter, scale, ids, least_mass."""
    try:
        return custom_template(name, tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise TemplateRefused([f"The template file is not TOML: {error}."]) from None


def custom_template(name: str, fields: Mapping[str, object]) -> Template:
    """Build and check a template. `sample_reply`, if given, must be readable as a verdict."""
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
    least = fields.get("least_mass", LEAST_MASS)
    if not isinstance(least, int | float) or not 0 <= least <= 1:
        raise TemplateRefused(["The least_mass is a number from 0 to 1."])
    template = Template(
        name=name,
        text=str(fields.get("text", "")).strip("\n"),
        form=form,
        reply=reply,
        scale=_scale(form, fields.get("scale")),
        source=str(fields.get("source", "written here")),
        ids=(str(ids[0]), str(ids[1])),
        least_mass=float(least),
    )
    if reasons := problems(template, sample_reply=str(fields.get("sample_reply") or "")):
        raise TemplateRefused(reasons)
    return template


def problems(template: Template, *, sample_reply: str = "") -> list[str]:
    """Return why the template can't be used, one sentence for each reason."""
    form, text = template.form, template.text
    required = REQUIRED_SLOTS[form]
    allowed = required | _OPTIONAL_SLOTS[form]
    named = [canonical(name) for name in _ANY_SLOT.findall(text)]
    if required >= PAIR_SLOTS:
        allowed |= CONVERSATION_SLOTS
        # Whole conversations hold the question and both responses.
        if CONVERSATION_SLOTS & set(named):
            required = (required - PAIR_SLOTS) | CONVERSATION_SLOTS
    reasons = [f"The slot {{{slot}}} is missing." for slot in sorted(required - set(named))]
    reasons += [
        f"{{{slot}}} is not a slot of the form {form}. Its slots are "
        + ", ".join(f"{{{name}}}" for name in sorted(allowed))
        + "."
        for slot in sorted(set(named) - allowed)
    ]
    reasons += [
        f"The slot {{{slot}}} occurs {named.count(slot)} times. It must occur once."
        for slot in ("first", "second", "output", *sorted(CONVERSATION_SLOTS))
        if named.count(slot) > 1
    ]
    if template.reply not in REPLIES_OF_FORM[form]:
        reasons.append(f"The form {form} is not answered by {template.reply}.")
    mark = OUTPUT_MARKS.get(template.reply, "")
    if mark not in text:
        reasons.append(f"The template must ask for an answer with “{mark}” in it.")
    if form is JudgeForm.CHOICE:
        try:
            check_ids(template.ids)
        except UnusableIds as error:
            reasons.append(str(error))
    elif form is JudgeForm.CRITERIA and sample_reply:
        reasons.append("The form criteria takes no sample reply: the run names the criteria.")
    elif sample_reply and not reasons:
        status = parse(template, sample_reply, "stop").status
        if status is not Status.VALID:
            reasons.append(f"The sample reply contains no readable verdict. It is {status}.")
    return reasons


def _scale(form: JudgeForm, bounds: object) -> Scale:
    if bounds is None:
        return default_scale(form)
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
