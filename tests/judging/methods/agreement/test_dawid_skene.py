import numpy as np

from judging.methods.agreement.skills import CastVotes, dawid_skene
from judging.methods.agreement.votes import VoteCounts
from judging.methods.intervals.estimates import Undefined


def test_a_good_annotator_outvotes_two_who_guess(rng):
    truth = rng.choice([1, 0, -1], 600).astype(np.int8)
    guess = rng.choice([1, 0, -1], (600, 2)).astype(np.int8)
    good = np.where(rng.random((600, 2)) < 0.9, truth[:, None], rng.choice([1, 0, -1], (600, 2)))
    votes = np.hstack((good, guess)).astype(np.int8)
    present = np.ones_like(votes, dtype=bool)
    result = dawid_skene(CastVotes.from_table(votes, present))
    assert result.converged
    said = 1 - result.posterior.argmax(axis=1)
    majority, has = VoteCounts.from_votes(votes, present).majority()
    assert (said == truth).mean() > (has & (majority == truth)).mean() + 0.05
    skill = [np.trace(matrix) / 3 for matrix in result.confusion]
    assert min(skill[:2]) > 0.8 > 0.5 > max(skill[2:])


def test_unanimous_votes_are_kept_and_rows_sum_to_one(rng):
    votes = np.repeat(rng.choice([1, 0, -1], (90, 1)), 3, axis=1).astype(np.int8)
    result = dawid_skene(CastVotes.from_table(votes, np.ones_like(votes, dtype=bool)))
    assert ((1 - result.posterior.argmax(axis=1)) == votes[:, 0]).all()
    assert np.allclose(result.posterior.sum(axis=1), 1)
    assert np.allclose(result.confusion.sum(axis=2), 1)


def test_the_likelihood_never_falls_from_the_start(rng):
    votes = rng.choice([1, 0, -1], (60, 4)).astype(np.int8)
    present = rng.random((60, 4)) < 0.8
    present[:, 0] = True

    def penalised_likelihood(result):
        one_hot = np.stack([(votes == s) & present for s in (1, 0, -1)], axis=2).astype(float)
        per_class = np.einsum("nrv,rtv->nt", one_hot, np.log(result.confusion))
        prior = np.log(result.prior)
        data = np.logaddexp.reduce(prior + per_class, axis=1).sum()
        right = np.log(np.einsum("rtt->rt", result.confusion)).sum()
        return data + right + (np.log(result.confusion).sum() + prior.sum()) / 3

    cast = CastVotes.from_table(votes, present)
    values = [penalised_likelihood(dawid_skene(cast, iterations=i)) for i in range(1, 30)]
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > values[0]


def test_an_example_without_a_vote_has_no_label():
    votes = np.zeros((2, 2), np.int8)
    assert isinstance(
        CastVotes.from_table(votes, np.array([[True, True], [False, False]])), Undefined
    )


def test_people_who_only_met_one_label_are_not_taken_for_machines():
    # Two groups of people who never met; all that the first one saw are wins.
    votes, present = np.zeros((60, 6), np.int8), np.zeros((60, 6), bool)
    present[:40, :3] = present[40:, 3:] = True
    votes[:40, :3], votes[40:50, 3:], votes[50:, 3:] = 1, -1, 1
    result = dawid_skene(CastVotes.from_table(votes, present))
    assert (1 - result.posterior.argmax(axis=1) == votes.sum(axis=1) // 3).all()
    assert result.posterior[:40, 0].min() > 0.95
    assert result.skill.min() > 0.8
