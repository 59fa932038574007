from decimal import Decimal

import pytest
from django.utils import timezone

from judging.core.caching import report_cache
from judging.core.models import Worker
from judging.core.waking import PREPARE_PAGE
from judging.runs.engine import progress
from judging.runs.models import Call, Parse, Sample
from judging.runs.samples import samples_of
from judging.runs.verdicts import judge_figures
from judging.runs.verdicts.judge_figures import order_figures, report_on
from judging.runs.verdicts.rebuild import rebuild_verdicts
from judging.tasks import prepare_run_page
from tests.factories import make_examples, make_run, make_verdict
from tests.judging.runs.judging import judged, loopback
from tests.loopback import BiasedJudge
from tests.rows_written import reads_of_cache

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


def record(run, example, part, slot, **parse):
    """One sample that the run got, as its own call."""
    call, _ = Call.objects.get_or_create(
        run=run,
        example=example,
        part=part,
        defaults={"claimed_at": run.created_at, "state": Call.State.DONE},
    )
    sample = Sample.objects.create(call=call, index=slot, slot=slot, raw_text="")
    Parse.objects.create(sample=sample, version=1, **{"status": Parse.Status.VALID} | parse)


def scored(run, example, original, swapped):
    for part, pairs in zip(run.orders, (original, swapped), strict=True):
        for slot, (one, two) in enumerate(pairs):
            record(run, example, part, slot, score_1=Decimal(one), score_2=Decimal(two))


def sign(number):
    return (number > 0) - (number < 0)


def test_labels_by_order_are_those_of_the_exact_means(project, settings):
    make_examples(project, 30)
    with loopback(settings, judge=BiasedJudge(position_bias=1.0, noise=2.0)):
        run = judged(project)
    expected = {part: [0, 0, 0] for part in run.orders}
    for example in samples_of(run):
        for part in run.orders:
            pairs = [p for p in example.pairs(part, run.form) if p is not None]
            expected[part][1 - sign(sum(a - b for a, b in pairs))] += 1
    found = {o.part: [o.win, o.tie, o.lose] for o in report_on(run, Decimal(20)).orders}
    assert found == expected


def test_positions_that_won_twice_are_counted_by_which_it_was(project):
    # Two examples follow the first position, one the second, one its content, one is a tie.
    run = make_run(project, k=1)
    examples = make_examples(project, 5)
    cases = [
        ([(9, 8)], [(7, 8)]),
        ([(9, 5)], [(1, 8)]),
        ([(3, 8)], [(9, 8)]),
        ([(9, 8)], [(9, 8)]),
        ([(8, 8)], [(9, 8)]),
    ]
    for example, (original, swapped) in zip(examples, cases, strict=True):
        scored(run, example, original, swapped)
    rebuild_verdicts(run)
    report = report_on(run, Decimal(20))
    assert report.first.rate.value == pytest.approx(2 / 3)
    assert (report.conflict_rate.value, report.conflict_rate.n) == (4 / 5, 5)


def test_scores_whose_sums_are_equal_are_a_tie_though_floats_differ(project):
    # As floats, 0.1 + 0.2 - 0.3 is not 0.
    run = make_run(project, k=3)
    (example,) = make_examples(project, 1)
    pairs = [("0.1", "0"), ("0.2", "0"), ("0", "0.3")]
    scored(run, example, pairs, pairs)
    assert [order.tie for order in report_on(run, Decimal(20)).orders] == [1, 1]


def test_failed_samples_carry_no_label(project):
    run = make_run(project, k=1)
    (example,) = make_examples(project, 1)
    record(run, example, "original", 0, status=Parse.Status.UNPARSED)
    report = report_on(run, Decimal(20))
    assert [(o.win, o.tie, o.lose) for o in report.orders] == [(0, 0, 0)] * 2
    assert report.first.rate.reason


def test_the_cut_takes_the_first_ranks_and_says_what_they_hold(project):
    run = make_run(project)
    bpdes = [1.0986122886681098, 0.6, 0.6, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, None]
    for place, (example, bpde) in enumerate(
        zip(make_examples(project, 10), bpdes, strict=True), start=1
    ):
        make_verdict(run, example, bpde, rank=place)
    spread = report_on(run, Decimal(20)).spread
    assert (spread.n_selected, spread.at_cut) == (2, 0.6)
    assert (spread.disputed, spread.disputed_selected) == (4, 2)
    heights = [(bar.low, bar.high, bar.n, bar.selected) for bar in spread.bars if bar.n]
    assert heights == [(0.0, 0.0, 5, 0), (0.0, 0.1, 1, 0), (0.5, 0.6, 2, 1), (1.0, 1.1, 1, 1)]


@pytest.mark.parametrize(("beta", "selected"), [(0, 0), (100, 10)])
def test_a_cut_of_nothing_or_all(project, beta, selected):
    run = make_run(project)
    for place, example in enumerate(make_examples(project, 10), start=1):
        make_verdict(run, example, 0.5, rank=place)
    spread = report_on(run, Decimal(beta)).spread
    assert (spread.n_selected, spread.disputed_selected) == (selected, selected)
    assert (spread.at_cut is None) == (selected == 0)


def test_samples_are_summed_once_for_each_ranking(project, django_assert_num_queries):
    run = make_run(project, k=1)
    one, other = make_examples(project, 2)
    scored(run, one, [(8, 5)], [(8, 5)])
    rebuild_verdicts(run)
    run.refresh_from_db()
    first = order_figures(run)
    with django_assert_num_queries(1 + reads_of_cache(1)):
        assert order_figures(run) == first
    scored(run, other, [(2, 5)], [(2, 5)])
    rebuild_verdicts(run)
    run.refresh_from_db()
    assert order_figures(run) != first


def test_models_win_by_name_whichever_response_is_theirs(project):
    run = make_run(project)
    one = make_examples(project, 3, model_1="atlas", model_2="borealis")
    two = make_examples(project, 2, model_1="borealis", model_2="atlas")
    for example, label in zip([*one, *two], ("win", "lose", "tie", "lose", "lose"), strict=True):
        make_verdict(run, example, 0.0, label=label)
    found = report_on(run, Decimal(20)).winners
    wins = {found.model_1: found.wins_1, found.model_2: found.wins_2}
    assert wins == {"atlas": 3, "borealis": 1}
    assert (found.ties, found.n, found.ahead, found.is_fixed) == (1, 5, "atlas", False)


@pytest.mark.parametrize("names", [("a", "a"), ("", "b"), ("a", "c")])
def test_without_exactly_two_named_models_nobody_wins_by_name(project, names):
    run = make_run(project)
    examples = make_examples(project, 1, model_1="a", model_2="b")
    examples += make_examples(project, 1, model_1=names[0], model_2=names[1])
    for example in examples:
        make_verdict(run, example, 0.0, label="win")
    assert report_on(run, Decimal(20)).winners is None


def test_after_an_upgrade_workers_compute_the_pages_of_large_runs_ahead(
    client, owner, project, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(judge_figures, "MANY_EXAMPLES", 2)
    monkeypatch.setattr(progress, "MANY_CALLS", 2)
    woken = []
    monkeypatch.setattr("judging.core.waking.wake", lambda *asked: not woken.append(asked))
    large, small = (make_run(project, k=1, finished_at=timezone.now()) for _ in range(2))
    for number, example in enumerate(make_examples(project, 3)):
        scored(large, example, [(9, 8)], [(7, 8)])
        make_verdict(large, example, 0.1, rank=number + 1)
    make_verdict(small, example, 0.1, rank=1)
    judge_figures.wake_for_pages()
    judge_figures.wake_for_pages()
    assert woken == [(PREPARE_PAGE, large.pk)]
    client.force_login(owner)
    url = f"/p/{project.slug}/runs/{large.number}"
    # Without a worker, the page computes them; with one, it waits without computing.
    assert "A worker is computing" not in client.get(url).content.decode()
    report_cache.clear()
    now = timezone.now()
    Worker.objects.create(name="w", queues="runs,quick", started_at=now, seen_at=now)
    with django_assert_max_num_queries(60) as asked:
        assert "A worker is computing" in client.get(url).content.decode()
        assert client.get(f"{url}/progress").status_code == 204
    assert not [one["sql"] for one in asked if "judging_parse" in str(one["sql"])]
    assert woken == [(PREPARE_PAGE, large.pk)] * 2
    assert client.get(url, {"here": ""}).context["report"].orders[0].win == 3
    report_cache.clear()
    prepare_run_page(large.pk)
    assert client.get(f"{url}/progress").url == url
    with django_assert_max_num_queries(60) as asked:
        page = client.get(url)
    assert page.context["report"].orders[0].win == 3
    # Nothing is counted over all samples or calls while somebody waits.
    assert not [one["sql"] for one in asked if "judging_parse" in str(one["sql"])]
    monkeypatch.setattr("judging.core.caching.code_version", lambda: "next")
    judge_figures.wake_for_pages()
    assert woken == [(PREPARE_PAGE, large.pk)] * 3
