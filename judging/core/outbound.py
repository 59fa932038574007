"""Requests to addresses that users name: where they may lead, and how much of an answer is read.

A site may reach machines that its users may not. So a name is resolved for each request, all its
addresses have to be public, and the connection goes to the addresses that were checked: a name that
changes in between leads nowhere else. No redirect is followed and no proxy is used. The operator
names the hosts to which none of this applies.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from judging.core.bounds import MEBIBYTE
from judging.core.errors import UserError

LONGEST_URL = 500
# Addresses of files in a cloud hold a signature.
LONGEST_URL_TO_READ = 2_000
# For the whole request, from the name to the end of the answer.
SECONDS = 10.0
_MOST_READ = 1000
_PIECE = 1 << 16
_NETWORK = ipaddress.IPv6Network
# IPv6 addresses that lead to IPv4 ones, which are hidden in their last 32 bits.
_TRANSLATED = _NETWORK("64:ff9b::/96")
_UNUSABLE_IPV6 = (_NETWORK("64:ff9b:1::/48"), _NETWORK("2001::/32"), _NETWORK("2002::/16"))


class Unreachable(Exception):
    """No answer came. The sentence says why."""


@dataclass(frozen=True)
class Receipt:
    """A status, and the beginning of what came with it."""

    status: int
    text: str


def check_url(url: str, allowed: Collection[str], longest: int = LONGEST_URL) -> SplitResult:
    """Return the parts of an address that requests may go to, as far as it can be told unresolved.

    Args:
        allowed: Hosts, each as `host` or `host:port`, that may be private.

    Raises:
        UserError: it is no such address.
    """
    shape = "Give an address such as https://example.org/hook."
    if len(url) > longest or not url.isascii() or not url.isprintable() or " " in url:
        raise UserError(f"The address has at most {longest} ASCII characters. {shape}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise UserError(f"This address can't be read. {shape}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(f"The address must begin with https:// and a host. {shape}")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise UserError(f"The address can't hold a user, a password or a “#”. {shape}")
    loopback = _is_loopback(host)
    if parts.scheme == "http" and not loopback:
        raise UserError(
            "Only https is possible, except to this machine itself: anybody on the way could read "
            "and change what is sent over http."
        )
    address = _address(host)
    if not is_allowed(parts, allowed) and (loopback or (address and not is_public(address))):
        raise UserError(_refused(host))
    return parts


def is_allowed(parts: SplitResult, allowed: Collection[str]) -> bool:
    """Return True if the operator named this host, with its port or without one."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return not {host, f"{host}:{port}"}.isdisjoint(allowed)


def is_public(text: str) -> bool:
    """Return True if an IP address belongs to the public internet."""
    # An IPv6 address may end with its zone, as in fe80::1%eth0.
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        if address in _TRANSLATED:
            return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)))
        if any(address in network for network in _UNUSABLE_IPV6) or address.is_site_local:
            return False
    # For Python, multicast addresses are global, too.
    return address.is_global and not address.is_multicast and not address.is_reserved


def post(url: str, body: bytes, headers: Mapping[str, str], allowed: Collection[str]) -> Receipt:
    """Send a POST request, and return the answer, whatever its status.

    Raises:
        Unreachable: the address is refused, or no answer came in time.
    """
    try:
        parts = check_url(url, allowed)
    except UserError as error:
        raise Unreachable(str(error)) from None
    return asyncio.run(_post(parts, body, headers, is_allowed(parts, allowed)))


def get(url: str, allowed: Collection[str], largest: int) -> bytes:
    """Return what an address gives to a GET request.

    Args:
        largest: the most bytes that are read.

    Raises:
        Unreachable: the address is refused, or no whole answer of status 200 came in time.
    """
    try:
        parts = check_url(url, allowed, LONGEST_URL_TO_READ)
    except UserError as error:
        raise Unreachable(str(error)) from None
    return asyncio.run(_get(parts, largest, is_allowed(parts, allowed)))


async def _get(parts: SplitResult, largest: int, may_be_private: bool) -> bytes:
    async with _answer("GET", parts, may_be_private) as response:
        if response.status != 200:
            raise Unreachable(f"The answer has the status {response.status}.")
        body = bytearray()
        async for piece in response.content.iter_chunked(_PIECE):
            body += piece
            if len(body) > largest:
                raise Unreachable(f"It is larger than {largest / MEBIBYTE:g} MiB.")
        return bytes(body)


async def _post(
    parts: SplitResult, body: bytes, headers: Mapping[str, str], may_be_private: bool
) -> Receipt:
    async with _answer("POST", parts, may_be_private, data=body, headers=headers) as response:
        return Receipt(response.status, await _beginning(response))


@asynccontextmanager
async def _answer(
    method: str, parts: SplitResult, may_be_private: bool, **sent: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    resolver = _Checked(may_be_private)
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        # Nothing is inflated, since a small answer could become gigabytes.
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
            ) as session,
            session.request(method, parts.geturl(), allow_redirects=False, **sent) as response,
        ):
            yield response
    except TimeoutError:
        raise Unreachable(f"No answer came within {SECONDS:.0f} seconds.") from None
    except aiohttp.ClientConnectorDNSError as error:
        raise Unreachable(_reason(error.os_error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unreachable(f"No answer came: {_reason(error)}") from None


async def _beginning(response: aiohttp.ClientResponse) -> str:
    """Return some of the body. The status counts, also if the body is cut off."""
    beginning = b""
    try:
        while len(beginning) < _MOST_READ and (piece := await response.content.read(_MOST_READ)):
            beginning += piece
    except (TimeoutError, aiohttp.ClientError, OSError):
        pass
    text = beginning[:_MOST_READ].decode(errors="replace")
    return "".join(letter if letter.isprintable() else " " for letter in text)


class _Checked(AbstractResolver):
    """Resolves a name once for each request, and gives out addresses that were checked."""

    def __init__(self, may_be_private: bool) -> None:
        self._may_be_private = may_be_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        try:
            resolved = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        except OSError as error:
            raise OSError(f"The host {host} can't be found: {error.strerror}.") from None
        # An IPv6 address without a scope of its own has two more members in its tuple.
        addresses = [(kind, str(place[0])) for kind, _, _, _, place in resolved]
        if not addresses:
            raise OSError(f"The host {host} has no address.")
        if not self._may_be_private and not all(is_public(text) for _, text in addresses):
            raise OSError(_refused(host))
        return [
            ResolveResult(
                hostname=host, host=text, port=port, family=kind, proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, text in addresses
        ]  # fmt: skip

    async def close(self) -> None:
        """There is nothing to close."""


def _refused(host: str) -> str:
    return (
        f"The host {host} is in a private network. FairJudge sends there only if the operator "
        "lists it in FAIRJUDGE_WEBHOOK_HOSTS."
    )


def _address(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return ipaddress.ip_address(address).is_loopback if address else host == "localhost"


def _reason(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text if text.endswith(".") else f"{text}."
