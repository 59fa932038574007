"""The filters above the list of examples."""

from django import forms
from django.utils.text import Truncator

from judging.models.examples import Example, Label
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict

MOST_CATEGORIES = 200
LONGEST_SEARCH = 200


def shortened(name: str) -> str:
    return Truncator(name).chars(40)


class ExampleFilter(forms.Form):
    """What is not a choice filters nothing. Labels and states are a run's, so it comes first."""

    run = forms.ChoiceField(label="Run", required=False)
    q = forms.CharField(label="Search", required=False, max_length=LONGEST_SEARCH)
    category = forms.ChoiceField(label="Category", required=False)
    label = forms.ChoiceField(
        label="Judge’s label", required=False, choices=[("", "any"), *Label.choices]
    )
    state = forms.ChoiceField(
        label="Verdict",
        required=False,
        choices=[("", "any"), *Verdict.State.choices, ("conflict", "orders in conflict")],
    )

    def __init__(self, project: Project, data: object, runs: list[Run]) -> None:
        super().__init__(data, auto_id="filter-%s")
        self.fields["run"].choices = [
            ("", "none: texts only"),
            *((str(run.number), shortened(f"{run.number} · {run.name}")) for run in runs),
        ]
        found = Example.objects.filter(project=project).exclude(category="").visible()
        names = found.order_by("category").values_list("category", flat=True).distinct()
        self.fields["category"].choices = [
            ("", "all"),
            *((name, shortened(name)) for name in names[:MOST_CATEGORIES]),
        ]
        self.is_valid()

    def shown_fields(self) -> list[forms.BoundField]:
        names = ["run", "q", "category"]
        return [self[name] for name in names + (["label", "state"] if self.run_number else [])]

    @property
    def run_number(self) -> int | None:
        number = self.cleaned_data.get("run")
        return int(number) if number else None
