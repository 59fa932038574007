"""The part of a form that chooses examples: for runs and for rounds alike."""

import secrets
from typing import Any

from django import forms

from judging.core.errors import UserError
from judging.core.formatting import short_name
from judging.dataset.subsets import ALL, LARGEST_SEED, Subset, categories_of, tag_names
from judging.projects.models import Project

MOST_NAMES = 200
SUBSET_FIELDS = ("category", "tag", "sample", "sample_seed")


def shortened(name: str) -> str:
    return short_name(name)


def named(all_of_them: str, names: Any) -> list[tuple[str, str]]:
    return [("", all_of_them), *((name, shortened(name)) for name in names)]


class SubsetForm(forms.Form):
    """Choose by category, tag and sample. The seed comes with the page, so that a plan holds."""

    category = forms.ChoiceField(label="Category", required=False)
    tag = forms.ChoiceField(label="Tag", required=False)
    sample = forms.IntegerField(
        label="Examples drawn at random",
        required=False,
        min_value=1,
        max_value=10**8,
        help_text="If empty, all that match. A sample is fixed when you start: later imports don’t "
        "change it.",
    )
    sample_seed = forms.IntegerField(
        required=False, min_value=0, max_value=LARGEST_SEED, widget=forms.HiddenInput
    )

    def offer_subsets(self, project: Project) -> None:
        """Fill in the categories and tags of the project, and a seed for a new sample."""
        self.fields["category"].choices = named("all", categories_of(project, MOST_NAMES))
        self.fields["tag"].choices = named("all", tag_names(project, MOST_NAMES))
        self.fields["sample_seed"].initial = secrets.randbelow(LARGEST_SEED)

    @property
    def subset_fields(self) -> list[forms.BoundField]:
        """The fields to show: without those that offer nothing to choose."""
        shown = [self[name] for name in SUBSET_FIELDS]
        return [bound for bound in shown if len(getattr(bound.field, "choices", "ab")) > 1]

    def subset_is_meant(self) -> bool:
        return any(self[name].value() or self[name].errors for name in SUBSET_FIELDS[:3])

    def subset(self, seed: int | None = None) -> Subset:
        """Return what was chosen; a field that can't be read counts as empty.

        Args:
            seed: A seed that was named, which holds for the sample as well.
        """
        data = self.cleaned_data
        where = [f"{name}={data[name]}" for name in ("category", "tag") if data.get(name)]
        seed = data.get("sample_seed") if seed is None else seed
        try:
            return Subset.chosen(where, sample=data.get("sample"), seed=seed)
        except UserError:
            return ALL
