"""How likely a model finds a run's texts: asked once each, in the way that an endpoint has."""

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.dataset.scores import import_scores
from judging.runs.engine.likelihoods import ask_likelihoods
from judging.runs.forms.likelihood import Text, pair_differences, pointwise_report
from judging.runs.models import TextLikelihood
from tests.factories import make_examples, make_run
from tests.judging.runs.judging import judged, loopback
from tests.loopback import PointJudge
from tests.loopback.likelihoods import log_likelihood, tokens_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

WAYS = ("echo", "prompt_logprobs", "grammar")


@pytest.fixture
def run(project, settings):
    make_examples(project, 3)
    with loopback(settings):
        return make_run(project, endpoint="loop", model="loopback-judge")


@pytest.mark.parametrize("way", WAYS)
def test_the_likelihood_of_each_response_is_the_sum_over_its_own_tokens(run, settings, way):
    with loopback(settings, likelihoods=way):
        asked = ask_likelihoods(run, endpoint="loop")
    assert (asked.texts, asked.asked, asked.untold) == (6, 6, 0)
    example = Example.objects.first()
    row = TextLikelihood.objects.get(sha256=Text("", example.question, example.response_1).sha256)
    assert row.log_likelihood == pytest.approx(log_likelihood(example.response_1))
    assert row.tokens == len(tokens_of(example.response_1))


def test_no_recorded_answer_is_asked_for_twice(run, settings):
    with loopback(settings, likelihoods="echo") as server:
        ask_likelihoods(run, endpoint="loop")
        before = server.texts.requests
        assert ask_likelihoods(run, endpoint="loop").asked == 0
        assert server.texts.requests == before == 1 + 6


def test_each_answer_is_written_before_the_slowest_one_arrives(run, settings):
    recorded, patience = [], iter(range(500))
    with loopback(settings, likelihoods="echo") as server:
        # The first request asks whether the way works.
        server.texts.hold = lambda number: (
            number == 7 and sum(recorded) < 5 and next(patience, None) is not None
        )
        ask_likelihoods(run, endpoint="loop", advance=recorded.append)
    assert next(patience, None) is not None
    assert sum(recorded) == TextLikelihood.objects.count() == 6


def test_differences_are_of_response_1_less_response_2(run, settings):
    with loopback(settings, likelihoods="echo"):
        ask_likelihoods(run, endpoint="loop")
    examples = list(run.project.examples.order_by("number"))
    found = pair_differences(run.project, np.array([e.pk for e in examples]))
    expected = [log_likelihood(e.response_1) - log_likelihood(e.response_2) for e in examples]
    assert list(found.sums) == pytest.approx(expected)
    assert found.model == "loopback-judge"


def test_a_text_that_can_not_be_told_has_a_reason_and_is_not_asked_again(run, settings):
    Example.objects.filter(number=0).update(response_1="سيدني")
    with loopback(settings, likelihoods="grammar"):
        asked = ask_likelihoods(run, endpoint="loop")
        assert (asked.texts, asked.untold) == (6, 1)
        assert ask_likelihoods(run, endpoint="loop").asked == 0
    row = TextLikelihood.objects.get(log_likelihood=None)
    assert "parts of a letter" in row.reason


def test_an_endpoint_that_does_not_tell_is_told_with_nothing_recorded(run, settings):
    with (
        loopback(settings),
        pytest.raises(UserError, match="does not tell how likely a given text is"),
    ):
        ask_likelihoods(run, endpoint="loop")
    assert not TextLikelihood.objects.exists()


def test_pointwise_runs_get_their_bias_by_criterion_and_in_total(
    project, settings, tmp_path, capsys
):
    path = tmp_path / "scores.csv"
    rows = [
        f"<x>{n}</x>,Output {n} {'very ' * (n % 4)}long.,{criterion},ana,{1 + (n * 7) % 5}"
        for n in range(12)
        for criterion in ("fluency", "correctness")
    ]
    path.write_text("\n".join(["input,output,criterion,rater,score", *rows]) + "\n")
    import_scores(project, None, path)
    with loopback(settings, judge=PointJudge(), likelihoods="echo"):
        run = judged(project, form="pointwise")
        assert "no likelihoods yet" in pointwise_report(run).likelihood.reason
        call_command("likelihood", project.slug, "--run", "latest")
    printed = capsys.readouterr().out
    assert "12 texts, 12 sent to loopback-judge" in printed
    assert "BiasScore" in printed
    run.refresh_from_db()
    report = pointwise_report(run)
    assert set(report.likelihood) == {"correctness", "fluency", "total"}
    bias = report.likelihood["total"].bias
    assert bias.low <= bias.value <= bias.high
    assert report.criteria["fluency"].judged == 12


def test_a_missing_run_is_told(project):
    with pytest.raises(CommandError, match="has no run"):
        call_command("likelihood", project.slug)
