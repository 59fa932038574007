"""What a batch service may write into its files, or lose of them."""

import json
from decimal import Decimal

import pytest

from judging.runs import lifecycle
from judging.runs.engine import batches, store
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Parse, Run
from tests.judging.runs.judging import (
    every_slot_once,
    judged,
    loopback,
    make_judged_project,
    states_of,
)

pytestmark = [pytest.mark.django_db(transaction=True)]

PRICE = (Decimal(10), Decimal(20))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_SECONDS", 0.02)


class Rewritten:
    """The output files that a service hands out, once rewritten line by line."""

    def __init__(self, server, rewrite, times=1):
        self.files, self.rewrite, self.left = server.batches.files, rewrite, times
        server.batches._keep = self.keep(server.batches._keep)

    def keep(self, keep):
        def kept(text):
            if '"response"' in text and self.left:
                self.left -= 1
                text = "".join(self.rewrite(text.splitlines(keepends=True)))
            return keep(text)

        return kept


def batched(settings, rewrite, examples=3, times=1, **choices):
    project = make_judged_project(examples)
    with loopback(settings) as server:
        Rewritten(server, rewrite, times)
        run = judged(project, batch=True, price=PRICE, k=2, **choices)
        asked = server.requests
    return run, asked


def changed(line, **response):
    entry = json.loads(line)
    return json.dumps(entry | {"response": entry["response"] | response}) + "\n"


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda lines: ["\ufeff", *lines],
        lambda lines: [line.replace("\n", "\r\n") for line in lines],
        lambda lines: ["\n", "not JSON\n", "[1]\n", "[" * 100_000 + "\n", *lines, "\n", "{"],
        lambda lines: [*lines, *lines],
        lambda lines: [*lines, lines[0].replace('"call-', '"other-'), '{"custom_id": 7}\n'],
        lambda lines: [changed(line, status_code="200") for line in lines],
        lambda lines: [changed(line, status_code=None) for line in lines],
        lambda lines: [
            changed(line, body=json.dumps(json.loads(line)["response"]["body"])) for line in lines
        ],
        lambda lines: [
            line.replace("fine.", "fi\tne.").replace("\\n", "\\n\x01") for line in lines
        ],
    ],
)
def test_odd_lines_cost_no_answer(settings, rewrite):
    run, asked = batched(settings, rewrite)
    assert run.state == Run.State.DONE, run.reason
    assert every_slot_once(run)
    assert asked == 6
    statuses = Parse.objects.filter(sample__call__run=run).values_list("status", flat=True)
    assert set(statuses) == {"valid"}


def test_an_answer_that_a_completed_batch_does_not_bring_is_lost_and_asked_again(settings):
    run, asked = batched(settings, lambda lines: ["corrupt\n", *lines[1:]])
    assert run.state == Run.State.DONE, run.reason
    assert every_slot_once(run)
    assert asked == 7
    assert states_of(run) == {"done": 6, "lost": 1}
    assert run.reserved_usd == Call.objects.get(run=run, state="lost").reserved_usd > 0


def test_answers_that_never_come_pause_the_run_and_stay_possibly_billed(settings):
    run, asked = batched(settings, lambda lines: ["corrupt\n"] * len(lines), times=99)
    assert run.state == Run.State.PAUSED
    assert "may have been billed" in run.reason
    assert states_of(run) == {"done": 1, "lost": 5}
    assert asked == 6


def test_an_error_of_one_request_is_typed_and_not_handed_in_for_ever(settings):
    def refused(lines):
        entry = json.loads(lines[0]) | {
            "response": None,
            "error": {"code": "context_length_exceeded", "message": "Too long for this model."},
        }
        return [json.dumps(entry) + "\n", *lines[1:]]

    run, asked = batched(settings, refused)
    assert run.state == Run.State.DONE, run.reason
    assert asked == 6
    statuses = Parse.objects.filter(sample__call__run=run).values_list("status", flat=True)
    assert sorted(statuses) == ["too_long"] * 2 + ["valid"] * 10
    assert Call.objects.get(run=run, state="failed").error == "Too long for this model."


@pytest.mark.parametrize("what", ["batches", "files"])
def test_a_batch_that_its_service_has_deleted_is_lost_and_a_resume_goes_on(settings, what):
    project = make_judged_project(3)
    with loopback(settings) as server:
        server.batches.forgets = what
        run = judged(project, batch=True, price=PRICE, k=2)
        assert run.state == Run.State.PAUSED
        assert "may have been billed" in run.reason
        server.batches.forgets = ""
        lifecycle.resume(run, background=False)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE, run.reason
    assert every_slot_once(run)
    assert states_of(run)["lost"] == 5


@pytest.mark.parametrize("path", ["/v1/files", pytest.param("/v1/batches", marks=pytest.mark.long)])
def test_a_web_page_in_place_of_a_batch_pauses_the_run_in_a_sentence(settings, monkeypatch, path):
    monkeypatch.setattr(store, "SILENT_SECONDS", 0.0)
    project = make_judged_project(3)
    with loopback(settings) as server:
        server.batches.pages = path
        run = judged(project, batch=True, price=PRICE, k=2)
    assert run.state == Run.State.PAUSED
    assert "another page than was asked for" in run.reason
