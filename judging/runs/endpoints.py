"""The endpoints that the operator named: address, key, prices, models, and what they taught."""

import asyncio
from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.queries import merge
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.judge_client import ListingError, list_models
from judging.llm.endpoint import Endpoint, EndpointError
from judging.llm.prices import PriceError, PriceSnapshot, find_price, read_overrides
from judging.local_judge.running import MODEL_NAME
from judging.runs.models import EndpointLearned, Run

LOCAL = "local"
# The local judge's port changes with each start; its model and its file do not.
LOCAL_URL = "http://local/v1"


def endpoint_names() -> list[str]:
    return [*settings.FAIRJUDGE_ENDPOINTS, LOCAL]


def default_endpoint_name() -> str:
    return "default" if "default" in settings.FAIRJUDGE_ENDPOINTS else LOCAL


def named_endpoint(name: str) -> Endpoint:
    """Return the endpoint; the local one has a fixed address, whatever its port is now."""
    if name == LOCAL:
        return Endpoint(LOCAL, LOCAL_URL)
    try:
        declared = settings.FAIRJUDGE_ENDPOINTS[name]
    except KeyError:
        raise UserError(
            f"There is no endpoint {name}. The operator names endpoints in FAIRJUDGE_ENDPOINTS; "
            f"there are: {', '.join(endpoint_names())}."
        ) from None
    return Endpoint(name, declared["base_url"], declared["key_variable"] or None)


def stored_url(name: str) -> str:
    """Return the address that a run keeps; a resume needs the same one."""
    return named_endpoint(name).base_url


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key. Raises UserError for an impossible one, such as a key in quotation marks."""
    try:
        return endpoint.key(settings.FAIRJUDGE_ENDPOINT_KEYS)
    except EndpointError as error:
        raise UserError(str(error)) from None


def find_price_of(
    endpoint: Endpoint, model: str, given: tuple[Decimal, Decimal] | None = None
) -> PriceSnapshot | None:
    """Return the given price, the operator's or the package's; None if unknown, and never 0."""
    try:
        file = settings.FAIRJUDGE_PRICES
        overrides = read_overrides(file) if file else {}
        return find_price(endpoint, model, given=given, overrides=overrides)
    except PriceError as error:
        raise UserError(str(error)) from None


class ModelNotChosen(UserError):
    """No model was named, and the endpoint offers more than one."""


def models_at(name: str) -> tuple[str, ...]:
    """List the models that the endpoint offers now. Raises UserError if it gives no list."""
    endpoint = named_endpoint(name)
    if endpoint.is_local:
        return (MODEL_NAME,)
    try:
        return asyncio.run(list_models(endpoint, key_of(endpoint)))
    except ListingError as error:
        raise UserError(str(error)) from None


# How long an answer shows that the key works and the account is not empty.
KNOWN_GOOD = timedelta(minutes=10)


def recall(run: Run) -> tuple[EndpointCapabilities | None, bool]:
    """Return what is known of the run's judge, and whether it answered a short while ago."""
    return recall_for(run.base_url, run.model)


def recall_for(base_url: str, model: str) -> tuple[EndpointCapabilities | None, bool]:
    row = EndpointLearned.objects.filter(base_url=base_url, model=model).first()
    if row is None:
        return None, False
    return EndpointCapabilities.from_json(row.learned), row.updated_at > timezone.now() - KNOWN_GOOD


def keep(run: Run, learned: EndpointCapabilities, before: EndpointCapabilities | None) -> None:
    """Keep what an answer taught, for the next run and for this run's page."""
    keep_for(run.base_url, run.model, learned, before)
    Run.objects.filter(pk=run.pk).update(learned=learned.to_json())


def keep_for(
    base_url: str, model: str, learned: EndpointCapabilities, before: EndpointCapabilities | None
) -> None:
    """Keep what differs from `before`, which was known when asking began.

    Only differences, since another run of this judge may have learned something else meanwhile.
    """
    now = learned.to_json()
    row, made = EndpointLearned.objects.get_or_create(
        base_url=base_url, model=model, defaults={"learned": now}
    )
    if made:
        return
    known = (before or EndpointCapabilities()).to_json()
    new = {name: value for name, value in now.items() if value != known[name]}
    merge(row, "learned", lambda kept: {**kept, **new})
    EndpointLearned.objects.filter(pk=row.pk).update(updated_at=timezone.now())
