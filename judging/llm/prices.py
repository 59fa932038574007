"""The tokens that a call used, and what they cost.

- `reported_usage` reads the usage that a server reports. What can't be true is corrected from the
  texts and marked as estimated.
- `PriceSnapshot` holds the prices at one endpoint, and a run keeps its own. An unknown price is
  None and never 0.
- `find_price` looks a price up: given for the run, in the operator's file (`read_overrides`), or
  published by genai-prices.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Self

from judging.llm.endpoint import Endpoint


def _kind(character: str) -> str:
    if character.isalpha():
        return "a"
    if character.isdigit():
        return "0"
    return character if character == "_" else " " if character.isspace() else "."


# Every usual tokeniser cuts at these borders, so a text has at least as many tokens as pieces.
# One sign in front of a letter may belong to the word's token.
PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]{2,}|[^\w\s](?![^\W\d_])|_+")
# In ASCII the pieces are counted by where they begin, once each character is replaced by its kind:
# letter, digit, white space, underscore or other. The pattern takes ten times as long.
KINDS = str.maketrans({chr(code): _kind(chr(code)) for code in range(128)})
BEGINNINGS = [before + kind for kind in "a0_." for before in " a0_." if before != kind]
# In scripts without spaces, each character is about one token.
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Over 198 texts of the local model's tokeniser the pieces were 75 to 100 % of the tokens, most
# often 95 %; long words and scripts with few spaces are caught by their length.
TOKENS_PER_PIECE = 1.1
ASCII_PER_TOKEN = 5
OTHER_PER_TOKEN = 2
# A report is called wrong only below this share, as some tokenisers may have longer pieces.
SLACK = 0.9
# No prompt in any language has more characters per token.
MOST_CHARACTERS_PER_TOKEN = 40
# No request comes near it, and a database column holds it.
MOST_TOKENS = 100_000_000
# What a chat template adds around each message, and once to open the reply.
TOKENS_PER_MESSAGE = 4
TOKENS_TO_OPEN = 3


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call. Those read from a cache and written to it are part of the prompt's.

    `one_choice` marks a corrected report: it held the tokens of only one of several choices.
    `prompt_cut`: the server read clearly fewer tokens than the prompt has.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    estimated: bool = False
    one_choice: bool = False
    prompt_cut: bool = False
    written_tokens: int = 0


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, too many rather than too few."""
    by_pieces = fewest_tokens(text) * TOKENS_PER_PIECE
    if text.isascii():
        return math.ceil(max(by_pieces, len(text) / ASCII_PER_TOKEN))
    unspaced = len(UNSPACED.findall(text))
    ascii_only = len(text.encode("ascii", "ignore"))
    other = len(text) - ascii_only - unspaced
    by_length = ascii_only / ASCII_PER_TOKEN + unspaced + other / OTHER_PER_TOKEN
    return math.ceil(max(by_pieces, by_length))


def fewest_tokens(text: str) -> int:
    """Return a count that no usual tokeniser falls below."""
    if not text.isascii():
        return len(PIECE.findall(text))
    kinds = f" {text.translate(KINDS)}"
    in_front_of_letters = kinds.count(".a") - kinds.count("..a")
    return sum(map(kinds.count, BEGINNINGS)) - in_front_of_letters


def estimate_prompt(messages: Sequence[str]) -> int:
    texts = sum(estimate_tokens(text) + TOKENS_PER_MESSAGE for text in messages)
    return texts + TOKENS_TO_OPEN


def reported_usage(
    report: object,
    messages: Sequence[str],
    texts: Sequence[str],
    counted: Sequence[int | None] = (),
    one_choice_only: bool = False,
) -> Usage:
    """Read a reply's `usage` and correct what can't be true.

    Args:
        texts: The choices' texts.
        counted: The choices' tokens if their log-probabilities gave the exact count.
        one_choice_only: True if this server reports one choice's tokens whatever n is.
    """
    fields = _named_alike(report) if isinstance(report, Mapping) else {}
    read = _read_prompt(fields, messages)
    prompt, completion = read.prompt, read.completion
    characters = sum(len(message) for message in messages)
    prompt_known = prompt is not None and prompt >= characters / MOST_CHARACTERS_PER_TOKEN
    too_few = completion is not None and reports_too_few(completion, texts)
    one_choice = len(texts) > 1 and (one_choice_only or too_few)
    tokens_known = completion is not None and not (too_few or one_choice)
    known_prompt = prompt if prompt is not None and prompt_known else estimate_prompt(messages)
    known_tokens = completion if completion is not None and tokens_known else None
    if known_tokens is None:
        known_tokens = _from_texts(completion, texts, counted)
    return Usage(
        prompt_tokens=known_prompt,
        cached_tokens=min(read.cached, known_prompt),
        completion_tokens=known_tokens,
        estimated=not (prompt_known and tokens_known),
        one_choice=one_choice,
        prompt_cut=prompt is not None and is_cut(prompt, messages),
        written_tokens=min(read.written, known_prompt - min(read.cached, known_prompt)),
    )


# No server's context is smaller, so a smaller report is no sign of a cut.
SMALLEST_CONTEXT = 200
# Tokenisers whose tokens span several words write English with 92 tokens per 100 words.
TOKENS_PER_WORD = 0.85
# Chinese, Japanese and Korean have two characters per token at most, in a long text, and scripts of
# South-East Asia four.
DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
TOKENS_PER_DENSE, TOKENS_PER_UNSPACED = 0.3, 0.15


def is_cut(prompt_tokens: int, messages: Sequence[str]) -> bool:
    """Return True if the server can't have read the whole prompt.

    A prompt has at least 0.85 tokens per word between spaces, whatever the tokeniser, and more per
    word in scripts without spaces. Signs alone are not counted.
    """
    if prompt_tokens < SMALLEST_CONTEXT:
        return False
    least = 0.0
    for message in messages:
        # Rows of signs may be one token, so only what holds a letter or digit counts.
        words = message.split()
        least += TOKENS_PER_WORD * len(words)
        if prompt_tokens < least:
            least -= TOKENS_PER_WORD * sum(not any(map(str.isalnum, word)) for word in words)
        if UNSPACED.search(message):
            least += sum(max(_least_unspaced(word) - TOKENS_PER_WORD, 0.0) for word in words)
    return prompt_tokens < least


def _least_unspaced(word: str) -> float:
    dense = len(DENSE.findall(word))
    return TOKENS_PER_DENSE * dense + TOKENS_PER_UNSPACED * (len(UNSPACED.findall(word)) - dense)


@dataclass(frozen=True, slots=True)
class _Read:
    """The tokens that a report gives.

    `prompt` holds `cached` and `written`, however the report counts them.
    """

    prompt: int | None
    completion: int | None
    cached: int
    written: int


def _named_alike(report: Mapping[str, object]) -> dict[str, object]:
    """Return the fields under one spelling: `promptTokenCount` is `prompt_tokens`."""
    named: dict[str, object] = {}
    for name, value in report.items():
        snake = _CAPITAL.sub(r"_\g<0>", str(name)).lower()
        snake = snake.replace("token_count", "tokens").replace("candidates", "completion")
        named.setdefault(snake, value)
    return named


_CAPITAL = re.compile(r"(?<=[a-z])[A-Z]")


def _read_prompt(fields: Mapping[str, object], messages: Sequence[str]) -> _Read:
    prompt = _first_count(fields, "prompt_tokens", "input_tokens")
    completion = _first_count(fields, "completion_tokens", "output_tokens")
    total = _count(fields.get("total_tokens"))
    cached, written = _cached(fields), _written(fields)
    beside = cached + (_count(fields.get("cache_creation_input_tokens")) or 0)
    if beside and _stand_beside(fields, prompt or 0, completion or 0, total, beside, messages):
        prompt = (prompt or 0) + beside
    if prompt is not None and completion is not None and total is not None:
        # Gemini and xAI bill thinking as completion, and count it in the total only.
        completion = max(completion, total - prompt)
    return _Read(prompt, completion, cached, written)


def _stand_beside(
    fields: Mapping[str, object],
    prompt: int,
    completion: int,
    total: int | None,
    beside: int,
    messages: Sequence[str],
) -> bool:
    """Return True if the cached tokens are not part of `prompt_tokens`.

    OpenAI and DeepSeek count them inside, Anthropic apart. The prompt's own length and the total
    tell which, and without a total the report's names.
    """
    whole = sum(map(fewest_tokens, messages))
    # What is more than the prompt can't be a part of it.
    if beside > prompt and prompt < SLACK * whole:
        return True
    if total is not None:
        return total == prompt + completion + beside
    missed = _count(fields.get("prompt_cache_miss_tokens"))
    return prompt == missed or "cache_read_input_tokens" in fields


def reports_too_few(completion: int, texts: Sequence[str]) -> bool:
    """Return True if the count is too small for these texts, as when it is of one choice only."""
    return completion < SLACK * sum(fewest_tokens(text) for text in texts)


def _from_texts(reported: int | None, texts: Sequence[str], counted: Sequence[int | None]) -> int:
    """Estimate the tokens of all texts, on the scale of the text that the report fits best."""
    exact = [count for count in counted if count is not None]
    if exact and len(exact) == len(texts):
        return sum(exact)
    estimates = [estimate_tokens(text) for text in texts]
    total = sum(estimates)
    if reported and estimates:
        nearest = min(estimates, key=lambda estimate: abs(estimate - reported))
        scale = min(2.0, max(0.5, reported / nearest)) if nearest else 1.0
        total = round(total * scale)
    return max(total, reported or 0)


# Anthropic and LiteLLM: `cache_creation_input_tokens`. OpenRouter: `cache_write_tokens`.
_WRITTEN = re.compile(r"cache_?(?:creat|writ)\w*tokens", re.IGNORECASE)
# Cached tokens have many names: `prompt_cache_hit_tokens`, `cache_read_input_tokens` and others.
_CACHED = re.compile(r"cached|cache_?(?:read|hit|tokens)", re.IGNORECASE)
_NOT_READ = re.compile(r"miss|creat|writ|type|price|cost|audio|^is_|^has_", re.IGNORECASE)


def _cached(fields: Mapping[str, object]) -> int:
    """Return the cached tokens by the name that this server gives them, here or in the details."""
    counts = _counts(fields)
    return next((n for name, n in counts if _CACHED.search(name) and not _NOT_READ.search(name)), 0)


def _written(fields: Mapping[str, object]) -> int:
    """Return the tokens that were written to the cache."""
    return next((n for name, n in _counts(fields) if _WRITTEN.fullmatch(name)), 0)


def _counts(fields: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """Yield the names and values of a report and its prompt's details that can be counts."""
    details = [
        value
        for name, value in fields.items()
        if "detail" in name and not re.search("completion|output", name)
    ]
    for where in (*details, fields):
        for name, value in where.items() if isinstance(where, Mapping) else ():
            if count := _count(value):
                yield str(name), count


def _first_count(fields: Mapping[str, object], *names: str) -> int | None:
    return next((n for name in names if (n := _count(fields.get(name))) is not None), None)


def _count(value: object) -> int | None:
    """Return a positive whole number that can be a count, or None.

    Some gateways write it as text or as 1920.0."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_TOKENS:
        return None
    return value


PER_MILLION = Decimal(1_000_000)
HALF = Decimal("0.5")
# What Anthropic charges for prompt tokens that it keeps for five minutes, as a multiple.
WRITING = Decimal("1.25")


class PriceError(ValueError):
    """A price that can't be read. The message says where it is and how to write it."""


@dataclass(frozen=True, slots=True)
class TokenRate:
    """USD per million tokens. Above `start` prompt tokens, a tier's price holds for all tokens."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def at(self, prompt_tokens: int) -> Decimal:
        price = self.base
        for start, tier_price in self.tiers:
            if prompt_tokens > start:
                price = tier_price
        return price

    def times(self, factor: Decimal) -> "TokenRate":
        tiers = tuple((start, price * factor) for start, price in self.tiers)
        return TokenRate(self.base * factor, tiers)

    def to_json(self) -> dict[str, object]:
        return {"base": str(self.base), "tiers": [[s, str(p)] for s, p in self.tiers]}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        tiers = data.get("tiers") or []
        if not isinstance(tiers, list):
            raise PriceError("A price's tiers are a list of [tokens, price].")
        return cls(usd(data["base"]), tuple((int(s), usd(p)) for s, p in tiers))


@dataclass(frozen=True, slots=True)
class PriceSnapshot:
    """The prices that a run is billed at, and where they come from.

    written: of prompt tokens that are written to the provider's cache; None: as any others.
    """

    prompt: TokenRate
    cached: TokenRate
    completion: TokenRate
    source: str
    written: TokenRate | None = None

    @classmethod
    def flat(
        cls, prompt: Decimal, completion: Decimal, source: str, cached: Decimal | None = None
    ) -> Self:
        return cls(
            TokenRate(prompt),
            TokenRate(prompt if cached is None else cached),
            TokenRate(completion),
            source,
        )

    def cost(self, usage: Usage) -> Decimal:
        """Return the USD of a call. Tokens that a cache gave or got cost only their own price."""
        size = usage.prompt_tokens
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.written_tokens
        total = (
            fresh * self.prompt.at(size)
            + usage.cached_tokens * self.cached.at(size)
            + usage.written_tokens * (self.written or self.prompt).at(size)
            + usage.completion_tokens * self.completion.at(size)
        )
        return total / PER_MILLION

    def reserve(self, prompt_tokens: int, k: int, max_tokens: int) -> Decimal:
        """Return the most that k choices can cost: nothing cached, every reply full."""
        rates = (self.prompt, self.cached, self.written or self.prompt)
        dearest = max(rate.at(prompt_tokens) for rate in rates)
        completion = k * max_tokens * self.completion.at(prompt_tokens)
        return (prompt_tokens * dearest + completion) / PER_MILLION

    def half(self) -> "PriceSnapshot":
        """Return the prices of batches."""
        return PriceSnapshot(
            self.prompt.times(HALF),
            self.cached.times(HALF),
            self.completion.times(HALF),
            f"{self.source}, half for batches",
            self.written and self.written.times(HALF),
        )

    def with_cache_marks(self) -> "PriceSnapshot":
        """Return the prices of prompts with cache marks: writing costs at least Anthropic's."""
        return replace(self, written=self.written or self.prompt.times(WRITING))

    def without_cache_marks(self) -> "PriceSnapshot":
        return replace(self, written=None)

    def to_json(self) -> dict[str, object]:
        rates = {"prompt": self.prompt, "cached": self.cached, "completion": self.completion}
        rates |= {"written": self.written} if self.written else {}
        return {name: rate.to_json() for name, rate in rates.items()} | {"source": self.source}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        def rate(name: str) -> TokenRate:
            value = data[name]
            if not isinstance(value, Mapping):
                raise PriceError(f"The stored price of {name} tokens can't be read.")
            return TokenRate.from_json(value)

        written = rate("written") if "written" in data else None
        return cls(rate("prompt"), rate("cached"), rate("completion"), str(data["source"]), written)


def usd(value: object) -> Decimal:
    """Return a price as an exact decimal. Raises PriceError if it is negative or no number."""
    try:
        price = Decimal(str(value))
    except ArithmeticError:
        price = Decimal("NaN")
    if isinstance(value, bool) or not price.is_finite() or price < 0:
        raise PriceError(f"{value!r} is not a price. Write USD per million tokens, like 2.50.")
    return price


FREE = Decimal(0)
VERSION = version("genai-prices")


def find_price(
    endpoint: Endpoint,
    model: str,
    *,
    run_price: tuple[Decimal, Decimal] | None = None,
    overrides: Mapping[str, PriceSnapshot] | None = None,
) -> PriceSnapshot | None:
    """Return the price given for the run, else the operator's, else the published one."""
    if run_price is not None:
        return PriceSnapshot.flat(usd(run_price[0]), usd(run_price[1]), "given")
    overrides = overrides or {}
    for name in (f"{endpoint.name}/{model}", model):
        if name in overrides:
            return overrides[name]
    if endpoint.is_local:
        return PriceSnapshot.flat(FREE, FREE, "local")
    return published_price(endpoint.base_url, model)


def published_price(base_url: str, model: str, now: datetime | None = None) -> PriceSnapshot | None:
    """Return the list price at a vendor's own address, or None.

    A model's name alone doesn't tell its price, as many vendors serve the same model. If the price
    depends on the time of day, the dearest hour of the next day counts, so that a budget holds
    whenever the run continues.
    """
    start = now or datetime.now(UTC)
    prices = [_price_at(base_url, model, start + timedelta(hours=hour)) for hour in range(24)]
    known = [price for price in prices if price is not None]
    if not known:
        return None
    dearest = max(known, key=lambda price: (price.completion.base, price.prompt.base))
    if all(price == dearest for price in known):
        return dearest
    return replace(dearest, source=f"{dearest.source}, at the dearest hour of the day")


def _price_at(base_url: str, model: str, moment: datetime) -> PriceSnapshot | None:
    # Its table of prices takes long to load, and most commands ask for no price.
    import genai_prices

    used = genai_prices.Usage(input_tokens=1)
    try:
        priced = genai_prices.calc_price(
            used, model, provider_api_url=base_url, genai_request_timestamp=moment
        )
    except LookupError:
        return None
    prompt = _rate(priced.model_price.input_mtok)
    completion = _rate(priced.model_price.output_mtok)
    if prompt is None or completion is None:
        return None
    return PriceSnapshot(
        prompt=prompt,
        cached=_rate(priced.model_price.cache_read_mtok) or prompt,
        completion=completion,
        source=f"genai-prices {VERSION} ({priced.provider.id})",
        written=_rate(priced.model_price.cache_write_mtok),
    )


def _rate(price: object) -> TokenRate | None:
    from genai_prices.types import TieredPrices

    if isinstance(price, TieredPrices):
        return TokenRate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
    return None if price is None else TokenRate(usd(price))


def read_overrides(path: Path) -> dict[str, PriceSnapshot]:
    """Read the operator's prices from a TOML or JSON file.

    It has a table for each `model` or `endpoint/model`, with `prompt` and `completion` in USD per
    million tokens, and `cached` and `cache_write` if these differ.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PriceError(f"The price file {path} can't be read: {reason}.") from error
    except ValueError as error:
        raise PriceError(f"The price file {path} can't be read: {error}.") from error
    if not isinstance(data, dict):
        raise PriceError(f"The price file {path} holds no table of models.")
    return {str(name): _override(path, str(name), entry) for name, entry in data.items()}


def _override(path: Path, name: str, entry: object) -> PriceSnapshot:
    known = {"prompt", "completion", "cached", "cache_write"}
    if not isinstance(entry, Mapping) or not {"prompt", "completion"} <= set(entry) <= known:
        raise PriceError(
            f"The price file {path}: {name!r} needs prompt and completion, and may have cached "
            "and cache_write."
        )
    try:
        cached = usd(entry["cached"]) if "cached" in entry else None
        price = PriceSnapshot.flat(
            usd(entry["prompt"]), usd(entry["completion"]), "override file", cached
        )
        written = TokenRate(usd(entry["cache_write"])) if "cache_write" in entry else None
        return replace(price, written=written)
    except PriceError as error:
        raise PriceError(f"The price file {path}: {name!r}: {error}") from error
