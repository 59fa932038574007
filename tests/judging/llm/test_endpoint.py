"""One address has one spelling, and no address or message gives a key away."""

import pytest

from judging.llm.endpoint import Endpoint, EndpointError


@pytest.mark.parametrize(
    "written",
    [
        "https://host.example",
        "https://host.example/",
        "https://host.example/v1",
        "https://host.example/v1/",
        "https://host.example/v1/chat/completions",
        "https://host.example/v1/chat/completions/",
        "  https://HOST.example/v1/models ",
        "host.example",
    ],
)
def test_every_way_to_write_a_host_reaches_the_same_path(written):
    assert Endpoint("e", written).base_url == "https://host.example/v1"


@pytest.mark.parametrize(
    ("written", "reached"),
    [
        ("localhost:11434", "http://localhost:11434/v1"),
        ("127.0.0.1:8080/v1/chat/completions", "http://127.0.0.1:8080/v1"),
        ("https://gateway.example/api/v1/", "https://gateway.example/api/v1"),
        ("https://g.example/v1beta/openai/chat/completions", "https://g.example/v1beta/openai"),
        (
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10",
            "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10",
        ),
    ],
)
def test_a_path_of_its_own_is_kept(written, reached):
    assert Endpoint("e", written).base_url == reached


@pytest.mark.parametrize("written", ["", "https://", "ftp://host", "https://ho st", "http://h:x"])
def test_what_is_no_address_is_refused(written):
    with pytest.raises(EndpointError, match="not a web address"):
        Endpoint("e", written)


@pytest.mark.parametrize(
    "written", ["https://user:secret@host/v1", "https://host/v1?key=secret", "https://h?api_key=s"]
)
def test_an_address_that_holds_a_secret_is_refused_without_repeating_it(written):
    with pytest.raises(EndpointError) as caught:
        Endpoint("e", written)
    assert "secret" not in str(caught.value)


def test_the_key_is_read_from_its_variable_alone():
    endpoint = Endpoint("e", "host", "JUDGE_KEY")
    assert endpoint.key({"JUDGE_KEY": " k-1\n", "OPENAI_API_KEY": "other"}) == "k-1"
    assert endpoint.key({"OPENAI_API_KEY": "other"}) is None
    assert Endpoint("e", "host").key({"OPENAI_API_KEY": "other"}) is None


@pytest.mark.parametrize("value", ["“k-1”", "k 1", "k\n1"])
def test_a_key_that_no_header_can_carry_is_refused_by_its_variables_name(value):
    with pytest.raises(EndpointError, match="JUDGE_KEY") as caught:
        Endpoint("e", "host", "JUDGE_KEY").key({"JUDGE_KEY": value})
    assert value not in str(caught.value)
