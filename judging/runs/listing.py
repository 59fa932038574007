"""The models that an endpoint offers, asked now."""

import asyncio

from judging.errors import UserError
from judging.llm.listing import ListingError, list_models
from judging.local_judge.model import MODEL_NAME
from judging.runs.endpoints import key_of, named_endpoint


class ModelNotChosen(UserError):
    """No model was named, and the endpoint does not leave just one."""


def models_at(name: str) -> tuple[str, ...]:
    """In the endpoint's own order. Raises UserError for an endpoint that gives no list."""
    endpoint = named_endpoint(name)
    if endpoint.is_local:
        return (MODEL_NAME,)
    try:
        return asyncio.run(list_models(endpoint, key_of(endpoint)))
    except ListingError as error:
        raise UserError(str(error)) from None
