"""Completions of the loopback server that tell how likely a given text is, in one way or in none.

Its tokens are four characters long, and a token's log-probability is a function of its letters.
"""

import asyncio
import math
import re
from collections.abc import Callable
from typing import Any

from aiohttp import web

LENGTH = 4


def tokens_of(text: str) -> list[str]:
    return [text[start : start + LENGTH] for start in range(0, len(text), LENGTH)]


def logprob_of(token: str) -> float:
    return -(1 + sum(map(ord, token)) % 17) / 10


def log_likelihood(text: str) -> float:
    """Of a text whose first token begins with it."""
    return math.fsum(logprob_of(token) for token in tokens_of(text))


class TextService:
    """`way`: echo, prompt_logprobs or grammar; empty if none works.

    The answer to the n-th request waits for as long as `hold(n)` is true.
    """

    def __init__(self, way: str) -> None:
        self.way = way
        self.requests = 0
        self.hold: Callable[[int], object] = lambda number: False
        self.vocabulary: dict[int, str] = {}

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/tokenize", self._tokenize)

    async def _tokenize(self, request: web.Request) -> web.Response:
        if self.way != "grammar":
            return web.json_response({"error": {"message": "Not Found"}}, status=404)
        body = await request.json()
        ids = []
        for token in tokens_of(body["content"]):
            ids.append(sum(ord(letter) << 8 * place for place, letter in enumerate(token)))
            self.vocabulary[ids[-1]] = token
        return web.json_response({"tokens": ids})

    async def _complete(self, request: web.Request) -> web.Response:
        self.requests += 1
        number = self.requests
        while self.hold(number):
            await asyncio.sleep(0.01)
        body = await request.json()
        choice: dict[str, Any] = {"index": 0, "text": " so", "finish_reason": "length"}
        if self.way == "echo" and body.get("echo"):
            choice |= self._echoed(body["prompt"])
        if self.way == "prompt_logprobs" and "prompt_logprobs" in body:
            choice["prompt_logprobs"] = self._places(body["prompt"])
        if self.way == "grammar" and not self._writable(body.get("grammar", "")):
            message = "got exception: Unexpected empty grammar stack after accepting piece: ."
            error = {"code": 500, "message": message, "type": "server_error"}
            return web.json_response({"error": error}, status=500)
        if self.way == "grammar" and "grammar" in body:
            choice |= self._forced(body["grammar"])
        usage = {"prompt_tokens": len(tokens_of(body["prompt"])), "completion_tokens": 1}
        return web.json_response({"choices": [choice], "usage": usage})

    def _writable(self, grammar: str) -> bool:
        """As llama.cpp's: not where a token is a part of a letter, here any that is not ASCII."""
        return all(token.isascii() for token in self._named(grammar).values())

    def _named(self, grammar: str) -> dict[int, str]:
        return {int(one): self.vocabulary[int(one)] for one in re.findall(r"<\[(\d+)\]>", grammar)}

    def _pieces(self, prompt: str) -> list[str]:
        """The text begins a token of its own behind the last empty line."""
        before, gap, text = prompt.rpartition("\n\n")
        return [*tokens_of(before + gap), *tokens_of(text)]

    def _echoed(self, prompt: str) -> dict[str, Any]:
        pieces = [*self._pieces(prompt), " so"]
        starts = [sum(map(len, pieces[:place])) for place in range(len(pieces))]
        values = [None, *map(logprob_of, pieces[1:])]
        logprobs = {"tokens": pieces, "token_logprobs": values, "text_offset": starts}
        return {"text": prompt + " so", "logprobs": logprobs}

    def _places(self, prompt: str) -> list[Any]:
        return [
            None,
            *(
                {str(place): {"logprob": logprob_of(piece), "rank": 1, "decoded_token": piece}}
                for place, piece in enumerate(self._pieces(prompt)[1:])
            ),
        ]

    def _forced(self, grammar: str) -> dict[str, Any]:
        ids = [int(one) for one in re.findall(r"<\[(\d+)\]>", grammar)]
        content = [
            {"id": one, "token": self.vocabulary[one], "logprob": logprob_of(self.vocabulary[one])}
            for one in ids
        ]
        return {"text": "".join(map(self.vocabulary.get, ids)), "logprobs": {"content": content}}
