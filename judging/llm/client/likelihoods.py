"""log P(text | context) of a given text, from whichever way an endpoint tells it.

Three ways are known. Completions with `echo` give the prompt's own tokens with their
log-probabilities (vLLM, older OpenAI models). vLLM also has `prompt_logprobs`. llama.cpp's server
ignores both, but a grammar that admits exactly the text's token ids makes it write that text, with
the log-probabilities of the unconstrained distribution; a grammar of literal text would be
tokenized anew and be wrong.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judging.llm.client.errors import AttemptFailure, FailureKind
from judging.llm.client.limits import Patience, RetryPolicy, insist
from judging.llm.client.transport import LEAST_LOGPROB, OpenAiClient, Opened
from judging.llm.endpoint import Endpoint

USUAL_RETRY = RetryPolicy()
NOT_TOLD = "The endpoint gives no log-probabilities of a text that it is given."
# Met with llama.cpp's server on texts in scripts of which its model has no whole letters.
PARTS_OF_A_LETTER = "The server can't be made to write a text whose tokens are parts of a letter."
PROBE = ("Say one word.\n\n", "Yes, one.")


@dataclass(frozen=True, slots=True)
class TextScore:
    """In nats, over the text's own tokens; `prompt_tokens` is what the request is billed by."""

    log_likelihood: float
    tokens: int
    prompt_tokens: int


ScoreOutcome = TextScore | AttemptFailure
Way = Callable[[str, str, str, float], Awaitable[ScoreOutcome]]


class LikelihoodClient(Opened):
    """Made inside the coroutine that uses it. `way` is the name of one found before."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        *,
        retry: RetryPolicy = USUAL_RETRY,
        way: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._package = OpenAiClient(endpoint, key)
        self._retry = retry
        self._ways: dict[str, Way] = {
            "echo": self._by_echo,
            "prompt_logprobs": self._by_prompt_logprobs,
            "grammar": self._by_grammar,
        }
        self.way = way

    async def open(self) -> None:
        await self._package.open()

    async def close(self) -> None:
        await self._package.close()

    async def find_way(self, model: str) -> AttemptFailure | None:
        """The first way in which this endpoint tells a text's likelihood, or why none does."""
        last: AttemptFailure | None = None
        for name, way in self._ways.items():
            outcome = await self._persist(way, model, *PROBE)
            if isinstance(outcome, TextScore):
                self.way = name
                return None
            last = outcome
            if outcome.kind.pauses_run and outcome.kind is not FailureKind.NOT_FOUND:
                break
        return last

    async def score(self, model: str, context: str, text: str) -> ScoreOutcome:
        return await self._persist(self._ways[self.way], model, context, text)

    async def _persist(self, way: Way, model: str, context: str, text: str) -> ScoreOutcome:
        async def attempt(patience: Patience) -> ScoreOutcome:
            patience.sending()
            return await way(model, context, text, min(self._retry.request, patience.left))

        return await insist(attempt, Patience(self._retry))

    async def _post(self, path: str, body: Mapping[str, Any], seconds: float) -> Any:
        posting = self._package.client.post(path, body=dict(body), cast_to=object)
        return await self._package.guarded(posting, seconds)

    async def _by_echo(self, model: str, context: str, text: str, seconds: float) -> ScoreOutcome:
        asked = {
            "model": model,
            "prompt": context + text,
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
        }
        answer = await self._post("/completions", asked, seconds)
        return answer if isinstance(answer, AttemptFailure) else read_echo(answer, context, text)

    async def _by_prompt_logprobs(
        self, model: str, context: str, text: str, seconds: float
    ) -> ScoreOutcome:
        asked = {
            "model": model,
            "prompt": context + text,
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": 0,
        }
        answer = await self._post("/completions", asked, seconds)
        return answer if isinstance(answer, AttemptFailure) else read_prompt_logprobs(answer, text)

    async def _by_grammar(
        self, model: str, context: str, text: str, seconds: float
    ) -> ScoreOutcome:
        root = self._endpoint.base_url.partition("?")[0].rstrip("/").removesuffix("/v1")
        asked = {"content": text, "add_special": False, "parse_special": False}
        answer = await self._post(f"{root}/tokenize", asked, seconds)
        if isinstance(answer, AttemptFailure):
            return answer
        ids = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids) or not ids:
            return not_told()
        body = {
            "model": model,
            "prompt": context,
            "max_tokens": len(ids),
            "temperature": 0,
            "logprobs": 1,
            "grammar": "root ::= " + " ".join(f"<[{one}]>" for one in ids),
        }
        answer = await self._post("/completions", body, seconds)
        if isinstance(answer, AttemptFailure):
            return not_told(PARTS_OF_A_LETTER) if "grammar" in answer.message else answer
        return read_forced(answer, ids)


def not_told(message: str = NOT_TOLD) -> AttemptFailure:
    return AttemptFailure(FailureKind.BAD_REQUEST, message, 200)


def read_echo(answer: Any, context: str, text: str) -> ScoreOutcome:
    """The tokens of the prompt that lie behind the context."""
    choice = _choice(answer)
    logprobs = choice.get("logprobs") or {}
    if not isinstance(logprobs, dict):
        return not_told()
    offsets, values = logprobs.get("text_offset") or [], logprobs.get("token_logprobs") or []
    if len(offsets) != len(values) or not str(choice.get("text") or "").startswith(context + text):
        return not_told()
    end = len(context) + len(text)
    starts = [*offsets[1:], end]
    own = [
        value
        for start, after, value in zip(offsets, starts, values, strict=True)
        if start < end and after > len(context)
    ]
    return _total(own, answer)


def read_prompt_logprobs(answer: Any, text: str) -> ScoreOutcome:
    """The last tokens of the prompt that make up the text; each place names its own token first."""
    places = _choice(answer).get("prompt_logprobs") or _of(answer).get("prompt_logprobs") or []
    own: list[Any] = []
    letters = 0
    for place in reversed(places):
        if letters >= len(text):
            break
        found = next(iter(place.values()), None) if isinstance(place, dict) else None
        if not isinstance(found, dict):
            return not_told()
        letters += len(str(found.get("decoded_token") or ""))
        own.append(found.get("logprob"))
    return _total(own, answer) if letters >= len(text) else not_told()


def read_forced(answer: Any, ids: Sequence[int]) -> ScoreOutcome:
    """What the server was made to write: exactly these tokens, or it ignored the grammar."""
    content = (_choice(answer).get("logprobs") or {}).get("content") or []
    if [one.get("id") for one in content] != list(ids):
        return not_told()
    return _total([one.get("logprob") for one in content], answer)


def _of(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {}


def _choice(answer: Any) -> dict[str, Any]:
    choices = _of(answer).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _total(own: Sequence[Any], answer: Any) -> ScoreOutcome:
    if not own or not all(isinstance(one, int | float) and one >= LEAST_LOGPROB for one in own):
        return not_told()
    usage = _of(answer).get("usage") or {}
    billed = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return TextScore(float(sum(own)), len(own), billed if isinstance(billed, int) else 0)
