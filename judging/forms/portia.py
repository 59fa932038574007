"""The part of the start form that is about PORTIA: splitting, aligning and stages."""

from typing import Any

from django import forms

from judging.models.runs import Method, Run
from judging.runs.portia.settings import FEWEST_PARTS, MOST_PARTS, PARTS, WITHOUT, PortiaSettings

PORTIA_FIELDS = ("parts", "tokens", "unsplit_first", "without")


class PortiaForm(forms.Form):
    parts = forms.IntegerField(
        label="Parts",
        required=False,
        min_value=FEWEST_PARTS,
        max_value=MOST_PARTS,
        help_text=f"Of each response; {PARTS} when left out.",
    )
    tokens = forms.ChoiceField(
        label="Alike by",
        required=False,
        choices=[
            ("word", "words in lower case"),
            ("split", "what stands between spaces"),
            ("embedding", "sentences' meaning, by the operator's model"),
        ],
    )
    unsplit_first = forms.BooleanField(
        label="Show the whole responses first",
        required=False,
        help_text="So that fixed coverage can be told: two calls more for each example.",
    )
    without = forms.ChoiceField(
        label="Alignments",
        required=False,
        choices=[
            ("", "by length, then by what is alike"),
            ("semantic", "by length alone"),
            ("length", "by what is alike alone"),
        ],
    )

    def portia_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in PORTIA_FIELDS]

    def portia_is_meant(self) -> bool:
        return self["method"].value() == Method.PORTIA


def portia_settings_of(run: Run) -> dict[str, Any]:
    kept = PortiaSettings.of(run)
    if kept is None:
        return {}
    without = [name for name in WITHOUT if name not in kept.alignments]
    given = {"parts": kept.parts, "tokens": kept.tokens, "unsplit_first": kept.unsplit_first}
    return given | {"without": "".join(without)}
