"""An answer is by side; the label is from response 1's view, whatever stood left."""

import pytest

from annotation.queue.drafts import answer_options, checked_answer, label_of
from annotation.rounds.opening import current_protocol
from judging.core.errors import UserError


@pytest.mark.parametrize(
    ("value", "left", "label"),
    [
        ("left", 1, "win"),
        ("left", 2, "lose"),
        ("right", 1, "lose"),
        ("right", 2, "win"),
        ("left_much", 2, "lose"),
        ("right_much", 2, "win"),
        ("tie", 1, "tie"),
        ("both_bad", 2, "tie"),
    ],
)
def test_label_is_turned_back_to_response_1(value, left, label):
    assert label_of(value, left) == label


def test_five_points_and_criteria(project):
    project.scale, project.criteria, project.both_bad = "five", ["accuracy"], True
    protocol = current_protocol(project)
    assert [choice.value for choice in answer_options(protocol)] == [
        "left_much", "left", "tie", "right", "right_much", "both_bad",
    ]  # fmt: skip
    answer = {"overall": "left_much", "criteria": {"accuracy": "tie", "style": "left"}}
    assert checked_answer(protocol, answer) == {
        "overall": "left_much",
        "criteria": {"accuracy": "tie"},
    }
    with pytest.raises(UserError, match="accuracy"):
        checked_answer(protocol, {"overall": "left"})


@pytest.mark.parametrize("answer", [None, [], {}, {"overall": "left_much"}, {"overall": ""}])
def test_what_is_no_answer_is_refused(project, answer):
    with pytest.raises(UserError):
        checked_answer(current_protocol(project), answer)
