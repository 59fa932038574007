"""The forms on a run's page: another budget, and going on."""

from collections.abc import Mapping
from typing import Any

from django import forms

from judging.forms.amounts import MOST_TOKENS, dollars, plainly, whole
from judging.models.calls import Parse
from judging.models.runs import Run
from judging.runs.endpoints import LOCAL
from judging.runs.states import RETRIABLE


class BudgetForm(forms.Form):
    budget = dollars("Budget, USD", required=True)

    def __init__(self, run: Run, data: Any = None) -> None:
        super().__init__(data, initial={"budget": plainly(run.budget_usd)})


class ResumeForm(forms.Form):
    """Errors are always asked again; other statuses only when a person says so."""

    retry = forms.MultipleChoiceField(
        label="Ask again what ended as", required=False, widget=forms.CheckboxSelectMultiple
    )
    max_tokens = whole("Most tokens a sample", MOST_TOKENS, "For the calls to come.")
    budget = dollars("Budget, USD")

    def __init__(self, run: Run, statuses: Mapping[str, int], data: Any = None) -> None:
        super().__init__(data, initial={"budget": plainly(run.budget_usd)})
        self.fields["retry"].choices = [
            (status, f"{status.replace('_', ' ')}: {n}")
            for status, n in statuses.items()
            if status in RETRIABLE - {Parse.Status.ERROR}
        ]
        # What this machine's own judge costs is nothing, and no budget holds it.
        self.priced = run.price is not None and run.endpoint != LOCAL

    def shown_fields(self) -> list[forms.BoundField]:
        shown = {"retry": bool(self.fields["retry"].choices), "budget": self.priced}
        return [field for field in self if shown.get(field.name, True)]

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of `resume`."""
        return {
            "retry": {Parse.Status.ERROR, *self.cleaned_data["retry"]},
            "max_tokens": self.cleaned_data["max_tokens"],
            "budget": self.cleaned_data["budget"] if self.priced else None,
        }
