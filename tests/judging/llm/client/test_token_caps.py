"""A model caps the tokens of a reply, and the servers' words say at how many."""

import pytest

from judging.llm.client.adaptation import EndpointCapabilities, learn
from judging.llm.client.errors import AttemptFailure, FailureKind
from tests.judging.llm.asking import make_request

CAPS = [
    ("max_tokens: 9000 > 4096, which is the maximum allowed number of output tokens for "
     "claude-3-haiku-20240307", 4096),
    ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is "
     "less than the `context_window` for this model", 8192),
    ("Range of max_tokens should be [1, 8192]", 8192),
    ("Requests with max_tokens > 4096 must have stream=true", 4096),
    ("Unable to submit request because it has a maxOutputTokens value of 9000 but the supported "
     "range is from 1 (inclusive) to 8193 (exclusive).", 8192),
    ("The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum "
     "tokens value that is lower than 4096.", 4096),
    ("max_tokens is too large: 9,000. gpt-3.5-turbo-1106 gives at most 4,096 completion tokens.",
     4096),
    # Nothing that names a cap below what was sent.
    ("max_tokens must be at least 16", None),
    ("max_tokens must be a number", None),
    ("Invalid max_tokens value", None),
]  # fmt: skip


@pytest.mark.parametrize(("message", "most"), CAPS)
def test_a_cap_on_tokens_is_read_in_the_words_of_every_server(message, most):
    failure = AttemptFailure(FailureKind.BAD_REQUEST, message, 400)
    learned = learn(EndpointCapabilities(), make_request(max_tokens=9000), failure)
    assert (learned.max_tokens if learned else None) == most


def test_a_cap_on_something_else_is_none_on_tokens():
    failure = AttemptFailure(FailureKind.BAD_REQUEST, "n must be at most 32", 400, "n")
    learned = learn(EndpointCapabilities(), make_request(n=64, max_tokens=9000), failure)
    assert learned == EndpointCapabilities(max_n=32)
