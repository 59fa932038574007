"""The part of the start form that makes a run cheaper: batches, and fewer calls."""

from decimal import Decimal
from typing import Any

from django import forms

from judging.models.runs import Run
from judging.runs.usual import LEAST_CONFIDENCE

MOST_CONFIDENCE = Decimal("0.999")
ECONOMY_FIELDS = ("batch", "adaptive")


class EconomyForm(forms.Form):
    batch = forms.BooleanField(
        label="Hand the calls in as batches",
        required=False,
        help_text="Half the price, and up to 24 hours for each batch. The endpoint must take "
        "OpenAI’s batches; local does not.",
    )
    adaptive = forms.DecimalField(
        label="Stop early, at a confidence of",
        required=False,
        min_value=Decimal(str(LEAST_CONFIDENCE)),
        max_value=MOST_CONFIDENCE,
        widget=forms.NumberInput(
            attrs={"step": "any", "min": str(LEAST_CONFIDENCE), "max": str(MOST_CONFIDENCE)}
        ),
        help_text="0.95 is usual; left out, every sample is asked. An example is asked until its "
        "label can’t change, or is this surely the one that all samples would give. That is about "
        "the judge, not the truth. For k of 2 or more in both orders.",
    )

    @property
    def economy(self) -> dict[str, Any]:
        """The arguments of `choose_judge`."""
        confidence = self.cleaned_data["adaptive"]
        return {
            "batch": self.cleaned_data["batch"],
            "adaptive": None if confidence is None else float(confidence),
        }

    def economy_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ECONOMY_FIELDS]

    def economy_is_meant(self) -> bool:
        """Whether something of it was chosen, and must not stay folded."""
        return any(field.value() or field.errors for field in self.economy_fields())


def economy_settings_of(run: Run) -> dict[str, Any]:
    adaptive = run.parameters.get("adaptive") or {}
    return {"batch": bool(run.parameters.get("batch")), "adaptive": adaptive.get("confidence")}
