"""The endpoints that the operator named: address, key, prices, models, and what they taught."""

import asyncio
import re
from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.models import merge
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.judge_client import ListingError, list_models
from judging.llm.endpoint import Endpoint, EndpointError
from judging.llm.prices import PriceError, PriceSnapshot, find_price, read_overrides
from judging.local_judge.running import MODEL_NAME
from judging.projects.access import record_event
from judging.runs.models import EndpointLearned, Run, SiteEndpoint

LOCAL = "local"
# The local judge's port changes with each start; its model and its file do not.
LOCAL_URL = "http://local/v1"
# The site's own secrets must not leave as the key of an endpoint.
_VARIABLE = re.compile(r"(?!FAIRJUDGE_|DJANGO_|AWS_)[A-Z][A-Z0-9_]*_(KEY|TOKEN)")


# Endpoints of the environment, which no page changes.
FIXED = ("default", LOCAL)
LONGEST_NAME, LONGEST_URL, LONGEST_VARIABLE = 80, 500, 100


def endpoint_names() -> list[str]:
    named = SiteEndpoint.objects.order_by("name").values_list("name", flat=True)
    return list(dict.fromkeys([*settings.FAIRJUDGE_ENDPOINTS, *named, LOCAL]))


def default_endpoint_name() -> str:
    return "default" if "default" in settings.FAIRJUDGE_ENDPOINTS else LOCAL


def named_endpoint(name: str) -> Endpoint:
    """Return the endpoint; the local one has a fixed address, whatever its port is now.

    A name in the environment takes precedence over the same name on the page *Site*.
    """
    if name == LOCAL:
        return Endpoint(LOCAL, LOCAL_URL)
    if name in settings.FAIRJUDGE_ENDPOINTS:
        declared = settings.FAIRJUDGE_ENDPOINTS[name]
        return Endpoint(name, declared["base_url"], declared["key_variable"] or None)
    row = SiteEndpoint.objects.filter(name=name).first()
    if row is None:
        raise UserError(
            f"There is no endpoint {name}. The operator names endpoints in FAIRJUDGE_ENDPOINTS or "
            f"on the page Site; there are: {', '.join(endpoint_names())}."
        )
    return Endpoint(name, row.base_url, row.key_variable or None)


def keys() -> dict[str, str]:
    """Return the keys by their variables: of the environment's endpoints, and of all others."""
    return settings.FAIRJUDGE_OTHER_KEYS | settings.FAIRJUDGE_ENDPOINT_KEYS


def name_endpoint(name: str, base_url: str, variable: str, by: AbstractUser) -> str:
    """Add an endpoint, or change the address or the variable of one. Returns what is true now.

    Raises UserError for what can't be used. The key itself is never taken.
    """
    name, base_url, variable = name.strip(), base_url.strip(), variable.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UserError(f"Give a name of 1 to {LONGEST_NAME} visible characters. Nothing changed.")
    if name in settings.FAIRJUDGE_ENDPOINTS or name in FIXED:
        raise UserError(
            f"The environment names the endpoint {name}. Nothing was changed. Change it there, or "
            "choose another name."
        )
    if len(base_url) > LONGEST_URL:
        raise UserError(f"The address has more than {LONGEST_URL} characters. Nothing was changed.")
    try:
        url = Endpoint(name, base_url).base_url
    except EndpointError as error:
        raise UserError(f"{error} Nothing was changed.") from None
    if variable and (len(variable) > LONGEST_VARIABLE or not _VARIABLE.fullmatch(variable)):
        raise UserError(
            "Give the name of a variable that ends with _KEY or _TOKEN, such as LAB_KEY, and never "
            "the key itself. FairJudge's own variables can't be used. Nothing was changed."
        )
    with transaction.atomic():
        row, made = SiteEndpoint.objects.select_for_update().get_or_create(
            name=name, defaults={"base_url": url, "key_variable": variable}
        )
        before = {"address": row.base_url, "variable": row.key_variable}
        now = {"address": url, "variable": variable}
        if made or before != now:
            row.base_url, row.key_variable = url, variable
            row.save()
            did = "endpoint added" if made else "endpoint changed"
            record_event(None, by, did, name, before=None if made else before, now=now)
    missing = variable and variable not in keys()
    sentence = f"The endpoint {name} is at {url}."
    return f"{sentence} Set {variable} and restart: it isn't set here." if missing else sentence


def remove_endpoint(name: str, by: AbstractUser) -> str:
    """Remove an endpoint of the page *Site*. Its runs stay, and can't be resumed without it."""
    with transaction.atomic():
        if not SiteEndpoint.objects.filter(name=name).delete()[0]:
            raise UserError(f"There is no endpoint {name} to remove. Nothing was changed.")
        record_event(None, by, "endpoint removed", name)
    return f"The endpoint {name} is removed. Its runs stay, but can't be resumed."


def stored_url(name: str) -> str:
    """Return the address that a run keeps; a resume needs the same one."""
    return named_endpoint(name).base_url


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key. Raises UserError for an impossible one, such as a key in quotation marks."""
    try:
        return endpoint.key(keys())
    except EndpointError as error:
        raise UserError(str(error)) from None


def find_price_of(
    endpoint: Endpoint, model: str, run_price: tuple[Decimal, Decimal] | None = None
) -> PriceSnapshot | None:
    """Return the given price, the operator's or the package's; None if unknown, and never 0."""
    try:
        file = settings.FAIRJUDGE_PRICES
        overrides = read_overrides(file) if file else {}
        return find_price(endpoint, model, run_price=run_price, overrides=overrides)
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
