"""Strict readers of environment variables: a wrong value stops the start with an explanation."""

import importlib
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import validate_email

from judging.core.errors import UserError
from judging.llm.endpoint import Endpoint, EndpointError

WORDS = {"1": True, "true": True, "yes": True, "on": True}
WORDS |= {"0": False, "false": False, "no": False, "off": False}
# What Django accepts as the host of a request. A leading dot would allow all subdomains.
HOST = re.compile(r"[a-z0-9][a-z0-9.-]*|[a-f0-9]*:[a-f0-9.:]+")
# A run stores the name of its endpoint in a column of this length.
LONGEST_NAME = 80
# Anyone who guesses it reads the figures of all projects.
LEAST_TOKEN = 20
WORD = re.compile(r"[A-Za-z0-9._-]{0,40}")
PORT = re.compile(r"[0-9]{1,5}")
# How mail leaves: the port, and whether TLS is there at once or begins with STARTTLS.
SMTP = {"smtp": (25, False, False), "submission": (587, False, True), "smtps": (465, True, False)}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Keys of endpoints that a page names. Shorter values would blank half of the log.
OTHER_KEY = re.compile(r"(?!FAIRJUDGE_|DJANGO_|AWS_)[A-Z][A-Z0-9_]*_(KEY|TOKEN)")
LEAST_KEY = 8
# Any of these sends traces.
TRACED_TO = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
# Identity providers. A name is part of an address, and the database keeps issuers.
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
LONGEST_ISSUER = 300
SCOPES = ["openid", "profile", "email"]
PROVIDER_TEXTS = {"name", "label", "issuer", "client_id", "secret", "groups"}
PROVIDER_FLAGS = {"second_factor", "trust_mail"}
# What a group may give: a right on the whole site, or a role in one project.
RIGHT = re.compile(
    r"researcher|operator|[-a-zA-Z0-9_]{1,80}:(?:owner|researcher|reviewer|observer|annotator)"
)
PROVIDER_SHAPE = (
    'it must be a JSON list such as [{"name": "uni", "issuer": "https://login.uni.example", '
    '"client_id": "fairjudge", "secret": "UNI_SECRET"}]. The secret names a variable (it is not '
    "the secret itself). docs/environment.md lists the other keys"
)


class SettingError(ImproperlyConfigured):
    """An environment variable has a value that can't be used."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(
            f"{name} is not usable: {expected.removesuffix('.')}. Correct it and start again."
        )


FILES_SHAPE = (
    "it must be folder, database, a folder such as /mnt/fairjudge, or the bucket of an object "
    "storage such as s3://bucket/fairjudge?endpoint=https://host&region=eu-1"
)
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class FilesPlace:
    """Where files are kept: `folder`, `database` or `s3`, with what the store is told of it."""

    place: str
    folder: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_elsewhere(self) -> bool:
        """Return True if neither the data folder nor the database holds the files."""
        return self.place == "s3"


class Environment:
    """Reads variables by name; an empty variable counts as unset."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables

    def text(self, name: str, default: str = "") -> str:
        return self.variables.get(name, "").strip() or default

    def flag(self, name: str, default: bool = False) -> bool:
        word = self.text(name).lower()
        if not word:
            return default
        if word not in WORDS:
            raise SettingError(name, "it must be one of 1, true, yes, on, 0, false, no, off")
        return WORDS[word]

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            raise SettingError(name, f"it must be a whole number, not {text!r}") from None
        if not least <= number <= most:
            raise SettingError(name, f"it must be between {least} and {most}, not {number}")
        return number

    def choice(self, name: str, default: str, *words: str) -> str:
        word = self.text(name, default).upper()
        if word not in words:
            raise SettingError(name, f"it must be one of {', '.join(words)}")
        return word

    def word(self, name: str) -> str:
        """Return a short name of ASCII letters, digits and - _ . or "" if none is set."""
        text = self.text(name)
        if not WORD.fullmatch(text):
            raise SettingError(name, "it must have up to 40 ASCII letters, digits, - _ or .")
        return text

    def secret(self, name: str, kept: Path) -> str:
        """Return the secret that is set, or else the one in the file `kept`."""
        try:
            secret = self.text(name) or kept_secret(kept)
        except OSError as error:
            raise SettingError(name, f"{kept} cannot be kept ({error.strerror})") from None
        if len(secret) < 50:
            raise SettingError(name, "it must have 50 characters or more")
        return secret

    def folder(self, name: str, default: Path) -> Path:
        """Return the folder. If it is missing, create it, closed to other users."""
        path = self.path(name, self.text(name) or str(default))
        made(name, path)
        if not os.access(path, os.W_OK | os.X_OK):
            raise SettingError(name, f"{path} cannot be written to")
        closed_to_others(name, path)
        return path

    def files(self, name: str, default: str) -> FilesPlace:
        """Return where the site keeps uploads and what it makes of data."""
        text = self.text(name, default)
        if text in ("folder", "database"):
            return FilesPlace(text)
        if text.startswith("/"):
            return FilesPlace("folder", self.folder(name, Path(text)))
        try:
            parts = urlsplit(text)
            told = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
            bucket, inside = parts.hostname or "", parts.path.strip("/")
        except ValueError:
            raise SettingError(name, FILES_SHAPE) from None
        known = told.keys() <= {"endpoint", "region"} and all(told.values())
        if parts.scheme != "s3" or not known or not BUCKET.fullmatch(bucket) or parts.username:
            raise SettingError(name, FILES_SHAPE)
        options = {"bucket_name": bucket, "location": inside}
        options |= {"region_name": told.get("region"), "default_acl": None}
        if endpoint := told.get("endpoint"):
            # Servers of one's own seldom have a name for each bucket.
            options |= {"endpoint_url": split_url(name, endpoint).geturl()}
            options |= {"addressing_style": "path"}
        return FilesPlace("s3", options=options)

    def file(self, name: str) -> Path | None:
        return self.existing(name, "file", os.path.isfile)

    def existing_folder(self, name: str) -> Path | None:
        return self.existing(name, "folder", os.path.isdir)

    def existing(self, name: str, kind: str, is_one: Callable[[Path], bool]) -> Path | None:
        text = self.text(name)
        if not text:
            return None
        path = self.path(name, text)
        if not is_one(path):
            raise SettingError(name, f"there is no {kind} {path}")
        return path

    def path(self, name: str, text: str) -> Path:
        try:
            return Path(text).expanduser().resolve()
        except RuntimeError as error:
            raise SettingError(name, f"{text} leads nowhere ({error})") from None

    def origin(self, name: str, default: str) -> str:
        """Return scheme, host and port of a site, without a path."""
        text = self.text(name, default).rstrip("/")
        parts = split_url(name, text)
        if parts.path or parts.query or parts.fragment or parts.username:
            raise SettingError(name, "it must be an address without a path, such as https://host")
        if not HOST.fullmatch(parts.hostname or ""):
            raise SettingError(
                name, f"{parts.hostname!r} is no host: letters, digits, dots and hyphens, or an IP"
            )
        # Browsers write it in lower case.
        return text.lower()

    def base_url(self, name: str, default: str) -> str:
        text = self.text(name, default)
        check_base_url(name, text)
        return text

    def port(self, name: str) -> int | None:
        """Return the port of an address. Errors don't show the address, which may hold secrets."""
        try:
            return urlsplit(self.text(name)).port
        except ValueError:
            raise SettingError(name, "its port must be a number from 0 to 65535") from None

    def set_of(self, names: Iterable[str]) -> str:
        """Return the first of these variables that is set, or ""."""
        return next((name for name in names if self.text(name)), "")

    def traces(self) -> str:
        """Return the name of the service that is traced, or "" if no collector is named."""
        to = self.set_of(TRACED_TO)
        off = self.flag("OTEL_SDK_DISABLED") or self.text("OTEL_TRACES_EXPORTER") == "none"
        if not to or off:
            return ""
        split_url(to, self.text(to))
        for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
            if self.text(name, "http/protobuf") != "http/protobuf":
                raise SettingError(name, "FairJudge sends traces by http/protobuf only")
        return self.text("OTEL_SERVICE_NAME", "fairjudge")

    def require(self, name: str, package: str, extra: str) -> None:
        """Refuse a setting whose driver is not installed."""
        try:
            importlib.import_module(package)
        except ImportError:
            raise SettingError(
                name,
                f"it needs the package {package}, which is not installed. Install it with: "
                f"pip install 'fairjudge[{extra}]'",
            ) from None

    def address(self, name: str, default: str) -> str:
        """Return HOST:PORT, on which the site listens."""
        text = self.text(name, default)
        host, _, port = text.rpartition(":")
        if not host or not PORT.fullmatch(port) or int(port) > 65535:
            raise SettingError(name, f"it must be HOST:PORT, not {text!r}")
        return text

    def mail(self, name: str) -> dict[str, object]:
        """Return Django's settings for mail, or {} if none is set. Errors don't show a password."""
        text = self.text(name)
        if not text:
            return {}
        try:
            parts = urlsplit(text)
            port, host = parts.port, parts.hostname or ""
        except ValueError:
            # Without the cause, which would show the address with its password.
            raise SettingError(name, "its host or its port can't be read") from None
        if parts.scheme == "console":
            return {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
        if parts.scheme == "file" and not parts.netloc and parts.path.strip("/"):
            folder = self.path(name, unquote(parts.path))
            made(name, folder)
            backend = "django.core.mail.backends.filebased.EmailBackend"
            return {"EMAIL_BACKEND": backend, "EMAIL_FILE_PATH": str(folder)}
        if (
            parts.scheme not in SMTP
            or not HOST.fullmatch(host)
            or parts.path.strip("/")
            or parts.query
            or parts.fragment
        ):
            raise SettingError(
                name,
                "it must be submission://user:password@host, smtps://user:password@host, "
                "smtp://host, file:///folder or console://. In a user name or a password, write "
                "%40 for @, %2F for / and %23 for #",
            )
        usual, ssl, starttls = SMTP[parts.scheme]
        return {
            "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
            "EMAIL_HOST": host,
            "EMAIL_PORT": port or usual,
            "EMAIL_HOST_USER": unquote(parts.username or ""),
            "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
            "EMAIL_USE_SSL": ssl,
            "EMAIL_USE_TLS": starttls,
        }

    def sender(self, name: str, default: str) -> str:
        """Return the address that mails come from."""
        text = self.text(name)
        if not text:
            return default
        try:
            validate_email(text)
        except ValidationError:
            raise SettingError(name, f"{text!r} is no mail address") from None
        return text

    def addresses(self, name: str) -> list[str]:
        """Return addresses of mail, separated by commas."""
        mails = [part.strip() for part in self.text(name).split(",") if part.strip()]
        for text in mails:
            try:
                validate_email(text)
            except ValidationError:
                raise SettingError(name, f"{text!r} is no mail address") from None
        return mails

    def hook(self, name: str) -> str:
        """Return an address that is posted to, or "". It may hold a secret, so it isn't shown."""
        text = self.text(name)
        if not text:
            return ""
        # It loads aiohttp, which takes a while at each start.
        from judging.core.outbound import check_url

        try:
            check_url(text, {urlsplit(text).netloc.lower(), urlsplit(text).hostname or ""})
        except (UserError, ValueError) as error:
            raise SettingError(name, str(error)) from None
        return text

    def networks(self, name: str) -> list[IPv4Network | IPv6Network]:
        """Return addresses and networks, separated by commas."""
        ranges = []
        for text in filter(None, (part.strip() for part in self.text(name).split(","))):
            try:
                ranges.append(ip_network(text))
            except ValueError:
                raise SettingError(
                    name, f"{text!r} is no IP address or network, such as 10.0.0.7 or 10.0.0.0/24"
                ) from None
        return ranges

    def token(self, name: str) -> str:
        """Return a token of the operator's own making, or "" if none is set."""
        text = self.text(name)
        if text and (len(text) < LEAST_TOKEN or not text.isascii() or " " in text):
            raise SettingError(
                name, f"it must have {LEAST_TOKEN} ASCII characters or more, no blank"
            )
        return text

    def hosts(self, name: str) -> frozenset[str]:
        """Return hosts, each with a port or without one, as they stand in addresses."""
        entries = self.text(name).lower().replace(",", " ").split()
        for entry in entries:
            try:
                parts = urlsplit(f"//{entry}")
                usable = f"//{entry}" == parts.geturl() and parts.netloc == entry and parts.hostname
                _ = parts.port
            except ValueError:
                usable = None
            if not usable or not HOST.fullmatch(usable):
                raise SettingError(
                    name, f"it must list hosts such as hooks.lan, 10.0.0.5:8443, not {entry!r}"
                )
        return frozenset(entries)

    def endpoints(self, name: str) -> dict[str, dict[str, str]]:
        """Return the endpoints by name, each with its base URL and the variable of its key."""
        shape = (
            'it must be a JSON list such as [{"name": "lab", "base_url": "http://host/v1", '
            f'"key": "LAB_KEY"}}]. The name has at most {LONGEST_NAME} characters. The key names a '
            "variable (it is not the key itself) and may be left out"
        )
        listed = self.json_list(name, shape)
        endpoints: dict[str, dict[str, str]] = {}
        for entry in listed:
            if not is_endpoint(entry):
                raise SettingError(name, shape)
            if entry["name"] in endpoints or entry["name"] in ("default", "local"):
                raise SettingError(name, f"the name {entry['name']!r} is taken")
            check_base_url(name, entry["base_url"])
            endpoints[entry["name"]] = {
                "base_url": entry["base_url"],
                "key_variable": entry.get("key", ""),
            }
        return endpoints

    def other_keys(self) -> dict[str, str]:
        """Return the variables that hold keys of others, by their names: LAB_KEY, HF_TOKEN."""
        return {
            name: self.text(name)
            for name in self.variables
            if OTHER_KEY.fullmatch(name) and len(self.text(name)) >= LEAST_KEY
        }

    def providers(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the identity providers for single sign-on by name, with all their settings."""
        listed = self.json_list(name, PROVIDER_SHAPE)
        providers: dict[str, dict[str, Any]] = {}
        for entry in listed:
            if not is_provider(entry):
                raise SettingError(name, PROVIDER_SHAPE)
            if entry["name"] in providers:
                raise SettingError(name, f"the name {entry['name']!r} is taken")
            issuer = split_url(name, entry["issuer"])
            if issuer.scheme != "https" and issuer.hostname not in ("127.0.0.1", "localhost"):
                raise SettingError(name, f"the issuer {entry['issuer']!r} must begin with https://")
            usual = {"label": entry["name"], "secret": "", "domains": [], "groups": "groups"}
            usual |= {"roles": {}, "second_factor": False, "trust_mail": False, "scopes": SCOPES}
            providers[entry["name"]] = usual | entry | {"issuer": entry["issuer"].rstrip("/")}
        return providers

    def json_list(self, name: str, shape: str) -> list[Any]:
        try:
            listed = json.loads(self.text(name, "[]"))
        except (ValueError, RecursionError):
            raise SettingError(name, shape) from None
        if not isinstance(listed, list):
            raise SettingError(name, shape)
        return listed


def is_provider(entry: object) -> bool:
    """Return True if it has the keys of a provider, each with a value that can be used."""
    if not isinstance(entry, dict) or not {"name", "issuer", "client_id"} <= entry.keys():
        return False
    texts = {key: value for key, value in entry.items() if key in PROVIDER_TEXTS}
    flags = [entry.get("second_factor", False), entry.get("trust_mail", False)]
    roles = entry.get("roles", {})
    return (
        entry.keys() <= PROVIDER_TEXTS | {"domains", "scopes", "roles", *PROVIDER_FLAGS}
        and all(
            isinstance(text, str) and 0 < len(text) <= LONGEST_ISSUER for text in texts.values()
        )
        and SLUG.fullmatch(entry["name"]) is not None
        and VARIABLE.fullmatch(entry.get("secret", "KEY")) is not None
        and all(isinstance(flag, bool) for flag in flags)
        and all(are_texts(entry.get(key, [])) for key in ("domains", "scopes"))
        and isinstance(roles, dict)
        and all(name == name.lower() for name in roles if name.startswith("@"))
        and all(are_texts(rights) for rights in roles.values())
        and all(RIGHT.fullmatch(right) for rights in roles.values() for right in rights)
    )


def are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def is_endpoint(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and {"name", "base_url"} <= entry.keys() <= {"name", "base_url", "key"}
        and all(isinstance(value, str) and value for value in entry.values())
        and entry["name"].strip() == entry["name"]
        and entry["name"].isprintable()
        and len(entry["name"]) <= LONGEST_NAME
        and VARIABLE.fullmatch(entry.get("key", "KEY")) is not None
    )


def split_url(name: str, text: str):
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise SettingError(name, f"it must start with http:// or https:// and a host, not {text!r}")
    return parts


def check_base_url(name: str, text: str) -> None:
    try:
        Endpoint(name, text)
    except EndpointError as error:
        raise SettingError(name, str(error)) from None


def kept_secret(path: Path) -> str:
    """Return the secret in a file that only its owner can read. Create it on first use.

    A finished file is linked to the name. If several processes start at once, the first link wins,
    and all of them use the same secret.
    """
    if not path.exists():
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_urlsafe(48))
            os.link(name, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(name)
    return path.read_text().strip()


def closed_to_others(name: str, folder: Path) -> None:
    """Take the rights of other users from a folder that was made by hand. Its group keeps its own.

    A folder of everybody, such as /tmp, is left alone: there, each user owns their files.
    """
    mode = folder.stat().st_mode
    if not mode & stat.S_IRWXO or mode & stat.S_ISVTX:
        return
    try:
        folder.chmod(stat.S_IMODE(mode) & ~stat.S_IRWXO)
    except OSError:
        raise SettingError(
            name, f"other users of this machine may read {folder}. Run: chmod o-rwx '{folder}'"
        ) from None


def made(name: str, *folders: Path) -> None:
    """Create the missing ones of these folders, closed to other users."""
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(name, f"{folder} cannot be made ({error.strerror})") from None
