"""Several writers of one JSON field at the same moment: each one's keys are there afterwards."""

import pytest

from judging.core.models import merge
from judging.llm.client.adaptation import EndpointCapabilities
from judging.runs import lifecycle
from judging.runs.endpoints import keep_for, recall_for
from judging.runs.engine import content_free
from judging.runs.models import Run
from judging.runs.planning import agenda
from tests.factories import make_project, make_run
from tests.together import at_once

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]
URL, MODEL = "https://judge.example/v1", "m"


@pytest.fixture
def run(transactional_db):
    return make_run(make_project(), parameters={"adaptive": {"confidence": 0.95}})


def note(run):
    """What a page keeps with the run."""
    merge(run, "parameters", lambda kept: {**kept, "note": "kept"})


def test_nobodys_keys_are_lost(run):
    def change(number):
        for step in range(10):
            merge(run, "parameters", lambda kept, key=f"{number}.{step}": {**kept, key: True})

    assert at_once(change) == [None] * 5
    run.refresh_from_db()
    assert len(run.parameters) == 1 + 5 * 10


def test_the_row_in_hand_holds_what_was_stored(run):
    stale = Run.objects.get()
    merge(run, "parameters", lambda kept: {**kept, "one": 1})
    merge(stale, "parameters", lambda kept: {**kept, "two": 2})
    assert stale.parameters == {"adaptive": {"confidence": 0.95}, "one": 1, "two": 2}


def test_a_pump_that_calibrates_leaves_what_pages_keep_with_the_run(run):
    """The pump holds the run as it was when it began."""
    held = Run.objects.get()
    note(Run.objects.get())
    content_free.keep_settings(Run.objects.get(), ["cc"], 50)
    agenda.keep(held, pilot=[1, 2])
    kept = Run.objects.get().parameters
    assert kept["adaptive"] == {"confidence": 0.95, "pilot": [1, 2]}
    assert kept["note"] == "kept"
    assert kept["calibration"]["estimation_share"] == "50"


@pytest.mark.parametrize("state", [Run.State.DONE, Run.State.PAUSED])
def test_resuming_while_others_write_keeps_all(run, settings, state):
    settings.FAIRJUDGE_ENDPOINTS = {"local": {"base_url": run.base_url, "key_variable": ""}}
    Run.objects.update(state=state, endpoint="local", base_url="http://local/v1")

    def change(number):
        for _ in range(5):
            if number == 0:
                Run.objects.filter(state=Run.State.QUEUED).update(state=state)
                lifecycle.resume(Run.objects.get(), background=False)
            elif number == 1:
                note(Run.objects.get())
            else:
                agenda.keep(Run.objects.get(), **{f"writer {number}": 1})

    assert at_once(change) == [None] * 5
    kept = Run.objects.get().parameters
    assert {"adaptive", "retry", "note"} <= kept.keys()
    assert set(kept["adaptive"]) == {"confidence", "writer 2", "writer 3", "writer 4"}


def test_two_runs_that_learn_of_one_judge_do_not_unlearn_each_other(transactional_db):
    before = EndpointCapabilities(max_n=4)
    keep_for(URL, MODEL, before, None)
    keep_for(URL, MODEL, EndpointCapabilities(max_n=4, temperature=False), before)
    keep_for(URL, MODEL, EndpointCapabilities(max_n=1), before)
    assert recall_for(URL, MODEL) == (EndpointCapabilities(max_n=1, temperature=False), True)


def test_what_is_taken_again_is_unlearned(transactional_db):
    refused = EndpointCapabilities(logprobs=False, context=4096)
    keep_for(URL, MODEL, refused, None)
    keep_for(URL, MODEL, EndpointCapabilities(context=4096), refused)
    assert recall_for(URL, MODEL)[0] == EndpointCapabilities(context=4096)


def test_runs_learn_at_the_same_moment(transactional_db):
    new = [EndpointCapabilities(max_n=1), EndpointCapabilities(temperature=False),
           EndpointCapabilities(system_role=False),
           EndpointCapabilities(max_tokens=99), EndpointCapabilities(schema="none")]  # fmt: skip
    assert at_once(lambda number: keep_for(URL, MODEL, new[number], None)) == [None] * 5
    expected = EndpointCapabilities(
        max_n=1, temperature=False, system_role=False, max_tokens=99, schema="none"
    )
    assert recall_for(URL, MODEL)[0] == expected
