"""Two real judges on LLMBar, each with its plain and its reasoning prompt as two samples."""

import json

import numpy as np
import pytest

from judging.methods.agreement.accuracy import Ties, credit
from judging.methods.review.auroc import auroc, no_better_than_chance
from judging.methods.verdicts.position import conflicts, order_labels
from judging.methods.verdicts.verdicts import Label, score_pair_from_outcome, verdict

WINNER = {"1": Label.WIN, "2": Label.LOSE}
SIGN = {Label.WIN: 1, Label.TIE: 0, Label.LOSE: -1, None: 0}


@pytest.fixture(scope="module")
def recorded(test_data):
    """Per subset and judge: outcomes (N, 2 orders, 2 samples, None for none) and gold signs."""

    def read(subset, judge):
        files = [
            test_data / "llmbar" / subset / judge / method / "result.json"
            for method in ("Swap", "Swap_CoT")
        ]
        methods = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        outcomes = [
            [
                [WINNER.get(row["results"][0][f"swap = {swap}"]["winner"]) for row in rows]
                for swap in (False, True)
            ]
            for rows in zip(*methods, strict=True)
        ]
        gold = [1 if row["label"] == 1 else -1 for row in methods[0]]
        return outcomes, np.array(gold, dtype=np.int8)

    return read


def scored(outcomes):
    """Sign of each label, whether there is one, and BPDE (unjudged above all)."""
    verdicts = [
        verdict(*([o and score_pair_from_outcome(o) for o in order] for order in example))
        for example in outcomes
    ]
    sign = np.array([SIGN[v.label] for v in verdicts], dtype=np.int8)
    judged = np.array([v.label is not None for v in verdicts])
    return sign, judged, np.array([np.inf if v.bpde is None else v.bpde for v in verdicts])


@pytest.mark.parametrize(
    ("subset", "judge", "sample", "right_first", "right_second", "same"),
    [
        ("Natural", "GPT-4", 0, 92, 93, 93),
        ("Natural", "GPT-4", 1, 93, 94, 93),
        ("Natural", "ChatGPT", 0, 69, 77, 62),
        ("Natural", "ChatGPT", 1, 71, 78, 63),
        ("Adversarial/Neighbor", "GPT-4", 0, 99, 99, 120),
        ("Adversarial/Neighbor", "GPT-4", 1, 98, 98, 118),
        ("Adversarial/Neighbor", "ChatGPT", 0, 31, 31, 82),
    ],
)
def test_right_in_each_order_and_the_same_in_both(
    recorded, subset, judge, sample, right_first, right_second, same
):
    outcomes, gold = recorded(subset, judge)
    signs = np.array([[[SIGN[order[sample]]] for order in ex] for ex in outcomes], dtype=np.int8)
    valid = np.array([[[order[sample] is not None] for order in ex] for ex in outcomes])
    labels, there = order_labels(signs, valid)
    assert ((labels[:, 0] == gold) & there[:, 0]).sum() == right_first
    assert ((labels[:, 1] == gold) & there[:, 1]).sum() == right_second
    consistency = conflicts(labels, there).consistency
    assert consistency.value * consistency.n == pytest.approx(same)


def test_the_convention_for_ties_decides_whether_entropy_finds_errors(recorded):
    outcomes, gold = recorded("Adversarial/Neighbor", "ChatGPT")
    sign, judged, bpde = scored(outcomes)
    half = auroc(bpde, 1 - credit(sign, judged, gold, Ties.HALF))
    wrong = auroc(bpde, 1 - credit(sign, judged, gold, Ties.WRONG))
    assert half.value == pytest.approx(0.21, abs=0.005)
    assert no_better_than_chance(half)
    # Six right labels are too few to exclude chance.
    assert wrong.value == pytest.approx(0.66, abs=0.005)
    assert wrong.low < 0.5


def test_entropy_finds_the_errors_of_natural_pairs(recorded):
    outcomes, gold = recorded("Natural", "ChatGPT")
    sign, judged, bpde = scored(outcomes)
    assert auroc(bpde, 1 - credit(sign, judged, gold)).low > 0.6
