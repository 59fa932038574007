"""The endpoints that the operator named, and what is known of a judge there."""

from decimal import Decimal

from django.conf import settings

from judging.errors import UserError
from judging.llm.endpoint import Endpoint, EndpointError
from judging.llm.price_sources import find_price, read_overrides
from judging.llm.prices import PriceError, PriceSnapshot

LOCAL = "local"
# The local judge's port changes with each start; its model and its file do not.
LOCAL_URL = "http://local/v1"


def endpoint_names() -> list[str]:
    return [*settings.FAIRJUDGE_ENDPOINTS, LOCAL]


def default_endpoint_name() -> str:
    return "default" if "default" in settings.FAIRJUDGE_ENDPOINTS else LOCAL


def named_endpoint(name: str) -> Endpoint:
    """The endpoint; the local one at its standing address, whatever port it has now."""
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
    """The address that a run keeps, and is resumed under only."""
    return named_endpoint(name).base_url


def key_of(endpoint: Endpoint) -> str | None:
    """Raises UserError for what can't be a key, as where it was set with its quotation marks."""
    try:
        return endpoint.key(settings.FAIRJUDGE_ENDPOINT_KEYS)
    except EndpointError as error:
        raise UserError(str(error)) from None


def find_price_of(
    endpoint: Endpoint, model: str, given: tuple[Decimal, Decimal] | None = None
) -> PriceSnapshot | None:
    """The price now: given, the operator's, the package's. None is unknown, and never 0."""
    try:
        file = settings.FAIRJUDGE_PRICES
        overrides = read_overrides(file) if file else {}
        return find_price(endpoint, model, given=given, overrides=overrides)
    except PriceError as error:
        raise UserError(str(error)) from None
