"""An endpoint: a base URL, and the name of the variable that holds its key."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# What people paste from a vendor's page or from a curl command.
OPERATIONS = ("/chat/completions", "/completions", "/models", "/responses", "/embeddings")


class EndpointError(ValueError):
    """The address can't be used. The message says what to write instead."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    base_url: str
    key_variable: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", normalised(self.base_url))

    @property
    def is_local(self) -> bool:
        return self.name == "local"

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the key's value. It is read when a client is made, and kept nowhere else."""
        if self.key_variable is None:
            return None
        key = environ.get(self.key_variable, "").strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise EndpointError(
                f"The key in {self.key_variable} holds characters that no key has. Nothing was "
                "sent. Set the variable again, without quotation marks or line breaks."
            )
        return key or None


def normalised(url: str) -> str:
    """Return one spelling for `host`, `host/v1`, `host/v1/` and a pasted `…/chat/completions`."""
    parts = _split(url.strip())
    path = parts.path.rstrip("/")
    for operation in OPERATIONS:
        path = path.removesuffix(operation)
    # Most servers have their paths below /v1, which people leave out.
    path = path.rstrip("/") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc.lower(), path, parts.query, ""))


def _split(url: str) -> SplitResult:
    if "://" not in url:
        # Unless someone writes http, a key must not cross a network unencrypted. Servers on this
        # machine seldom have a certificate.
        scheme = "http" if url.startswith(LOOPBACK) else "https"
        url = f"{scheme}://{url}"
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.scheme not in ("http", "https") or any(c.isspace() for c in url):
        raise EndpointError(
            "The endpoint's address is not a web address. Write it like https://host/v1."
        )
    _refuse_secrets(parts)
    return parts


def _refuse_secrets(parts: SplitResult) -> None:
    """Refuse an address that may hold a secret, as addresses are shown and stored."""
    # Azure's addresses need their api-version, which is no secret.
    others = [p for p in parts.query.split("&") if p and not p.startswith("api-version=")]
    if "@" in parts.netloc or others:
        raise EndpointError(
            "The endpoint's address holds a user, a password or a parameter. Addresses are shown "
            "on pages and stored. Leave it out, and name the variable that holds the key instead."
        )
