"""The form in which a judge template is written, and tried out before it is kept."""

from decimal import Decimal
from typing import Any

from django import forms

from judging.llm.custom import TemplateRefused, custom_template
from judging.llm.templating import REPLIES_OF_FORM, Form, ReplyFormat, Template

FORMS = (Form.SCORE, Form.RELATION, Form.LIKERT)
FORM_OF = {reply: form for form in FORMS for reply in REPLIES_OF_FORM[form]}
ANSWERS = {
    ReplyFormat.SCORE_LINES: "two scores, in lines: The score of Assistant 1: 8",
    ReplyFormat.SCORE_PAIR: "two scores, as two values in the first line: 8 6",
    ReplyFormat.SCORE_JSON: 'two scores, in JSON: {"evidence": "…", "score_1": 8, "score_2": 6}',
    ReplyFormat.VERDICT_MARK: "a verdict, by its mark: [[A]], [[B]] or [[C]] for a tie",
    ReplyFormat.VERDICT_LINE: "a verdict, in a line: Assistant 1, Assistant 2 or Same",
    ReplyFormat.RATING_LINE: "a rating from 1 to 7 in the first line, higher for the first",
}
LONGEST_TEXT = 20_000
LONGEST_REPLY = 5_000


class TemplateForm(forms.Form):
    name = forms.SlugField(
        label="Name",
        max_length=80,
        help_text="Letters, digits and hyphens. A name that is there gets a new version.",
    )
    reply = forms.ChoiceField(
        label="The judge answers with",
        choices=[(reply.value, text) for reply, text in ANSWERS.items()],
    )
    low = forms.DecimalField(label="Lowest score", initial=Decimal(1), decimal_places=2)
    high = forms.DecimalField(label="Highest score", initial=Decimal(10), decimal_places=2)
    text = forms.CharField(
        label="Text",
        max_length=LONGEST_TEXT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 22, "class": "mono", "spellcheck": "false"}),
        help_text="Slots: {question}, {first} and {second} for the responses by position, "
        "{reference} and {criteria} (the project's criteria) where wanted. {Q}, {R1} and {R2} are "
        "read as the first three.",
    )
    sample_reply = forms.CharField(
        label="A sample reply",
        max_length=LONGEST_REPLY,
        widget=forms.Textarea(attrs={"rows": 4, "class": "mono"}),
        help_text="As the judge would write it, with a verdict. It must be readable.",
    )
    template: Template | None = None

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if self.errors:
            return values
        for name in ("text", "sample_reply"):
            values[name] = values[name].replace("\r\n", "\n")
        reply = ReplyFormat(values["reply"])
        try:
            self.template = custom_template(
                values["name"],
                {
                    "form": FORM_OF[reply].value,
                    "reply": reply.value,
                    "text": values["text"],
                    "scale": scale(reply, values),
                    "sample_reply": values["sample_reply"],
                },
            )
        except TemplateRefused as refused:
            for problem in refused.problems:
                self.add_error("sample_reply" if "sample reply" in problem else "text", problem)
        return values


def scale(reply: ReplyFormat, values: dict[str, Any]) -> list[Decimal] | None:
    return [values["low"], values["high"]] if FORM_OF[reply] is Form.SCORE else None


def filled_in(template: Template, name: str, sample_reply: str = "") -> dict[str, Any]:
    """What the form starts from when a template is copied."""
    return {
        "name": name,
        "reply": template.reply.value,
        "low": template.scale.low,
        "high": template.scale.high,
        "text": template.text,
        "sample_reply": sample_reply,
    }
