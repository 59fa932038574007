"""The schema that clients were built against, and what would break them.

After a change that breaks nobody, write it again:
`python -m tests.fairjudge_site.api.stored_schema`.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("openapi.json")
Json = dict[str, Any]


def breaking_changes(before: Json, now: Json) -> list[str]:
    """Say what a client of the schema `before` can no longer rely on."""
    found = []
    for path, operations in before["paths"].items():
        for method, old in operations.items():
            new = now["paths"].get(path, {}).get(method)
            name = f"{method.upper()} {path}"
            if new is None:
                found.append(f"{name} is gone")
                continue
            found += [f"{name}: {change}" for change in _of_operation(old, new)]
    schemas = now["components"]["schemas"]
    for name, old in before["components"]["schemas"].items():
        if name not in schemas:
            found.append(f"schema {name} is gone")
        else:
            found += [f"schema {name}: {change}" for change in _of_object(old, schemas[name])]
    return found


def _of_operation(old: Json, new: Json) -> Iterator[str]:
    for key in ("operationId", "x-scope"):
        if old[key] != new[key]:
            yield f"{key} was {old[key]}"
    named = {(one["in"], one["name"]): one for one in new["parameters"]}
    known = {(one["in"], one["name"]) for one in old["parameters"]}
    for one in old["parameters"]:
        if (one["in"], one["name"]) not in named:
            yield f"parameter {one['name']} is gone"
        else:
            later = named[one["in"], one["name"]]["schema"]
            yield from _of_type(f"parameter {one['name']}", one["schema"], later)
    for place, one in named.items():
        if one["required"] and place not in known:
            yield f"parameter {one['name']} is newly required"
    for status, answer in old["responses"].items():
        if status not in new["responses"]:
            yield f"status {status} is gone"
        elif not _describes(_bodies(answer), _bodies(new["responses"][status])):
            yield f"the body of status {status} has changed"
    if _bodies(old.get("requestBody", {})) != _bodies(new.get("requestBody", {})):
        yield "the body of the request has changed"


def _describes(old: Json, new: Json) -> bool:
    """The same, or objects that were not described before."""
    free = {"additionalProperties", "title", "type"}
    return old.keys() <= new.keys() and all(
        new[kind] == one
        or (isinstance(one, dict) and one.keys() == free and one["additionalProperties"] is True)
        for kind, one in old.items()
    )


def _bodies(holder: Json) -> Json:
    content = holder.get("content", {})
    return {kind: one["schema"].get("$ref") or one["schema"] for kind, one in content.items()}


def _of_object(old: Json, new: Json) -> Iterator[str]:
    fields = new.get("properties", {})
    for name, field in old.get("properties", {}).items():
        if name not in fields:
            yield f"field {name} is gone"
        else:
            yield from _of_type(f"field {name}", field, fields[name])
    # Clients need not send a field that they don't know, and may rely on one that always came.
    for name in set(new.get("required", ())) ^ set(old.get("required", ())):
        if name in old.get("properties", {}) or name in new.get("required", ()):
            is_new_answer = name not in old.get("properties", {}) and "Out" in old.get("title", "")
            if not is_new_answer:
                yield f"field {name} is required or not, other than before"


def _of_type(what: str, old: Json, new: Json) -> Iterator[str]:
    kinds = ("type", "format", "$ref", "anyOf", "items", "enum", "pattern", "default")
    for kind in kinds:
        if old.get(kind) != new.get(kind):
            yield f"{what} has another {kind}"
    for bound, is_tighter in (("maximum", int.__lt__), ("minimum", int.__gt__)):
        if bound in new and (bound not in old or is_tighter(int(new[bound]), int(old[bound]))):
            yield f"{what} takes less: {bound}"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from fairjudge_site.api.reference import document
    from fairjudge_site.api.urls import api

    text = json.dumps(document(api), indent=1, sort_keys=True, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
