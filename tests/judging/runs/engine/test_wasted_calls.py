"""Runs that would pay for nothing: they pause in time, or say on their page what is wrong."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from judging.core.errors import UserError
from judging.runs import lifecycle
from judging.runs.engine import recording, rereading
from judging.runs.engine.progress import progress_of
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Parse, Run
from tests.judging.runs.judging import every_slot_once, judged, loopback, make_judged_project
from tests.loopback import Answer, completion, error, rate_limited

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = "Evaluation evidence: fine.\nThe score of Assistant 1: 8\nThe score of Assistant 2: 6"
LONG = f"Evaluation evidence: {'both are fine and say much the same. ' * 5}\n" + GOOD
IN_FLIGHT = 4
ARGUMENTS = {"name": "judge", "arguments": "{}"}

UNREAD = {
    "empty": (completion(None), "empty"),
    "no text": (completion("  \n"), "empty"),
    "reasoning": (
        completion(None, message={"reasoning_content": "8 and 6"}),
        "empty, with content in reasoning_content",
    ),
    "reasoning, cut off": (
        completion("", message={"reasoning": "Let me think"}, finish_reason="length"),
        "empty, with content in reasoning, cut off",
    ),
    "cut off": (
        completion("Evaluation evidence: well", finish_reason="length"),
        "cut off by the token limit",
    ),
    "cut off at once": (
        completion("", finish_reason="length"),
        "cut off by the token limit before any text",
    ),
    "tool calls": (
        completion(None, message={"tool_calls": [{"function": ARGUMENTS}]}),
        "empty, with content in tool_calls",
    ),
    "function call": (
        completion(None, message={"function_call": ARGUMENTS}),
        "empty, with content in function_call",
    ),
    "refusal": (completion(None, message={"refusal": "I can't do that."}), "refused: “I can't"),
    "filtered": (completion("", finish_reason="content_filter"), "filtered"),
    "unparsed": (completion(f"Hello! {'word ' * 50}"), "not readable: “Hello! word"),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_a_run_whose_first_calls_bring_no_verdict_pauses_and_says_what_came(settings, kind):
    answer, words = UNREAD[kind]
    with loopback(settings, lambda asked: answer) as server:
        run = judged(make_judged_project(40), concurrency=IN_FLIGHT, k=1)
        assert run.state == Run.State.PAUSED
        assert words in run.reason
        assert "Nothing recorded is lost" in run.reason
        assert 8 <= server.requests <= 8 + 2 * IN_FLIGHT
        # A person resumes it: it goes on to its end, whatever comes back.
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
        assert server.requests == 80
    run.refresh_from_db()
    assert run.state == Run.State.DONE


def test_one_verdict_among_the_first_calls_is_enough(settings):
    def script(asked):
        return completion(GOOD if asked.number == 6 else "Hm.")

    with loopback(settings, script):
        run = judged(make_judged_project(20), concurrency=1, k=1)
    assert run.state == Run.State.DONE


@pytest.mark.parametrize(("calls", "requests"), [(2, 2), (0, 40), (15, 15)])
def test_the_number_of_calls_is_a_setting_of_the_run(settings, calls, requests):
    with loopback(settings, lambda asked: completion("Hm.")) as server:
        run = judged(make_judged_project(20), concurrency=1, k=1, unread_calls=calls)
    assert run.parameters["unread_calls"] == calls
    assert requests <= server.requests <= requests + 2
    assert run.state == (Run.State.PAUSED if calls else Run.State.DONE)


def test_the_command_takes_the_number_and_says_what_came_back(settings, capsys):
    project = make_judged_project(20)
    with loopback(settings, lambda asked: completion("Hm.")) as server:
        with pytest.raises(CommandError, match=r"not readable: “Hm\.”"):
            call_command(
                "judge", project.slug, "--endpoint", "loop", "--unread-calls", "3",
                "--concurrency", "1", "--k", "1",
            )  # fmt: skip
        assert server.requests <= 5
        with pytest.raises(UserError, match="without a verdict, or never"):
            judged(project, unread_calls=-1)


DAY_LIMITS = {
    "Gemini": Answer(
        429,
        json.dumps(
            [
                {
                    "error": {
                        "code": 429,
                        "message": "You exceeded your current quota, please check your plan and "
                        "billing details.",
                        "status": "RESOURCE_EXHAUSTED",
                        "details": [
                            {
                                "violations": [
                                    {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
                                ]
                            },
                            {"retryDelay": "34s"},
                        ],
                    }
                }
            ]
        ),
    ),
    "Groq": error(
        429,
        "Rate limit reached for model `llama` on tokens per day (TPD): Limit 500000, Used 499000, "
        "Requested 3000. Please try again in 5m45.6s.",
        code="rate_limit_exceeded",
        headers={"retry-after": "346"},
    ),
    "OpenRouter": Answer(
        429,
        json.dumps(
            {
                "error": {
                    "message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock "
                    "1000 free model requests per day",
                    "code": 429,
                    "metadata": {
                        "headers": {
                            "X-RateLimit-Limit": "50",
                            "X-RateLimit-Remaining": "0",
                            "X-RateLimit-Reset": "4102444800000",
                        }
                    },
                }
            }
        ),
    ),
    "OpenAI": error(
        429,
        "Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200, Requested "
        "1. Please try again in 7m12s.",
        code="rate_limit_exceeded",
    ),
    "Azure": error(429, "Requests have exceeded the rate limit. Please retry after 86400 seconds."),
    "GitHub": error(
        429, "Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 43200 seconds."
    ),
    "Anthropic": error(
        429,
        "This request would exceed your rate limit",
        headers={
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2099-01-01T00:00:00Z",
        },
    ),
    "a header": rate_limited(retry_after="7200"),
    "an exhausted window": rate_limited(
        {
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "13h",
            "x-ratelimit-remaining-tokens": "900",
            "x-ratelimit-reset-tokens": "1s",
        }
    ),
    "the IETF's header": rate_limited({"RateLimit": "limit=100, remaining=0, reset=40000"}),
    "in a success": Answer(
        200, '{"error_code": 17, "error_msg": "Open api daily request limit reached"}'
    ),
}


@pytest.mark.parametrize("server_name", DAY_LIMITS)
def test_a_limit_of_a_day_pauses_the_run_at_once_and_a_sweep_goes_on(settings, sent, server_name):
    limited = [True]

    def script(asked):
        return DAY_LIMITS[server_name] if limited[0] and asked.number >= 4 else None

    with loopback(settings, script) as server:
        run = judged(make_judged_project(20), concurrency=2, price=(Decimal(1), Decimal(1)))
        assert run.state == Run.State.PAUSED
        assert run.resume_at > timezone.now() + timedelta(minutes=9)
        assert f"{run.resume_at.astimezone(UTC):%H:%M} UTC" in run.reason
        assert server.requests <= 4 + 2
        # What was refused costs nothing, and is not called billed.
        assert run.reserved_usd == 0
        assert not run.calls.filter(state=Call.State.LOST).exists()
        assert recording.sweep() == 0
        limited[0] = False
        Run.objects.filter(pk=run.pk).update(resume_at=timezone.now())
        assert recording.sweep() == 1
        assert sent == [run.pk]
        run.refresh_from_db()
        assert (run.state, run.resume_at) == (Run.State.QUEUED, None)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)


def test_a_run_that_a_person_stopped_is_not_resumed_by_itself(settings):
    with loopback(settings, lambda asked: rate_limited(retry_after="7200")):
        run = judged(make_judged_project(3))
        assert run.resume_at
        lifecycle.cancel(run)
    run.refresh_from_db()
    assert (run.state, run.resume_at) == (Run.State.CANCELLED, None)


def test_a_run_that_can_not_go_on_says_why_instead(settings):
    with loopback(settings, lambda asked: rate_limited(retry_after="7200")):
        run = judged(make_judged_project(3))
    settings.FAIRJUDGE_ENDPOINTS = {}
    Run.objects.filter(pk=run.pk).update(resume_at=datetime.now(UTC))
    assert recording.sweep() == 0
    run.refresh_from_db()
    assert (run.state, run.resume_at) == (Run.State.PAUSED, None)
    assert "There is no endpoint loop" in run.reason


def test_a_prompt_that_the_server_cut_gives_no_verdict_and_the_run_says_so(settings):
    long = {"response_1": "word " * 2000, "response_2": "other " * 2000}

    def script(asked):
        return completion(GOOD, GOOD, GOOD, prompt_tokens=2051) if asked.number >= 2 else None

    project = make_judged_project(3, **long)
    with loopback(settings, script):
        run = judged(project)
    progress = progress_of(run)
    assert run.state == Run.State.DONE
    assert progress.statuses == {"valid": 6, "too_long": 12}
    assert "The server cut the prompt of 4 calls" in " ".join(progress.notices)
    # Reading again doesn't make a judgment of it, and a person may ask again.
    Parse.objects.update(version=0)
    rereading.reparse(run)
    assert progress_of(run).statuses == {"valid": 6, "too_long": 12}
    with loopback(settings):
        Run.objects.filter(pk=run.pk).update(
            base_url=settings.FAIRJUDGE_ENDPOINTS["loop"]["base_url"]
        )
        run.refresh_from_db()
        assert lifecycle.resume(run, retry={"too_long"}, background=False)
        assert work_on(run)
    assert progress_of(run).statuses == {"valid": 18}


def with_id(name: str, *texts: str) -> Answer:
    answer = completion(*texts)
    return Answer(200, json.dumps(json.loads(answer.body) | {"id": name}), {}, len(texts))


def test_one_cached_text_for_k_samples_is_noticed_by_its_id(settings):
    """A server that gives one choice a request, behind a proxy that keeps its answers."""

    def script(asked):
        return with_id(f"reply-{hash(asked.prompt)}", f"{LONG}")

    with loopback(settings, script):
        run = judged(make_judged_project(2), k=3)
    notices = " ".join(progress_of(run).notices)
    assert "8 calls got an earlier reply again" in notices
    assert "3 identical replies with the same id (reply-" in notices


def test_a_text_that_came_before_a_pause_is_noticed_after_it(settings):
    def script(asked):
        if asked.number == 1:
            return error(401, "No such key")
        return with_id(f"reply-{hash(asked.prompt)}", LONG)

    with loopback(settings, script) as server:
        run = judged(make_judged_project(1), k=2, concurrency=1)
        assert (run.state, server.requests) == (Run.State.PAUSED, 2)
        assert not progress_of(run).notices
        assert lifecycle.resume(run, background=False)
        assert work_on(run)
        assert server.requests == 5
    assert "2 calls got an earlier reply again" in " ".join(progress_of(run).notices)


@pytest.mark.parametrize("texts", [lambda n: f"{LONG}{n % 3}", lambda n: LONG])
def test_ids_of_their_own_or_one_id_for_all_texts_are_no_cache(settings, texts):
    def script(asked):
        constant = texts(0) != texts(1)
        return with_id("chatcmpl-1" if constant else f"r{asked.number}", texts(asked.number))

    with loopback(settings, script):
        run = judged(make_judged_project(4), k=2, concurrency=1)
    assert not progress_of(run).notices


def test_k_choices_of_one_text_are_noticed_at_a_temperature(settings):
    with loopback(settings, lambda asked: with_id(f"r{asked.number}", LONG, LONG, LONG)):
        warm = judged(make_judged_project(2), k=3, temperature=Decimal(1))
        cold = judged(warm.project, k=3, temperature=Decimal(0))
    assert "identical replies with the same id" in " ".join(progress_of(warm).notices)
    assert not progress_of(cold).notices
