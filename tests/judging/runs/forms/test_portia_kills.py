"""A PORTIA run killed between its stages: what was recorded stands, and is not asked again."""

import json
import os
import signal
from threading import Event

import pytest

from tests.judging.runs.engine.test_kills import Site, wait_for_answers
from tests.judging.runs.judging import answered
from tests.loopback import LoopbackServer
from tests.loopback.portia import StagedJudge, first_when_whole

PAIRS = 12
MAKE_PROJECT = f"""
from tests.judging.runs.portia_pairs import make_pairs
from judging.projects.models import Project
make_pairs({PAIRS})
Project.objects.update(slug="killed")
"""


@pytest.mark.long
def test_a_killed_run_goes_on_at_the_stage_that_each_example_had_reached(site_folder):
    judge, killed = StagedJudge(first_when_whole), Event()

    def in_flight_at_the_kill(number):
        return number > 2 * PAIRS and not killed.is_set()

    with (
        LoopbackServer(judge=judge, hold=in_flight_at_the_kill) as server,
        Site(site_folder, server.base_url) as site,
    ):
        site.run("shell", "--verbosity", "0", "-c", MAKE_PROJECT)
        command = ["judge", "killed", "--endpoint", "loop", "--concurrency", "4", "--name", "r"]
        command += ["--method", "portia", "--form", "relation", "--unsplit-first"]
        pid = site.start(*command)
        # Some examples are at their second stage by then, others not begun.
        wait_for_answers(server, 2 * PAIRS)
        os.kill(pid, signal.SIGKILL)
        assert site.wait() == -signal.SIGKILL
        killed.set()
        cut_off = site.calls("claimed")
        assert 0 < len(site.calls("done")) < 4 * PAIRS
        site.run("judge", "killed", "--resume", "r")
    assert site.query("SELECT state FROM judging_run") == [("done",)]
    assert site.calls("lost") <= cut_off
    parts = dict(
        site.query("SELECT part, count(*) FROM judging_call WHERE state = 'done' GROUP BY 1")
    )
    stages = ("original", "swapped", "portia:length:original", "portia:length:swapped")
    assert parts == dict.fromkeys(stages, PAIRS)
    assert site.query("SELECT stage, count(*) FROM judging_verdict GROUP BY 1") == [
        ("length", PAIRS)
    ]
    repeated = sum(count - 1 for count in answered(server.log).values())
    assert repeated == server.completed - 4 * PAIRS <= len(site.calls("lost"))
    kept = json.loads(site.query("SELECT parameters FROM judging_run")[0][0])["portia"]
    assert kept["stages"] == ["unsplit", "length", "semantic"]
