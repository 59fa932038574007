"""The part of the start form that is about single responses."""

from typing import Any

from django import forms

from judging.models.runs import Form, Run

POINT_FIELDS = ("criteria", "scale")


class PointsForm(forms.Form):
    criteria = forms.CharField(
        label="Criteria",
        required=False,
        max_length=400,
        help_text="Such as fluency, relevance; those that people scored by when left out.",
    )
    scale = forms.CharField(
        label="Scale",
        required=False,
        max_length=20,
        help_text="Lowest and highest score, such as 1,5; the template’s when left out.",
    )

    def point_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in POINT_FIELDS]

    def points_are_meant(self) -> bool:
        return self["form"].value() == Form.POINTWISE


def points_settings_of(run: Run) -> dict[str, Any]:
    items = run.parameters.get("items")
    if not items:
        return {}
    low, high = run.parameters["output"]["scale"][:2]
    return {"criteria": ", ".join(name for name, _ in items), "scale": f"{low},{high}"}
