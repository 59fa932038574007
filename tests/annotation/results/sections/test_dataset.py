"""What the data are, against PORTIA's Table 4 and counts of the files."""

import json
from statistics import median

import numpy as np
import pytest
from django.utils import timezone

from annotation.results.report.report import plots, report
from annotation.results.sections.analysis import Analysis, style_of
from annotation.votes.imports import import_votes
from judging.dataset.writing import import_files
from tests.factories import make_examples, make_run, make_verdict

pytestmark = pytest.mark.databases


def dataset_of(run):
    return report(Analysis(run.project, run)).dataset


def drawn_of(run):
    return {plot.name: plot.table for plot in plots(report(Analysis(run.project, run)))}


@pytest.mark.django_db
def test_faireval_has_the_lengths_of_portias_table_4(project, test_data):
    folder = test_data / "faireval"
    names = ("question.jsonl", "answer_gpt35.jsonl", "answer_vicuna-13b.jsonl")
    import_files(project, None, [folder / name for name in names], file_format="faireval")
    votes = folder / "review_gpt35_vicuna-13b_human.txt"
    maps = ["CHATGPT=gpt35", "VICUNA13B=vicuna-13b"]
    import_votes(project, None, votes, file_format="faireval", maps=maps)
    found = dataset_of(make_run(project))
    shown = {
        one.model: (one.longest, one.shortest, round(one.mean, 2), round(one.sd, 2))
        for one in found.by_model
    }
    # The paper's rows of GPT-3.5 and Vicuna-13b.
    assert shown == {
        "gpt35": (2218, 193, 1206.29, 460.26),
        "vicuna-13b": (2441, 212, 1416.92, 371.0),
    }
    rows = [json.loads(line) for line in (folder / names[0]).read_text().splitlines()]
    words = [len(row["text"].split()) for row in rows]
    assert (found.examples, found.questions, found.responses_1) == (80, 80, 80)
    assert found.question_words_mean == pytest.approx(sum(words) / 80)
    assert found.question_words_median == median(words) == 17
    assert [bar.questions for bar in found.question_words] == [
        sum(10 * i <= n < 10 * i + 10 for n in words) for i in range(max(words) // 10 + 1)
    ]
    categories = [row["category"] for row in rows]
    assert {one.category: one.questions for one in found.by_category} == {
        name: categories.count(name) for name in categories
    }
    said = votes.read_text().split()
    assert found.labels == {
        "win": said.count("CHATGPT"), "tie": said.count("TIE"), "lose": said.count("VICUNA13B"),
    }  # fmt: skip


@pytest.mark.django_db
def test_equal_texts_are_counted_once(project):
    make_examples(project, 3, question="Why is this?", response_1="four", response_2="sixsix")
    make_examples(project, 1, question="And why that?", response_1="four", response_2="ten letters")
    project.examples.update(model_1="a", model_2="b")
    run = make_run(project)
    found = dataset_of(run)
    assert (found.examples, found.questions, found.responses_1, found.responses_2) == (4, 2, 1, 2)
    assert [(one.model, one.responses, one.longest) for one in found.by_model] == [
        ("a", 1, 4), ("b", 2, 11),
    ]  # fmt: skip
    assert found.labels.reason
    # One category and one bar are no distribution.
    assert {"question-words", "questions-category"} & drawn_of(run).keys() == set()
    project.examples.filter(response_2="ten letters").update(question="why " * 12)
    assert drawn_of(run)["question-words"] == [
        {"words": "0–9", "questions": 1}, {"words": "10–19", "questions": 1},
    ]  # fmt: skip


@pytest.mark.django_db
def test_without_examples_there_is_nothing_to_draw(project):
    found = dataset_of(make_run(project))
    assert (found.questions, found.question_words_mean, list(found.question_words)) == (0, None, [])


@pytest.mark.django_db
def test_markdown_is_counted_by_the_database(project):
    """Bold text has two marks; a list item, a heading and a block of code one each."""
    run = make_run(project)
    for one, other in (("a", "b"), ("b", "c"), ("c", "a")):
        make_examples(
            project, 1, model_1=one, model_2=other,
            response_1="# Head\n- **one**\n1. two\n```", response_2="plain - # 1. *",
        )  # fmt: skip
    style = style_of(Analysis(project, run))
    lengths = np.log1p(len("# Head\n- **one**\n1. two\n```")) - np.log1p(len("plain - # 1. *"))
    assert style == pytest.approx(np.tile([lengths, np.log1p(6)], (3, 1)))


@pytest.mark.django_db
def test_two_models_have_no_style_to_control(project):
    run = make_run(project)
    pairs = make_examples(project, 2, model_1="a", model_2="b")
    for rank, (example, label) in enumerate(zip(pairs, ("win", "lose"), strict=True), start=1):
        make_verdict(run, example, 0.5, rank=rank, label=label)
    assert style_of(Analysis(project, run)) is None
    found = report(Analysis(project, run)).models
    assert [one.model for one in found.ranking] == ["a", "b"]
    assert found.style.reason == "three models are needed"


@pytest.mark.django_db
def test_without_texts_the_style_has_the_reason_that_they_were_removed(project):
    run = make_run(project)
    for number, (one, other) in enumerate((("a", "b"), ("b", "c"), ("c", "a")), start=1):
        (example,) = make_examples(project, 1, model_1=one, model_2=other)
        make_verdict(run, example, 0.5, rank=number, label="win")
    assert report(Analysis(project, run)).models.style.reason != "three models are needed"
    project.texts_removed_at = timezone.now()
    project.save()
    style = report(Analysis(project, run)).models.style
    assert style.reason == "the texts were removed, and with them what is known of their style"
