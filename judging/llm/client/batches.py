"""Many requests submitted together at half the price: the Batch API of OpenAI and others."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from judging.llm.client.adaptation import EndpointCapabilities, body
from judging.llm.client.errors import AttemptFailure, CallFailure, FailureKind, classify_answer
from judging.llm.client.limits import DEFAULT_RETRY, Patience, RetryPolicy, insist
from judging.llm.client.messages import JudgeRequest, Reply
from judging.llm.client.transport import LENIENT, OpenAiClient, read_answer
from judging.llm.endpoint import Endpoint

if TYPE_CHECKING:
    from openai.types import Batch

Result = TypeVar("Result")

# The service's own limit on one batch.
MOST_REQUESTS = 50_000
PATH: Final = "/v1/chat/completions"
# Under this name a batch carries our own mark, by which it is found again.
MARK = "fairjudge"
# The service's codes for a request that it did not begin.
NOT_DONE = ("batch_expired", "batch_cancelled")
COMPLETED = "completed"
# Our own word for a batch that its service no longer knows.
GONE = "gone"
FINISHED = (COMPLETED, "failed", "expired", "cancelled", GONE)


class BatchError(Exception):
    """The batch service did not take or give what was asked; `failure` says why."""

    def __init__(self, failure: CallFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a batch is, according to its service."""

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
        """True if the service does nothing more. What it did until then is in the files."""
        return self.status in FINISHED


class BatchClient(OpenAiClient):
    """Submits, polls and collects batches of one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        *,
        learned: Mapping[str, EndpointCapabilities] | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
    ) -> None:
        super().__init__(endpoint, key)
        self._learned = dict(learned or {})
        self._retry = retry

    async def submit(self, mark: str, requests: Mapping[str, JudgeRequest]) -> BatchState:
        """Submit the requests by their custom IDs, once however often this is called.

        `mark` names the batch. A batch that has this mark already is returned instead: it was
        submitted by a call that was cut off before it could be recorded.
        """
        if not 0 < len(requests) <= MOST_REQUESTS:
            raise ValueError(f"A batch holds 1 to {MOST_REQUESTS} requests.")
        lines = "".join(self._line(name, request) for name, request in requests.items())
        content = lines.encode()
        client = self.client

        async def upload() -> str:
            return (await client.files.create(file=("batch.jsonl", content), purpose="batch")).id

        input_file = await self._ask(upload)

        async def create() -> BatchState:
            # Looked up on every attempt: the attempt before may have succeeded with its answer
            # lost.
            return await self._marked(mark) or _state(
                await client.batches.create(
                    input_file_id=input_file,
                    endpoint=PATH,
                    completion_window="24h",
                    metadata={MARK: mark},
                )
            )

        return await self._ask(create)

    async def poll(self, batch_id: str, mark: str) -> BatchState:
        """Return the batch's state: `gone` if its service knows neither the ID nor the mark."""

        async def retrieve() -> BatchState:
            return _state(await self.client.batches.retrieve(batch_id))

        try:
            return await self._ask(retrieve)
        except BatchError as error:
            if error.failure.kind is not FailureKind.NOT_FOUND:
                raise
        return await self.find(mark) or BatchState(batch_id, GONE, "")

    async def cancel(self, batch_id: str) -> BatchState:
        async def end() -> BatchState:
            return _state(await self.client.batches.cancel(batch_id))

        return await self._ask(end)

    async def find(self, mark: str) -> BatchState | None:
        """Return the batch with this mark, if one was submitted and its answer was lost."""
        return await self._ask(lambda: self._marked(mark))

    async def collect(
        self, state: BatchState, requests: Mapping[str, JudgeRequest]
    ) -> dict[str, Reply | CallFailure]:
        """Return what the output file and the error file hold, by custom ID.

        Requests that are missing here were not done (expired, cancelled): submit them again. A
        file that the service no longer has counts as empty.
        """
        outcomes: dict[str, Reply | CallFailure] = {}
        # The output file comes last, so that an answer wins over an error for the same request.
        for file_id in filter(None, (state.error_file, state.output_file)):
            for entry in _entries(await self._file(file_id)):
                name = str(entry.get("custom_id"))
                if name in requests and (outcome := self._outcome(entry, requests[name])):
                    outcomes[name] = outcome
        return outcomes

    def _outcome(
        self, entry: Mapping[str, Any], request: JudgeRequest
    ) -> Reply | CallFailure | None:
        """Read one line of a file. Returns None for a request that was not done."""
        answer, error = entry.get("response"), entry.get("error")
        if isinstance(answer, dict):
            return self._read(answer, request)
        code = error.get("code") if isinstance(error, dict) else None
        if not error or code in NOT_DONE:
            return None
        # A line with an error is never read as a success, whatever its code.
        status = max(_status(code, 400), 400)
        failure = classify_answer(status, {}, json.dumps({"error": error}))
        return Patience(self._retry, requests=1).failure(failure)

    async def _file(self, file_id: str) -> str:
        try:
            content = await self._ask(lambda: self.client.files.content(file_id))
        except BatchError as error:
            if error.failure.kind is FailureKind.NOT_FOUND:
                return ""
            raise
        return content.text

    def _line(self, name: str, request: JudgeRequest) -> str:
        sent = body(request, self._learned.get(request.model, EndpointCapabilities()))
        entry = {"custom_id": name, "method": "POST", "url": PATH, "body": sent}
        return json.dumps(entry) + "\n"

    def _read(self, answer: Mapping[str, Any], request: JudgeRequest) -> Reply | CallFailure:
        headers = {"x-request-id": str(answer.get("request_id") or "")}
        content = answer.get("body")
        text = content if isinstance(content, str) else json.dumps(content)
        status = _status(answer.get("status_code"), 200 if isinstance(content, dict) else 500)
        learned = self._learned.get(request.model, EndpointCapabilities())
        outcome = read_answer(status, text, headers, request, learned)
        patience = Patience(self._retry, requests=1)
        if isinstance(outcome, Reply):
            return patience.reply(outcome)
        patience.possibly_billed = int(outcome.possibly_billed)
        return patience.failure(outcome)

    async def _marked(self, mark: str) -> BatchState | None:
        async for batch in self.client.batches.list(limit=100):
            if (batch.metadata or {}).get(MARK) == mark:
                return _state(batch)
        return None

    async def _ask(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        patience = Patience(self._retry)

        async def attempt(patience: Patience) -> Result | AttemptFailure:
            patience.sending()
            seconds = max(0.0, min(self._retry.request, patience.left))
            return await self.guarded(ask(), seconds)

        outcome = await insist(attempt, patience)
        if isinstance(outcome, AttemptFailure):
            raise BatchError(patience.failure(outcome))
        return outcome


def _entries(text: str) -> Iterator[dict[str, Any]]:
    # Split at line feeds alone: other line ends of Unicode occur inside the texts.
    for line in text.removeprefix("\ufeff").split("\n"):
        try:
            entry = LENIENT.decode(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def _status(value: object, otherwise: int) -> int:
    """Read an HTTP status, which some services write as text."""
    return int(text) if (text := str(value)).isdecimal() and len(text) == 3 else otherwise


def _state(batch: "Batch") -> BatchState:
    """Read a batch. Raises AttributeError if the answer is none."""
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
