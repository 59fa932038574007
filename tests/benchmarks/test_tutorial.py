"""The tutorial's figures are those of the demo, and the demo's study is what was published."""

import filecmp
import os
from pathlib import Path

import pytest

from annotation.results.demo import PUBLISHED, STUDY, finished_study, live_project
from annotation.results.pages.examples import PEOPLE_ALONE
from benchmarks.published import study, tutorial
from judging.projects.models import Project

pytestmark = pytest.mark.system


@pytest.mark.django_db
def test_the_tutorial_shows_the_figures_that_the_demo_shows():
    finished_study()
    text = tutorial.written()
    assert tutorial.PAGE.read_text(encoding="utf-8") == text
    assert "<chatgpt" not in text
    assert "<gpt4" not in text


@pytest.mark.django_db
def test_making_the_study_twice_changes_nothing():
    project = finished_study()
    before = [(run.name, run.rounds.get().items.count()) for run in project.runs.all()]
    finished_study()
    assert [(run.name, run.rounds.get().items.count()) for run in project.runs.all()] == before
    assert before == [("ChatGPT, published", 60), ("GPT-4, published", 60)]
    assert project.examples.count() == 100
    assert project.annotators.get().name == study.ANNOTATOR


@pytest.mark.django_db
def test_the_study_is_there_at_the_first_page(client, settings):
    settings.FAIRJUDGE_DEMO = True
    finished_study()
    live_project()
    page = client.post("/demo/enter", {"as": "owner"}, follow=True)
    assert page.redirect_chain[-1][0] == f"/p/{STUDY}/"
    assert page.status_code == 200
    rows = client.get(f"/p/{STUDY}/examples", {"people": "differs"}).context["page"].rows
    assert len(rows) == 44
    people = client.get(f"/p/{STUDY}/examples", {"run": PEOPLE_ALONE}).content.decode()
    assert people.count('class="label lose"') > 20
    assert Project.objects.get(slug="demo-live").examples.count() == 10


def test_the_study_holds_what_was_published(tmp_path):
    folder = Path(os.environ.get("FAIRJUDGE_TEST_DATA", "")) / "llmbar"
    if not (folder / "LICENSE").is_file():
        pytest.skip("FAIRJUDGE_TEST_DATA has no llmbar")
    study.write(folder, tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["LICENSE", "chatgpt.jsonl", "gpt-4.jsonl", "pairs.jsonl", "votes.csv"]
    assert filecmp.cmpfiles(tmp_path, PUBLISHED, made, shallow=False) == (made, [], [])
