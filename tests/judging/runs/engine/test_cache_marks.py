"""Marks for prompt caches: what the loopback server is told to keep, and what it costs."""

from decimal import Decimal as D

import pytest

from judging.runs.models import Call
from tests.judging.runs.judging import judged, loopback, make_judged_project
from tests.loopback import error
from tests.loopback.caching import PromptCache
from tests.loopback.log import parts_of
from tests.loopback.server import SCORES

pytestmark = pytest.mark.django_db(transaction=True)


def asked(settings, script, **options):
    project = make_judged_project(1, question="What is this text about?\n" + "Words. " * 400)
    with loopback(settings, script) as server:
        run = judged(project, method="mec_bpc", k=3, concurrency=1, price=(D(1), D(2)), **options)
    return run, server.log


def marked(entry):
    parts = [part for message in entry.body["messages"] for part in parts_of(message)]
    return [part["text"] for part in parts if "cache_control" in part], parts


def test_the_samples_of_an_order_and_both_orders_share_what_is_marked(settings):
    cache = PromptCache(SCORES)
    run, log = asked(settings, cache, cache_marks=True)
    assert len(log) == 6
    calls = list(Call.objects.filter(run=run).order_by("finished_at", "pk"))
    # The server gave one choice instead of three: only from then on is the whole prompt repeated.
    assert [len(marked(entry)[0]) for entry in log] == [1, 2, 2, 2, 2, 2]
    (head,), _ = marked(log[0])
    assert head.endswith("\n")
    assert "Words. Words." in head
    assert "First response" not in head
    assert all(marked(entry)[0][0] == head for entry in log)
    # The head, then the two prompts.
    assert len(cache.prefixes) == 3
    written = [call.written_tokens for call in calls]
    assert sum(count > 0 for count in written) == 3
    for call in calls:
        assert (
            call.usd
            == (
                (call.prompt_tokens - call.cached_tokens - call.written_tokens) * D(1)
                + call.cached_tokens * D(1)
                + call.written_tokens * D("1.25")
                + call.completion_tokens * D(2)
            )
            / 1_000_000
        )
    # All but what was written once is read.
    assert sum(call.cached_tokens for call in calls) > sum(written)


def test_without_the_setting_nothing_is_marked_and_prompts_are_the_same(settings):
    run, log = asked(settings, PromptCache(SCORES))
    assert all(marked(entry)[0] == [] for entry in log)
    assert all(isinstance(entry.body["messages"][0]["content"], str) for entry in log)
    with_marks, others = asked(settings, PromptCache(SCORES), cache_marks=True)
    assert {entry.prompt_sha256 for entry in others} == {entry.prompt_sha256 for entry in log}
    assert "written" not in run.price
    assert with_marks.price["written"]["base"] == "1.25"


@pytest.mark.parametrize(
    "message",
    [
        "messages.0.content.0.cache_control: Extra inputs are not permitted",
        "Input should be a valid string: body -> messages -> 0 -> content",
        "invalid type: sequence, expected a string for content",
    ],
)
def test_a_server_that_refuses_marks_is_asked_without_them(settings, message):
    def refusing(request):
        marks = any(isinstance(m["content"], list) for m in request.body["messages"])
        return error(400, message) if marks else None

    run, log = asked(settings, refusing, cache_marks=True)
    assert [entry.status for entry in log].count(400) == 1
    assert not run.learned["cache_marks"]
    assert run.calls.filter(state=Call.State.DONE).count() == len(log) - 1
