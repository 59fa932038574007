"""The part of the start form that is about a choice between two ID tokens."""

from decimal import Decimal
from typing import Any

from django import forms

from judging.forms.amounts import whole
from judging.models.runs import Form, Run
from judging.runs.choices import MOST_SHOTS, PERMUTATIONS, USUAL_PERMUTATIONS

CHOICE_FIELDS = ("permutations", "ids", "band", "shots")


class ChoiceForm(forms.Form):
    permutations = forms.TypedChoiceField(
        label="Permutations",
        required=False,
        coerce=int,
        choices=[(n, ", ".join(names)) for n, names in PERMUTATIONS.items()],
        initial=USUAL_PERMUTATIONS,
        empty_value=None,
        help_text="X1 and X2 show response 2 first; X2 and X3 give it the first ID.",
    )
    ids = forms.CharField(
        label="Option IDs", required=False, max_length=40, help_text="A,B when left out."
    )
    band = forms.DecimalField(
        label="Band around ½ that is a tie",
        required=False,
        min_value=Decimal(0),
        max_value=Decimal("0.499"),
        decimal_places=6,
        help_text="None when left out, as in the paper.",
        widget=forms.NumberInput(attrs={"step": "0.01", "min": "0", "max": "0.499"}),
    )
    shots = whole(
        "Examples shown before",
        MOST_SHOTS,
        "Solved ones of this project; none when left out.",
        least=0,
    )

    def choice_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in CHOICE_FIELDS]

    def choice_is_meant(self) -> bool:
        """Whether what concerns a choice alone must not stay folded."""
        return self["form"].value() == Form.CHOICE


def choice_settings_of(run: Run) -> dict[str, Any]:
    permutations = run.parameters.get("permutations")
    if not permutations:
        return {}
    # A run that was recorded elsewhere does not say under which IDs and examples it was asked.
    return {
        "permutations": len(permutations),
        "ids": ",".join(run.parameters.get("output", {}).get("ids", ())),
        "band": float(run.band) or None,
        "shots": run.parameters.get("shots", {}).get("shown"),
    }
