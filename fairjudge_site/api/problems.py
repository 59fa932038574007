"""Refusals as `application/problem+json` (RFC 9457): a stable code, a sentence, and the field.

`code` is for programs and never changes its meaning. `detail` is the sentence that a page shows.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

from django.http import HttpResponse
from ninja import Schema
from pydantic import Field

CONTENT_TYPE = "application/problem+json"

# Every code, with its status.
CODES: dict[str, int] = {
    "not_readable": 400,
    "idempotency_key_unusable": 400,
    "token_missing": 401,
    "token_unusable": 401,
    "scope_missing": 403,
    "role_too_small": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "changed_meanwhile": 409,
    "idempotency_key_reused": 409,
    "too_large": 413,
    "media_type_unknown": 415,
    "refused": 422,
    "field_unusable": 422,
    "rows_invalid": 422,
    "too_many_requests": 429,
    "unexpected": 500,
    "unavailable": 503,
}


class FieldError(Schema):
    """What is wrong with one field, or in one line of a file."""

    field: str = Field(description="The field's path, such as `body.name`, or a column.")
    detail: str
    line: int | None = Field(None, description="The line of the file, from 1.")


class Problem(Schema):
    """A refusal. Nothing was changed."""

    type: str = Field("about:blank", description="Always `about:blank`: `code` says which it is.")
    title: str
    status: int
    code: Literal[tuple(CODES)] = Field(description="Stable. Programs decide by it.")  # type: ignore[valid-type]
    detail: str = Field(description="The sentence that a page shows.")
    field: str | None = Field(None, description="The first field that is wrong.")
    errors: list[FieldError] = Field(default_factory=list)


class Refusal(Exception):
    """Ends a request with a problem."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail
        self.errors, self.headers = list(errors), dict(headers or {})

    def response(self) -> HttpResponse:
        status = CODES[self.code]
        problem = Problem(
            title=HTTPStatus(status).phrase,
            status=status,
            code=self.code,
            detail=self.detail,
            field=self.errors[0].field if self.errors else None,
            errors=self.errors,
        )
        body = problem.model_dump_json()
        return HttpResponse(body, status=status, content_type=CONTENT_TYPE, headers=self.headers)


def of_validation(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    """Return the problem for fields that the schema refuses. What was sent is not repeated."""
    faults = [
        FieldError(field=".".join(map(str, _place(error["loc"]))), detail=_sentence(error))
        for error in errors
    ]
    first = faults[0] if faults else FieldError(field="body", detail="It can't be read.")
    detail = f"{first.field}: {first.detail} Nothing was changed."
    # A body with thousands of wrong entries doesn't get a sentence for each.
    return Refusal("field_unusable", detail, errors=faults[:100])


def refusal_of_form(faults: Mapping[str, Sequence[Any]]) -> Refusal:
    """Return the problem for fields that the form of a page refuses."""
    errors = [
        FieldError(field=f"body.{name}", detail=str(texts[0])) for name, texts in faults.items()
    ]
    detail = f"{errors[0].field}: {errors[0].detail} Nothing was changed."
    return Refusal("field_unusable", detail, errors=errors)


def _place(location: Sequence[Any]) -> list[Any]:
    """Leave out the name of the function's parameter, as in `("body", "body", "name")`."""
    kept = list(location)
    return [kept[0], *kept[2:]] if kept[:1] == ["body"] and len(kept) > 2 else kept


def _sentence(error: Mapping[str, Any]) -> str:
    # pydantic puts these words before what a validator raises.
    sentence = str(error.get("msg", "It is not usable")).removeprefix("Value error, ").strip()
    return sentence if sentence.endswith(".") else f"{sentence}."
