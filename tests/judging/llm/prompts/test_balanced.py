import pytest

from judging.llm.prompts.templates import balanced, first_token_is_first, is_swapped


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        (("X0", "X1", "X2", "X3"), ("X0", "X1", "X2", "X3")),
        (("X0", "X2"), ("X0", "X2")),
        (("X0", "X1", "X2"), ("X0", "X2")),
        (("X0",), ("X0",)),
        (("X1", "X0"), ("X0",)),
    ],
)
def test_the_largest_balanced_set_of_permutations_counts(asked, counted):
    assert balanced(asked) == counted


def test_in_a_balanced_set_position_and_token_cancel():
    for counted in (balanced(("X0", "X2")), balanced(("X0", "X1", "X2", "X3"))):
        swapped = [is_swapped(part) for part in counted]
        response_1_bears_the_first_token = [
            first_token_is_first(part) != is_swapped(part) for part in counted
        ]
        assert sum(swapped) * 2 == len(counted)
        assert sum(response_1_bears_the_first_token) * 2 == len(counted)
