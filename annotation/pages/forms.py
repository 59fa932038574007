"""Forms of the manager's pages."""

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from annotation.models import Annotator, Round
from annotation.people.annotators import assignable
from annotation.people.invitations import MAX_DAYS, MAX_USES, Terms
from judging.dataset.models import Label
from judging.projects.models import Project, Role

_MOST_CRITERIA = 12
_TAKEN = "This name is taken. Choose another, or log in with it."


class LinesField(forms.CharField):
    """Text of several lines. Browsers end each with a carriage return, which changes nothing."""

    def to_python(self, value: Any) -> str:
        return super().to_python(value).replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


class SettingsForm(forms.ModelForm):
    """What people are asked, how it is merged, and what a vote costs."""

    criteria = LinesField(
        required=False,
        label="Criteria",
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="One a line, such as helpfulness, relevance, accuracy, level of detail. Each is "
        "asked beside the overall question. Leave empty to ask the overall question alone.",
    )

    class Meta:
        model = Project
        fields = (
            "name", "description", "question_asked", "guidelines", "scale", "both_bad", "criteria",
            "rendering", "no_majority", "leave_out_unblinded", "wage_usd", "minutes_per_vote",
            "cost_basis",
        )  # fmt: skip
        field_classes = {"guidelines": LinesField, "description": LinesField}
        labels = {
            "question_asked": "The question asked",
            "both_bad": "Offer “both are bad” as a choice",
            "rendering": "Responses are shown as",
            "no_majority": "Where votes have no majority",
            "leave_out_unblinded": "Leave out votes given unblinded",
            "wage_usd": "Wage, USD an hour",
            "minutes_per_vote": "Minutes a vote, assumed",
            "cost_basis": "Human cost is counted by",
        }
        help_texts = {
            "name": "Annotators see it, so let it name neither model.",
            "guidelines": "Markdown. Annotators have them at hand on every item.",
            "leave_out_unblinded": "Votes of people who had seen what the judge says in this "
            "project. They stay on record and cost what they cost, but enter no result and no "
            "final label: the label is the majority of an item's other votes. Without a majority "
            "the choice above holds, as each round took it over; where no other vote is left, a "
            "person decides. This holds at once, in rounds that are open or closed as well, so "
            "choose before you look at results.",
            "wage_usd": "7.50 and three minutes are FairEval's figures (footnote 1).",
        }
        widgets = {
            "guidelines": forms.Textarea(attrs={"rows": 12}),
            "description": forms.Textarea(attrs={"rows": 3}),
            "scale": forms.RadioSelect,
            "rendering": forms.RadioSelect,
            "no_majority": forms.RadioSelect,
            "cost_basis": forms.RadioSelect,
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.before = {name: getattr(self.instance, name) for name in self.fields}
        self.initial["criteria"] = "\n".join(self.instance.criteria)
        for name in ("wage_usd", "minutes_per_vote"):
            self.initial[name] = Decimal(f"{self.initial[name].normalize():f}")

    def save(self, commit: bool = True) -> Project:
        """What was changed here alone: others change the rest of the project meanwhile."""
        self.instance.save(update_fields=self.changed_data)
        return self.instance

    def changes(self) -> dict[str, dict[str, Any]]:
        """What each changed setting was and is, as it is kept in the audit trail."""
        now = {name: getattr(self.instance, name) for name in self.changed_data}
        return {
            name: {"before": _plain(self.before[name]), "now": _plain(value)}
            for name, value in now.items()
            if value != self.before[name]
        }

    def clean_criteria(self) -> list[str]:
        names = [line.strip() for line in self.cleaned_data["criteria"].splitlines()]
        names = list(dict.fromkeys(name for name in names if name))
        if len(names) > _MOST_CRITERIA:
            raise forms.ValidationError(f"At most {_MOST_CRITERIA} criteria can be asked at once.")
        if any(len(name) > 60 or not name.isprintable() for name in names):
            raise forms.ValidationError("A criterion is a short name on a line of its own.")
        return names


def _plain(value: Any) -> Any:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


class InvitationForm(forms.Form):
    role = forms.ChoiceField(choices=Role, initial=Role.ANNOTATOR, label="They join as")
    uses = forms.IntegerField(
        min_value=1, max_value=MAX_USES, initial=10, label="People who may use the link"
    )
    days = forms.IntegerField(min_value=1, max_value=MAX_DAYS, initial=14, label="Valid for days")
    note = forms.CharField(
        max_length=200, required=False, label="Note", help_text="For yourself: whom it is for."
    )

    def terms(self) -> Terms:
        return Terms(**self.cleaned_data)


class NameTaken(Exception):
    """Somebody else took the name between the look at the form and the making of the login."""


class JoinForm(UserCreationForm):
    """A new login, made on the way in."""

    class Meta:
        model = User
        fields = ("username",)
        help_texts = {
            "username": "Letters, digits and @ . + - _ only. The project's owners see it."
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].help_text = "At least 8 characters; no common word, no name."
        self.fields["password2"].help_text = ""

    def clean_username(self) -> str:
        name = self.cleaned_data["username"]
        if User.objects.filter(username__iexact=name).exists():
            raise forms.ValidationError(_TAKEN)
        return name

    def create(self) -> User:
        """Within a transaction, in which a name that is taken spoils nothing else."""
        try:
            with transaction.atomic():
                return self.save()
        except IntegrityError:
            raise NameTaken(_TAKEN) from None


class DecisionForm(forms.Form):
    label = forms.ChoiceField(
        choices=[
            (Label.WIN, "Response 1 is better"),
            (Label.TIE, "Tie"),
            (Label.LOSE, "Response 2 is better"),
        ],
        widget=forms.RadioSelect,
        label="Decision",
    )
    reason = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), max_length=2000)


class VotesForm(forms.Form):
    votes = forms.IntegerField(min_value=2, max_value=99, label="Votes an item")


class AssignForm(forms.Form):
    """Nobody marked means everybody, those who join later too."""

    people = forms.ModelMultipleChoiceField(
        queryset=Annotator.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Only these",
        help_text="Mark nobody to hand out to everybody, those who join later too.",
    )
    limit = forms.IntegerField(
        min_value=1, max_value=1_000_000, required=False, label="Most items a person"
    )

    def __init__(self, round_: Round, *args: Any, **kwargs: Any) -> None:
        named = [] if round_.open_to_all else round_.seats.values_list("annotator", flat=True)
        initial = {"people": list(named), "limit": round_.parameters.get("limit")}
        super().__init__(*args, initial=initial, **kwargs)
        self.fields["people"].queryset = assignable(round_.project)


class ExtendForm(forms.Form):
    beta = forms.DecimalField(min_value=0, max_value=100, label="New β, percent")


class ConfirmForm(forms.Form):
    """A destructive step: the name of what it destroys has to be typed."""

    confirm = forms.CharField(required=False)

    def __init__(self, expected: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected

    def clean_confirm(self) -> str:
        typed = re.sub(r"\s+", " ", self.cleaned_data["confirm"]).strip()
        if typed != self.expected:
            raise forms.ValidationError(f"Type “{self.expected}” to confirm. Nothing was deleted.")
        return typed
