"""The loopback server: an OpenAI-compatible endpoint in a thread of its own."""

import asyncio
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

from aiohttp import web

from tests.loopback.answers import Answer, completion, error, rate_limited, token_count, usage_of
from tests.loopback.answers import server_error as broken
from tests.loopback.batches import BatchService
from tests.loopback.judges import Judge, fixed_judge
from tests.loopback.latency import Latency, fixed
from tests.loopback.likelihoods import TextService
from tests.loopback.log import Asked, LogEntry, prompt_of
from tests.loopback.quirks import Quirks

SCORES = "Evaluation evidence: fine.\nThe score of Assistant 1: 8\nThe score of Assistant 2: 6"
# Decides about a request, or leaves it to the judge by None.
Script = Callable[[Asked], Answer | None]


class LoopbackServer:
    """`capacity` requests are served at once and others get a 429; `flaky` draws faults by seed.

    With `key`, requests without it get a 401. Open connections are reset when the server stops.
    The judge's answer to the n-th request waits for as long as `hold(n)` is true.
    """

    def __init__(
        self,
        script: Script | Iterable[Answer] = (),
        *,
        judge: Judge | None = None,
        latency: Latency | None = None,
        hold: Callable[[int], object] = lambda number: False,
        quirks: Quirks | None = None,
        models: Sequence[str] = ("loopback-judge",),
        key: str | None = None,
        capacity: int | None = None,
        flaky: tuple[float, float] = (0.0, 0.0),
        port: int = 0,
        log_path: Path | None = None,
        keep_log: bool = True,
        likelihoods: str = "",
    ) -> None:
        self._script = script if callable(script) else None
        self._queued = deque(() if callable(script) else script)
        self._judge = judge or fixed_judge(SCORES)
        self._latency = latency or fixed(0.0)
        self._hold = hold
        self._quirks = quirks or Quirks()
        self._models = models
        self._key = key
        self._capacity = capacity
        self._flaky = flaky
        self._log_path = log_path
        self._log_file: TextIO | None = None
        self._keep_log = keep_log
        self._count = 0
        self._asked: Counter[str] = Counter()
        self._under_way = 0
        self.most_at_once = 0
        self.log: list[LogEntry] = []
        self.port = port
        self.batches = BatchService(self._answer_line)
        self.texts = TextService(likelihoods)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> int:
        return self._count

    @property
    def completed(self) -> int:
        """The answers with HTTP 200 that were sent in full."""
        return sum(entry.complete and entry.status == 200 for entry in self.log)

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._stop = asyncio.Event()
            self._runner = await self.start()
            ready.set()
            await self._stop.wait()
            await self._runner.cleanup()

        asyncio.run(main())

    async def start(self) -> web.AppRunner:
        """Listen, in the running loop."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/v1/models", self._list)
        self.batches.add_routes(app)
        self.texts.add_routes(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, backlog=2048).start()
        self.port = runner.addresses[0][1]
        if self._log_path is not None:
            self._log_file = self._log_path.open("a", encoding="utf-8")
        return runner

    async def _answer_line(self, body: dict[str, Any]) -> Answer:
        """One request of a batch, which meets the same quirks and the same judge."""
        asked = self._arrived(body, {})
        return self._quirks.refusal(asked) or await self._judged(asked)

    def _arrived(self, body: dict[str, Any], headers: dict[str, str]) -> Asked:
        prompt = prompt_of(body)
        asked = Asked(self._count, self._asked[prompt], body, headers)
        self._count += 1
        self._asked[prompt] += 1
        return asked

    def drop_connections(self) -> None:
        """Reset every open connection, as a proxy does with idle ones."""
        dropped = threading.Event()

        def drop() -> None:
            for connection in list(self._runner.server.connections):
                connection.transport.abort()
            dropped.set()

        self._loop.call_soon_threadsafe(drop)
        dropped.wait()

    async def _list(self, request: web.Request) -> web.Response:
        if self._refuses_key(request):
            return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)
        data = [{"id": name, "object": "model"} for name in self._models]
        return web.json_response({"object": "list", "data": data})

    def _refuses_key(self, request: web.Request) -> bool:
        return self._key is not None and request.headers.get("Authorization") != (
            f"Bearer {self._key}"
        )

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = self._arrived(await request.json(), dict(request.headers))
        entry = LogEntry.of(asked, time.time())
        if self._keep_log:
            self.log.append(entry)
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            answer = self._refusal(asked, request) or await self._judged(asked)
            return await self._send(request, answer, entry)
        finally:
            self._under_way -= 1
            self._record(entry)

    def _refusal(self, asked: Asked, request: web.Request) -> Answer | None:
        if self._refuses_key(request):
            sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
            return error(401, f"Incorrect API key provided: {sent}.", code="invalid_api_key")
        if self._capacity is not None and self._under_way > self._capacity:
            return rate_limited()
        if asked.body.get("model") not in self._models:
            message = f"The model `{asked.body.get('model')}` does not exist"
            return error(404, message, code="model_not_found")
        scripted = self._queued.popleft() if self._queued else None
        if self._script is not None:
            scripted = self._script(asked)
        return scripted or self._quirks.refusal(asked) or self._fault(asked)

    def _fault(self, asked: Asked) -> Answer | None:
        limited, failing = self._flaky
        draw = random.Random(f"fault:{asked.number}").random() if limited or failing else 1.0
        if draw < limited:
            return rate_limited()
        return broken() if draw < limited + failing else None

    async def _judged(self, asked: Asked) -> Answer:
        seconds = self._latency(asked.number)
        if seconds:
            await asyncio.sleep(seconds)
        while self._hold(asked.number):
            await asyncio.sleep(0.005)
        n = 1 if self._quirks.ignores_n else asked.n
        texts = list(self._judge(asked, n))
        tokens = [token_count(text) for text in texts]
        counted = tokens[0] if self._quirks.one_choice_usage else sum(tokens)
        usage = usage_of(token_count(asked.prompt), counted)
        of_judge = getattr(self._judge, "logprobs", _logprobs)
        wanted = asked.body.get("logprobs") and not self._quirks.ignores_logprobs
        logprobs = of_judge(asked) if wanted else None
        return completion(*texts, usage=usage, model=self._models[0], logprobs=logprobs)

    async def _send(
        self, request: web.Request, answer: Answer, entry: LogEntry
    ) -> web.StreamResponse:
        if answer.delay:
            await asyncio.sleep(answer.delay)
        if answer.hang:
            await asyncio.Event().wait()
        content = answer.body.encode()
        headers = {"Content-Type": "application/json", **answer.headers}
        headers["x-request-id"] = f"loopback-{entry.number}"
        response = web.StreamResponse(status=answer.status, headers=headers)
        response.content_length = len(content)
        await response.prepare(request)
        if answer.cut is not None:
            await response.write(content[: answer.cut])
            if request.transport is not None:
                request.transport.abort()
            return response
        # Noted before the client can have it, read it, hang up and look at the log.
        entry.status = answer.status
        entry.choices = answer.choices
        entry.complete = request.transport is not None and not request.transport.is_closing()
        try:
            await response.write(content)
            await response.write_eof()
        except BaseException:
            entry.complete = False
            raise
        return response

    def _record(self, entry: LogEntry) -> None:
        entry.finished = time.time()
        if self._log_file is not None:
            self._log_file.write(entry.line() + "\n")
            self._log_file.flush()


def _logprobs(asked: Asked) -> list[dict[str, Any]]:
    """One token, with as many alternatives as were asked for."""
    most = int(asked.body.get("top_logprobs") or 0)
    names = ["A", "B", *(f"t{i}" for i in range(2, most))][:most]
    top = [{"token": name, "logprob": -0.5 - rank} for rank, name in enumerate(names)]
    return [{"token": "A", "logprob": -0.5, "top_logprobs": top}]
