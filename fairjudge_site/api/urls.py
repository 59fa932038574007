"""The addresses of the REST interface, of its schema, and of the page of tokens."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, re_path
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation

from fairjudge_site.api import (
    examples,
    jobs,
    lessons,
    people,
    preregistrations,
    projects,
    rounds,
    runs,
    tables,
    verdicts,
    webhooks,
)
from fairjudge_site.api.gate import guarded, refusal_of
from fairjudge_site.api.problems import Refusal, of_validation
from fairjudge_site.api.reference import DESCRIPTION, VERSION, pages, token_revoke, tokens

ROOT = "api/v1/"


class Interface(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Name an operation after its function: clients are generated from these names."""
        return operation.view_func.__name__


api = Interface(
    title="FairJudge",
    version=VERSION,
    description=DESCRIPTION,
    docs_url=None,
    openapi_url=None,
    urls_namespace="api",
)
for resource in (
    projects, examples, runs, rounds, jobs, tables, people, verdicts, lessons, webhooks,
    preregistrations,
):  # fmt: skip
    api.add_router("", resource.router)


@api.exception_handler(Exception)
def refuse(request: HttpRequest, error: Exception) -> HttpResponse:
    if isinstance(error, ValidationError):
        return of_validation(error.errors).response()
    if isinstance(error, HttpError):
        return Refusal("not_readable", "The body isn't JSON that can be read.").response()
    return refusal_of(error).response()


# The more special handlers that django-ninja brings would come first.
for special in (ValidationError, HttpError, Http404):
    api.add_exception_handler(special, refuse)


def nothing(request: HttpRequest) -> HttpResponse:
    raise Http404("No such address.")


def _guarded(patterns: list[Any]) -> list[URLPattern]:
    """Return the addresses, each with the guard around its view, and each once.

    django-ninja gives an address of two methods twice.
    """
    once = {str(route.pattern): route for route in reversed(patterns) if route.name != "api-root"}
    return [
        path(f"{ROOT}{route}", guarded(pattern.callback), name=f"api_{pattern.name}")
        for route, pattern in reversed(once.items())
    ]


schema, reference = pages(api)

urlpatterns = [
    *_guarded(api.urls[0]),
    path("api/v1/openapi.json", schema, name="api_schema"),
    path("api/v1/docs", reference, name="api_reference"),
    path("tokens/", tokens, name="tokens"),
    path("tokens/<int:number>/revoke", token_revoke, name="token_revoke"),
    re_path(r"^api/", guarded(nothing), name="api_nothing"),
]
