"""Adaptive runs: fewer samples, the same labels, and never without being asked for."""

from decimal import Decimal
from fractions import Fraction

import pytest
from django.core.management import CommandError, call_command

from judging.core.errors import UserError
from judging.methods.agreement.fewer_samples import StoppingRule
from judging.runs import lifecycle
from judging.runs.engine.progress import progress_of
from judging.runs.engine.working import work_on
from judging.runs.models import Run, Verdict
from judging.runs.planning import agenda
from judging.runs.planning.agenda import Adaptive, adaptive_of, pilot_size, replay, replay_run
from judging.runs.planning.estimate import estimate_run
from judging.runs.planning.start import start_run
from judging.runs.samples import ExampleSamples, RecordedSample
from tests.factories import make_examples
from tests.judging.runs.judging import (
    every_slot_once,
    judged,
    loopback,
    make_judged_project,
    slots_of,
    states_of,
)
from tests.loopback import BiasedJudge, completion

db = pytest.mark.django_db(transaction=True)

ORDERS = ("original", "swapped")
CERTAIN = Adaptive(3, "relation", ORDERS, Fraction(1), 0.95, frozenset({99}))


def sampled(example_id: int, original: str, swapped: str) -> ExampleSamples:
    """Outcomes by letter: w, t, l, and x for a sample without a verdict."""
    names = {"w": "win", "t": "tie", "l": "lose", "x": None}
    samples = [
        RecordedSample(
            part=part,
            slot=slot,
            attempt=0,
            status="valid" if names[letter] else "unparsed",
            score_1=None,
            score_2=None,
            rating=None,
            p_first=None,
            mass=None,
            outcome=names[letter],
        )
        for part, letters in zip(ORDERS, (original, swapped), strict=True)
        for slot, letter in enumerate(letters)
    ]
    return ExampleSamples(example_id, f"e{example_id}", example_id, tuple(samples))


@pytest.mark.parametrize(
    ("original", "swapped", "rounds"),
    [
        ("", "", 1),
        ("w", "", 1),
        ("w", "w", 2),
        ("w", "l", 2),
        ("ww", "ww", 2),
        ("ww", "wt", 2),
        ("ww", "wl", 3),
        ("xw", "ww", 2),
        ("xx", "ww", 3),
    ],
)
def test_an_example_is_asked_until_nothing_that_may_come_changes_its_label(
    original, swapped, rounds
):
    assert CERTAIN.rounds_wanted(sampled(1, original, swapped)) == rounds


def test_a_calibrated_rule_stops_earlier_and_never_the_pilot():
    ruled = Adaptive(
        3, "relation", ORDERS, Fraction(1), 0.95, frozenset({99}), (StoppingRule(1, 2, 0.96, 70),)
    )
    assert ruled.rounds_wanted(sampled(1, "w", "w")) == 1
    assert ruled.rounds_wanted(sampled(1, "l", "l")) == 1
    assert ruled.rounds_wanted(sampled(1, "w", "t")) == 2
    assert ruled.rounds_wanted(sampled(1, "w", "x")) == 2
    assert ruled.rounds_wanted(sampled(99, "w", "w")) == 3


def test_a_replay_counts_what_would_have_been_asked_and_compares_outside_the_pilot():
    pilot = [sampled(n, "www", "www") for n in range(100)]
    others = [sampled(n, "www", "wwl") for n in range(100, 150)]
    turned = [sampled(n, "wll", "wll") for n in range(150, 160)]
    ruled = Adaptive(3, "relation", ORDERS, Fraction(1), 0.95, frozenset(range(100)))
    found = replay(ruled, pilot + others + turned)
    assert found.rules[0].rounds == 1
    assert (found.samples, found.asked, found.n_pilot) == (960, 600 + 60 * 2, 100)
    assert found.saved == pytest.approx(0.25)
    assert found.agreement.value == pytest.approx(50 / 60)
    assert "25.0% saved" in str(found)


@pytest.mark.parametrize(("examples", "size"), [(20, 20), (80, 60), (1000, 200), (9000, 400)])
def test_the_pilot_is_a_fifth_within_its_bounds(examples, size):
    assert pilot_size(examples) == size


@pytest.fixture
def small_pilot(monkeypatch):
    monkeypatch.setattr(agenda, "FEWEST_PILOT", 30)


def prefers_response_1(asked):
    """Whichever is shown first."""
    shown_first = "First response" in asked.prompt.partition("Second response")[0]
    return completion(*[f"Fine. [[{'A' if shown_first else 'B'}]]"] * asked.n)


@db
def test_a_certain_judge_is_asked_less_and_every_label_stays(settings, small_pilot):
    with loopback(settings, prefers_response_1) as server:
        run = judged(make_judged_project(90), form="relation", k=3, adaptive=0.9)
    assert run.state == Run.State.DONE
    kept = run.parameters["adaptive"]
    assert len(kept["pilot"]) == 30
    assert kept["rules"][0]["rounds"] == 1
    assert server.requests == 180
    asked = slots_of(run)
    assert sum(asked.values()) == 30 * 6 + 60 * 2
    assert set(asked.values()) == {1}
    verdicts = Verdict.objects.filter(run=run)
    assert set(verdicts.values_list("state", "label")) == {("judged", "win")}
    assert sorted(verdicts.values_list("rank", flat=True)) == list(range(1, 91))
    notes = " ".join(progress_of(run).notes)
    assert "concerns the judge's verdict, not its accuracy" in notes
    assert "Samples of the full run that were not needed: 240" in notes
    assert progress_of(run).share == 1.0


@db
def test_fewer_samples_rank_before_more_of_the_same(settings, small_pilot):
    with loopback(settings, prefers_response_1):
        run = judged(make_judged_project(90), form="relation", k=3, adaptive=0.9)
    stopped = Verdict.objects.filter(run=run, n_asked=2)
    assert {verdict.bpde for verdict in stopped} == {0.0}
    full = Verdict.objects.filter(run=run, n_asked=6).order_by("rank").first()
    assert full.routing_score < stopped.first().routing_score
    assert stopped.order_by("-rank").first().rank < full.rank


@db
def test_ties_give_no_lead_so_all_is_asked(settings, small_pilot):
    with loopback(settings, judge=lambda asked, n: ["Fine. [[C]]"] * n) as server:
        run = judged(make_judged_project(40), form="relation", k=3, adaptive=0.9)
    assert run.state == Run.State.DONE
    assert run.parameters["adaptive"]["rules"] == []
    assert every_slot_once(run)
    assert server.requests == 30 * 2 + 10 * 2 * 3
    assert any("gave no rule" in note for note in progress_of(run).notes)


@db
def test_a_stopped_adaptive_run_goes_on_where_it_was(settings, small_pilot):
    run_of = {}

    def script(asked):
        if asked.number == 120:
            lifecycle.pause(run_of["run"])
        return prefers_response_1(asked)

    project = make_judged_project(90)
    with loopback(settings, script) as server:
        run = run_of["run"] = start_run(
            project,
            None,
            endpoint="loop",
            concurrency=4,
            seed=7,
            background=False,
            form="relation",
            adaptive=0.9,
        )
        assert work_on(run)
        run.refresh_from_db()
        assert run.state == Run.State.PAUSED
        assert Verdict.objects.filter(run=run, state="pending").exists()
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert server.requests == 180
    assert states_of(run) == {"done": 180}
    assert not Verdict.objects.filter(run=run, state="pending").exists()


@db
def test_adaptive_rounds_go_in_batches_too(settings, small_pilot, monkeypatch):
    monkeypatch.setattr("judging.runs.engine.batches.POLL_SECONDS", 0.02)
    with loopback(settings, judge=lambda asked, n: ["Fine. [[C]]"] * n):
        run = judged(make_judged_project(32), form="relation", k=2, adaptive=0.9, batch=True)
    assert run.state == Run.State.DONE
    assert run.batches.count() >= 1
    assert not Verdict.objects.filter(run=run).exclude(state="judged").exists()


@db
def test_a_stored_full_run_is_replayed_without_a_call(settings, small_pilot, capsys):
    project = make_judged_project(120)
    with loopback(settings, judge=BiasedJudge(noise=0.5)) as server:
        run = judged(project)
        asked = server.requests
        found = replay_run(run, 0.8)
        call_command("judge", project.slug, "--resume", "1", "--adaptive", "0.8", "--estimate")
        assert server.requests == asked
        with pytest.raises(CommandError, match="with which it was started"):
            call_command("judge", project.slug, "--resume", "1", "--adaptive")
    assert found.rules
    assert 0 < found.saved < 1
    assert found.agreement.value >= 0.8
    assert str(found) in capsys.readouterr().out


@db
@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"method": "mec"}, "needs mec_bpc"),
        ({"k": 1}, "at least 2"),
        ({"adaptive": 1.0}, "confidence lies"),
        ({"adaptive": float("nan")}, "confidence lies"),
    ],
)
def test_what_can_not_be_adaptive_is_refused(settings, choices, sentence):
    with loopback(settings), pytest.raises(UserError, match=sentence):
        judged(make_judged_project(1), **{"adaptive": 0.95} | choices)
    assert not Run.objects.exists()


@db
def test_a_run_is_adaptive_only_when_asked_and_its_estimate_says_at_most(settings, project):
    """Of 100 examples the pilot's 60 take a call an order, the other 40 at most three."""
    make_examples(project, 100)
    asked = {"endpoint": "loop", "price": (Decimal(1), Decimal(1))}
    with loopback(settings):
        # It is seen there that one call brings several samples.
        judged(make_judged_project(1))
        plain = estimate_run(project, **asked)
        estimate = estimate_run(project, **asked, adaptive=0.95)
        batched = estimate_run(project, **asked, adaptive=0.95, batch=True)
    assert (plain.n_calls, estimate.n_calls, estimate.n_calls_most) == (200, 360, 360)
    assert plain.completion_tokens == estimate.completion_tokens
    assert estimate.prompt_tokens == pytest.approx(1.8 * plain.prompt_tokens, rel=1e-3)
    assert plain.usd < estimate.usd < estimate.usd_most
    assert estimate.usd_most - plain.usd_most == pytest.approx(
        Decimal(160) * plain.prompt_tokens / 200 / 10**6, rel=Decimal("0.01")
    )
    assert "this is the highest number of calls. 60 of the 100 examples" in estimate.basis
    assert (plain.batch_hours, estimate.batch_hours, batched.batch_hours) == (None, None, 72)


@db
def test_where_all_examples_are_the_pilot_an_estimate_says_that_nothing_is_saved(settings, project):
    make_examples(project, 5)
    with loopback(settings):
        plain = estimate_run(project, endpoint="loop")
        estimate = estimate_run(project, endpoint="loop", adaptive=0.95, batch=True)
        assert adaptive_of(judged(project)) is None
    assert (estimate.n_calls, estimate.batch_hours) == (plain.n_calls, 24)
    assert "stopping early saves nothing" in estimate.basis


@db
def test_the_runs_page_says_that_it_is_adaptive(settings, project, researcher, client):
    make_examples(project, 2)
    with loopback(settings):
        plain, other = judged(project), judged(project, adaptive=0.9)
    client.force_login(researcher)
    pages = [
        client.get(f"/p/{project.slug}/runs/{run.number}").content.decode()
        for run in (plain, other)
    ]
    assert ["verdict, not its accuracy" in page for page in pages] == [False, True]
