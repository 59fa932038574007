"""Walks every address with every method, as everybody, with the ids of another project put in.

What must never happen, whoever asks: an answer with a text of a project that isn't theirs, a change
in a row of such a project, an error of the server, or an answer to somebody who may not know.
Operations under /api/v1 are walked as soon as they are mounted there: nothing has to be listed.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from django.apps import apps
from django.db import models, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.urls.converters import IntConverter

from judging.projects.models import Project

METHODS = ("get", "head", "options", "post", "put", "patch", "delete")
API = "api/v1/"
# In every text of the other project, and nowhere else.
CANARY = "canary-of-another-project"
OUR_APPS = ("judging", "annotation")


@dataclass
class Findings:
    """What the walk did, and what it found: a sentence each."""

    requests: int = 0
    operations: int = 0
    holes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Target:
    """One address: a route with the arguments that lead to something of a project."""

    name: str
    arguments: dict[str, Any]
    make: Callable[[dict[str, Any]], str]

    def address(self, **swapped: Any) -> str:
        return self.make(self.arguments | swapped)


def named(name: str, arguments: dict[str, Any]) -> Target:
    return Target(name, arguments, lambda given: reverse(name, kwargs=given))


def api_targets(slug: str, known: dict[str, Any]) -> list[Target]:
    """Return every route under /api/v1 that Django knows, with arguments of this project."""
    found = []
    for route, converters in routes(get_resolver().url_patterns):
        if route.startswith(API):
            arguments = {
                name: slug if name in ("slug", "project") else known.get(name, value_for(converter))
                for name, converter in converters.items()
            }
            found.append(Target(route, arguments, lambda given, route=route: filled(route, given)))
    return found


def routes(patterns: Sequence[Any], before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for pattern in patterns:
        route = before + str(pattern.pattern).lstrip("^").rstrip("$")
        if isinstance(pattern, URLResolver):
            for inner, converters in routes(pattern.url_patterns, route):
                yield inner, dict(pattern.pattern.converters) | converters
        elif isinstance(pattern, URLPattern):
            yield route, dict(pattern.pattern.converters)


def value_for(converter: Any) -> Any:
    return 1 if isinstance(converter, IntConverter) else "1"


def filled(route: str, arguments: dict[str, Any]) -> str:
    parts = []
    for part in route.split("<")[1:]:
        parts.append(part.split(">")[0])
    for part in parts:
        route = route.replace(f"<{part}>", str(arguments[part.rpartition(":")[2]]))
    return "/" + route


def paths_to_project() -> dict[type[models.Model], str]:
    """Return, for each table of ours, the lookup from a row to its project."""
    found: dict[type[models.Model], str] = {Project: "pk"}
    ours = [model for model in apps.get_models() if model._meta.app_label in OUR_APPS]
    grew = True
    while grew:
        grew = False
        for model in ours:
            for link in model._meta.fields:
                known = found.get(link.related_model) if link.is_relation else None  # type: ignore[arg-type]
                if model not in found and known:
                    found[model] = link.name if known == "pk" else f"{link.name}__{known}"
                    grew = True
    return found


def rows_of(project: Project, paths: dict[type[models.Model], str]) -> str:
    """Return a hash of all rows of a project."""
    taken = hashlib.sha256()
    for model, path in paths.items():
        rows = model._default_manager.filter(**{path: project.pk}).order_by("pk").values_list()
        taken.update(repr((model.__name__, list(rows))).encode())
    return taken.hexdigest()


class Walk:
    """Asks for targets in every way, and rolls back what each request changed."""

    def __init__(self, users: dict[str, Any], other: Project, strangers: Sequence[str]) -> None:
        self.users, self.other, self.strangers = users, other, strangers
        self.paths = paths_to_project()
        self.rows = rows_of(other, self.paths)
        self.found = Findings()
        # An error of a view is a finding of the walk, and is not to end it.
        self.client = Client(raise_request_exception=False)

    def walk(
        self,
        targets: Sequence[Target],
        others: dict[str, Any],
        methods: Sequence[str] = METHODS,
    ) -> Findings:
        """Ask for each target as it is, and with some arguments of the other project put in."""
        for target in targets:
            self.found.operations += 1
            for swapped in swaps(target.arguments, others.get(target.name, {})):
                for role in self.users:
                    for method in methods:
                        self.ask(target, swapped, role, method)
        return self.found

    def ask(self, target: Target, swapped: dict[str, Any], role: str, method: str) -> None:
        address = target.address(**swapped)
        with transaction.atomic():
            self.client.logout()
            if self.users[role] is not None:
                self.client.force_login(self.users[role])
            answer = getattr(self.client, method)(address)
            content = b"".join(answer) if answer.streaming else answer.content
            changed = method not in ("get", "head", "options") and self.changed()
            transaction.set_rollback(True)
        self.found.requests += 1
        said = f"{role} {method}s {address} ({target.name}): "
        # With 503 these say that no worker runs here, which is true.
        if answer.status_code >= 500 and target.name not in ("healthz", "readyz"):
            self.found.holes.append(f"{said}the server fails with {answer.status_code}")
        if CANARY.encode() in content and role in self.strangers:
            self.found.holes.append(f"{said}shows another project's text")
        if changed and role in self.strangers:
            self.found.holes.append(f"{said}changes another project")
        if self.must_not_know(target, swapped, role) and answer.status_code < 300:
            self.found.holes.append(f"{said}is let in with {answer.status_code}")

    def changed(self) -> bool:
        return rows_of(self.other, self.paths) != self.rows

    def must_not_know(self, target: Target, swapped: dict[str, Any], role: str) -> bool:
        """Whoever is no member of a project gets nothing of what is named by its slug."""
        if "slug" not in target.arguments and "project" not in target.arguments:
            return False
        to_other = bool({"slug", "project"} & swapped.keys())
        if role == "outsider":
            return not to_other
        return role == "nobody" or (to_other and role in self.strangers)


def swaps(own: dict[str, Any], others: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return every choice of arguments to replace by those of the other project."""
    differing = [name for name in own if name in others and others[name] != own[name]]
    for count in range(len(differing) + 1):
        for names in combinations(differing, count):
            yield {name: others[name] for name in names}


def chosen(targets: list[Target], most: int | None, seed: int) -> list[Target]:
    """Return all targets, or as many of them as a short test takes."""
    return targets if most is None else random.Random(seed).sample(targets, most)
