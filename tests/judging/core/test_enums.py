from django.db.models import TextChoices

from judging.core.enums import LabelledEnum
from judging.dataset.models import Label
from judging.llm.parsing.parse import Status
from judging.llm.prompts.templates import JudgeForm
from judging.methods.verdicts import verdicts
from judging.runs.models import Form, Parse, Verdict


class Ours(LabelledEnum):
    PLAIN = "too_long"
    LABELLED = "x", "the letter x"


class Djangos(TextChoices):
    PLAIN = "too_long", "too long"
    LABELLED = "x", "the letter x"


def test_an_enum_with_labels_is_to_a_field_what_djangos_is():
    assert Ours.choices == Djangos.choices
    assert Ours.values == Djangos.values
    assert [member.label for member in Ours] == Djangos.labels
    assert (Ours("x"), str(Ours.LABELLED)) == (Ours.LABELLED, "x")


def test_forms_labels_and_statuses_are_defined_once():
    assert Form is JudgeForm
    assert Label is verdicts.Label
    assert Parse.Status is Status
    assert Verdict.State is verdicts.VerdictState
