"""Models of votes against an independent calculation, and alpha over examples and annotators."""

import numpy as np
import pytest

from judging.methods.agreement.skills import (
    ALIKE,
    DIFFICULTIES,
    FEW_PEOPLE,
    GUESSES,
    NEVER_MET,
    SAMENESS,
    TYPICAL,
    CastVotes,
    dawid_skene,
    hierarchical,
    two_way_alpha,
)
from judging.methods.agreement.votes import category_counts, krippendorff_alpha
from judging.methods.intervals.estimates import Undefined

# Win, tie and lose of four examples by three people; the last two examples have two votes.
VOTES = np.array([[1, 1, -1], [-1, -1, -1], [0, 1, 0], [1, -1, 0]], dtype=np.int8)
PRESENT = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0], [0, 1, 1]], dtype=bool)


def dirichlet(rng, alpha, shape):
    drawn = rng.standard_gamma(alpha, (*shape, *np.shape(alpha)) if shape else None)
    return drawn / drawn.sum(axis=-1, keepdims=True)


@pytest.mark.system
def test_the_posterior_is_that_of_draws_from_the_model_weighed_by_the_votes(rng):
    """Importance sampling: parameters are drawn from the model as its docstring states it, before
    any vote, and each draw weighs what it gives the votes. The right labels are summed out."""
    draws = 400_000
    shares, guess = (
        dirichlet(rng, np.ones(3), (draws,)),
        dirichlet(rng, np.full(3, GUESSES), (draws,)),
    )
    typical = np.stack([dirichlet(rng, row, (draws,)) for row in TYPICAL], axis=1)
    alike = np.exp(rng.normal(*ALIKE, draws))
    errors = dirichlet(rng, np.repeat((alike[:, None, None] * typical)[:, None], 3, axis=1), ())
    few = (1 - DIFFICULTIES) ** 3
    mean, same = rng.choice(DIFFICULTIES, draws, p=few / few.sum()), rng.choice(SAMENESS, draws)
    weight, posterior = np.ones(draws), np.zeros((4, draws, 3))
    for example, (said, there) in enumerate(zip(VOTES, PRESENT, strict=True)):
        hard = rng.beta(mean * same, (1 - mean) * same)
        likely = shares.copy()
        for rater in np.flatnonzero(there):
            label = 1 - said[rater]
            knows = (1 - hard)[:, None] * errors[:, rater, :, label]
            likely *= knows + (hard * guess[:, label])[:, None]
        posterior[example] = likely / likely.sum(axis=1, keepdims=True)
        weight *= likely.sum(axis=1)
    weight /= weight.sum()
    assert 1 / np.square(weight).sum() > 20_000
    expected = np.einsum("d,edt->et", weight, posterior)
    found = hierarchical(CastVotes.from_table(VOTES, PRESENT))
    assert np.allclose(found.posterior, expected, atol=0.02)
    knows = (1 - mean)[:, None, None] * np.einsum("drtt->drt", errors)
    right = knows + (mean[:, None] * guess)[:, None]
    skill = np.einsum("d,drt,dt->r", weight, right, shares)
    assert np.allclose(found.skills.mean(axis=0), skill, atol=0.02)
    assert found.mean_difficulty().value == pytest.approx(weight @ mean, abs=0.02)


def test_the_same_votes_give_the_same_labels_and_few_votes_tell_little(rng):
    truth = rng.choice([1, 0, -1], 200).astype(np.int8)
    votes = np.where(rng.random((200, 4)) < [0.9, 0.9, 0.5, 0.5], truth[:, None], 0)
    votes = np.where((votes == 0) & (truth[:, None] == 0), 1, votes).astype(np.int8)
    present = np.ones(votes.shape, bool)
    # The last one voted on four examples only, and was wrong on all of them.
    present[4:, 3] = False
    votes[:4, 3] = np.where(truth[:4] == 1, -1, 1)
    cast = CastVotes.from_table(votes, present)
    first, again = hierarchical(cast), hierarchical(cast)
    assert (first.posterior == again.posterior).all()
    assert np.allclose(first.posterior.sum(axis=1), 1)
    skills = [first.skill(rater, 1) for rater in range(4)]
    assert skills[0].value > skills[2].value + 0.15
    # Pooled with the others, four wrong votes don't make a person hopeless.
    assert skills[3].value > 0.3
    assert skills[3].high - skills[3].low > 1.3 * (skills[0].high - skills[0].low)
    # The interval is that of the draws, six fifths as wide around their mean.
    draws = first.skills[:, 1]
    inside = np.quantile(draws, [0.025, 0.975])
    wide = draws.mean() + 1.2 * (inside - draws.mean())
    assert (skills[1].low, skills[1].high) == pytest.approx(np.clip(wide, 0, 1), abs=0.005)


def test_without_meetings_or_a_third_person_nothing_tells_who_errs():
    alone = CastVotes.from_table(VOTES[:3], np.eye(3, dtype=bool))
    assert dawid_skene(alone) is hierarchical(alone) is NEVER_MET
    rng = np.random.default_rng(0)
    assert two_way_alpha(alone, np.arange(3), rng) is NEVER_MET
    two = CastVotes.from_table(VOTES[:, :2], np.ones((4, 2), bool))
    assert dawid_skene(two) is hierarchical(two) is FEW_PEOPLE


def test_alpha_over_examples_and_annotators_has_the_value_of_alpha(rng):
    votes = rng.choice([1, 0, -1], (60, 5), p=[0.6, 0.1, 0.3]).astype(np.int8)
    votes[:, 1] = votes[:, 0]
    present = rng.random((60, 5)) < 0.7
    present[:, 0] = True
    cast = CastVotes.from_table(votes, present)
    expected = krippendorff_alpha(category_counts(votes, present, (1, 0, -1)))
    found = two_way_alpha(cast, np.arange(60), rng)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.low < found.value < found.high <= 1
    assert found.n == int((present.sum(axis=1) >= 2).sum())
    few = CastVotes.from_table(votes[:, :2], np.ones((60, 2), bool))
    without = two_way_alpha(few, np.arange(60), rng)
    assert (without.low, "three annotators" in without.note) == (None, True)
    same = CastVotes.from_table(np.ones((60, 3), np.int8), np.ones((60, 3), bool))
    assert isinstance(two_way_alpha(same, np.arange(60), rng), Undefined)
