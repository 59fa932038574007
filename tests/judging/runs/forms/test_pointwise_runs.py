"""Runs over single responses: each criterion a part, the expected score over score tokens."""

import json

import pytest
from django.core.management import call_command

from judging.core.errors import UserError
from judging.dataset.models import PointItem
from judging.dataset.scores import import_scores
from judging.runs import lifecycle
from judging.runs.engine.likelihoods import ask_likelihoods
from judging.runs.engine.progress import progress_of
from judging.runs.engine.rereading import reparse
from judging.runs.engine.working import work_on
from judging.runs.forms.likelihood import ScaleAgreement, pointwise_scores
from judging.runs.forms.point_shots import whole_report
from judging.runs.models import Call, Parse, Run, Verdict
from judging.runs.planning.estimate import estimate_run
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import make_examples
from tests.judging.runs.judging import judged, loopback, started
from tests.loopback import PointJudge, error

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def project(project, tmp_path):
    path = tmp_path / "scores.csv"
    rows = [
        f"<x>{n}</x>,It is {n}.,{criterion},ana,{1 + (n + len(criterion)) % 5}"
        for n in range(6)
        for criterion in ("fluency", "correctness")
    ]
    path.write_text("\n".join(["input,output,criterion,rater,score", *rows]) + "\n")
    import_scores(project, None, path)
    return project


def scored(project, settings, *script, judge=None, **choices):
    with loopback(settings, *script, judge=judge or PointJudge()) as server:
        run = judged(project, form="pointwise", **choices)
        return run, server.log


def test_each_criterion_is_a_part_and_its_score_is_expected_over_tokens(project, settings):
    run, log = scored(project, settings)
    assert run.parts == ("item:correctness", "item:fluency")
    assert (run.method, run.k, run.temperature, run.state) == ("vanilla", 1, 0, "done")
    assert len(log) == 1 + 12
    judge = PointJudge()
    for call in Call.objects.filter(run=run).select_related("point_item"):
        text = f"[The Start of the Output]\n{call.point_item.output}\n[The End of the Output]"
        shares = judge.probabilities(text)
        expected = sum(score * share for score, share in shares.items())
        parse = Parse.objects.get(sample__call=call)
        assert float(parse.rating) == pytest.approx(expected)
        assert (parse.outcome, parse.score_1, parse.p_first) == (None, None, None)
    assert progress_of(run).statuses == {"valid": 12}
    assert progress_of(run).expected == 12


def test_the_prompt_names_criterion_and_scale(project, settings):
    _, log = scored(project, settings, criteria="relevance", scale="0,10")
    prompt = log[-1].body["messages"][0]["content"]
    assert "Relevance: (0-10) 0 is the lowest score, 10 is the highest." in prompt


def test_a_published_criterion_has_its_own_prompt(project, settings):
    run, _ = scored(project, settings, criteria="Fluency")
    assert run.template_name == "ohi-fluency"
    assert run.parts == ("item:Fluency",)


def test_ten_as_two_tokens(project, settings):
    """(1 x .2 + 10 x .5 + 9 x .3) = 7.9"""
    judge = PointJudge(shares={1: 0.2, 9: 0.3, 10: 0.5})
    run, _ = scored(project, settings, judge=judge, criteria="relevance", scale="1,10")
    ratings = Parse.objects.filter(sample__call__run=run).values_list("rating", "bounded")
    assert {(round(float(rating), 9), bounded) for rating, bounded in ratings} == {(7.9, False)}


def test_a_pointwise_run_has_no_verdicts_and_is_never_the_primary_one(project, settings):
    run, _ = scored(project, settings)
    rebuild_verdicts(run)
    project.refresh_from_db()
    run.refresh_from_db()
    assert project.primary_run is None
    assert run.ranked_at is None
    assert not Verdict.objects.exists()


def test_what_failed_is_asked_again_and_nothing_else(project, settings):
    fault = error(400, "Something is wrong.")
    with loopback(settings, judge=PointJudge()) as server:
        run = started(project, form="pointwise")
        server._queued.append(fault)
        assert work_on(run)
        assert Parse.objects.filter(status="error").count() == 1
        asked = server.requests
        run.refresh_from_db()
        lifecycle.resume(run, background=False)
        run.refresh_from_db()
        assert work_on(run)
        assert server.requests == asked + 1
    assert progress_of(run).statuses == {"valid": 12}


def test_read_again_it_says_the_same(project, settings):
    run, _ = scored(project, settings)
    Parse.objects.update(version=0)
    assert reparse(run).changed == 0


def test_it_is_estimated_without_asking(project, settings):
    with loopback(settings) as server:
        estimate = estimate_run(project, endpoint="loop", form="pointwise")
    assert (estimate.n_examples, estimate.n_calls) == (6, 12)
    assert server.requests == 0


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"scale": "1"}, "scale is two whole numbers"),
        ({"scale": "5,1"}, "scale is two whole numbers"),
        ({"scale": "a,b"}, "scale is two whole numbers"),
        ({"criteria": "c" * 51}, "at most 50 characters"),
        ({"template": "ohi-fluency"}, "rates one criterion, and 2 were named"),
        ({"template": "ohi-fluency", "criteria": "fluency", "scale": "1,5"}, "asks for 0 to 4"),
        ({"permutations": 2}, "settings of the form choice"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(project, settings, choices, sentence):
    with loopback(settings), pytest.raises(UserError, match=sentence):
        started(project, form="pointwise", **choices)
    assert not Run.objects.exists()


def test_without_single_responses_the_way_to_them_is_told(project, settings):
    PointItem.objects.all().delete()
    with loopback(settings), pytest.raises(UserError, match="import_scores"):
        started(project, form="pointwise")


def test_a_scale_belongs_to_single_responses(project, settings):
    make_examples(project, 1)
    with loopback(settings), pytest.raises(UserError, match="a setting of the form pointwise"):
        started(project, form="score", scale="1,5")


def test_its_page_its_report_and_its_samples_are_there(
    project, researcher, settings, client, tmp_path, capsys
):
    run, _ = scored(project, settings)
    client.force_login(researcher)
    page = client.get(f"/p/{project.slug}/runs/{run.number}").content.decode()
    assert "Likelihood bias" in page
    assert "no likelihoods yet" in page
    call_command("report", project.slug, "--run", "latest", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["criteria"]["fluency"]["scored_by_people"] == 6
    path = tmp_path / "samples.jsonl"
    call_command("export", project.slug, "--what", "samples", "--run", "1", "-o", str(path))
    rows = path.read_text().splitlines()
    assert len([row for row in rows if "item:fluency" in row]) == 6


@pytest.mark.system
def test_what_a_run_was_most_biased_about_teaches_the_next(
    project, settings, tmp_path, capsys, client, researcher
):
    path = tmp_path / "more.csv"
    rows = [f"<y>{n}</y>,Text {n}.,fluency,ana,{1 + (n * 3) % 5}" for n in range(24)]
    path.write_text("\n".join(["input,output,criterion,rater,score", *rows]) + "\n")
    import_scores(project, None, path)
    with loopback(settings, judge=PointJudge(), likelihoods="echo") as server:
        first = judged(project, form="pointwise", criteria="fluency", template="ohi-any")
        with pytest.raises(UserError, match="Ask for them first"):
            started(project, form="pointwise", criteria="fluency", shots_from="latest")
        ask_likelihoods(first, endpoint="loop")
        asked = len(server.log)
        second = judged(
            project, form="pointwise", criteria="fluency", template="ohi-any", shots_from="1"
        )
    drawn = second.parameters["point_shots"]["drawn"]["fluency"]
    assert len(drawn) == 8
    by_pk = {item.pk: item for item in PointItem.objects.all()}
    for pk, score in drawn:
        assert score == f"{by_pk[pk].scores.get(criterion='fluency').value.normalize():f}"
    for entry in server.log[asked + 1 :]:
        texts = [message["content"] for message in entry.body["messages"]]
        assert len(texts) in (15, 17)
        assert texts[-1] not in texts[:-1]
    report = whole_report(second)
    compared = report.comparison
    assert compared.before == first.name
    assert compared.test_items == 6
    # Nothing but the prompt changed, and this judge scores the last output alone.
    change = compared.criteria["fluency"]
    assert change.bias.before == pytest.approx(change.bias.after)
    # One point an item, with US by hand: both scores less their mean, over their range.
    bias, scores = report.likelihood["fluency"], pointwise_scores(second)
    own, people = scores.judge["fluency"], scores.human["fluency"]
    over = (own - own.mean()) / (own.max() - own.min()) - (people - people.mean()) / 4
    expected = zip(scores.external_ids, scores.likelihood, over, strict=True)
    assert [(point.external_id, point.likelihood, point.unfairness) for point in bias.points] == [
        (name, pytest.approx(likelihood), pytest.approx(us)) for name, likelihood, us in expected
    ]
    assert [point.when for point in change.points] == ["before"] * 6 + ["after"] * 6
    before, after = change.points[:6], change.points[6:]
    assert {point.external_id for point in before} == {point.external_id for point in after}
    client.force_login(researcher)
    page = client.get(f"/p/{project.slug}/runs/{second.number}").content.decode()
    assert 'id="plot-scatter-0"' in page
    assert "js/plots.js" in page
    with loopback(settings, judge=PointJudge()):
        third = judged(
            project,
            form="pointwise",
            criteria="fluency",
            template="ohi-any",
            shots_from="1",
            shots_random=True,
        )
    assert third.parameters["point_shots"]["drawn"] != second.parameters["point_shots"]["drawn"]
    assert whole_report(third).comparison.before == first.name
    call_command("report", project.slug, "--run", "2", "--json")
    assert json.loads(capsys.readouterr().out)["comparison"]["before"] == third.name


def test_criteria_on_another_scale_have_the_order_in_which_they_were_asked(
    project, settings, tmp_path
):
    names = ["fluency", "clarity", "depth", "tone", "style", "length", "facts", "wit"]
    path = tmp_path / "criteria.csv"
    rows = [f"<y>0</y>,Text.,{name},ana,3" for name in names]
    path.write_text("\n".join(["input,output,criterion,rater,score", *rows]) + "\n")
    import_scores(project, None, path)
    choices = {"form": "pointwise", "criteria": ",".join(names), "template": "ohi-any"}
    with loopback(settings, judge=PointJudge()):
        first = judged(project, **choices, scale="1,5")
        judged(project, **choices, scale="0,10")
    report = whole_report(first)
    assert [list(other.criteria) for other in report.other_scales] == [report.run.criteria]


def test_scores_that_keep_their_place_on_another_scale_are_alike(
    project, settings, client, researcher
):
    """From 1 to 5 always 2, which is a quarter; from 0 to 10 always 3, and from 0 to 100, 25."""
    choices = {"form": "pointwise", "criteria": "fluency", "template": "ohi-any"}
    with loopback(settings, judge=PointJudge(shares={2: 1.0})):
        first = judged(project, **choices, scale="1,5")
    for name, scale, score in (("ten", "0,10", 3), ("hundred", "0,100", 25)):
        with loopback(settings, judge=PointJudge(shares={score: 1.0})):
            judged(project, **choices, scale=scale, name=name)
    others = {other.run: other for other in whole_report(first).other_scales}
    assert others["hundred"].scale == ["0", "100"]
    assert others["hundred"].criteria["fluency"] == ScaleAgreement(n=6, alike=6, apart=0)
    # Three tenths are a twentieth from a quarter.
    assert others["ten"].criteria["fluency"].apart == pytest.approx(0.05)
    client.force_login(researcher)
    page = client.get(f"/p/{project.slug}/runs/{first.number}").content.decode()
    assert "Do the scores keep their meaning on another scale?" in page
