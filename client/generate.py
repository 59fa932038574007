"""Write the client's models and operations from the stored schema of the REST interface.

`make client` runs it. A test holds that the modules are what it writes, so that they agree with the
schema. Nothing in them is changed by hand.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SCHEMA = FOLDER.parent / "tests/fairjudge_site/api/openapi.json"
PACKAGE = FOLDER / "fairjudge_client"
Json = dict[str, Any]

# The schema says only that such a field is text: a decimal number of which no digit is lost.
_DECIMALS = re.compile(
    r"(.+_)?usd(_.+)?|annotator_advantage|tie_margin|beta|bound|pass_mark|hours|minutes_per_vote"
)
_SIMPLE = {"boolean": "bool", "integer": "int", "null": "None", "number": "float", "string": "str"}
_ONE_OF = re.compile(r"\^\((\w*(?:\|\w*)+)\)\$")
_WRITTEN = "`make client` writes this module from the schema of the REST interface."


def python_type(schema: Json, name: str = "", *, prefix: str = "", is_answer: bool = True) -> str:
    """Return the annotation for a schema.

    Args:
        name: The field's name.
        prefix: What precedes the names of models.
        is_answer: False for what is sent, where numbers may be given in several ways.
    """
    again: Json = {"name": name, "prefix": prefix, "is_answer": is_answer}
    if "$ref" in schema:
        return _model_name(schema["$ref"].rpartition("/")[2], prefix)
    if "anyOf" in schema:
        kinds = list(dict.fromkeys(python_type(one, **again) for one in schema["anyOf"]))
        if not is_answer and {"float", "str"} <= set(kinds):
            kinds.insert(0, "Decimal")
        return " | ".join(kinds)
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(one) for one in schema['enum'])}]"
    if found := _ONE_OF.fullmatch(schema.get("pattern", "")):
        return f"Literal[{', '.join(json.dumps(one) for one in found[1].split('|'))}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{python_type(schema.get('items', {}), **again)}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {python_type(values, **again) if isinstance(values, dict) else 'Any'}]"
    if kind == "string" and is_answer:
        if schema.get("format") == "date-time":
            return "datetime"
        if _DECIMALS.fullmatch(name):
            return "Decimal"
    return _SIMPLE.get(kind or "", "Any")


def _model_name(name: str, prefix: str) -> str:
    paged = re.fullmatch(r"Page_(.+)_", name)
    if paged is None:
        return prefix + name
    row = "dict[str, Any]" if paged[1] == "dict_str__Any_" else prefix + paged[1]
    return f"{prefix}Page[{row}]"


def models(schema: Json) -> str:
    """Return the module of models: dataclasses of answers, and dictionaries of what is sent."""
    schemas = schema["components"]["schemas"]
    sent = set(_sent(schema))
    lines = [
        f'"""What the site answers, and what it is sent.\n\n{_WRITTEN}\n"""',
        "",
        "from __future__ import annotations",
        "",
        "import dataclasses",
        "from dataclasses import dataclass",
        "from datetime import datetime",
        "from decimal import Decimal",
        "from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar",
        "",
        'Row = TypeVar("Row")',
        "",
        "",
        "@dataclass(frozen=True, slots=True, kw_only=True)",
        "class Page(Generic[Row]):",
        '    """A page of a list. `next_cursor` is None on the last one."""',
        "",
        "    items: list[Row]",
        "    next_cursor: str | None = None",
    ]
    for name, model in sorted(schemas.items()):
        if not name.startswith("Page_"):
            lines += ["", "", *(_sent_model(name, model) if name in sent else _model(name, model))]
    return "\n".join(lines) + "\n"


def _sent(schema: Json) -> Iterator[str]:
    """Yield the names of models that are sent, and of those within them."""
    schemas, seen = schema["components"]["schemas"], set()

    def within(part: Any) -> Iterator[str]:
        for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(part)):
            if name not in seen:
                seen.add(name)
                yield name
                yield from within(schemas[name])

    for operations in schema["paths"].values():
        for operation in operations.values():
            yield from within(operation.get("requestBody", {}))


def _model(name: str, model: Json) -> Iterator[str]:
    yield "@dataclass(frozen=True, slots=True, kw_only=True)"
    yield f"class {name}:"
    yield from _docstring(model.get("description", ""), "    ")
    required = model.get("required", ())
    # The schema is sorted by name, but for this list: it has the order in which people read.
    for field in dict.fromkeys([*required, *model["properties"]]):
        schema = model["properties"][field]
        kind = python_type(schema, field)
        if field in required:
            yield f"    {field}: {kind}"
        elif schema.get("type") == "array":
            yield f"    {field}: {kind} = dataclasses.field(default_factory=list)"
        else:
            default = schema.get("default")
            if default is None and "None" not in kind.split(" | "):
                kind += " | None"
            yield f"    {field}: {kind} = {default!r}"
        yield from _docstring(schema.get("description", ""), "    ")


def _sent_model(name: str, model: Json) -> Iterator[str]:
    yield f"class {name}(TypedDict):"
    yield from _docstring(model.get("description", ""), "    ")
    for field, schema in model["properties"].items():
        kind = python_type(schema, field, is_answer=False)
        if field not in model.get("required", ()):
            kind = f"NotRequired[{kind}]"
        yield f"    {field}: {kind}"
        yield from _docstring(schema.get("description", ""), "    ")


def _docstring(text: str, indent: str) -> Iterator[str]:
    if not text:
        return
    lines = text.splitlines()
    if len(lines) == 1:
        yield f'{indent}"""{text}"""'
    else:
        yield f'{indent}"""{lines[0]}'
        yield from (f"{indent}{line}".rstrip() for line in lines[1:])
        yield f'{indent}"""'


def calls(schema: Json) -> str:
    """Return the module of requests: a function for each operation, by its name in the schema."""
    lines = [
        f'"""The request of each operation, by its name in the schema.\n\n{_WRITTEN}\n"""',
        "",
        "from __future__ import annotations",
        "",
        "from decimal import Decimal",
        "from typing import Any, Literal, Unpack",
        "from urllib.parse import quote",
        "",
        "from fairjudge_client import models as m",
        "from fairjudge_client.steps import Call",
    ]
    for path, method, operation in _operations(schema):
        lines += ["", "", *_call(path, method, operation)]
    lines += [
        "",
        "",
        "def _path(*parts: object) -> str:",
        "    # A slug with a slash in it would be another address.",
        '    return "".join(quote(str(part), safe="/" if n % 2 == 0 else "") '
        "for n, part in enumerate(parts))",
    ]
    return "\n".join(lines) + "\n"


def _operations(schema: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _call(path: str, method: str, operation: Json) -> Iterator[str]:
    required = [one for one in operation["parameters"] if one["in"] == "path"]
    query = [one for one in operation["parameters"] if one["in"] == "query"]
    content = operation.get("requestBody", {}).get("content", {})
    # JSON is one of several types that rows can have.
    body = {} if "text/csv" in content else content.get("application/json", {}).get("schema")
    answer = _answer(operation)
    arguments = [f"{one['name']}: {python_type(one['schema'], prefix='m.')}" for one in required]
    passed = [f"answer={answer}"]
    if content and not body:
        arguments.append("rows: Any")
        passed.append("rows=rows")
    named = [_query_argument(one) for one in query]
    if query:
        pairs = ", ".join("{0!r}: {0}".format(one["name"]) for one in query)
        passed.append(f"query={{{pairs}}}")
    if method != "GET":
        named.append("idempotency_key: str | None = None")
        passed.append("key=idempotency_key")
    if named:
        arguments += ["*", *named]
    if body:
        arguments.append(f"**body: Unpack[{python_type(body, prefix='m.')}]")
        passed.append("body=body")
    name = operation["operationId"]
    returned = "bytes" if answer == "None" else answer
    yield f"def {name}({', '.join(arguments)}) -> Call[{returned}]:"
    yield from _docstring(operation.get("description", ""), "    ")
    yield f"    return Call({name!r}, {method!r}, {_path(path)}, {', '.join(passed)})"


def _query_argument(one: Json) -> str:
    default = one["schema"].get("default")
    kind = python_type(one["schema"], is_answer=False)
    if default is None and "None" not in kind.split(" | "):
        kind += " | None"
    return f"{one['name']}: {kind} = {default!r}"


def _answer(operation: Json) -> str:
    """Return the type of the answer, or None where it isn't JSON."""
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            schema = response.get("content", {}).get("application/json", {}).get("schema")
            return python_type(schema, prefix="m.") if schema else "None"
    raise ValueError(f"{operation['operationId']} has no answer")


def _path(path: str) -> str:
    """Return code that makes the address: fixed parts and values take turns."""
    parts = re.split(r"\{(\w+)\}", path)
    return f"_path({', '.join(p if n % 2 else repr(p) for n, p in enumerate(parts) if p)})"


def api(schema: Json) -> str:
    """Return the module of the class whose methods are the operations."""
    lines = [
        f'"""Each operation as a method, by its name in the schema.\n\n{_WRITTEN}\n"""',
        "",
        "from fairjudge_client import calls",
        "from fairjudge_client.steps import F, Resource, operation",
        "",
        "",
        "class Api(Resource[F]):",
        '    """Every operation of the site. Each method sends one request."""',
        "",
    ]
    names = [one["operationId"] for _, _, one in _operations(schema)]
    return "\n".join([*lines, *(f"    {name} = operation(calls.{name})" for name in names)]) + "\n"


def formatted(source: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "F401,I"], ["format", "--quiet"]):
        name = ["--stdin-filename", str(PACKAGE / "written.py"), "-"]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *name],
            input=source, capture_output=True, text=True, check=True,
        )  # fmt: skip
        source = done.stdout
    return source


def modules(schema: Json) -> dict[Path, str]:
    """Return the text of each module that is written from the schema."""
    made = {"models.py": models(schema), "calls.py": calls(schema), "api.py": api(schema)}
    return {PACKAGE / name: formatted(source) for name, source in made.items()}


def main() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for path, text in modules(schema).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
