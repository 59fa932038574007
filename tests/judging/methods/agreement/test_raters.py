import json

import numpy as np
import pytest

from judging.methods.agreement.votes import (
    VoteCounts,
    category_counts,
    cohen_kappa,
    confusion,
    equally_often,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from judging.methods.intervals.estimates import Undefined


@pytest.fixture(scope="module")
def pandalm(test_data):
    """(999, 3) votes as signs for response 1, and gpt-3.5-turbo's answers."""
    rows = json.loads((test_data / "pandalm" / "testset-v1.json").read_text(encoding="utf-8"))
    sign = {0: 0, 1: 1, 2: -1}
    votes = [[sign[row[f"annotator{i}"]] for i in (1, 2, 3)] for row in rows]
    path = test_data / "pandalm" / "gpt-3.5-turbo-testset-v1.json"
    answers = [row["gpt_result"] for row in json.loads(path.read_text(encoding="utf-8"))]
    return np.array(votes, dtype=np.int8), answers


@pytest.fixture(scope="module")
def expected(golden):
    return golden("pandalm_expected.json")


@pytest.fixture(scope="module")
def probabilities(test_data):
    path = test_data / "reference" / "choice_probabilities.csv"
    return np.loadtxt(path, delimiter=",", skiprows=1)


def near(value):
    return pytest.approx(float(value), abs=1e-9)


def test_the_people_of_pandalm_agree_as_the_reference_says(pandalm, expected):
    votes, _ = pandalm
    counts = category_counts(votes, np.ones_like(votes), (0, 1, -1))
    assert fleiss_kappa(counts) == near(expected["fleiss"])
    assert krippendorff_alpha(counts) == near(expected["krippendorff_nominal"])
    assert gwet_ac1(counts) == near(expected["gwet_ac1"])
    for pair, value in expected["cohen"].items():
        first, second = (int(name) - 1 for name in pair.split("-"))
        assert cohen_kappa(confusion(votes[:, first], votes[:, second])) == near(value)
        together = votes[:, [first, second]]
        pair_counts = category_counts(together, np.ones_like(together), (0, 1, -1))
        assert percent_agreement(pair_counts) == near(expected["percent_agreement"][pair])


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ([], 0),
        ([1, 1, 1, 0], 0),
        ([1, 1, 1, 2], 2),
        ([3, 3, 2, 5], 3),
        ([2, 2, 3, 3], 3),
        ([2, 3, 3, 2, 2], 2),
    ],
)
def test_equally_often_is_what_most_examples_have_of_two_votes_or_more(given, number):
    counts = np.array([[n, 0, 0] for n in given], dtype=np.float64).reshape(-1, 3)
    found, alike = equally_often(counts)
    assert found == number
    assert alike.tolist() == [n == number > 0 for n in given]


def test_the_majority_of_pandalm_is_the_references(pandalm, expected):
    votes, _ = pandalm
    label, has = VoteCounts.from_votes(votes, np.ones_like(votes, dtype=bool)).majority()
    assert has.all()
    wanted = expected["majority_counts"]
    assert [(label == sign).sum() for sign in (0, 1, -1)] == [wanted["0"], wanted["1"], wanted["2"]]


def test_gpt35_agrees_with_the_majority_of_pandalm_as_the_reference_says(pandalm, expected):
    votes, answers = pandalm
    human, _ = VoteCounts.from_votes(votes, np.ones_like(votes, dtype=bool)).majority()
    wanted = expected["gpt35"]
    sign = {"1": 1, "2": -1, "Tie": 0}

    as_tie = np.array([sign.get(str(answer), 0) for answer in answers], dtype=np.int8)
    table = confusion(as_tie, human)
    assert cohen_kappa(table) == near(wanted["garbage_as_tie"]["kappa"])
    tie_first = table[np.ix_((1, 0, 2), (1, 0, 2))].T
    assert tie_first.tolist() == wanted["confusion_rows_gold_012_garbage_as_tie"]

    kept = np.array([str(answer) in sign for answer in answers])
    assert kept.sum() == wanted["garbage_dropped"]["n"]
    dropped = confusion(as_tie[kept], human[kept])
    assert cohen_kappa(dropped) == near(wanted["garbage_dropped"]["kappa"])
    accuracy = np.trace(dropped) / dropped.sum()
    assert accuracy == near(wanted["garbage_dropped"]["accuracy"])

    rows = kept & (as_tie != 0) & (human != 0)
    both = confusion(as_tie[rows], human[rows])
    assert cohen_kappa(both) == near(wanted["both_non_tie_only"]["kappa"])


def test_the_judges_with_probabilities_agree_as_the_reference_says(probabilities, golden):
    expected = golden("choice_probabilities_expected.json")
    p, gold = probabilities[:, :3], probabilities[:, 3]
    said = (p <= 0.5).astype(int)
    counts = category_counts(said, np.ones_like(said), (0, 1))
    assert fleiss_kappa(counts) == near(expected["fleiss_kappa"])
    assert krippendorff_alpha(counts) == near(expected["krippendorff_alpha_nominal"])
    for rater in range(3):
        assert (said[:, rater] == gold).mean() == near(expected["accuracy_per_rater"][rater])


def test_krippendorffs_own_example_comes_out():
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", part C: 4 observers, 12
    units, values 1 to 5, missing data; nominal .743, ordinal .815."""
    rows = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
    votes = np.array(rows).T
    counts = category_counts(votes, votes > 0, (1, 2, 3, 4, 5))
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(counts, ordinal=True) == pytest.approx(0.815, abs=5e-4)


def test_linear_weights_forgive_a_step_by_half():
    # observed cost (1*.5 + 1*1)/4, expected: rows (2,1,1)/4 x columns (1,1,2)/4
    table = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=float)
    expected_cost = sum(
        r * c * abs(i - j) / 2
        for i, r in enumerate((0.5, 0.25, 0.25))
        for j, c in enumerate((0.25, 0.25, 0.5))
    )
    value = cohen_kappa(table, linear=True)
    assert value == pytest.approx(1 - (2 * 0.5 / 4) / expected_cost)
    assert cohen_kappa(table) < value


def test_agreement_without_a_basis_is_undefined_with_the_reason():
    one_rater = np.array([[1.0, 0, 0], [0, 1, 0]])
    one_category = np.array([[3.0, 0, 0], [3, 0, 0]])
    for measure in (fleiss_kappa, gwet_ac1, krippendorff_alpha, percent_agreement):
        assert measure(one_rater) == Undefined("none of these examples has two votes that count")
    assert "one category" in fleiss_kappa(one_category).reason
    assert "one category" in krippendorff_alpha(one_category).reason
    assert "the same label" in cohen_kappa(np.diag([5.0, 0, 0])).reason
    assert "no example was labelled" in cohen_kappa(np.zeros((3, 3))).reason
    assert "different numbers" in fleiss_kappa(np.array([[2.0, 0], [2, 1]])).reason
    assert gwet_ac1(one_category) == 1


def test_scaling_all_weights_leaves_kappa_alone():
    table = np.array([[20.0, 3, 2], [4, 6, 1], [2, 1, 9]])
    assert cohen_kappa(table) == pytest.approx(cohen_kappa(7.3 * table))
