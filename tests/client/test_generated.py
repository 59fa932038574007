"""The models and operations are those of the stored schema, and hold what the site answers."""

import ast
import inspect
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import fairjudge_client
import generate
import pytest
from fairjudge_client import AsyncFairJudge, FairJudge, Round, models
from fairjudge_client.api import Api
from fairjudge_client.reading import NotReadable, read
from fairjudge_client.steps import operation, signature_of
from pydantic import BaseModel

from fairjudge_site.api import (
    examples,
    people,
    problems,
    projects,
    rounds,
    runs,
    tables,
    verdicts,
    webhooks,
)

SCHEMA = json.loads(generate.SCHEMA.read_text(encoding="utf-8"))
PACKAGE = Path(fairjudge_client.__file__).parent
OPERATIONS = {
    one["operationId"]: (method.upper(), path)
    for path, methods in SCHEMA["paths"].items()
    for method, one in methods.items()
}


@pytest.mark.parametrize("path", sorted(generate.modules({**SCHEMA})), ids=lambda path: path.name)
def test_the_module_is_what_the_schema_gives(path):
    """Write it again by `make client`."""
    assert path.read_text(encoding="utf-8") == generate.modules(SCHEMA)[path]


def test_another_schema_gives_another_module():
    changed = json.loads(json.dumps(SCHEMA))
    changed["components"]["schemas"]["RunOut"]["properties"]["new_field"] = {"type": "integer"}
    assert "new_field: int" in generate.models(changed)


def test_every_operation_is_a_method_of_both_clients():
    assert {name for name in vars(Api) if isinstance(vars(Api)[name], operation)} == set(OPERATIONS)
    for name in OPERATIONS:
        method = getattr(Api, name)
        assert method.__name__ == name
        assert method.__doc__ == method.__wrapped__.__doc__


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_clients_have_the_same_names_and_arguments():
    assert public(FairJudge) == public(AsyncFairJudge)
    assert inspect.signature(FairJudge) == inspect.signature(AsyncFairJudge)


def server_models():
    modules = (
        examples,
        people,
        problems,
        projects,
        rounds,
        runs,
        tables,
        verdicts,
        webhooks,
    )
    for module in modules:
        for name, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, BaseModel) and hasattr(models, name):
                yield name, kind


def test_decimals_of_the_site_are_decimals_here_and_nothing_else_is():
    """The schema calls both text, so the generator knows them by their names."""
    found = 0
    for name, kind in server_models():
        ours = getattr(models, name)
        if not hasattr(ours, "__dataclass_fields__"):
            continue
        for field, info in kind.model_fields.items():
            there = "Decimal" in str(info.annotation)
            here = "Decimal" in str(inspect.get_annotations(ours)[field])
            assert there == here, f"{name}.{field}"
            found += there
    assert found >= 8


def test_models_keep_every_digit_and_leave_what_they_do_not_know():
    answer = {
        "examples": 2, "calls": 3, "calls_most": 4, "prompt_tokens": 5, "completion_tokens": 6,
        "usd": "0.12345678901234567890", "usd_most": None, "seconds": 3, "batch_hours": None,
        "model": "m", "endpoint": "e", "basis": "b", "frame": "", "reused": 0,
        "new_in_a_later_release": {"a": 1},
    }  # fmt: skip
    estimate = read(models.EstimateOut, answer)
    assert estimate.usd == Decimal("0.12345678901234567890")
    assert (estimate.usd_most, estimate.seconds) == (None, 3.0)
    for wrong in ({"calls": "3"}, {"calls": True}, {"usd": "much"}, {"usd": 1.5}):
        with pytest.raises(NotReadable):
            read(models.EstimateOut, answer | wrong)
    del answer["basis"]
    with pytest.raises(NotReadable, match="basis"):
        read(models.EstimateOut, answer)


def test_times_have_their_zone():
    decided = {
        "id": 1,
        "by": "olga",
        "external_id": "a",
        "label": "win",
        "reason": "So.",
        "decided_at": "2026-01-02T03:04:05Z",
    }
    made = read(models.DecisionOut, decided)
    assert made.decided_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_help_shows_each_setting_by_its_name():
    shown = inspect.signature(FairJudge("http://a.example", "fj_x").project("x").runs.start)
    assert {"k", "budget_usd", "idempotency_key"} <= set(shown.parameters)
    assert shown.return_annotation == "Run"
    decide = signature_of(Round.decide.body)
    assert decide.parameters["reason"].default is inspect.Parameter.empty


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module


def test_it_needs_nothing_but_httpx():
    names = {name.partition(".")[0] for path in PACKAGE.glob("*.py") for name in imported(path)}
    assert names - sys.stdlib_module_names == {"fairjudge_client", "httpx"}


def test_only_one_module_sends_anything():
    users = {path.name for path in PACKAGE.glob("*.py") if "httpx" in set(imported(path))}
    assert users == {"transport.py"}
