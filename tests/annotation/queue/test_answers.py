"""An answer is by side; the label is from response 1's view, whatever stood left."""

from decimal import Decimal

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


HALF = Decimal("0.5")


@pytest.fixture
def ruled(project):
    project.criteria, project.cant_judge = ["accuracy", "tone"], True
    project.overall_from = "weighted"
    project.criterion_weights, project.tie_margin = {"accuracy": "2", "tone": "1.5"}, HALF
    return project


@pytest.mark.parametrize(
    ("accuracy", "tone", "overall"),
    [
        ("left", "tie", "left"),
        # 2 to 1.5 differs by the margin.
        ("left", "right", "tie"),
        ("tie", "right_much", "right"),
        ("tie", "tie", "tie"),
    ],
)
def test_a_rule_derives_the_overall_answer_and_is_kept_with_it(ruled, accuracy, tone, overall):
    ruled.scale = "five"
    protocol = current_protocol(ruled)
    criteria = {"accuracy": accuracy, "tone": tone}
    # Nobody can choose the overall answer beside them.
    found = checked_answer(protocol, {"overall": "right_much", "criteria": criteria})
    rule = {
        "rule": "weighted",
        "criteria": ["accuracy", "tone"],
        "weights": ["2", "1.5"],
        "margin": "0.5",
    }
    assert found == {"overall": overall, "criteria": criteria, "rule": rule}
    with pytest.raises(UserError, match="Missing: tone"):
        checked_answer(protocol, {"criteria": {"accuracy": "left"}})


def test_only_cant_judge_is_left_of_the_overall_answers(ruled):
    protocol = current_protocol(ruled)
    assert [option.value for option in answer_options(protocol)] == ["cant_judge"]
    assert checked_answer(protocol, {"overall": "cant_judge"}, "in Greek") == {
        "overall": "cant_judge"
    }


def test_the_first_criterion_that_is_no_tie_decides(ruled):
    ruled.overall_from = "lexicographic"
    protocol = current_protocol(ruled)
    for accuracy, tone, overall in (
        ("right", "left", "right"),
        ("tie", "left", "left"),
        ("tie", "tie", "tie"),
    ):
        answer = {"criteria": {"accuracy": accuracy, "tone": tone}}
        assert checked_answer(protocol, answer)["overall"] == overall


def test_another_rule_is_another_protocol_and_none_is_the_one_of_before(ruled):
    weighted = current_protocol(ruled)
    ruled.overall_from = "lexicographic"
    assert current_protocol(ruled) != weighted
    ruled.overall_from = ""
    asked = current_protocol(ruled)
    # What doesn't apply is no part of what was asked.
    ruled.criterion_weights, ruled.tie_margin = {}, Decimal(0)
    assert current_protocol(ruled) == asked
    ruled.criterion_weights = {"accuracy": "2", "tone": "1.5"}
    ruled.overall_from, ruled.tie_margin = "weighted", HALF
    assert current_protocol(ruled) == weighted
