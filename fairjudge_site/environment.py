"""Strict readers of the environment: a wrong value stops the start and says what is expected."""

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from judging.llm.endpoint import Endpoint, EndpointError

WORDS = {"1": True, "true": True, "yes": True, "on": True}
WORDS |= {"0": False, "false": False, "no": False, "off": False}


class SettingError(ImproperlyConfigured):
    """A variable of the environment holds something that cannot be used."""

    def __init__(self, name: str, expected: str) -> None:
        super().__init__(
            f"{name} is not usable: {expected.removesuffix('.')}. Correct it and start again."
        )


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

    def secret(self, name: str, kept: Path) -> str:
        """The secret that was set, or else the one that is kept in a file."""
        secret = self.text(name) or kept_secret(kept)
        if len(secret) < 50:
            raise SettingError(name, "it must have 50 characters or more")
        return secret

    def folder(self, name: str, default: Path) -> Path:
        """The folder, made when it is missing and closed to other users."""
        path = Path(self.text(name) or default).expanduser().resolve()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(name, f"{path} cannot be made ({error.strerror})") from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise SettingError(name, f"{path} cannot be written to")
        return path

    def file(self, name: str) -> Path | None:
        text = self.text(name)
        if not text:
            return None
        path = Path(text).expanduser().resolve()
        if not path.is_file():
            raise SettingError(name, f"there is no file {path}")
        return path

    def origin(self, name: str, default: str) -> str:
        """Scheme, host and port of a site, without a path."""
        text = self.text(name, default).rstrip("/")
        parts = split_url(name, text)
        if parts.path or parts.query or parts.fragment or parts.username:
            raise SettingError(name, "it must be an address without a path, such as https://host")
        return text

    def base_url(self, name: str, default: str) -> str:
        """The address of an API."""
        text = self.text(name, default)
        check_base_url(name, text)
        return text

    def address(self, name: str, default: str) -> str:
        """HOST:PORT to listen on."""
        text = self.text(name, default)
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise SettingError(name, f"it must be HOST:PORT, not {text!r}")
        return text

    def endpoints(self, name: str) -> dict[str, dict[str, str]]:
        """Endpoints by name, each with its base URL and the name of its key's variable."""
        shape = (
            'it must be a JSON list such as [{"name": "lab", "base_url": "http://host/v1", '
            '"key": "LAB_KEY"}], where key names a variable and may be left out'
        )
        try:
            listed = json.loads(self.text(name, "[]"))
        except ValueError:
            raise SettingError(name, shape) from None
        if not isinstance(listed, list):
            raise SettingError(name, shape)
        found: dict[str, dict[str, str]] = {}
        for entry in listed:
            if not is_endpoint(entry):
                raise SettingError(name, shape)
            if entry["name"] in found or entry["name"] in ("default", "local"):
                raise SettingError(name, f"the name {entry['name']!r} is taken")
            check_base_url(name, entry["base_url"])
            found[entry["name"]] = {
                "base_url": entry["base_url"],
                "key_variable": entry.get("key", ""),
            }
        return found


def is_endpoint(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and {"name", "base_url"} <= entry.keys() <= {"name", "base_url", "key"}
        and all(isinstance(value, str) and value for value in entry.values())
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
    """The secret in a file that only its owner reads, made on first use.

    Linking a finished file makes the first of several starting processes win, so that all of them
    use one secret.
    """
    if not path.exists():
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            os.link(name, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(name)
    return path.read_text().strip()
