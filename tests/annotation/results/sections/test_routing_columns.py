"""What learned routing looks at is the run's own, and what a project has besides."""

import numpy as np
import pytest

from annotation.results.sections.analysis import Analysis
from annotation.results.sections.routing import columns_of, texts_of
from judging.runs.forms.likelihood import texts_of_pair
from judging.runs.models import TextLikelihood, Verdict
from tests.annotation.results.learning import biased_run


@pytest.fixture
def run(project, tmp_path):
    return biased_run(project, tmp_path, n=20)


def columns(project, run):
    analysis = Analysis(project, run)
    texts = texts_of(project, run, analysis.sheet)
    return columns_of(analysis.sheet, run, analysis.samples, analysis.others, texts)


def column(found, name):
    return found.values[:, found.names.index(name)]


def test_a_plain_run_has_its_verdicts_and_the_texts_lengths(project, run):
    found = columns(project, run)
    assert found.names[0] == "bpde"
    assert {"gap", "conflict", "first position", "length in favour"} <= set(found.names)
    # questions of one length, one category, no sample missing
    assert set(found.constant) == {"question length", "missing samples", "category"}
    signs = {v.example_id: {"win": 1, "tie": 0, "lose": -1}[v.label] for v in run.verdicts.all()}
    favour = [
        signs[one.pk] * np.log((len(one.response_1) + 1) / (len(one.response_2) + 1))
        for one in project.examples.order_by("number")
    ]
    expected = (np.array(favour) - np.mean(favour)) / np.std(favour)
    assert column(found, "length in favour") == pytest.approx(expected)


def test_likelihoods_enter_in_the_direction_of_the_verdict(project, run):
    for one in project.examples.all():
        pair = texts_of_pair(one.question, one.response_1, one.response_2)
        for text, value in zip(pair, (-10.0 - one.number, -10.0), strict=True):
            TextLikelihood.objects.get_or_create(
                project=project,
                base_url="http://127.0.0.1:1/v1",
                model="small",
                sha256=text.sha256,
                defaults={"log_likelihood": value, "tokens": 10},
            )
    found = columns(project, run)
    assert "likelihood in favour" in found.names
    assert np.ptp(column(found, "likelihood in favour")) > 0


def test_the_stage_that_settled_an_example_counts_in_the_order_of_asking(project, run):
    run.parameters = run.parameters | {"portia": {"stages": ["whole", "semantic", "length"]}}
    for verdict in Verdict.objects.filter(run=run):
        verdict.stage = "whole" if verdict.pk % 2 else "length"
        verdict.save()
    texts = texts_of(project, run, Analysis(project, run).sheet)
    assert set(texts.arrays["stage"].tolist()) == {1.0, 3.0}
