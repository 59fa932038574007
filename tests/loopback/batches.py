"""The loopback server's files and batches: done by polling, out of order, or expired on the way."""

import itertools
import json
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web

from tests.loopback.answers import Answer

page = partial(web.Response, text="<html>Welcome</html>", content_type="text/html")
no_such_thing = partial(
    web.json_response, {"error": {"message": "No such object", "code": None}}, status=404
)


class BatchService:
    """A batch is done at its `polls`-th poll; `expires_after` lines it expires instead.

    `cuts_create` resets that many connections after a batch was made and before it is answered.
    It may have deleted its `batches` or `files` (`forgets`); at a path in `pages` is a web page.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Awaitable[Answer]]) -> None:
        self._answer = answer
        self._names = itertools.count(1)
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.polls = 2
        self.expires_after: int | None = None
        self.cuts_create = 0
        self.refuses_cancel = False
        self.forgets = ""
        self.pages = ""
        self.page = 20

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._poll)
        app.router.add_post("/v1/batches/{id}/cancel", self._cancel)

    async def _upload(self, request: web.Request) -> web.Response:
        if self.pages == "/v1/files":
            return page()
        form = await request.post()
        uploaded = form["file"]
        assert isinstance(uploaded, web.FileField)
        return web.json_response(self._keep(uploaded.file.read().decode()))

    def _keep(self, text: str) -> dict[str, Any]:
        name = f"file-{next(self._names)}"
        self.files[name] = text
        return {
            "id": name,
            "object": "file",
            "bytes": len(text),
            "created_at": 0,
            "filename": "batch.jsonl",
            "purpose": "batch",
            "status": "processed",
        }

    async def _content(self, request: web.Request) -> web.Response:
        if self.forgets == "files":
            return no_such_thing()
        return web.Response(text=self.files[request.match_info["id"]])

    async def _create(self, request: web.Request) -> web.Response:
        if self.pages == "/v1/batches":
            return page()
        asked = await request.json()
        name = f"batch-{next(self._names)}"
        lines = self.files[asked["input_file_id"]].splitlines()
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": asked["endpoint"],
            "completion_window": asked["completion_window"],
            "created_at": 0,
            "input_file_id": asked["input_file_id"],
            "metadata": asked.get("metadata"),
            "status": "validating",
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
            "polled": 0,
        }
        if self.cuts_create > 0 and request.transport is not None:
            self.cuts_create -= 1
            request.transport.abort()
        return web.json_response(self.batches[name])

    async def _list(self, request: web.Request) -> web.Response:
        """The newest first, a page at a time."""
        newest = list(reversed(self.batches.values()))
        after = request.query.get("after")
        start = [b["id"] for b in newest].index(after) + 1 if after else 0
        page = newest[start : start + self.page]
        more = start + self.page < len(newest)
        return web.json_response({"object": "list", "data": page, "has_more": more})

    async def _poll(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        if self.forgets == "batches":
            self.batches.clear()
            return no_such_thing()
        batch["polled"] += 1
        if batch["status"] in ("validating", "in_progress"):
            batch["status"] = "in_progress"
            if batch["polled"] >= self.polls:
                await self._work(batch, self.expires_after)
        return web.json_response(batch)

    async def _cancel(self, request: web.Request) -> web.Response:
        if self.refuses_cancel:
            return web.json_response({"error": {"message": "Not now."}}, status=400)
        batch = self.batches[request.match_info["id"]]
        await self._work(batch, 0)
        batch["status"] = "cancelled"
        return web.json_response(batch)

    async def _work(self, batch: dict[str, Any], most: int | None) -> None:
        """Answer the lines, good ones and bad ones into files of their own, in no order."""
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        done = lines if most is None else lines[:most]
        good, bad = [], []
        for line in done:
            answer = await self._answer(line["body"])
            (good if answer.status == 200 else bad).append(_result(line["custom_id"], answer))
        for line in lines[len(done) :]:
            expired = {"code": "batch_expired", "message": "This request could not be executed."}
            bad.append({"custom_id": line["custom_id"], "response": None, "error": expired})
        random.Random(batch["id"]).shuffle(good)
        for name, results in (("output_file_id", good), ("error_file_id", bad)):
            text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in results)
            batch[name] = self._keep(text)["id"] if results else None
        batch["status"] = "expired" if len(done) < len(lines) else "completed"
        counts = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        batch["request_counts"] = counts


def _result(name: str, answer: Answer) -> dict[str, Any]:
    response = {
        "status_code": answer.status,
        "request_id": f"batched-{name}",
        "body": json.loads(answer.body),
    }
    return {"custom_id": name, "response": response, "error": None}
