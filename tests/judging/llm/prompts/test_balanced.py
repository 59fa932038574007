import pytest

from judging.llm.prompts.templates import PromptVariant, balanced


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
        variants = [PromptVariant.parse(part) for part in counted]
        assert sum(variant.swapped for variant in variants) * 2 == len(counted)
        bearing = [variant.response_1_bears_first_token for variant in variants]
        assert sum(bearing) * 2 == len(counted)
