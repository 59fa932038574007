from decimal import Decimal
from fractions import Fraction

import pytest

from judging.methods.verdicts.verdicts import (
    Label,
    outcome_of,
    score_pair_from_outcome,
    score_pair_from_probability,
    score_pair_from_rating,
    score_pair_from_scores,
)


def test_each_form_gives_the_pair_of_its_definition():
    assert score_pair_from_scores(Decimal("7.2"), Decimal(9)) == (Fraction(36, 5), 9)
    assert score_pair_from_outcome(Label.WIN) == (1, 0)
    assert score_pair_from_outcome(Label.TIE) == (Fraction(1, 2), Fraction(1, 2))
    assert score_pair_from_outcome(Label.LOSE) == (0, 1)
    assert score_pair_from_rating(Decimal(6)) == (6, 2)
    assert score_pair_from_probability(Decimal("0.3")) == (Fraction(3, 10), Fraction(7, 10))


def test_a_rating_of_four_is_a_tie_and_a_higher_one_a_win():
    outcomes = [outcome_of(score_pair_from_rating(rating)) for rating in range(1, 8)]
    assert outcomes == ["lose"] * 3 + ["tie"] + ["win"] * 3


@pytest.mark.parametrize("rating", [0, 8, Decimal("7.01")])
def test_a_rating_off_the_scale_is_refused(rating):
    with pytest.raises(ValueError, match="between 1 and 7"):
        score_pair_from_rating(rating)


def test_a_probability_off_the_scale_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        score_pair_from_probability(Decimal("1.0001"))


def test_the_band_around_one_half_is_closed():
    band = 2 * Fraction(5, 100)
    probabilities = [Decimal("0.44"), Decimal("0.45"), Decimal("0.55"), Decimal("0.56")]
    outcomes = [outcome_of(score_pair_from_probability(p), band) for p in probabilities]
    assert outcomes == ["lose", "tie", "tie", "win"]


def test_turning_a_label_twice_gives_it_back():
    assert [label.turned for label in Label] == ["lose", "tie", "win"]
    assert all(label.turned.turned is label for label in Label)
