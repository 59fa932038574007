import random
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judging.methods.verdicts.verdicts import tie_breaker
from judging.runs.models import Form, Method, Parse, Run, Verdict
from judging.runs.samples import RecordedSample, samples_of
from judging.runs.verdicts.rebuild import RankingStopped, VerdictCounts, rebuild_verdicts
from tests.annotation.results.choosing import make_choice_run
from tests.factories import make_examples, make_project, make_run
from tests.judging.runs.recorded_files import record_sample, record_scores

pytestmark = pytest.mark.django_db

scores = st.none() | st.tuples(st.integers(1, 10), st.integers(1, 10))
samples = st.lists(scores, min_size=3, max_size=3)


def test_the_reference_cases_come_out_of_the_database(project, reference):
    cases = reference("faireval_cases.json")
    run = make_run(project, k=3)
    examples = make_examples(project, len(cases))
    for case, example in zip(cases, examples, strict=True):
        record_scores(run, example, "original", case["original"])
        record_scores(run, example, "swapped", case["swapped"])
    rebuild_verdicts(run)
    for case, example in zip(cases, examples, strict=True):
        verdict = Verdict.objects.get(run=run, example=example)
        assert verdict.label == case["label"], case["name"]
        assert [verdict.outcomes["original"], verdict.outcomes["swapped"]] == case["outcomes"]
        if case["label"] is None:
            assert (verdict.state, verdict.cs_1, verdict.bpde) == ("unjudged", None, None)
        else:
            assert [verdict.cs_1, verdict.cs_2] == pytest.approx(case["calibrated_score"])
            assert verdict.bpde == pytest.approx(case["bpde"], abs=1e-12)


def test_examples_that_are_alike_are_ranked_by_the_hash_of_seed_and_id(project):
    run = make_run(project, seed=11, k=1)
    examples = make_examples(project, 4)
    for example in examples:
        record_scores(run, example, "original", [(8, 6)])
        record_scores(run, example, "swapped", [(6, 8)])
    rebuild_verdicts(run)
    ranked = Verdict.objects.filter(run=run).order_by("rank").values_list("example__external_id")
    by_hash = sorted((e.external_id for e in examples), key=lambda i: tie_breaker(11, i))
    assert [external_id for (external_id,) in ranked] == by_hash


def test_an_order_without_an_answer_yet_is_pending_and_not_ranked(project):
    run = make_run(project, k=2)
    half, full = make_examples(project, 2)
    record_scores(run, half, "original", [(8, 6), (8, 6)])
    record_scores(run, full, "original", [(8, 6), (8, 6)])
    record_scores(run, full, "swapped", [(8, 6), None])
    assert rebuild_verdicts(run) == VerdictCounts(judged=1, pending=1)
    pending, judged = Verdict.objects.filter(run=run).order_by("example__number")
    assert (pending.state, pending.rank, pending.label) == ("pending", None, None)
    assert (judged.state, judged.rank, judged.label) == ("judged", 1, "win")
    assert (judged.n_valid, judged.n_asked) == (3, 4)


def test_an_order_without_a_valid_sample_is_unjudged_and_ranked_first(project):
    run = make_run(project, k=1)
    certain, unjudged = make_examples(project, 2)
    for part in run.orders:
        record_scores(run, certain, part, [(8, 6)])
    record_scores(run, unjudged, "original", [None])
    record_scores(run, unjudged, "swapped", [(9, 2)])
    rebuild_verdicts(run)
    assert Verdict.objects.get(example=unjudged).rank == 1
    assert Verdict.objects.get(example=unjudged).label is None


def test_the_last_attempt_counts_and_earlier_ones_are_kept(project):
    run = make_run(project, k=1, method=Method.EC)
    (example,) = make_examples(project, 1)
    call = record_scores(run, example, "original", [None])
    again = record_scores(run, example, "original", [])
    record_sample(again, 0, (3, 9), attempt=1)
    rebuild_verdicts(run)
    assert call.samples.count() == 1
    assert Verdict.objects.get(run=run).label == "lose"
    (found,) = samples_of(run)
    assert [sample.attempt for sample in found.samples] == [1]


def test_rebuilding_changes_the_rows_and_makes_no_others(project):
    run = make_run(project, k=1, method=Method.EC)
    one, two = make_examples(project, 2)
    record_scores(run, one, "original", [(8, 6)])
    record_scores(run, two, "original", [(8, 6)])
    rebuild_verdicts(run)
    before = set(Verdict.objects.values_list("pk", flat=True))
    Parse.objects.filter(sample__call__example=one).update(score_1=1, outcome="lose")
    rebuild_verdicts(run)
    assert set(Verdict.objects.values_list("pk", flat=True)) == before
    assert Verdict.objects.get(example=one).label == "lose"


@pytest.mark.databases
def test_the_samples_of_others_stay_out_and_all_are_written_together(project, monkeypatch):
    run, other = make_run(project, k=1, method=Method.EC), make_run(project, k=1, method=Method.EC)
    examples = make_examples(project, 150)
    examples.pop(70).delete()
    for number, example in enumerate(examples):
        record_scores(run, example, "original", [(8, number % 3 + 7)])
        record_scores(other, example, "original", [(1, 2)])
    monkeypatch.setattr("judging.runs.samples.SAMPLES_PAGE", 60)
    for _ in ("new rows", "the same rows again"):
        assert rebuild_verdicts(run) == VerdictCounts(judged=149)
        found = list(Verdict.objects.filter(run=run).order_by("example__number"))
        assert [one.label for one in found[:3]] == ["win", "tie", "lose"]
        assert sorted(one.rank for one in found) == list(range(1, 150))
        assert {one.usd for one in found} == {None}
    assert not Verdict.objects.filter(run=other).exists()


@pytest.fixture
def ranked_in_pairs(project, monkeypatch):
    """A run of six examples, of which two are judged, and later written, at once."""
    run = make_run(project, k=1, method=Method.EC, ranked_at=None)
    for example in make_examples(project, 6):
        record_scores(run, example, "original", [(8, 6)])
    for name in ("judging.runs.samples.SAMPLES_PAGE", "judging.runs.verdicts.rebuild.CHUNK"):
        monkeypatch.setattr(name, 2)
    return run


def kept(run):
    run.refresh_from_db()
    return run.ranked_at, sorted(run.verdicts.values_list("example", "rank", "label"))


def stopping_at(calls, seen):
    return lambda *far: seen.append(far) or len(seen) < calls


def test_a_ranking_tells_how_far_it_is(ranked_in_pairs):
    seen = []
    rebuild_verdicts(ranked_in_pairs, lambda *far: seen.append(far) or True)
    assert seen == [(1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]


@pytest.mark.parametrize("calls", [2, 3, 5])
def test_a_first_ranking_that_is_stopped_leaves_no_verdict(ranked_in_pairs, calls):
    seen = []
    with pytest.raises(RankingStopped):
        rebuild_verdicts(ranked_in_pairs, stopping_at(calls, seen))
    assert len(seen) == calls
    assert kept(ranked_in_pairs) == (None, [])
    rebuild_verdicts(ranked_in_pairs)
    assert len(kept(ranked_in_pairs)[1]) == 6


@pytest.mark.parametrize(("calls", "is_new"), [(2, False), (5, True)])
def test_a_later_ranking_that_is_stopped_leaves_the_old_verdicts_or_all_new_ones(
    ranked_in_pairs, calls, is_new
):
    rebuild_verdicts(ranked_in_pairs)
    before = kept(ranked_in_pairs)
    Parse.objects.update(score_1=1)
    if is_new:
        rebuild_verdicts(ranked_in_pairs, stopping_at(calls, []))
    else:
        with pytest.raises(RankingStopped):
            rebuild_verdicts(ranked_in_pairs, stopping_at(calls, []))
        assert kept(ranked_in_pairs) == before
    labels = [label for _, _, label in kept(ranked_in_pairs)[1]]
    assert labels == 6 * ["lose" if is_new else "win"]


def test_an_example_that_is_pending_again_loses_its_rank(project):
    run = make_run(project, k=1, method=Method.EC)
    (example,) = make_examples(project, 1)
    record_scores(run, example, "original", [(8, 6)])
    rebuild_verdicts(run)
    run.k = 2
    rebuild_verdicts(run)
    verdict = Verdict.objects.get(run=run)
    assert (verdict.state, verdict.rank, verdict.label) == ("pending", None, None)


def test_an_example_that_became_a_check_leaves_the_verdicts(project):
    run = make_run(project, k=1, method=Method.EC)
    one, two = make_examples(project, 2)
    for example in (one, two):
        record_scores(run, example, "original", [(8, 6)])
    rebuild_verdicts(run)
    two.is_check = True
    two.save()
    rebuild_verdicts(run)
    assert list(Verdict.objects.values_list("example", "rank")) == [(one.pk, 1)]


@pytest.mark.parametrize(
    ("form", "fields", "pair"),
    [
        (Form.LIKERT, {"rating": Decimal(2), "outcome": "lose"}, (2, 6)),
        (Form.RELATION, {"outcome": "win"}, (1, 0)),
        (Form.CHOICE, {"p_first": 0.25, "outcome": "win"}, (Decimal("0.75"), Decimal("0.25"))),
        (Form.SCORE, {"outcome": "tie"}, (Decimal("0.5"), Decimal("0.5"))),
    ],
)
def test_each_form_becomes_a_pair_of_scores_of_responses_1_and_2(form, fields, pair):
    """The probability is of what was shown first: response 2, since the part is swapped."""
    empty = dict.fromkeys(("score_1", "score_2", "rating", "p_first", "mass", "outcome"))
    sample = RecordedSample("swapped", 0, 0, "valid", **empty | fields)
    assert sample.pair(form) == pair


def judged_in(order: random.Random | None, original, swapped) -> list[tuple]:
    """The verdicts of five examples whose samples came in this order."""
    project = make_project()
    run = make_run(project, k=3, seed=3)
    examples = make_examples(project, len(original))
    work = [
        (example, part, slot, pairs[slot])
        for example, orders in zip(examples, zip(original, swapped, strict=True), strict=True)
        for part, pairs in zip(run.orders, orders, strict=True)
        for slot in range(3)
    ]
    if order is not None:
        order.shuffle(work)
    for example, part, slot, pair in work:
        record_sample(record_scores(run, example, part, []), slot, pair)
    rebuild_verdicts(run)
    fields = ("example__external_id", "state", "label", "cs_1", "cs_2", "bpde", "rank", "conflict")
    found = list(Verdict.objects.filter(run=run).order_by("rank").values_list(*fields))
    Run.objects.filter(pk=run.pk).delete()
    return found


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(samples, min_size=3, max_size=3),
    st.lists(samples, min_size=3, max_size=3),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_answers_arrive_changes_no_verdict(db, original, swapped, order):
    assert judged_in(None, original, swapped) == judged_in(order, original, swapped)


def test_a_choice_that_lacks_one_of_the_balanced_permutations_is_unjudged(project):
    """X3 alone in the original order would leave what the ID token adds in the mean."""
    examples = make_examples(project, 2)
    run = make_choice_run(project, examples, [0.5, 0.5])
    assert set(run.verdicts.values_list("state", flat=True)) == {"judged"}
    Parse.objects.filter(sample__call__example=examples[0], sample__call__part="X0").update(
        status="unparsed", p_first=None, outcome=None
    )
    assert rebuild_verdicts(run) == VerdictCounts(judged=1, unjudged=1)
    first, second = run.verdicts.order_by("example__number")
    assert (first.state, first.label, first.n_valid, first.rank) == ("unjudged", None, 3, 1)
    assert second.label == "win"


def test_a_band_is_of_the_probability_in_the_label_and_between_the_orders(project):
    """Within .05 of 1/2 is a tie: .54 is one, as .50 is, and .56 is not."""
    run = make_run(project, k=2, form="choice", parameters={"output": {"band": "0.05"}})
    near, apart = make_examples(project, 2)
    for example, first, second in ((near, "0.54", "0.50"), (apart, "0.56", "0.44")):
        for part, p_first in (("original", first), ("swapped", second)):
            call = record_scores(run, example, part, [(8, 6), (8, 6)])
            fields = {"p_first": Decimal(p_first), "outcome": None, "score_1": None}
            Parse.objects.filter(sample__call=call).update(**fields)
    rebuild_verdicts(run)
    found = Verdict.objects.order_by("example__number").values_list("label", "conflict")
    assert list(found) == [("tie", False), ("win", False)]


@pytest.mark.parametrize(
    ("swapped", "conflict"),
    [([(6, 8)], True), ([(8, 8)], True), ([(9, 2)], False), ([None], None)],
)
def test_orders_with_different_labels_are_in_conflict(project, swapped, conflict):
    run = make_run(project, k=1)
    (example,) = make_examples(project, 1)
    record_scores(run, example, "original", [(8, 6)])
    record_scores(run, example, "swapped", swapped)
    rebuild_verdicts(run)
    assert Verdict.objects.get().conflict is conflict
