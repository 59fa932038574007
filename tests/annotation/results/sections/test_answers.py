"""The first line of each results page: it says what the figures say, and not the opposite."""

from dataclasses import replace

import pytest

from annotation.results.data.figures import HollowEstimate
from annotation.results.sections import (
    calibration,
    judge_card,
    people,
    portia,
    position,
    review_gain,
    trust,
    win_rates,
)
from annotation.results.sections.review import ReviewCurves
from judging.methods.intervals.estimates import Estimate, Undefined
from judging.methods.portia.coverage import Consistency

NONE = Undefined("nothing known")
UP, EVEN, DOWN = (Estimate(v, 40, v - 0.1, v + 0.1) for v in (0.7, 0.5, 0.3))


def models(*pairs, ranking=(), reason=None):
    return win_rates.ModelRanking(
        pairwise=[win_rates.ModelPair(*pair, 30, 10, 20, UP, NONE, None, None) for pair in pairs],
        apart=(),
        same_places=len(pairs) == 1,
        davidson=win_rates.Davidson(ranking=(), reason="none"),
        style=win_rates.StyleControlled(effects=(), ranking=(), reason="none"),
        next=(),
        ranking=ranking,
        reason=reason,
    )


PAIR = models(("atlas", "borealis"))


def rates(people_, both=NONE, calibrated=NONE, planned="narrower"):
    judge = HollowEstimate(0.6, 40, 0.5, 0.7)
    none = [NONE] * 4
    return win_rates.WinRates(judge, judge, people_, both, *none, calibrated, planned)


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (UP, "atlas is better than borealis: people give atlas"),
        (DOWN, "borealis is better than atlas: people give atlas"),
        (EVEN, "No clear winner: people give atlas"),
        (NONE, "Which model people prefer isn't known yet (nothing known)."),
    ],
)
def test_who_wins(rate, said):
    assert win_rates.answer(rates(rate), PAIR, "votes").text.startswith(said)


def test_the_narrower_win_rate_about_people_is_the_one_to_cite():
    wide = Estimate(0.6, 40, 0.3, 0.9)
    assert win_rates.to_cite(rates(wide, UP)) == "judge_and_people"
    assert win_rates.to_cite(rates(UP, wide)) == "people"
    # Every label is known: the judge has no part in it, and no method is to be cited for it.
    assert win_rates.to_cite(rates(UP, UP)) == "people"
    assert win_rates.to_cite(rates(NONE)) is None
    assert win_rates.to_cite(rates(Estimate(0.6, 40, note="one question"))) is None


def test_a_calibrated_win_rate_is_cited_only_if_that_was_planned():
    narrow, wide = Estimate(0.7, 40, 0.65, 0.75), Estimate(0.6, 40, 0.3, 0.9)
    assert win_rates.to_cite(rates(UP, wide, narrow)) == "people"
    assert win_rates.to_cite(rates(UP, narrow, wide, "calibrated")) == "calibrated"
    assert win_rates.to_cite(rates(UP, wide, NONE, "calibrated")) == "people"


def test_response_1_wins_only_where_no_model_has_a_name():
    turned, unnamed = replace(PAIR, same_places=False), models()
    assert win_rates.answer(rates(UP), unnamed, "votes").text.startswith("Response 1 is better")
    assert win_rates.whose_rate(unnamed) == "response 1"
    assert win_rates.whose_rate(turned) == "response 1 of each pair"


def ranked(first, second):
    worst = 1 if first - second > 0.4 else 2
    strengths = [
        win_rates.ModelStrength(name, Estimate(v, 40, v - 0.2, v + 0.2), UP, 1, worst)
        for name, v in (("atlas", first), ("borealis", second), ("cetus", -2))
    ]
    return models(("atlas", "borealis"), ("atlas", "cetus"), ranking=strengths)


def test_which_model_is_first():
    on = win_rates.RestingOn("the final labels", "", False)
    clear = win_rates.models_answer(ranked(1, 0), on).text
    assert "atlas ranks first by the final labels, clearly ahead of borealis" in clear
    close = win_rates.models_answer(ranked(0.1, 0), on).text
    assert "but not clearly ahead of borealis" in close
    two = win_rates.models_answer(PAIR, on).text
    assert two == "Of 60 final labels, atlas wins 30 and borealis wins 20; 10 are ties."
    apart = win_rates.models_answer(models(("a", "b"), ("c", "d"), reason="two groups"), on)
    assert "can't be ranked: two groups" in apart.text
    assert "No final label compares two named models" in win_rates.models_answer(models(), on).text


def certificate(**more):
    return trust.CertificateFigures(
        issued=bool(more), reason="too few", share_from_judge=NONE, bound=NONE,
        unchecked_accuracy=NONE, **more,
    )  # fmt: skip


def test_how_far_the_labels_can_be_trusted():
    none = certificate()
    alone = trust.answer(UP, None, "votes", none).text
    assert alone.startswith("Without review, the judge agrees with people's majority on 70")
    assert "after the review" not in alone
    assert "after the review, 30" in trust.answer(UP, DOWN, "round", none).text
    assert "isn't known yet: nothing known" in trust.answer(NONE, None, "votes", none).text
    issued = certificate(
        epsilon=0.1, confidence=0.95, score="bpde", threshold=0.2, n_from_judge=40, n_wrong=0
    )
    assert trust.answer(UP, DOWN, "round", issued).text.startswith("Certified: at most 10")


def placed(conflict, first):
    return position.Position(NONE, NONE, conflict, NONE, first, NONE, NONE)


def test_what_swapping_changes():
    first = position.answer(placed(DOWN, Estimate(0.9, 40, 0.8, 1.0))).text
    assert first.startswith("Swapping the two responses changes the verdict on 30")
    assert first.endswith("in 90 % of these it was the first.")
    second = position.answer(placed(DOWN, Estimate(0.1, 40, 0.0, 0.2))).text
    assert second.endswith("in 90 % of these it was the second.")
    assert "Position bias" not in position.answer(placed(DOWN, EVEN)).text
    assert position.answer(placed(NONE, NONE)).text.endswith("isn't known: nothing known.")


def reviewed(found, expected):
    errors = review_gain.ReviewErrors(found, expected, 0.04)
    return review_gain.ReviewDone(
        m=12, accuracy=UP, unreviewed_accuracy=UP, random=UP, gain=UP, errors=errors
    )


CURVES = ReviewCurves(
    auroc=NONE, auroc_one_order=NONE, auroc_margin=NONE, ceiling=NONE, reason="none"
)


@pytest.mark.parametrize(
    ("found", "said"), [(5, "5 errors"), (1, "1 error"), (0.5, "0.5 errors"), (2, "2 errors")]
)
def test_what_the_review_found(found, said):
    text = review_gain.answer(reviewed(found, 2), CURVES).text
    than = "more than" if found > 2 else "fewer than" if found < 2 else "as many as"
    assert f"12 examples and found {said} of the judge, {than} the 2.0" in text


def test_before_a_review_its_reason_is_said():
    waits = review_gain.NoReview(0, "no round yet")
    assert review_gain.answer(waits, CURVES).text.endswith("isn't known yet: no round yet.")
    area = replace(CURVES, auroc=UP, better_than_chance=True)
    assert "better than chance" in review_gain.answer(waits, area).text
    area = replace(CURVES, auroc=EVEN, no_better_than_chance=True)
    assert "no better than chance" in review_gain.answer(waits, area).text


def agreeing(alpha, agreed=UP):
    return people.PeopleFigures(
        on="all",
        agreement=agreed,
        fleiss_kappa=NONE,
        fleiss_votes=0,
        krippendorff_alpha=alpha,
        gwet_ac1=NONE,
        pairwise=(),
        annotators=(),
        side_bias=(),
        side_bias_pooled=people.PooledSideBias(odds_ratio=NONE),
    )


@pytest.mark.parametrize(
    ("alpha", "said"),
    [
        (UP, "That is more than chance would give."),
        (Estimate(-0.3, 40, -0.5, -0.1), "That is less than chance would give."),
        (Estimate(0.0, 40, -0.2, 0.2), "It isn't clear whether"),
    ],
)
def test_how_often_people_agree(alpha, said):
    text = people.answer(agreeing(alpha)).text
    assert text.startswith("Two people who label the same pair agree on 70")
    assert said in text
    assert people.answer(agreeing(alpha, NONE)).text.endswith("isn't known yet: nothing known.")


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (UP, "makes the judge more consistent"),
        (Estimate(-0.3, 40, -0.4, -0.2), "makes the judge less consistent"),
        (Estimate(0.1, 40, -0.1, 0.3), "doesn't clearly change"),
        (NONE, "doesn't clearly change"),
    ],
)
def test_what_portia_achieves(gain, said):
    found = object.__new__(portia.PortiaFigures)
    object.__setattr__(found, "consistency", Consistency(EVEN, UP, gain))
    assert said in portia.answer(found).text
    assert "nothing known" in portia.answer(NONE).text


@pytest.mark.parametrize(
    ("split", "said"), [(UP, "more consistent"), (Estimate(0.1, 40, 0, 0.2), "doesn't clearly")]
)
def test_what_portia_achieves_where_nothing_was_consistent_before(split, said):
    """Then there is no ratio of the two."""
    found = object.__new__(portia.PortiaFigures)
    never = Estimate(0.0, 40, 0.0, 0.09)
    object.__setattr__(found, "consistency", Consistency(never, split, NONE))
    assert said in portia.answer(found).text


def test_calibration_says_which_one_is_recommended():
    assert calibration.answer(NONE).text == "Calibrations can't be compared: nothing known."


def card(value, bias):
    entry = judge_card.CardEntry(
        key="likelihood", title="Likelihood bias", value=value, bias=bias, meaning="", remedy=""
    )
    return judge_card.JudgeCard(judge_card.JudgeModel("m", "score", None), [entry])


def test_whether_the_judge_prefers_likely_responses():
    say = judge_card.likelihood_answer
    assert "more than people do" in say(card(UP, UP)).text
    assert "less than people do" in say(card(UP, Estimate(-0.3, 40, -0.5, -0.1))).text
    assert "no clear sign" in say(card(UP, Estimate(0.0, 40, -0.2, 0.2))).text
    assert "isn't known: nothing known" in say(card(UP, NONE)).text
    assert "isn't known: nothing known" in say(card(NONE, NONE)).text
