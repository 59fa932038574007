import numpy as np
import pytest

from benchmarks.simulations.choices import CONFUSED, ChoiceJudge
from judging.methods.calibration import table
from judging.methods.calibration.probabilities import THREE
from judging.methods.calibration.table import PermutationConsistency, Recalls, resampled_sums, signs


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Accuracy under X0 and kappa of 120 samples of 150, against a sample of 200,000."""
    judge = ChoiceJudge(token=0.8, position=0.3, clear=1.5, noise=0.5)

    def columns(n, rng):
        p, truth = judge.judge(n, rng, THREE)
        said = signs(p.of_response_1())
        return np.hstack(
            (
                PermutationConsistency.columns(p.of_response_1(), said, p.present),
                Recalls.columns(said[:, 0], truth, p.present[:, 0]),
            )
        )

    def figures(sums):
        consistency = PermutationConsistency(sums[:, :9], 3)
        return np.stack(
            (
                consistency.fleiss_kappa(),
                consistency.icc()[0],
                Recalls(sums[:, 9:]).accuracy(),
                Recalls(sums[:, 9:]).rstd(),
            )
        )

    rng = np.random.default_rng(21)
    truth = figures(columns(200_000, rng).sum(axis=0)[None])[:, 0]
    held = np.zeros(4)
    for _ in range(120):
        drawn = figures(resampled_sums(columns(150, rng), rng, repeats=300)[1:])
        low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
        held += (low <= truth) & (truth <= high)
    # three standard errors of 95 % below it, and a percentile interval's own shortfall
    assert (held / 120 >= 0.95 - 3 * (0.95 * 0.05 / 120) ** 0.5 - 0.01).all()


def test_many_questions_have_the_intervals_that_resampling_gives(monkeypatch):
    p, truth = CONFUSED.judge(3_000, np.random.default_rng(22), THREE)
    columns = Recalls.columns(signs(p.of_response_1())[:, 0], truth, p.present[:, 0])
    drawn = Recalls(resampled_sums(columns, np.random.default_rng(23))).accuracy()[1:]
    monkeypatch.setattr(table, "MANY", 100)
    normal = Recalls(resampled_sums(columns, np.random.default_rng(24))).accuracy()[1:]
    assert np.quantile(normal, [0.025, 0.975]) == pytest.approx(
        np.quantile(drawn, [0.025, 0.975]), abs=2e-3
    )
