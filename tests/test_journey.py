"""The README's way through FairJudge, from a file of pairs to final labels, on real parts.

The judge is a server on loopback that favours whatever it sees first; people are three logins who
vote through the pages.
"""

import csv
import io
import re

import pytest
from django.core.management import call_command

from annotation.models import Item, Vote
from annotation.people.annotators import annotator_of
from judging.projects.models import Project
from judging.runs.models import Run, Verdict
from tests.factories import make_user
from tests.loopback import BiasedJudge, LoopbackServer

PAIRS = 20
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def judge(settings):
    with LoopbackServer(judge=BiasedJudge(position_bias=2.0, seed=4)) as server:
        settings.FAIRJUDGE_ENDPOINTS = {
            "default": {"base_url": server.base_url, "key_variable": "OPENAI_API_KEY"}
        }
        yield server


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.csv"
    with open(path, "w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "question", "response_1", "response_2", "model_1", "model_2"])
        for n in range(PAIRS):
            rows.writerow([f"p{n}", f"Q{n}?", f"One, on {n}.", f"Two, on {n}.", "ann", "bob"])
    return path


def run(*words, **options):
    """A command, and what it printed."""
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def vote_on_everything(client, user, prefer):
    """Follow the pages until there is nothing left; how many votes that took."""
    client.force_login(user)
    page = client.get("/annotate/").content.decode()
    url = re.search(r'href="(/annotate/r/[^"]+)"', page)[1]
    shown = client.get(url, follow=True).content.decode()
    n = 0
    while match := re.search(r'data-token="([^"]+)"', shown):
        left_is_one = shown.index("One, on") < shown.index("Two, on")
        choice = "left" if left_is_one == (prefer == "One") else "right"
        sent = {"token": match[1], "overall": choice, "seconds": "1"}
        posted = client.post(f"/annotate/{match[1]}/vote", sent, follow=True)
        assert posted.status_code == 200
        n += 1
        shown = posted.content.decode()
    return n


def test_from_pairs_to_labels(client, judge, pairs, tmp_path, transactional_db):
    assert f"{PAIRS} examples imported" in run("import_examples", "vicuna", str(pairs))
    assert "Cost" in run("judge", "vicuna", "--k=3", "--price=1,2", "--seed=5")
    done = Run.objects.get()
    assert done.state == Run.State.DONE
    # Evidence first, three samples, both orders: six valid samples of every pair.
    assert set(Verdict.objects.values_list("n_valid", "n_asked")) == {(6, 6)}
    assert Verdict.objects.filter(bpde__gt=0).exists()
    ranks = Verdict.objects.order_by("rank").values_list("bpde", flat=True)
    assert list(ranks) == sorted(ranks, reverse=True)

    printed = run("open_round", "vicuna", "--beta=20", "--votes=3", "--audit=4")
    assert "8 items, 3 votes each" in printed
    project = Project.objects.get()
    people = [make_user(name) for name in ("kim", "lou", "max")]
    for user in people:
        project.memberships.create(user=user, role="annotator")
        annotator_of(project, user)
    voted = [vote_on_everything(client, user, "Two") for user in people]
    assert voted == [8, 8, 8]
    assert Vote.objects.filter(label="lose").count() == 24
    assert set(Item.objects.values_list("state", flat=True)) == {"complete"}

    path = tmp_path / "labels.csv"
    run("export", "vicuna", "-o", str(path))
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    by_people = [row for row in rows if row["source"] == "majority"]
    assert len(rows) == PAIRS
    assert {row["final_label"] for row in by_people} == {"lose"}
    assert sorted(row["selection"] for row in by_people) == ["audit"] * 4 + ["top"] * 4
    assert all(row["final_label"] == row["judge_label"] for row in rows if row not in by_people)
    # Three votes of three minutes at 7.50 an hour.
    assert {row["human_usd"] for row in by_people} == {"1.125"}
    assert sum(float(row["judge_usd"]) for row in rows) == pytest.approx(float(done.spent_usd))

    report = run("report", "vicuna")
    assert "conflict rate between the orders" in report
    assert "everything by hand, 3 votes each" in report
