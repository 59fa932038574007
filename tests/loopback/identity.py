"""An OpenID Connect provider on loopback: discovery, keys, codes with PKCE, and signed ID tokens.

It is as strict as a real one: it knows its client, the address to come back to, and the verifier of
each code, and gives a code's tokens once. What a test changes is what an attacker or a broken
provider would change.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "fairjudge", "a secret of the client"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Granted:
    """What a code stands for until it is used."""

    person: dict[str, Any]
    nonce: str
    challenge: str
    back_to: str


@dataclass
class IdentityProvider:
    """Logs in `person` without asking, as a provider does whose session is still open.

    change: gets the claims of an ID token before it is signed, and returns what is signed.
    sign: signs them; as a rule by RS256 with the key that is published.
    says: what `authorize` answers in place of a code, such as `access_denied`.
    listed: what discovery says otherwise.
    """

    person: dict[str, Any] = field(default_factory=dict)
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
    sign: Callable[[dict[str, Any]], str] | None = None
    says: str = ""
    listed: dict[str, Any] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.key, self.key_id = new_key(), "one"
        self._codes: dict[str, Granted] = {}
        self._tokens: dict[str, dict[str, Any]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                provider._get(self, parts.path, dict(parse_qsl(parts.query)))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
                provider._post(self, self.path, {name: v[0] for name, v in parse_qs(body).items()})

            def log_message(self, *args: Any) -> None:
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def replace_key(self) -> None:
        """From here on, tokens are signed with a new key, which has another id."""
        self.key, self.key_id = new_key(), secrets.token_hex(4)

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.key_id})

    def _discovery(self) -> dict[str, Any]:
        ends = ("authorization", "token", "userinfo")
        return {
            "issuer": self.issuer,
            **{f"{end}_endpoint": f"{self.issuer}/{end}" for end in ends},
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        } | self.listed

    def _keys(self) -> dict[str, Any]:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [public | {"kid": self.key_id, "alg": "RS256", "use": "sig"}]}

    def _get(self, handler: BaseHTTPRequestHandler, path: str, sent: dict[str, str]) -> None:
        if path == "/.well-known/openid-configuration":
            return _answer(handler, self._discovery())
        if path == "/keys":
            return _answer(handler, self._keys())
        if path == "/userinfo":
            kind, _, token = handler.headers.get("Authorization", "").partition(" ")
            if kind != "Bearer" or token not in self._tokens:
                return _answer(handler, {"error": "invalid_token"}, 401)
            return _answer(handler, self._tokens[token])
        if path == "/authorization":
            return self._authorize(handler, sent)
        return _answer(handler, {"error": "not_found"}, 404)

    def _authorize(self, handler: BaseHTTPRequestHandler, sent: dict[str, str]) -> None:
        self.asked.append(sent)
        wanted = sent.get("response_type") == "code" and sent.get("code_challenge_method") == "S256"
        scopes = sent.get("scope", "").split()
        if sent.get("client_id") != CLIENT or not wanted or "openid" not in scopes:
            return _answer(handler, {"error": "invalid_request"}, 400)
        back = {"state": sent["state"]}
        if self.says:
            back["error"] = self.says
        else:
            code = back["code"] = secrets.token_urlsafe()
            self._codes[code] = Granted(
                dict(self.person), sent["nonce"], sent["code_challenge"], sent["redirect_uri"]
            )
        handler.send_response(302)
        handler.send_header("Location", f"{sent['redirect_uri']}?{urlencode(back)}")
        handler.end_headers()
        return None

    def _post(self, handler: BaseHTTPRequestHandler, path: str, sent: dict[str, str]) -> None:
        if path != "/token":
            return _answer(handler, {"error": "not_found"}, 404)
        kind, _, login = handler.headers.get("Authorization", "").partition(" ")
        name, _, secret = base64.b64decode(login).decode().partition(":")
        if kind != "Basic" or (unquote(name), unquote(secret)) != (CLIENT, SECRET):
            return _answer(handler, {"error": "invalid_client"}, 401)
        granted = self._codes.pop(sent.get("code", ""), None)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            granted is None
            or sent.get("grant_type") != "authorization_code"
            or sent.get("redirect_uri") != granted.back_to
            or not hmac.compare_digest(challenge, granted.challenge)
        ):
            return _answer(handler, {"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300}
        claims |= {"nonce": granted.nonce} | granted.person
        token = secrets.token_urlsafe()
        self._tokens[token] = granted.person
        return _answer(
            handler,
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": 300,
                "id_token": (self.sign or self.signed)(self.change(claims)),
            },
        )


def _answer(handler: BaseHTTPRequestHandler, content: dict[str, Any], status: int = 200) -> None:
    body = json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
