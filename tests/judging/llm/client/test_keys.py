"""Where the key of an endpoint goes, and where it never appears."""

import pytest

from judging.llm.client.errors import FailureKind
from tests.judging.llm.asking import (
    ask,
    client_of,
    failed,
    replied,
)
from tests.loopback import (
    LoopbackServer,
    error,
)


@pytest.mark.parametrize("wrong", ["sk-another-secret-42", "another-secret-42"])
def test_the_key_is_sent_and_appears_in_no_message_and_no_repr(wrong):
    key = "sk-very-secret-0123456789"
    with LoopbackServer(key=key) as server:
        assert replied(ask(server, key=key))
        failure = failed(ask(server, key=wrong))
        assert server.log[0].headers["Authorization"] == f"Bearer {key}"
        client = client_of(server, key=key)
        shown = repr(client) + repr(vars(client))
    assert failure.kind is FailureKind.AUTH
    assert "another-secret" not in failure.message
    assert key not in shown


def test_a_key_that_the_server_repeats_half_masked_is_taken_out_as_well():
    message = "Incorrect API key provided: sk-proj-abcd****wxyz. Find your key at …"
    with LoopbackServer([error(401, message)]) as server:
        failure = failed(ask(server, key="other-key"))
    assert failure.message.startswith("Incorrect API key provided: [key]")
    assert "wxyz" not in failure.message


def test_a_key_in_the_environment_goes_to_no_endpoint_that_has_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with LoopbackServer() as server:
        replied(ask(server))
        assert "sk-from" not in str(server.log[0].headers)
