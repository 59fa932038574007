import numpy as np
import pytest

from judging.methods.intervals.estimates import Estimate, Undefined
from judging.methods.portia.coverage import (
    NONE_INCONSISTENT,
    consistency,
    fixed_coverage,
    stage_use,
    stages_per_example,
)
from judging.methods.portia.stages import (
    STAGES,
    OrderLabels,
    Settled,
    Stage,
    StageLabels,
    StageResult,
    next_stage,
    without_length,
    without_semantic,
)
from judging.methods.verdicts.verdicts import Label

LABEL = {1: Label.WIN, 0: Label.TIE, -1: Label.LOSE, None: None}


def run(judges, unsplit_first=True, **options):
    """One run: each judge gives the labels of both orders for a stage."""
    options = {"splittable": True, "overlapping": True, "unsplit_first": unsplit_first} | options
    shape = len(judges), len(STAGES)
    labels, there = np.zeros((*shape, 2), np.int8), np.zeros((*shape, 2), bool)
    asked, last = np.zeros(shape, bool), np.zeros(len(judges), np.intp)
    for row, judge in enumerate(judges):
        results = {}
        while not isinstance(step := next_stage(results, **options), Settled):
            signs, at = judge(step), (row, STAGES.index(step))
            results[step] = StageResult(*(LABEL[sign] for sign in signs))
            labels[at], there[at] = [sign or 0 for sign in signs], [s is not None for s in signs]
            asked[at] = True
        last[row] = STAGES.index(step.last)
    return StageLabels(labels, there, asked, last)


def fixed(**stages):
    """A judge that says what it is told to at each stage."""
    return lambda stage: stages[stage.value]


FIRST = (1, -1)  # The position shown first wins in both orders.
RIGHT = (1, 1)
ALWAYS_FIRST = fixed(unsplit=FIRST, length=FIRST, semantic=FIRST)
FIXED_BY_LENGTH = fixed(unsplit=FIRST, length=RIGHT)
FIXED_BY_MEANING = fixed(unsplit=FIRST, length=FIRST, semantic=(-1, -1))
FINE = fixed(unsplit=(0, 0))


def coin_flips(n, seed, classes=(1, -1), chances=None):
    rng = np.random.default_rng(seed)
    draw = rng.choice(classes, size=(n, 3, 2), p=chances).tolist()
    order = (Stage.UNSPLIT, Stage.LENGTH, Stage.SEMANTIC)
    return [lambda stage, row=row: row[order.index(stage)] for row in draw]


def test_fixed_coverage_comes_out_as_constructed():
    judges = 4 * [FINE] + 5 * [FIXED_BY_LENGTH] + 2 * [FIXED_BY_MEANING] + 3 * [ALWAYS_FIRST]
    stages = run(judges)
    found = fixed_coverage(stages, stages.unsplit)
    # 7 of the 10 that were inconsistent when unsplit.
    assert (found.coverage.value, found.coverage.n) == (0.7, 10)
    # length: P(win) = 1 in the original order, 5/10 in the other; semantic: 3/5 and 0 win,
    # 2/5 and 5/5 lose. 1 - (1 - .5)(1 - .4) = .7
    assert found.by_chance.value == pytest.approx(0.7)
    assert found.beyond_chance.value == pytest.approx(0.0)


def test_consistency_and_its_relative_gain_are_those_of_the_papers_first_table():
    # Claude2, relation: 28.28 % of 640 unsplit, 83.28 % with PORTIA: +194.48 %.
    stages = run(181 * [FINE] + 352 * [FIXED_BY_LENGTH] + 107 * [ALWAYS_FIRST])
    found = consistency(stages, stages.unsplit)
    assert found.unsplit.value == pytest.approx(0.2828, abs=5e-5)
    assert found.portia.value == pytest.approx(0.8328, abs=5e-5)
    assert found.gain.value == pytest.approx(1.9448, abs=5e-5)
    assert found.gain.low < 1.9448 < found.gain.high


@pytest.mark.parametrize("unsplit_first", [True, False])
def test_a_coin_flip_judge_covers_three_quarters_which_is_its_chance(unsplit_first):
    stages = run(coin_flips(4000, seed=1), unsplit_first=unsplit_first)
    unsplit = run(coin_flips(4000, seed=2)).unsplit
    if unsplit_first:
        unsplit = stages.unsplit
    found = fixed_coverage(stages, unsplit, own=unsplit_first)
    assert found.by_chance.value == pytest.approx(0.75, abs=0.01)
    assert found.coverage.low < found.by_chance.value < found.coverage.high
    assert found.beyond_chance.low < 0 < found.beyond_chance.high
    alone = fixed_coverage(without_semantic(stages), unsplit, own=unsplit_first)
    assert alone.by_chance.value == pytest.approx(0.5, abs=0.01)


def test_chance_follows_the_frequencies_of_three_labels():
    judges = coin_flips(6000, seed=3, classes=(1, 0, -1), chances=(0.6, 0.1, 0.3))
    found = stage_use(run(judges))
    # .6^2 + .1^2 + .3^2
    for use in found:
        assert use.by_chance.value == pytest.approx(0.46, abs=0.02)
        # Four standard errors of the smallest stage, 1,700 examples.
        assert use.consistency.value == pytest.approx(use.by_chance.value, abs=0.048)


def test_a_judge_that_sees_the_aligned_parts_is_beyond_chance():
    mixed = 20 * [FIXED_BY_LENGTH, fixed(unsplit=FIRST, length=(-1, -1))]
    stages = run(mixed)
    found = fixed_coverage(stages, stages.unsplit)
    assert found.coverage.value == 1
    assert found.by_chance.value == pytest.approx(0.5)
    assert found.beyond_chance.low > 0.4


def test_a_missing_label_agrees_with_nothing():
    unread = fixed(unsplit=FIRST, length=(None, None), semantic=(1, None))
    stages = run([unread, unread])
    found = fixed_coverage(stages, stages.unsplit)
    assert (found.coverage.value, found.by_chance.value) == (0, 0)
    assert not stages.final.both.any()


def test_without_an_unsplit_run_there_is_no_fixed_coverage():
    stages = run([fixed(length=RIGHT)], unsplit_first=False)
    found = fixed_coverage(stages, stages.unsplit)
    assert isinstance(found.coverage, Undefined)
    assert "unsplit" in found.coverage.reason
    assert consistency(stages, stages.unsplit).portia.value == 1


def test_nothing_to_fix_is_said():
    stages = run([FINE, FINE])
    assert fixed_coverage(stages, stages.unsplit).coverage == Undefined(NONE_INCONSISTENT)


def test_the_fallback_to_the_unsplit_prompt_is_a_stage_of_a_run_beside_the_unsplit_one():
    judges = coin_flips(3000, seed=5)
    stages = run(judges, unsplit_first=False, overlapping=False)
    beside = run(coin_flips(3000, seed=6)).unsplit
    found = fixed_coverage(stages, beside, own=False)
    assert found.by_chance.value == pytest.approx(0.75, abs=0.01)
    assert found.coverage.low < 0.75 < found.coverage.high


def test_responses_too_short_to_split_stay_as_they_are():
    stages = run([ALWAYS_FIRST, FINE], splittable=False)
    found = fixed_coverage(stages, stages.unsplit)
    assert (found.coverage.value, found.by_chance.value) == (0, 0)
    assert stages_per_example(stages).value == 1


def test_stages_are_counted():
    stages = run([FINE, FIXED_BY_LENGTH, FIXED_BY_MEANING, ALWAYS_FIRST])
    counted = [(use.stage, use.asked, use.settled) for use in stage_use(stages)]
    assert counted == [(Stage.UNSPLIT, 4, 1), (Stage.LENGTH, 3, 1), (Stage.SEMANTIC, 2, 1)]
    # 1, 2, 3 and 3 stages.
    assert stages_per_example(stages).value == 9 / 4


def test_length_alignment_alone_is_read_off_the_same_run():
    stages = run([FINE, FIXED_BY_LENGTH, FIXED_BY_MEANING, ALWAYS_FIRST])
    alone = without_semantic(stages)
    assert fixed_coverage(alone, stages.unsplit).coverage.value == pytest.approx(1 / 3)
    as_if = run([FINE, FIXED_BY_LENGTH, FIXED_BY_MEANING, ALWAYS_FIRST], alignments=[Stage.LENGTH])
    assert np.array_equal(alone.final.labels, as_if.final.labels)
    assert np.array_equal(alone.asked, as_if.asked)


def test_semantic_alignment_alone_needs_a_run_of_its_own():
    assert isinstance(without_length(run([FIXED_BY_LENGTH])), Undefined)
    own = run([FIXED_BY_MEANING, ALWAYS_FIRST], alignments=[Stage.SEMANTIC])
    found = fixed_coverage(without_length(own), own.unsplit)
    assert found.coverage.value == 0.5


def test_examples_that_are_not_judged_are_left_out_of_consistency():
    stages = run([FINE, fixed(unsplit=(1, None), length=(None, 1), semantic=(None, None))])
    assert consistency(stages, stages.unsplit).portia == Estimate(
        1.0, 1, pytest.approx(0.2065, abs=1e-4), 1.0
    )


def test_order_labels_are_neither_when_one_is_missing():
    labels = OrderLabels(np.array([[1, 1], [1, 0]], np.int8), np.array([[True, False]] * 2))
    assert not labels.consistent.any()
    assert not labels.inconsistent.any()
