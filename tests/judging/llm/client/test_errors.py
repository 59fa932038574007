"""What the real servers say, and what that means for the call and for the run."""

import json

import pytest

from judging.llm.client.errors import FailureKind, asked_wait, classify_answer

CASES = [
    # OpenAI
    (429, "insufficient_quota", "You exceeded your current quota, please check your plan", "quota"),
    (429, "rate_limit_exceeded", "Rate limit reached for gpt-4o on requests per min", "rate_limit"),
    (
        429,
        "rate_limit_exceeded",
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000.",
        "too_long",
    ),
    (400, "context_length_exceeded", "This model's maximum context length is 8192", "too_long"),
    (400, "string_above_max_length", "Invalid 'messages[0].content': string too long", "too_long"),
    (400, "invalid_prompt", "Your prompt was flagged as violating our usage policy.", "filtered"),
    (401, "invalid_api_key", "Incorrect API key provided: sk-abc.", "auth"),
    (404, "model_not_found", "The model `gpt-9` does not exist", "not_found"),
    (400, None, "'temperature' must be between 0 and 2", "bad_request"),
    (400, "billing_hard_limit_reached", "Billing hard limit has been reached", "quota"),
    (500, None, "The server had an error while processing your request", "transient"),
    (503, None, "That model is currently overloaded", "transient"),
    # Azure
    (400, "content_filter", "triggering Azure OpenAI's content management policy", "filtered"),
    (404, "DeploymentNotFound", "The API deployment for this resource does not exist", "not_found"),
    (408, "Timeout", "The operation was timeout.", "transient"),
    # vLLM, SGLang, TGI
    (
        400,
        None,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "too_long",
    ),
    (
        400,
        None,
        "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
        "too_long",
    ),
    (422, None, "`inputs` must have less than 4095 tokens. Given: 9000", "too_long"),
    (400, None, "The input (9000 tokens) is longer than the model's context length", "too_long"),
    (422, None, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", "too_long"),
    (404, None, "The model `x` does not exist.", "not_found"),
    # llama.cpp
    (
        400,
        "exceed_context_size_error",
        "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "too_long",
    ),
    (
        500,
        None,
        "request (9000 tokens) exceeds the available context size (4096 tokens)",
        "too_long",
    ),
    (503, "unavailable_error", "Loading model", "transient"),
    # Ollama
    (404, None, 'model "llama9" not found, try pulling it first', "not_found"),
    (400, None, "the input length exceeds the context length", "too_long"),
    (500, None, "prompt too long; exceeded context length by 12 tokens", "too_long"),
    # LM Studio, Moonshot, DashScope, TensorRT-LLM
    (
        400,
        None,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "too_long",
    ),
    (400, None, "Invalid request: Your request exceeded model token limit: 8192", "too_long"),
    (400, None, "Range of input length should be [1, 30720]", "too_long"),
    (400, None, "The sum of prompt length (4000.0) should not exceed max_num_tokens", "too_long"),
    # Others behind the same interface
    (402, None, "Insufficient Balance", "quota"),
    (400, None, "Your credit balance is too low to access the API", "quota"),
    (400, None, "prompt is too long: 210000 tokens > 200000 maximum", "too_long"),
    (
        400,
        None,
        "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
        "too_long",
    ),
    (429, None, "You exceeded your current quota. Please retry in 37.48s.", "rate_limit"),
    (400, None, "Rate limit exceeded", "rate_limit"),
    (403, "rateLimitExceeded", "User Rate Limit Exceeded", "rate_limit"),
    (403, None, "Insufficient account balance", "quota"),
    (400, None, "You have reached your specified API usage limits.", "quota"),
    (429, None, "Monthly spend limit reached", "quota"),
    (429, "1113", "余额不足或无可用资源包,请充值。", "quota"),
    (400, None, "API key not valid. Please pass a valid API key.", "auth"),
    (405, None, "Method Not Allowed", "not_found"),
    (400, None, "gpt-9 is not a valid model ID", "not_found"),
    (400, None, "No models loaded. Please load a model in the developer page", "not_found"),
    (403, None, "Your input was flagged by moderation", "filtered"),
    (403, None, "Country not supported", "auth"),
    # LiteLLM and Portkey in front of another endpoint, with budgets of their own.
    (400, "400", "Budget has been exceeded! Current cost: 0.0512, Max budget: 0.05", "quota"),
    (400, None, "ExceededTokenBudget: Current spend for token: 2.0; Max Budget: 1.0", "quota"),
    (412, None, "Portkey Error: Usage limits exceeded for this API key.", "quota"),
    (413, None, "Payload too large", "too_long"),
    (529, "overloaded_error", "Overloaded", "transient"),
    (501, None, "Not implemented", "bad_request"),
]


@pytest.mark.parametrize(("status", "code", "message", "kind"), CASES)
def test_each_servers_words_are_understood(status, code, message, kind):
    body = json.dumps({"error": {"message": message, "type": "t", "code": code, "param": None}})
    failure = classify_answer(status, {}, body)
    assert failure.kind == kind
    assert failure.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error": "out of memory"}', "out of memory"),
        ('{"detail": "Not Found"}', "Not Found"),
        ('{"object": "error", "message": "bad n", "code": 400}', "bad n"),
        ('[{"error": {"code": 400, "message": "as a list"}}]', "as a list"),
        ("not JSON", "not JSON"),
        ("<html>Bad Gateway</html>", "The endpoint answered with HTTP status 400."),
        ("", "The endpoint answered with HTTP status 400."),
        ("null", "The endpoint answered with HTTP status 400."),
        ('{"error": {"message": null}}', "The endpoint answered with HTTP status 400."),
    ],
)
def test_an_error_is_read_in_whatever_form_it_comes(body, message):
    assert classify_answer(400, {}, body).message == message


def test_a_validation_error_names_its_parameter():
    body = {"detail": [{"loc": ["body", "top_logprobs"], "msg": "too large", "type": "v"}]}
    assert classify_answer(422, {}, json.dumps(body)).parameter == "top_logprobs"


@pytest.mark.parametrize(
    ("code", "kind", "billed"), [(429, "rate_limit", False), (502, "transient", True)]
)
def test_an_error_inside_a_success_is_judged_by_its_own_code(code, kind, billed):
    body = json.dumps({"error": {"message": "Provider returned error", "code": code}})
    failure = classify_answer(200, {}, body)
    assert (failure.kind, failure.possibly_billed) == (kind, billed)
    assert classify_answer(200, {}, '{"error": {"message": "?"}}').kind is FailureKind.BAD_REPLY


@pytest.mark.parametrize(
    ("headers", "seconds"), [({}, 41.0), ({"Retry-After": "7"}, 7.0), ({"retry-after": "7"}, 7.0)]
)
def test_a_delay_that_stands_in_the_body_alone_is_kept(headers, seconds):
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "41s"}
    error = {
        "code": 429,
        "message": "Resource has been exhausted (e.g. check quota).",
        "details": [retry],
    }
    failure = classify_answer(429, headers, json.dumps([{"error": error}]))
    assert failure.kind is FailureKind.RATE_LIMIT
    assert asked_wait(failure.headers) == seconds


def test_only_what_every_call_would_meet_pauses_a_run():
    pausing = {kind for kind in FailureKind if kind.pauses_run}
    by_a_person = {FailureKind.QUOTA, FailureKind.AUTH, FailureKind.NOT_FOUND}
    assert pausing == by_a_person | {FailureKind.DAY_LIMIT}
    assert all(kind.advice for kind in by_a_person)
    assert not any(kind.worth_repeating for kind in pausing)


def test_a_failure_becomes_a_status_of_its_samples():
    assert FailureKind.TOO_LONG.status == "too_long"
    assert FailureKind.FILTERED.status == "filtered"
    assert {k.status for k in FailureKind} == {"too_long", "filtered", "error"}


def test_a_very_long_error_page_is_shortened():
    assert len(classify_answer(500, {}, "x" * 100_000).message) <= 500


@pytest.mark.parametrize(
    "message",
    [
        "You've hit your limit for today. Come back tomorrow.",
        "Request limit reached. Resets at midnight UTC.",
        "You have used up your points for the day.",
        "该 API 已达今日调用次数上限",
        "您今天的免费额度已用完，请明天再试",
        "已达到 5 小时的使用上限。您的限额将在 2099-06-01 10:00:00 重置。",
        "日限额已用完",
        "1日あたりの上限に達しました。",
        "일일 한도를 초과했습니다.",
        "Tageslimit erreicht. Bitte morgen wieder versuchen.",
        "Límite diario alcanzado.",
        "Limite quotidienne atteinte.",
        "Дневной лимит исчерпан.",
        "The request quota of the current calendar day is used up.",
        "You've exceeded your 1-day quota.",
        "Limit: 100 calls in 24 h.",
        "Too many requests in the window of 86400s.",
        "The quota is refreshed at 00:00 UTC.",
        "You have exceeded your hourly limit of 100 requests.",
        "You have reached your 5-hour limit.",
    ],
)
def test_a_limit_of_a_day_is_known_by_other_words_too(message):
    failure = classify_answer(429, {}, json.dumps({"error": {"message": message}}))
    assert failure.kind is FailureKind.DAY_LIMIT
    assert failure.until is not None


@pytest.mark.parametrize(
    ("stated", "hours"),
    [
        ("7 hours 12 minutes", 7.2),
        ("7 hours and 12 minutes", 7.2),
        ("3h 12m", 3.2),
        ("1 day, 2 hrs", 26),
        ("45 minutes", 0.75),
        ("43,200 seconds", 12),
    ],
)
def test_a_long_wait_in_words_is_read_to_its_end(stated, hours):
    body = json.dumps({"error": {"message": f"Limit reached. Please try again in {stated}."}})
    failure = classify_answer(429, {}, body, now=1_780_000_000.0)
    assert failure.kind is FailureKind.DAY_LIMIT
    assert failure.until == pytest.approx(1_780_000_000.0 + hours * 3600)


def test_a_limit_of_an_hour_that_says_when_to_come_back_is_waited_for():
    body = json.dumps({"error": {"message": "100 per hour. Please try again in 20 seconds."}})
    assert classify_answer(429, {}, body).kind is FailureKind.RATE_LIMIT


def test_too_many_at_once_is_no_limit_of_a_day():
    body = json.dumps({"error": {"code": "1302", "message": "您当前使用该API的并发数过高"}})
    assert classify_answer(429, {}, body).kind is FailureKind.RATE_LIMIT
