"""Runs of the form choice, from the start to the verdict, against a judge of known biases."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from django.core.management import call_command

from judging.core.errors import UserError
from judging.runs.engine.progress import progress_of
from judging.runs.engine.rereading import reparse
from judging.runs.models import Parse, Run, Sample, Verdict
from judging.runs.planning.estimate import estimate_run
from judging.runs.recorded.writing import import_judgments
from judging.runs.samples import samples_of, transcript_of
from judging.runs.verdicts.judge_figures import report_on
from tests.factories import make_examples, make_project
from tests.judging.runs.judging import judged, loopback, started
from tests.loopback import ChoiceJudge, Quirks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

JUDGE = ChoiceJudge(position=1.2, token=0.8)


@pytest.fixture
def project(project):
    make_examples(project, 6)
    return project


def chosen(project, settings, *, judge=JUDGE, quirks=None, **choices):
    with loopback(settings, judge=judge, quirks=quirks) as server:
        run = judged(project, form="choice", **choices)
        return run, server.log


def true_p(example, judge=JUDGE):
    """What the judge thinks of the contents alone."""
    gap = judge.quality(example.response_1) - judge.quality(example.response_2)
    return 1 / (1 + math.exp(-gap))


def test_a_choice_asks_x0_and_x2_once_each_at_temperature_0(project, settings):
    run, log = chosen(project, settings)
    assert (run.method, run.k, run.temperature, run.max_tokens) == ("mec_bpc", 1, 0, 4)
    assert run.parts == run.counted_parts == ("X0", "X2")
    assert run.template_name == "calibraeval-default"
    judge_calls = log[1:]  # the first one asked whether there are log-probabilities
    assert len(judge_calls) == 12
    assert {entry.body["top_logprobs"] for entry in judge_calls} == {20}
    assert run.state == Run.State.DONE


def test_each_permutation_is_turned_back_to_the_same_contents(project, settings):
    """Position and token move the logit by +-1.2 and +-0.8; the mean over all four is even."""
    run, _ = chosen(project, settings, permutations=4)
    shifts = {"X0": 1.2 + 0.8, "X1": -1.2 + 0.8, "X2": -1.2 - 0.8, "X3": 1.2 - 0.8}
    for example, row in zip(project.examples.order_by("number"), samples_of(run), strict=True):
        p = true_p(example)
        for sample in row.samples:
            logit = math.log(p / (1 - p)) + shifts[sample.part]
            expected = 1 / (1 + math.exp(-logit))
            one, other = sample.pair("choice")
            assert float(one) == pytest.approx(expected, abs=1e-12)
            assert one + other == 1
            assert sample.mass == pytest.approx(0.9)


def test_the_verdict_is_the_mean_probability_and_its_entropy(project, settings):
    run, _ = chosen(project, settings, permutations=4)
    for row in samples_of(run):
        verdict = Verdict.objects.get(run=run, example=row.example_id)
        p = sum(sample.pair("choice")[0] for sample in row.samples) / 4
        assert verdict.cs_1 == pytest.approx(float(p))
        assert verdict.label == ("win" if p > Fraction(1, 2) else "lose")
        p = float(p)
        assert verdict.bpde == pytest.approx(-(p * math.log(p) + (1 - p) * math.log(1 - p)))
        assert (verdict.n_valid, verdict.n_asked) == (4, 4)


def test_three_permutations_speak_by_the_balanced_two(project, settings):
    three, _ = chosen(project, settings, permutations=3)
    two, _ = chosen(project, settings, permutations=2)
    assert three.counted_parts == ("X0", "X2")
    assert labels(three) == labels(two)


def test_one_permutation_follows_the_judges_biases(project, settings):
    """The bias of +2 logits makes response 1 win wherever the contents differ by less."""
    run, _ = chosen(project, settings, permutations=1, judge=ChoiceJudge(position=9.0))
    assert (run.method, run.orders) == ("vanilla", ("original",))
    assert set(labels(run)) == {"win"}
    both, _ = chosen(project, settings, judge=ChoiceJudge(position=9.0))
    report = report_on(both, beta=20)
    assert report.conflict_rate.value == 1.0
    assert {(order.part, order.win, order.lose) for order in report.orders} == {
        ("original", 6, 0),
        ("swapped", 0, 6),
    }


def test_a_band_makes_near_even_examples_ties_everywhere(project, settings):
    """With pure bias and equal contents every mean is exactly 1/2, and every order far from it."""
    judge = ChoiceJudge(spread=0.0, position=0.1, token=0.0)
    run, _ = chosen(project, settings, judge=judge, band=Decimal("0.05"))
    assert run.band == Fraction(1, 20)
    assert set(labels(run)) == {"tie"}
    assert set(Parse.objects.values_list("outcome", flat=True)) == {"tie"}
    assert report_on(run, beta=20).orders[0].tie == 6
    assert report_on(run, beta=20).conflict_rate.value == 0.0
    without, _ = chosen(project, settings, judge=judge)
    assert report_on(without, beta=20).conflict_rate.value == 1.0


@pytest.mark.parametrize(
    ("ids", "split"),
    [
        ("X,Y", {}),
        ("Alice,Bob", {"Alice": (" Al", "ice"), "Bob": ("Bob",)}),
        ("Anna,Anton", {"Anna": ("An", "na"), "Anton": ("An", "ton")}),
    ],
)
def test_other_ids_are_read_by_the_first_token_that_tells_them_apart(project, settings, ids, split):
    run, _ = chosen(project, settings, ids=ids, judge=ChoiceJudge(split=split))
    assert run.parameters["output"]["ids"] == ids.split(",")
    plain, _ = chosen(project, settings)
    assert probabilities(run) == pytest.approx(probabilities(plain))


def test_a_missing_token_is_bounded_and_flagged_and_two_are_no_verdict(project, settings):
    run, _ = chosen(project, settings, judge=ChoiceJudge(missing=frozenset({"B"})))
    parses = Parse.objects.filter(sample__call__run=run)
    assert set(parses.filter(status="valid").values_list("bounded")) == {(True,)}
    assert all(mass >= 0.5 for (mass,) in parses.filter(status="valid").values_list("mass"))
    both = ChoiceJudge(missing=frozenset({"A", "B"}))
    nothing, _ = chosen(project, settings, judge=both, unread_calls=0)
    assert progress_of(nothing).statuses == {"unparsed": 12}
    assert set(states(nothing)) == {"unjudged"}


@pytest.mark.parametrize("quirks", [Quirks(logprobs=False), Quirks(ignores_logprobs=True)])
def test_an_endpoint_without_logprobs_is_told_before_anything_starts(project, settings, quirks):
    with (
        loopback(settings, judge=JUDGE, quirks=quirks) as server,
        pytest.raises(UserError, match="reads log-probabilities, and none came"),
    ):
        started(project, form="choice")
    assert not Run.objects.exists()
    assert server.completed <= 1


def test_a_cap_on_top_logprobs_is_learned_before_the_run(project, settings):
    run, log = chosen(project, settings, quirks=Quirks(max_top_logprobs=5))
    assert progress_of(run).statuses == {"valid": 12}
    assert [entry.status for entry in log].count(400) == 1
    assert {entry.body["top_logprobs"] for entry in log[2:]} == {5}
    assert "at most 5 top log-probabilities" in " ".join(progress_of(run).learned)


def test_shots_are_drawn_by_seed_and_never_of_the_example_itself(settings):
    project = make_project()
    make_examples(project, 3, gold_label="win")
    make_examples(project, 3, gold_label="lose")
    make_examples(project, 2, gold_label="tie")
    run, log = chosen(project, settings, shots=2)
    again = started_like(project, settings, shots=2)
    assert run.parameters["shots"] == again.parameters["shots"]
    assert run.parameters["shots"]["shown"] == 2
    assert [better for _, better in run.parameters["shots"]["drawn"]] in ([1, 2, 1], [2, 1, 2])
    for entry in log[1:]:
        texts = [message["content"] for message in entry.body["messages"]]
        roles = [message["role"] for message in entry.body["messages"]]
        assert roles == ["user", "assistant"] * 2 + ["user"]
        assert texts[-1] not in texts[:-1]
        assert set(texts[1::2]) <= {"A", "B"}


def started_like(project, settings, **choices):
    with loopback(settings, judge=JUDGE):
        return started(project, form="choice", **choices)


def test_a_shots_answer_names_the_token_that_the_better_response_bears(settings):
    project = make_project()
    make_examples(project, 3, gold_label="win")
    _, log = chosen(project, settings, shots=1, permutations=4)
    answers = {}
    for entry in log[1:]:
        shot, answer = (message["content"] for message in entry.body["messages"][:2])
        block = shot.split(f"[The Start of Answer {answer}]\n")[1]
        answers[shot] = block.startswith("First response")
    assert len(answers) >= 4
    assert all(answers.values())


def test_a_choice_is_estimated_without_asking(project, settings):
    with loopback(settings, judge=JUDGE) as server:
        estimate = estimate_run(project, endpoint="loop", form="choice", permutations=4)
    assert (estimate.n_calls, estimate.completion_tokens) == (24, 96)
    assert server.requests == 0


def test_read_again_the_stored_logprobs_say_the_same(project, settings, monkeypatch):
    run, _ = chosen(project, settings)
    before = probabilities(run)
    Parse.objects.update(version=0)
    assert reparse(run).changed == 0
    assert probabilities(run) == before
    assert Sample.objects.filter(logprobs=None).count() == 0


def test_the_transcript_follows_the_permutations(project, settings):
    run, _ = chosen(project, settings, permutations=3)
    found = transcript_of(run, project.examples.first())
    assert [order.part for order in found] == ["X0", "X1", "X2"]
    assert all(len(order.replies) == 1 for order in found)


def labels(run):
    return list(
        Verdict.objects.filter(run=run).order_by("example__number").values_list("label", flat=True)
    )


def states(run):
    return list(Verdict.objects.filter(run=run).values_list("state", flat=True))


def probabilities(run):
    parses = Parse.objects.filter(current=True, sample__call__run=run)
    order = parses.order_by("sample__call__example__number", "sample__call__part")
    return list(order.values_list("p_first", flat=True))


def test_exported_and_imported_again_a_choice_says_the_same(project, settings, tmp_path):
    run, _ = chosen(project, settings, permutations=4)
    path = tmp_path / "samples.csv"
    call_command("export", project.slug, what="samples", run="latest", output=path)
    again = import_judgments(project, None, [path], name="again")
    assert (again.form, again.parts) == ("choice", ("X0", "X1", "X2", "X3"))
    assert again.orders == ("original", "swapped")
    assert labels(again) == labels(run)
    pairs = [
        Verdict.objects.filter(run=one).order_by("example__number").values_list("cs_1", "bpde")
        for one in (run, again)
    ]
    assert list(pairs[0]) == list(pairs[1])
