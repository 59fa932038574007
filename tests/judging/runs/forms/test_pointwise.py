"""What a pointwise run may be started with."""

from decimal import Decimal

import pytest

from judging.core.errors import UserError
from judging.runs.forms.pointwise import named_criteria, read_scale


@pytest.mark.parametrize(
    "text", ["1", "5,1", "1,1e50", "1,nan", "inf,1", "-1,5", "1e-50,5", "0.5,5", "0,101", "1,2,3"]
)
def test_a_scale_that_is_no_two_whole_numbers_is_refused(text):
    with pytest.raises(UserError, match="scale is two whole numbers"):
        read_scale(text)


def test_a_scale_is_read_as_it_stands():
    assert read_scale("") is None
    scale = read_scale(" 0, 100 ")
    assert (scale.low, scale.high) == (Decimal(0), Decimal(100))


def test_criteria_without_end_are_refused():
    names = [f"c{n}" for n in range(50)]
    assert named_criteria(None, ",".join([*names, "c0"])) == names
    with pytest.raises(UserError, match="about at most 50 criteria"):
        named_criteria(None, ",".join([*names, "one more"]))
