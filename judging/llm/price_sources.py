"""Where prices come from: the published ones of genai-prices, and the operator's own file."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.types import TieredPrices

from judging.llm.endpoint import Endpoint
from judging.llm.prices import PriceError, PriceSnapshot, Rate, usd

FREE = Decimal(0)
VERSION = version("genai-prices")


def find_price(
    endpoint: Endpoint,
    model: str,
    *,
    given: tuple[Decimal, Decimal] | None = None,
    overrides: Mapping[str, PriceSnapshot] | None = None,
) -> PriceSnapshot | None:
    """What is given for the run, else the operator's file, else the published prices."""
    if given is not None:
        return PriceSnapshot.flat(usd(given[0]), usd(given[1]), "given")
    overrides = overrides or {}
    for name in (f"{endpoint.name}/{model}", model):
        if name in overrides:
            return overrides[name]
    if endpoint.is_local:
        return PriceSnapshot.flat(FREE, FREE, "local")
    return published_price(endpoint.base_url, model)


def published_price(base_url: str, model: str, now: datetime | None = None) -> PriceSnapshot | None:
    """The list price of a vendor's own address. A model's name alone says nothing of its price.

    Where it depends on the time of day, the dearest hour of the next day is taken, so that a
    budget holds whenever the run goes on.
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
    used = PricedUsage(input_tokens=1)
    try:
        found = calc_price(used, model, provider_api_url=base_url, genai_request_timestamp=moment)
    except LookupError:
        return None
    prompt = _rate(found.model_price.input_mtok)
    completion = _rate(found.model_price.output_mtok)
    if prompt is None or completion is None:
        return None
    return PriceSnapshot(
        prompt=prompt,
        cached=_rate(found.model_price.cache_read_mtok) or prompt,
        completion=completion,
        source=f"genai-prices {VERSION} ({found.provider.id})",
    )


def _rate(price: object) -> Rate | None:
    if isinstance(price, TieredPrices):
        return Rate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
    return None if price is None else Rate(usd(price))


def read_overrides(path: Path) -> dict[str, PriceSnapshot]:
    """Read the operator's prices: a table for each `model` or `endpoint/model`.

    `prompt` and `completion` are USD a million tokens, `cached` too where it differs.
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
    known = {"prompt", "completion", "cached"}
    if not isinstance(entry, Mapping) or not {"prompt", "completion"} <= set(entry) <= known:
        raise PriceError(
            f"The price file {path}: {name!r} needs prompt and completion, and may have cached."
        )
    try:
        cached = usd(entry["cached"]) if "cached" in entry else None
        return PriceSnapshot.flat(
            usd(entry["prompt"]), usd(entry["completion"]), "override file", cached
        )
    except PriceError as error:
        raise PriceError(f"The price file {path}: {name!r}: {error}") from error
