"""Answers that no server should give: a typed outcome each, and the run goes on to its end."""

import json

import pytest

from judging.runs.models import Call, Parse, Run
from tests.judging.runs.judging import judged, loopback, make_judged_project
from tests.loopback import Answer, completion, error
from tests.loopback.server import SCORES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

WHOLE = json.loads(completion(SCORES, SCORES, SCORES).body)
LOGPROB = {"token": "A", "logprob": -0.1, "top_logprobs": []}


def varied(**fields):
    return Answer(200, json.dumps(WHOLE | fields), choices=3)


def with_choices(**fields):
    return varied(choices=[choice | fields for choice in WHOLE["choices"]])


VALID = [
    with_choices(logprobs={"content": ["A", LOGPROB]}),
    with_choices(logprobs={"content": [LOGPROB | {"top_logprobs": {"A": -0.1}}]}),
    with_choices(logprobs={"content": [LOGPROB | {"top_logprobs": [None], "logprob": 1e400}]}),
    with_choices(logprobs={"content": [LOGPROB | {"logprob": 10**400}]}),
    with_choices(index={}),
    with_choices(finish_reason=["stop"] * 50),
    with_choices(message={"content": [SCORES]}),
    with_choices(message={"content": [{"type": "output_text", "text": SCORES}]}),
    with_choices(message={"content": {"type": "text", "text": SCORES}}),
    with_choices(message=None, text=SCORES),
    varied(usage={"prompt_tokens": 10**30, "completion_tokens": 10**30}),
    varied(usage={"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 10**30}),
    varied(usage=[1], model="m" * 5000, id="\0\ud83d" + "i" * 5000),
]
FAILED = [
    error(400, "An answer that ends in \ud83d and \0"),
    Answer(400, "[" * 100_000),
    with_choices(error={"code": 400, "message": "half of \ud83d"}, message={"content": ""}),
]


@pytest.mark.parametrize("odd", VALID)
def test_an_odd_answer_that_holds_a_verdict_is_read(settings, odd):
    with loopback(settings, [odd]):
        run = judged(make_judged_project(2), k=3, concurrency=1)
    assert run.state == Run.State.DONE, run.reason
    statuses = Parse.objects.filter(sample__call__run=run).values_list("status", flat=True)
    assert list(statuses) == ["valid"] * 12


@pytest.mark.parametrize("broken", FAILED)
def test_a_broken_refusal_costs_its_own_call_alone(settings, broken):
    with loopback(settings, [completion(*[SCORES] * 3), broken]):
        run = judged(make_judged_project(2), k=3, concurrency=1)
    assert run.state == Run.State.DONE, run.reason
    assert Call.objects.filter(run=run, state=Call.State.FAILED).count() == 1
    statuses = Parse.objects.filter(sample__call__run=run).values_list("status", flat=True)
    assert sorted(statuses) == ["error"] * 3 + ["valid"] * 9
