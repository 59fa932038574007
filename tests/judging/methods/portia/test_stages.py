import pytest

from judging.methods.portia.alignment import length_aligned, semantically_aligned
from judging.methods.portia.stages import Settled, Stage, StageResult, next_stage, stages
from judging.methods.verdicts.verdicts import Label

WIN, TIE, LOSE = Label.WIN, Label.TIE, Label.LOSE
VERDICTS = {WIN: 1, LOSE: 2, TIE: 3, None: None}


def longer(one, two):
    lengths = sum(map(len, one)), sum(map(len, two))
    return 1 if lengths[0] > lengths[1] else 2 if lengths[0] < lengths[1] else 0


# What each scripted judge says of (stage, parts shown first, parts shown second): 1, 2 or 0.
JUDGES = {
    "always_first": lambda stage, first, second: 1,
    "always_tie": lambda stage, first, second: 0,
    "longer_wins": lambda stage, first, second: longer(first, second),
    "first_if_length_split_else_longer": lambda stage, first, second: (
        1 if stage is Stage.LENGTH else longer(first, second)
    ),
}


def run(judge, parts_1, parts_2, **options):
    """Ask a scripted judge until the algorithm ends; how it ended, and the calls it took."""
    asked, calls = {}, 0
    while True:
        step = next_stage(asked, **options)
        if isinstance(step, Settled):
            return step, calls
        one, two = parts_1[step], parts_2[step]
        original, swapped = judge(step, one, two), judge(step, two, one)
        asked[step] = StageResult((TIE, WIN, LOSE)[original], (TIE, LOSE, WIN)[swapped])
        calls += 2


def test_the_reference_judges_end_where_they_should(reference):
    cases = {case["name"]: case for case in reference("portia_cases.json")}
    for expected in reference("portia_control.json"):
        case = cases[expected["case"]]
        texts = (case["text1"], case["positions1"], case["text2"], case["positions2"])
        by_length = length_aligned(*texts, expected["k"])
        by_meaning = semantically_aligned(*texts, expected["k"], expected["tokens"])
        parts_1 = {Stage.UNSPLIT: (case["text1"],)}
        parts_2 = {Stage.UNSPLIT: (case["text2"],)}
        for stage, alignment in ((Stage.LENGTH, by_length), (Stage.SEMANTIC, by_meaning)):
            if alignment is not None:
                parts_1[stage], parts_2[stage] = alignment.parts_1, alignment.parts_2
        settled, calls = run(
            JUDGES[expected["judge"]],
            parts_1,
            parts_2,
            splittable=by_length is not None,
            overlapping=by_meaning is not None,
        )
        found = (settled.stage, VERDICTS[settled.label], calls)
        assert found == (expected["stage"], expected["verdict"], expected["calls"]), expected


YES = StageResult(WIN, WIN)
NO = StageResult(WIN, LOSE)
SPLIT = {"splittable": True, "overlapping": True}


def test_the_unsplit_prompt_comes_first_where_that_is_asked_for():
    assert next_stage({}, **SPLIT) is Stage.LENGTH
    assert next_stage({}, **SPLIT, unsplit_first=True) is Stage.UNSPLIT
    asked = {Stage.UNSPLIT: YES}
    assert next_stage(asked, **SPLIT, unsplit_first=True) == Settled(
        Stage.UNSPLIT, WIN, Stage.UNSPLIT
    )


def test_what_shares_nothing_falls_back_to_the_unsplit_prompt_once():
    apart = {"splittable": True, "overlapping": False}
    assert next_stage({Stage.LENGTH: NO}, **apart) is Stage.UNSPLIT
    asked = {Stage.UNSPLIT: NO, Stage.LENGTH: NO}
    ended = next_stage(asked, **apart, unsplit_first=True)
    assert ended == Settled(Stage.NONE, None, Stage.LENGTH)


def test_scores_come_from_the_last_stage_asked():
    asked = {Stage.LENGTH: NO, Stage.SEMANTIC: NO}
    assert next_stage(asked, **SPLIT) == Settled(Stage.NONE, None, Stage.SEMANTIC)


def test_an_order_without_a_verdict_is_not_consistent():
    unread = StageResult(None, None)
    assert not unread.consistent
    assert next_stage({Stage.LENGTH: unread}, **SPLIT) is Stage.SEMANTIC


def test_one_alignment_may_be_left_out():
    assert stages(True, True, alignments=[Stage.SEMANTIC]) == (Stage.SEMANTIC,)
    assert stages(True, True, alignments=[Stage.LENGTH]) == (Stage.LENGTH,)
    assert stages(True, False, alignments=[Stage.SEMANTIC]) == (Stage.UNSPLIT,)
    assert stages(False, False, unsplit_first=True) == (Stage.UNSPLIT,)
    with pytest.raises(ValueError, match="aligns"):
        stages(True, True, alignments=[])
