"""After a run was ranked anew its rounds say what they would now select."""

from decimal import Decimal

import pytest
from django.utils import timezone

from annotation.models import Item
from annotation.results.pages.results import reselections
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from judging.runs.models import Verdict
from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def run(project):
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, (20 - example.number) / 20, rank=example.number + 1)
    return run


def ranked_again(run, first):
    """The named examples come first now, the others as before."""
    rows = Verdict.objects.filter(run=run).select_related("example").order_by("rank")
    moved = sorted(rows, key=lambda one: one.example.external_id not in first)
    for place, one in enumerate(moved, start=1):
        one.rank = place
        one.save()
    run.ranked_at = timezone.now()
    run.save()


def test_what_left_the_cut_is_counted_and_nothing_is_selected_again(project, run):
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=3))
    before = list(Item.objects.order_by("pk").values_list("example", "rank"))
    assert reselections(run) == []
    ranked_again(run, {"e10", "e11"})
    (found,) = reselections(run)
    # e0 to e3 were selected; e10 and e11 take the places of e2 and e3.
    assert (found.round, found.m, found.differ) == (round_, 4, 2)
    assert list(Item.objects.order_by("pk").values_list("example", "rank")) == before


def test_a_new_ranking_with_the_same_cut_says_nothing(project, run):
    open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    ranked_again(run, {"e3"})
    assert reselections(run) == []


def test_audited_examples_within_an_extended_cut_count(project, run):
    settings = RoundSettings(beta=Decimal(5), votes=1, audit=19, seed=1)
    round_ = open_round(project, None, run, settings)
    with pytest.raises(Exception, match="adds nothing"):
        changes.extend(round_, None, Decimal(50))
    ranked_again(run, {"e19"})
    assert [(one.m, one.differ) for one in reselections(run)] == [(1, 1)]


def test_the_page_of_the_run_and_of_the_round_load_it(client, owner, annotator, project, run):
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    client.force_login(owner)
    address = "/p/vicuna/runs/1/reselection"
    for page in ("/p/vicuna/runs/1", f"/p/vicuna/rounds/{round_.number}"):
        assert address in client.get(page).content.decode()
    assert "differently" not in client.get(address).content.decode()
    ranked_again(run, {"e10"})
    assert "1 of the 4 items" in client.get(address).content.decode()
    client.force_login(annotator)
    assert client.get(address).status_code == 403
