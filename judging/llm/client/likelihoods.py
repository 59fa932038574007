"""log P(text | context) of a text, in the way in which an endpoint gives it.

FairJudge knows three ways. Completions with `echo` return the prompt's own tokens with their
log-probabilities (vLLM, older OpenAI models). vLLM also has `prompt_logprobs`. llama.cpp's server
ignores both. A grammar that admits exactly the text's token ids makes it write that text, with the
log-probabilities of the unconstrained distribution. A grammar of the literal text would allow
other tokens for the same letters, and give wrong values.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judging.llm.client.errors import AttemptFailure, FailureKind
from judging.llm.client.limits import DEFAULT_RETRY, Patience, RetryPolicy, insist
from judging.llm.client.messages import LEAST_LOGPROB
from judging.llm.client.transport import OpenAiClient
from judging.llm.endpoint import Endpoint

NOT_TOLD = "The endpoint gives no log-probabilities for a prompt."
# llama.cpp's server fails like this on scripts whose letters its model has no whole tokens for.
PARTS_OF_A_LETTER = "The server can't be made to write a text whose tokens are parts of a letter."
UNSPELLED = (
    "The tokens that the endpoint returned don't spell the text, so their log-probabilities "
    "can't be added up."
)
BEGINNING = re.compile(r"<[^<>\s]{1,40}>|\[(?:CLS|BOS)\]")
PART_OF_A_LETTER = re.compile(r"bytes:(?:\\x[0-9a-fA-F]{2})+")
ROUNDING = 1e-4
PROBE = ("Say one word.\n\n", "Yes, one.")


@dataclass(frozen=True, slots=True)
class TextScore:
    """log P in nats over the text's own tokens; the request is billed by `prompt_tokens`."""

    log_likelihood: float
    tokens: int
    prompt_tokens: int


ScoreOutcome = TextScore | AttemptFailure
Way = Callable[[str, str, str, float], Awaitable[ScoreOutcome]]


class LikelihoodClient(OpenAiClient):
    """Made inside the coroutine that uses it. `way` is the name of a way that was found before."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        *,
        retry: RetryPolicy = DEFAULT_RETRY,
        way: str = "",
    ) -> None:
        super().__init__(endpoint, key)
        self._retry = retry
        self._ways: dict[str, Way] = {
            "echo": self._by_echo,
            "prompt_logprobs": self._by_prompt_logprobs,
            "grammar": self._by_grammar,
        }
        self.way = way

    async def find_way(self, model: str) -> AttemptFailure | None:
        """Find and keep the first way that works here. Returns why if none does."""
        last: AttemptFailure | None = None
        for name, way in self._ways.items():
            outcome = await self._persist(way, model, *PROBE)
            if isinstance(outcome, TextScore):
                self.way = name
                return None
            # That a way gives wrong tokens says more than that another one is not there.
            if last is None or last.message != UNSPELLED:
                last = outcome
            # Without credit or a key no other way works. A path that is not there says nothing of
            # other ways.
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
        return await self.guarded(self.client.post(path, body=dict(body), cast_to=object), seconds)

    async def _complete_nothing(
        self, model: str, prompt: str, seconds: float, **parameters: Any
    ) -> Any:
        """Ask for one token after the prompt. Only what is said of the prompt is used."""
        asked = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        return await self._post("/completions", asked | parameters, seconds)

    async def _by_echo(self, model: str, context: str, text: str, seconds: float) -> ScoreOutcome:
        prompt = context + text
        answer = await self._complete_nothing(model, prompt, seconds, echo=True, logprobs=1)
        return answer if isinstance(answer, AttemptFailure) else read_echo(answer, context, text)

    async def _by_prompt_logprobs(
        self, model: str, context: str, text: str, seconds: float
    ) -> ScoreOutcome:
        answer = await self._complete_nothing(model, context + text, seconds, prompt_logprobs=0)
        return answer if isinstance(answer, AttemptFailure) else read_prompt_logprobs(answer, text)

    async def _by_grammar(
        self, model: str, context: str, text: str, seconds: float
    ) -> ScoreOutcome:
        # llama.cpp's own paths are not below /v1.
        root = self.endpoint.base_url.partition("?")[0].rstrip("/").removesuffix("/v1")
        asked = {"content": text, "add_special": False, "parse_special": False}
        answer = await self._post(f"{root}/tokenize", asked, seconds)
        if isinstance(answer, AttemptFailure):
            return answer
        ids = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids) or not ids:
            return not_told()
        body = {
            "model": model,
            "prompt": context,
            "max_tokens": len(ids),
            "temperature": 0,
            "logprobs": 1,
            "grammar": "root ::= " + " ".join(f"<[{token}]>" for token in ids),
        }
        answer = await self._post("/completions", body, seconds)
        if isinstance(answer, AttemptFailure):
            return not_told(PARTS_OF_A_LETTER) if "grammar" in answer.message else answer
        return read_forced(answer, ids, text)


def not_told(message: str = NOT_TOLD) -> AttemptFailure:
    return AttemptFailure(FailureKind.BAD_REQUEST, message, 200)


def read_echo(answer: Any, context: str, text: str) -> ScoreOutcome:
    """Score the tokens of the prompt that follow the context.

    Offsets are not used: some servers count a sign for the beginning of a text, or bytes. Some
    give a letter of several tokens with the last of these, and the others as empty: between the
    context and the text they are the text's, if it can begin so.
    """
    choice = _choice(answer)
    logprobs = choice.get("logprobs") or {}
    if not isinstance(logprobs, dict):
        return not_told()
    tokens, values = logprobs.get("tokens") or [], logprobs.get("token_logprobs") or []
    if not tokens or len(tokens) != len(values):
        return not_told(UNSPELLED if values else NOT_TOLD)
    pieces = [_bytes_of(token) for token in tokens]
    if BEGINNING.fullmatch(str(tokens[0])) and not (context + text).startswith(str(tokens[0])):
        # A sign for the beginning is a token of its own and no part of the text.
        pieces[0] = b""
    before, own, length = context.encode(), text.encode(), 0
    ends = []
    for piece in pieces:
        length += len(piece)
        ends.append(length)
    first, last = len(before), len(before) + len(own)
    spelled = b"".join(pieces).startswith(before + own)
    if not spelled or last not in ends or (first and first not in ends):
        return not_told(UNSPELLED)
    start = len(ends) - ends[::-1].index(first) if first else 0
    if first and start > ends.index(first) + 1:
        if text[0].isascii():
            return not_told(UNSPELLED)
        start = ends.index(first) + 1
    return _total(values[start : ends.index(last) + 1], answer)


def read_prompt_logprobs(answer: Any, text: str) -> ScoreOutcome:
    """Score the last tokens of the prompt, which must spell the text.

    Each place lists its own token first.
    """
    places = _choice(answer).get("prompt_logprobs") or _of(answer).get("prompt_logprobs") or []
    own: list[Any] = []
    left = text.encode()
    # Places are read from the end: what comes before the text, such as a sign for the beginning,
    # need not be spelled.
    for place in reversed(places):
        token = next(iter(place.values()), None) if isinstance(place, dict) else None
        if not left and (not isinstance(token, dict) or token.get("decoded_token")):
            break
        if not isinstance(token, dict) or (not left and text[0].isascii()):
            return not_told(UNSPELLED if own else NOT_TOLD)
        # Some servers give a letter of several tokens with the last of these.
        piece = _bytes_of(token.get("decoded_token") or "")
        if not left.endswith(piece):
            return not_told(UNSPELLED)
        left = left[: len(left) - len(piece)]
        own.append(token.get("logprob"))
    return not_told(UNSPELLED if own else NOT_TOLD) if left else _total(own, answer)


def read_forced(answer: Any, ids: Sequence[int], text: str) -> ScoreOutcome:
    """Score what the server was made to write: other tokens mean that it ignored the grammar.

    A model may write a space before the first word of a text.
    """
    content = (_choice(answer).get("logprobs") or {}).get("content") or []
    if [token.get("id") for token in content] != list(ids):
        return not_told()
    written = b"".join(_bytes_of(token.get("bytes") or token.get("token")) for token in content)
    if text.encode() not in (written, written.removeprefix(b" ")):
        return not_told(UNSPELLED)
    return _total([token.get("logprob") for token in content], answer)


def _bytes_of(token: Any) -> bytes:
    """Return a token as UTF-8. OpenAI writes parts of a letter as "bytes:\\xe2\\x80"."""
    if isinstance(token, list):
        return bytes(octet for octet in token if isinstance(octet, int) and 0 <= octet < 256)
    text = str(token or "")
    if PART_OF_A_LETTER.fullmatch(text):
        return bytes.fromhex(text.removeprefix("bytes:").replace("\\x", ""))
    return text.encode(errors="replace")


def _of(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {}


def _choice(answer: Any) -> dict[str, Any]:
    choices = _of(answer).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _is_logprob(value: Any) -> bool:
    # A certain token may be rounded to a little more than 0.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and bool(LEAST_LOGPROB <= value <= ROUNDING)


def _total(own: Sequence[Any], answer: Any) -> ScoreOutcome:
    # One missing or impossible value makes the sum wrong, so there is none.
    if not own or not all(_is_logprob(p) for p in own):
        return not_told()
    usage = _of(answer).get("usage") or {}
    billed = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return TextScore(float(sum(own)), len(own), billed if isinstance(billed, int) else 0)
