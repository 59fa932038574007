"""The demo's entry exists in the demo only, and opens the demo's own logins only."""

import re
from threading import Thread

import pytest

from annotation.results.demo import (
    RUN_NAME,
    finished_study,
    live_project,
    open_round_after,
    wait_for_run_and_open_round,
)
from annotation.results.report.cache import fingerprint
from judging.projects.models import Project
from tests.factories import make_run, make_user, make_verdict

pytestmark = pytest.mark.system


@pytest.fixture
def demo(settings, db):
    settings.FAIRJUDGE_DEMO = True
    return live_project()


def test_without_the_demo_there_is_no_entry(client, db):
    live_project()
    assert client.post("/demo/enter", {"as": "owner"}).status_code == 404
    assert b"demo/enter" not in client.get("/login/").content


def test_one_click_opens_the_demo_as_owner_or_as_annotator(client, demo):
    finished_study()
    assert b"demo/enter" in client.get("/login/").content
    assert client.post("/demo/enter", {"as": "owner"}).url == "/p/demo-study/"
    assert client.get("/p/demo-study/").status_code == 200
    client.logout()
    assert client.post("/demo/enter", {"as": "annotator"}).url == "/annotate/"
    assert client.get("/p/demo-live/plan").status_code == 403


def test_nobody_else_can_be_entered_as(client, demo):
    make_user("root", is_superuser=True)
    for name in ("root", "demo", "", "superuser"):
        assert client.post("/demo/enter", {"as": name}).status_code == 404


def test_a_site_that_others_reach_has_no_demo(read_demo_setting):
    assert read_demo_setting("http://127.0.0.1:8000", "127.0.0.1:8000") is True
    assert read_demo_setting("http://127.0.0.1:8000", "0.0.0.0:8000") is False
    assert read_demo_setting("https://judge.example.org", "127.0.0.1:8000") is False


@pytest.fixture
def read_demo_setting(tmp_path, monkeypatch):
    import runpy
    from pathlib import Path

    def read(url, bind):
        for name, value in {
            "FAIRJUDGE_DATA": str(tmp_path),
            "FAIRJUDGE_URL": url,
            "FAIRJUDGE_BIND": bind,
            "FAIRJUDGE_DEMO": "1",
        }.items():
            monkeypatch.setenv(name, value)
        settings = Path(__file__).parents[2] / "fairjudge_site" / "settings.py"
        return runpy.run_path(str(settings))["FAIRJUDGE_DEMO"]

    return read


def test_a_visitor_finds_something_to_label_at_once(client, demo):
    client.post("/demo/enter", {"as": "annotator"})
    page = client.get("/annotate/").content.decode()
    url = re.search(r'href="(/annotate/r/[^"]+)"', page)[1]
    assert 'data-token="' in client.get(url, follow=True).content.decode()
    # Setting the demo up once more adds nothing.
    assert live_project().rounds.count() == demo.rounds.count() == 2


@pytest.fixture
def judged(demo):
    run = make_run(demo, name=RUN_NAME)
    for example in demo.examples.all():
        make_verdict(run, example, example.number / 100)
    return run


def test_the_invented_votes_fill_the_round_that_follows_the_run(judged):
    assert open_round_after(judged)
    slots = judged.rounds.get().slots
    assert slots.count() == 6
    assert not slots.filter(vote=None).exists()
    assert not open_round_after(judged)


def wait_in_a_thread():
    """As the demo's process waits: with a connection of its own."""
    waiting = Thread(target=wait_for_run_and_open_round, daemon=True)
    waiting.start()
    waiting.join(timeout=120)
    assert not waiting.is_alive()


def test_the_round_opens_once_the_run_is_done_and_the_wait_ends(transactional_db, judged):
    judged.state = "running"
    judged.save()
    assert not open_round_after(judged)
    judged.state = "done"
    judged.save()
    # The second time is the demo that is started again.
    wait_in_a_thread()
    wait_in_a_thread()
    assert judged.rounds.count() == 1


def test_a_round_that_cannot_open_ends_the_wait(transactional_db, judged, caplog):
    judged.project.examples.all().delete()
    wait_in_a_thread()
    assert "The demo's round was not opened: " in caplog.text
    assert not judged.rounds.exists()


@pytest.mark.django_db
def test_figures_that_the_demo_computes_are_those_that_its_pages_show():
    project = live_project()
    assert fingerprint(project) == fingerprint(Project.objects.get(pk=project.pk))
