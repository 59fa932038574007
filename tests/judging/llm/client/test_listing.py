"""What an endpoint serves, asked of a real one."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from judging.llm.client.judge_client import (
    ListingError,
    LogprobSupport,
    list_models,
    only_model,
    probe_logprobs,
)
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import MODEL, client_of
from tests.loopback import LoopbackServer, Quirks


def models_of(server, key=None):
    return asyncio.run(list_models(Endpoint("loopback", server.base_url), key))


def test_the_models_are_listed_in_the_servers_order():
    with LoopbackServer(models=("b", "a")) as server:
        assert models_of(server) == ("b", "a")


def test_the_only_model_needs_no_name():
    assert only_model(("one",)) == "one"


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ((), "serves no model"),
        (("a", "b"), "several models. Name one: a, b"),
        (tuple(str(n) for n in range(50)), r"9, …\."),
    ],
)
def test_none_or_several_models_ask_for_a_name(models, said):
    with pytest.raises(ListingError, match=said):
        only_model(models)


def test_a_wrong_key_and_a_closed_port_are_told_in_sentences():
    with LoopbackServer(key="right") as server, pytest.raises(ListingError) as refused:
        models_of(server, key="wrong-key-12345")
    assert "did not list its models. HTTP 401: Incorrect API key." in str(refused.value)
    assert not any(raw in str(refused.value) for raw in ("{", "wrong-key", "Error code"))
    with pytest.raises(ListingError, match=r"connection to the endpoint failed.*name the model\."):
        asyncio.run(list_models(Endpoint("closed", "http://127.0.0.1:9"), None))


def models_in(page, content_type="application/json"):
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        return asyncio.run(list_models(Endpoint("page", url), None))


def test_a_web_page_is_no_list_of_models():
    with pytest.raises(ListingError, match="answer is another page than was asked for"):
        models_in(b"<!doctype html><title>Welcome</title>", "text/html")


@pytest.mark.parametrize(
    ("page", "models"),
    [
        (b'{"data": null}', ()),
        (b'{"data": "abc"}', ()),
        (b'{"data": [null, "a", {"id": 5}, {"name": "b"}, {"id": "c"}]}', ("c",)),
        (b'{"data": [{"id": "half \\ud83d"}]}', ("half \ufffd",)),
        (b'{"error": {"message": "no"}}', ()),
    ],
)
def test_what_is_no_model_in_a_list_is_left_out(page, models):
    assert models_in(page) == models


def probed(quirks):
    async def main(server):
        async with client_of(server) as client:
            return await probe_logprobs(client, MODEL)

    with LoopbackServer(quirks=quirks) as server:
        return asyncio.run(main(server))


def test_logprobs_are_probed_with_one_token_and_their_cap_is_found():
    assert probed(Quirks()) == LogprobSupport(True, top=20)
    assert probed(Quirks(max_top_logprobs=5)) == LogprobSupport(True, top=5)


def test_an_endpoint_without_logprobs_says_so_before_a_run():
    support = probed(Quirks(logprobs=False))
    assert not support.supported
    assert "no log-probabilities" in support.reason
