"""A client that sends a token, for each of the cast."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from judging.projects.models import ApiToken
from judging.projects.tokens import SCOPES, issue_token


@dataclass
class TokenClient:
    """Sends requests with a token. `kept` is its row."""

    text: str
    kept: ApiToken | None = None

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        address = path if path.startswith("/api/") else f"/api/v1/{path}"
        sent: dict[str, Any] = {"headers": {"Authorization": f"Bearer {self.text}"} | headers}
        if isinstance(body, dict | list):
            sent |= {"data": json.dumps(body), "content_type": "application/json"}
        elif body is not None:
            kind = headers.get("Content-Type", "application/x-ndjson")
            sent |= {"data": body, "content_type": kind}
        return Client().generic(method, address, **sent)

    def get(self, path: str, **headers: str) -> Any:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.ask("POST", path, body, **headers)


@pytest.fixture
def token_for():
    """Make a client with a token for a user: `token_for(user, "read", project=…)`."""

    def make(user, *scopes, **options) -> TokenClient:
        kept, text = issue_token(user, "test", scopes or list(SCOPES), **options)
        return TokenClient(text, kept)

    return make
