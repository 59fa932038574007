"""Pace: the medians of timed votes, in the report, on the people's page, and from the ZIP."""

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from annotation.models import Item, Vote
from annotation.results.data.figures import as_svg
from annotation.results.delivery.package import Unpacked, pack
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import by_person, pace_plot, times_of
from annotation.rounds.opening import RoundSettings, open_round
from judging.methods.intervals.estimates import median
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote


@pytest.fixture
def timed(project):
    """Ana takes 41 to 60 seconds for twenty votes; Ben's two are not timed."""
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    open_round(project, None, run, RoundSettings(everything=True, votes=2, seed=1))
    ana, ben = make_annotator(project), make_annotator(project)
    start = timezone.now()
    for n, item in enumerate(Item.objects.order_by("-pk")):
        given = {"submitted_at": start + timedelta(minutes=n), "active_seconds": 41.0 + n}
        make_vote(item, ana, "win", **given)
        if n < 2:
            make_vote(item, ben, "win", active_seconds=None)
    return run


def test_each_person_has_a_median_and_a_line_in_the_order_of_the_votes(project, timed):
    (ana,) = by_person(times_of(project))
    assert (ana.annotator, ana.n) == ("annotator-1", 20)
    assert ana.median_seconds.value == 50.5
    # Five votes a point; of five no interval is had at 95 %.
    assert [point.to for point in ana.points] == [5, 10, 15, 20]
    assert [point.seconds.value for point in ana.points] == [43, 48, 53, 58]
    assert ana.points[0].seconds.low is None
    assert pace_plot([ana]).table[0]["votes"] == "1–5"


def test_the_limits_of_a_median_are_order_statistics():
    # Twenty: P(Binomial(20, ½) ≤ 5) = .0207 and ≤ 6 is .0577, so the 6th and the 15th value.
    found = median(range(1, 21))
    assert (found.value, found.low, found.high) == (10.5, 6, 15)
    assert median([3, 1, 2]).low is None
    assert "no values" in median([]).reason


def test_what_a_section_reads_alone_is_packed_with_the_report(project, timed):
    analysis = Analysis(project, timed)
    figures = report_json(analysis)
    data, context = pack(analysis)
    unpacked = Unpacked(data, json.loads(json.dumps(context)))
    assert report_json(unpacked)["pace"] == figures["pace"] != []


def test_the_people_page_loads_it_and_strangers_do_not(client, owner, outsider, project, timed):
    client.force_login(owner)
    assert "/p/vicuna/people/pace" in client.get("/p/vicuna/people").content.decode()
    page = client.get("/p/vicuna/people/pace").content.decode()
    assert "50.5" in page
    assert "figure" in page
    client.force_login(outsider)
    assert client.get("/p/vicuna/people/pace").status_code == 404


def test_the_axis_of_votes_counts_whole_ones(project, timed):
    """Between 6 and 11 votes there is no vote 6.2."""
    for vote in Vote.objects.order_by("pk")[13:]:
        vote.delete()
    drawn = as_svg(pace_plot(by_person(times_of(project))))
    axis = drawn.partition("X-axis titled")[2].partition("Y-axis titled")[0]
    ticks = re.findall(r">(\d+(?:\.\d+)?)</text>", axis)
    assert len(ticks) > 2
    assert not [tick for tick in ticks if "." in tick]
