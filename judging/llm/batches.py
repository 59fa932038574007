"""Many requests handed in together at half the price: the Batch API of OpenAI and others."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from judging.llm.adaptation import Learned, body
from judging.llm.completions import read_completion
from judging.llm.endpoint import Endpoint
from judging.llm.errors import AttemptFailure, CallFailure, classify_answer
from judging.llm.opening import Opened
from judging.llm.package import Package
from judging.llm.replies import Reply
from judging.llm.requests import JudgeRequest
from judging.llm.retries import Patience, RetryPolicy, insist

if TYPE_CHECKING:
    from openai.types import Batch

Result = TypeVar("Result")

# The service's own limit on one batch.
MOST_REQUESTS = 50_000
PATH: Final = "/v1/chat/completions"
# Under this name a batch carries our own mark, by which it is found again.
MARK = "fairjudge"
FINISHED = ("completed", "failed", "expired", "cancelled")
USUAL_RETRY = RetryPolicy()


class BatchError(Exception):
    """The batch service did not take or give what was asked; `failure` says why."""

    def __init__(self, failure: CallFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a batch is, as its service says."""

    id: str
    status: str
    input_file: str
    output_file: str = ""
    error_file: str = ""
    total: int = 0
    completed: int = 0
    failed: int = 0
    message: str = ""

    @property
    def finished(self) -> bool:
        """Nothing more will be done; what was done until then is in the files."""
        return self.status in FINISHED


class BatchClient(Opened):
    """Submits, polls and collects batches of one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        *,
        learned: Mapping[str, Learned] | None = None,
        retry: RetryPolicy = USUAL_RETRY,
    ) -> None:
        self._package = Package(endpoint, key)
        self._learned = dict(learned or {})
        self._retry = retry

    async def open(self) -> None:
        await self._package.open()

    async def close(self) -> None:
        await self._package.close()

    async def submit(self, mark: str, requests: Mapping[str, JudgeRequest]) -> BatchState:
        """Hand in the requests by their custom IDs, once however often this is called.

        `mark` names the batch. One that carries it already is returned instead: it was handed in
        by a call that was cut off before it could be written down.
        """
        if not 0 < len(requests) <= MOST_REQUESTS:
            raise ValueError(f"A batch holds 1 to {MOST_REQUESTS} requests.")
        lines = "".join(self._line(name, request) for name, request in requests.items())
        content = lines.encode()
        client = self._package.client
        uploaded = await self._ask(
            lambda: client.files.create(file=("batch.jsonl", content), purpose="batch")
        )

        async def create() -> "Batch":
            return await self._marked(mark) or await client.batches.create(
                input_file_id=uploaded.id,
                endpoint=PATH,
                completion_window="24h",
                metadata={MARK: mark},
            )

        return _state(await self._ask(create))

    async def poll(self, batch_id: str) -> BatchState:
        return _state(await self._ask(lambda: self._package.client.batches.retrieve(batch_id)))

    async def cancel(self, batch_id: str) -> BatchState:
        return _state(await self._ask(lambda: self._package.client.batches.cancel(batch_id)))

    async def find(self, mark: str) -> BatchState | None:
        """The batch of that name, where one was handed in and its answer was lost on the way."""
        found = await self._ask(lambda: self._marked(mark))
        return _state(found) if found else None

    async def collect(
        self, state: BatchState, requests: Mapping[str, JudgeRequest]
    ) -> dict[str, Reply | CallFailure]:
        """What the output file and the error file hold, by custom ID.

        Requests that are missing here were not done (expired, cancelled): hand them in again.
        """
        outcomes: dict[str, Reply | CallFailure] = {}
        for file_id in filter(None, (state.error_file, state.output_file)):
            for entry in _entries(await self._file(file_id)):
                request = requests.get(str(entry.get("custom_id")))
                answer = entry.get("response")
                if request is not None and isinstance(answer, dict):
                    outcomes[str(entry["custom_id"])] = self._read(answer, request)
        return outcomes

    async def _file(self, file_id: str) -> str:
        content = await self._ask(lambda: self._package.client.files.content(file_id))
        return content.text

    def _line(self, name: str, request: JudgeRequest) -> str:
        sent = body(request, self._learned.get(request.model, Learned()))
        entry = {"custom_id": name, "method": "POST", "url": PATH, "body": sent}
        return json.dumps(entry) + "\n"

    def _read(self, answer: Mapping[str, Any], request: JudgeRequest) -> Reply | CallFailure:
        headers = {"x-request-id": str(answer.get("request_id") or "")}
        text, status = json.dumps(answer.get("body")), answer.get("status_code")
        learned = self._learned.get(request.model, Learned())
        outcome: Reply | AttemptFailure
        if status == 200:
            outcome = read_completion(text, headers, request, learned)
        else:
            outcome = classify_answer(status if isinstance(status, int) else 500, headers, text)
        patience = Patience(self._retry, requests=1)
        if isinstance(outcome, Reply):
            return patience.reply(outcome)
        patience.possibly_billed = int(outcome.possibly_billed)
        return patience.failure(outcome)

    async def _marked(self, mark: str) -> "Batch | None":
        async for batch in self._package.client.batches.list(limit=100):
            if (batch.metadata or {}).get(MARK) == mark:
                return batch
        return None

    async def _ask(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        patience = Patience(self._retry)

        async def attempt(patience: Patience) -> Result | AttemptFailure:
            patience.sending()
            seconds = max(0.0, min(self._retry.request, patience.left))
            return await self._package.guarded(ask(), seconds)

        outcome = await insist(attempt, patience)
        if isinstance(outcome, AttemptFailure):
            raise BatchError(patience.failure(outcome))
        return outcome


def _entries(text: str) -> Iterator[dict[str, Any]]:
    # Split at line feeds alone: other line ends of Unicode occur inside the texts.
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _state(batch: "Batch") -> BatchState:
    counts = batch.request_counts
    errors = (batch.errors.data if batch.errors else None) or []
    return BatchState(
        id=batch.id,
        status=batch.status,
        input_file=batch.input_file_id,
        output_file=batch.output_file_id or "",
        error_file=batch.error_file_id or "",
        total=counts.total if counts else 0,
        completed=counts.completed if counts else 0,
        failed=counts.failed if counts else 0,
        message="; ".join(error.message or "" for error in errors)[:500],
    )
