"""What tokens cost at one endpoint: a snapshot that a run keeps. Unknown is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from judging.llm.usage import Usage

PER_MILLION = Decimal(1_000_000)


class PriceError(ValueError):
    """A price that can't be read; the message says where and how to write it."""


@dataclass(frozen=True, slots=True)
class Rate:
    """USD a million tokens. From `start` prompt tokens on, a tier's price holds for all tokens."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def at(self, prompt_tokens: int) -> Decimal:
        price = self.base
        for start, tier_price in self.tiers:
            if prompt_tokens > start:
                price = tier_price
        return price

    def halved(self) -> "Rate":
        return Rate(self.base / 2, tuple((start, price / 2) for start, price in self.tiers))

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
    """The prices that a run is billed at, and where they come from."""

    prompt: Rate
    cached: Rate
    completion: Rate
    source: str

    @classmethod
    def flat(
        cls, prompt: Decimal, completion: Decimal, source: str, cached: Decimal | None = None
    ) -> Self:
        return cls(
            Rate(prompt), Rate(prompt if cached is None else cached), Rate(completion), source
        )

    def cost(self, usage: Usage) -> Decimal:
        """USD for a call; cached prompt tokens are priced once, at their own price."""
        size = usage.prompt_tokens
        fresh = usage.prompt_tokens - usage.cached_tokens
        total = (
            fresh * self.prompt.at(size)
            + usage.cached_tokens * self.cached.at(size)
            + usage.completion_tokens * self.completion.at(size)
        )
        return total / PER_MILLION

    def reserve(self, prompt_tokens: int, k: int, max_tokens: int) -> Decimal:
        """The most that a request for k choices can cost: nothing cached, every choice full."""
        dearest = max(self.prompt.at(prompt_tokens), self.cached.at(prompt_tokens))
        completion = k * max_tokens * self.completion.at(prompt_tokens)
        return (prompt_tokens * dearest + completion) / PER_MILLION

    def half(self) -> "PriceSnapshot":
        """The price of batches."""
        return PriceSnapshot(
            self.prompt.halved(),
            self.cached.halved(),
            self.completion.halved(),
            f"{self.source}, half for batches",
        )

    def to_json(self) -> dict[str, object]:
        return {
            "prompt": self.prompt.to_json(),
            "cached": self.cached.to_json(),
            "completion": self.completion.to_json(),
            "source": self.source,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        def rate(name: str) -> Rate:
            value = data[name]
            if not isinstance(value, Mapping):
                raise PriceError(f"The stored price of {name} tokens can't be read.")
            return Rate.from_json(value)

        return cls(rate("prompt"), rate("cached"), rate("completion"), str(data["source"]))


def usd(value: object) -> Decimal:
    """A price as a decimal: not negative, and nothing that a float has rounded."""
    try:
        price = Decimal(str(value))
    except ArithmeticError:
        price = Decimal("NaN")
    if isinstance(value, bool) or not price.is_finite() or price < 0:
        raise PriceError(f"{value!r} is not a price. Write USD a million tokens, like 2.50.")
    return price
