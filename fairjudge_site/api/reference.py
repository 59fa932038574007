"""The schema of the interface, as OpenAPI 3.1, and its reference page.

The page is drawn here from the schema, as plain HTML: the viewers that django-ninja brings need
inline scripts, which the site's content policy forbids. Below it is the page on which a
user makes and ends the tokens with which programs act for them.
"""

import hashlib
import json
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers, get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from ninja import NinjaAPI

from annotation.results.data.figures import json_schema
from annotation.results.report.report import PeopleAlone, Report
from annotation.results.sections.trust import CertificateFigures
from fairjudge_site.api.gate import Scope
from fairjudge_site.api.problems import CODES, CONTENT_TYPE, Problem
from judging.core.errors import UserError
from judging.projects.access import projects_of
from judging.projects.logins import is_proved, proving
from judging.projects.models import Project
from judging.projects.tokens import (
    LONGEST_NAME,
    MOST_DAYS,
    SCOPES,
    issue_token,
    revoke,
    tokens_of,
)

VERSION = "1.0"
DESCRIPTION = (
    "Everything that FairJudge's pages do, for programs. Send a token with each request: "
    "`Authorization: Bearer fj_…`. Refusals are problems (RFC 9457) with a stable `code`."
)
# Which statuses any operation may answer with instead of its own.
_REFUSALS = sorted(set(CODES.values()) - {500})
# What these addresses answer with is described by its type.
REPORTS = {
    "/projects/{slug}/runs/{number}/report": Report,
    "/projects/{slug}/runs/{number}/certificate": CertificateFigures,
    "/projects/{slug}/report/people": PeopleAlone,
}
_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A key of your own. A repeat within 24 hours gets the first answer again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}


def document(api: NinjaAPI) -> dict[str, Any]:
    """Return the OpenAPI document: what django-ninja knows, and what all operations share."""
    made = json.loads(json.dumps(api.get_openapi_schema(path_prefix="api/v1/"), default=str))
    schemas = made["components"]["schemas"]
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    made["components"]["responses"] = {
        "Problem": {
            "description": "A refusal. Nothing was changed.",
            "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    }
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    _describe_reports(made)
    scopes = _scopes(api)
    for operations in made["paths"].values():
        for method, operation in operations.items():
            scope = scopes[operation["operationId"]]
            operation["security"] = [{"token": []}]
            operation["x-scope"] = scope
            refused = {"$ref": "#/components/responses/Problem"}
            operation["responses"] |= {str(status): refused for status in _REFUSALS}
            if method == "get":
                operation["responses"]["304"] = {"description": "It is as the ETag says."}
            if method == "post":
                operation.setdefault("parameters", []).append(_IDEMPOTENCY)
    return made


def _describe_reports(made: dict[str, Any]) -> None:
    """Describe reports by the dataclasses that they are made of.

    They follow the schema, as extensions: some of their keys are words of programming
    languages, of which generated clients can make no fields.
    """
    parts: dict[str, Any] = {}
    for path, kind in REPORTS.items():
        content = made["paths"][f"/api/v1{path}"]["get"]["responses"]["200"]["content"]
        content["application/json"]["x-report"] = json_schema(kind, parts)
    made["x-reports"] = parts


def _scopes(api: NinjaAPI) -> dict[str, str]:
    scope_of = {}
    for bound in api._get_bound_routers():
        for view in bound.path_operations.values():
            for operation in view.operations:
                name = operation.operation_id or api.get_openapi_operation_id(operation)
                scopes = [
                    auth.scope for auth in operation.auth_callbacks if isinstance(auth, Scope)
                ]
                # An operation without a scope would let every token in: it fails here, in tests.
                (scope_of[name],) = scopes
    return scope_of


@lru_cache(maxsize=1)
def _text(api: NinjaAPI) -> str:
    return json.dumps(document(api), indent=1, sort_keys=True, ensure_ascii=False)


def pages(api: NinjaAPI) -> tuple[Any, Any]:
    """Return the views of the schema and of the reference page. Both are open to everybody."""

    @login_not_required
    @require_safe
    def schema(request: HttpRequest) -> HttpResponse:
        text = _text(api)
        response = HttpResponse(text, content_type="application/json")
        # Not `hash`, which differs between the processes that answer.
        etag = quote_etag(hashlib.sha256(text.encode()).hexdigest()[:32])
        response.headers["ETag"] = etag
        return get_conditional_response(request, etag=etag, response=response) or response

    @login_not_required
    @require_safe
    def reference(request: HttpRequest) -> HttpResponse:
        made = json.loads(_text(api))
        context = {"groups": _groups(made), "schemas": _schemas(made), "codes": CODES.items()}
        return render(request, "api/reference.html", context)

    return schema, reference


def _groups(made: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(
                {
                    "id": operation["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "summary": operation["summary"],
                    "description": operation.get("description", ""),
                    "scope": operation["x-scope"],
                    "parameters": [_field(part["name"], part) for part in operation["parameters"]],
                    "body": _content(operation.get("requestBody", {})),
                    "answers": [
                        (status, _content(answer) or answer.get("description", ""))
                        for status, answer in operation["responses"].items()
                        if status.startswith("2")
                    ],
                }
            )
    return list(groups.items())


def _content(holder: dict[str, Any]) -> str:
    """Return what a body is, such as `application/json: ProjectIn`."""
    content = holder.get("content", {})
    kinds = [f"{kind}: {_type(media.get('schema', {}))}" for kind, media in content.items()]
    return "; ".join(kinds)


def _field(name: str, described: dict[str, Any]) -> dict[str, str]:
    schema = described.get("schema", described)
    default = schema.get("default")
    return {
        "name": name,
        "where": described.get("in", ""),
        "type": _type(schema),
        "required": "required" if described.get("required") else "",
        "default": "" if default in (None, "") else json.dumps(default),
        "description": described.get("description") or schema.get("description", ""),
    }


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(branch) for branch in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def _schemas(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "description": schema.get("description", ""),
            "fields": [
                _field(field, described | {"required": field in schema.get("required", ())})
                for field, described in schema.get("properties", {}).items()
            ],
        }
        for name, schema in sorted(made["components"]["schemas"].items())
    ]


_MOST_FIELDS = 20


class TokenForm(forms.Form):
    name = forms.CharField(label="What is it for?", max_length=LONGEST_NAME)
    scopes = forms.MultipleChoiceField(
        label="What may it do?",
        choices=[(name, f"{name}: {meaning}") for name, meaning in SCOPES.items()],
        initial=["read"],
        widget=forms.CheckboxSelectMultiple,
    )
    project = forms.ModelChoiceField(
        Project.objects.none(),
        label="Project",
        required=False,
        to_field_name="slug",
        empty_label="all of your projects",
    )
    days = forms.IntegerField(
        label="Days until it expires",
        min_value=1,
        max_value=MOST_DAYS,
        initial=90,
        required=False,
        help_text="If empty: it works until you revoke it.",
    )

    def __init__(self, user: AbstractUser, data: Any = None, begun: Any = None) -> None:
        super().__init__(data, initial=begun)
        self.fields["project"].queryset = projects_of(user).order_by("slug")


@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """List the user's tokens. A new one is in the answer to the form, and nowhere afterwards."""
    user = request.user
    # A token outlives the session, so who found one left open must not make it.
    if request.method == "POST" and not is_proved(request):
        return redirect(proving(f"{reverse('tokens')}?{_asked_for(request.POST)}"))
    begun = {name: chosen for name, chosen in request.GET.lists() if name in TokenForm.base_fields}
    begun |= {name: chosen[0] for name, chosen in begun.items() if name != "scopes"}
    form = TokenForm(user, request.POST if request.method == "POST" else None, begun)
    made, text = None, ""
    if request.method == "POST" and form.is_valid():
        try:
            made, text = issue_token(user, by=user, **form.cleaned_data)
            form = TokenForm(user)
        except UserError as error:
            form.add_error(None, str(error))
    context = {"form": form, "tokens": tokens_of(user), "made": made, "text": text}
    context["asks_first"] = not is_proved(request)
    response = render(request, "api/tokens.html", context, status=422 if form.errors else 200)
    add_never_cache_headers(response)
    return response


def _asked_for(sent: QueryDict) -> str:
    """Return what the form held, for the address of the page that goes on with it."""
    kept = [
        (name, chosen[:LONGEST_NAME])
        for name in TokenForm.base_fields
        for chosen in sent.getlist(name)
    ]
    return urlencode(kept[:_MOST_FIELDS])


@require_POST
def token_revoke(request: HttpRequest, number: int) -> HttpResponse:
    """End one of the user's own tokens."""
    token = get_object_or_404(tokens_of(request.user), pk=number)
    revoke(token, request.user)
    messages.success(request, f"{token.prefix} is revoked. Nothing works with it any more.")
    return redirect("tokens")
