import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.prompts.templates import (
    ORDERS,
    UNSPLIT,
    PromptVariant,
    UnknownPart,
    stage_parts,
)
from judging.methods.calibration.probabilities import PERMUTATIONS

ARRANGEMENTS = (*ORDERS, *PERMUTATIONS)
arrangements = st.sampled_from(ARRANGEMENTS)
INPUTS = st.just("cc") | st.integers(0, 99).map("dc:{}".format)
VARIANTS = st.one_of(
    st.builds(PromptVariant, arrangements),
    st.builds(PromptVariant, st.sampled_from(ORDERS), st.sampled_from(("length", "semantic"))),
    st.builds(PromptVariant, arrangements, input=INPUTS),
    # A criterion is any text, and may look like an order or hold a colon.
    st.builds(PromptVariant, criterion=st.text(min_size=1) | arrangements),
)


@given(VARIANTS)
def test_every_variant_comes_back_from_its_stored_text(variant):
    assert PromptVariant.parse(str(variant)) == variant


@pytest.mark.parametrize(
    ("part", "variant"),
    [
        ("original", PromptVariant("original")),
        ("X2", PromptVariant("X2")),
        ("portia:semantic:swapped", PromptVariant("swapped", stage="semantic")),
        ("cc:X0", PromptVariant("X0", input="cc")),
        ("dc:3:X0", PromptVariant("X0", input="dc:3")),
        ("item:fluency", PromptVariant(criterion="fluency")),
        ("item:tone: formal", PromptVariant(criterion="tone: formal")),
        ("second pass:swapped", PromptVariant("swapped", input="second pass")),
    ],
)
def test_the_stored_texts_of_today_stay_as_they_are(part, variant):
    assert (PromptVariant.parse(part), str(variant)) == (variant, part)


@pytest.mark.parametrize(
    ("arrangement", "first", "ids"),
    [
        ("original", 1, ("A", "B")),
        ("swapped", 2, ("A", "B")),
        ("X0", 1, ("A", "B")),
        ("X1", 2, ("B", "A")),
        ("X2", 2, ("A", "B")),
        ("X3", 1, ("B", "A")),
    ],
)
def test_an_arrangement_says_which_response_and_which_token_come_first(arrangement, first, ids):
    variant = PromptVariant(arrangement)
    assert variant.shown(1, 2)[0] == first
    assert variant.shown_ids(("A", "B")) == ids
    assert variant.order == ORDERS[first - 1]


@given(VARIANTS.filter(lambda variant: variant.arrangement), st.integers(), st.integers())
def test_showing_twice_turns_back(variant, one, other):
    assert variant.shown(*variant.shown(one, other)) == (one, other)


def test_a_single_response_has_no_order():
    with pytest.raises(UnknownPart, match="item:original"):
        _ = PromptVariant.parse("item:original").order


def test_the_unsplit_stage_has_the_parts_of_any_other_method():
    assert stage_parts(UNSPLIT) == ORDERS
    assert stage_parts("length") == ("portia:length:original", "portia:length:swapped")
