"""JSON as the models have it, and values as JSON has them."""

import types
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


class NotReadable(Exception):
    """A value isn't what the schema says."""


@cache
def _hints(model: type) -> dict[str, Any]:
    return get_type_hints(model)


def read(kind: Any, value: Any) -> Any:
    """Return a JSON value as its type in the models has it. Fields that no model knows are left.

    Raises:
        NotReadable: The value isn't of this type.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or origin is Literal:
        return value
    if origin in (Union, types.UnionType):
        return _read_one_of(arguments, value)
    if origin is list:
        return [read(arguments[0], one) for one in _of_type(list, value)]
    if origin is dict:
        return {name: read(arguments[1], one) for name, one in _of_type(dict, value).items()}
    if origin is not None:
        # A page of rows is the only model that has a type of its own within.
        return origin(
            items=read(list[arguments[0]], _of_type(dict, value).get("items")),  # type: ignore[valid-type]
            next_cursor=value.get("next_cursor"),
        )
    if is_dataclass(kind):
        return _read_model(kind, _of_type(dict, value))
    return _read_simple(kind, value)


def _read_one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    for kind in kinds:
        if kind is not types.NoneType:
            try:
                return read(kind, value)
            except NotReadable:
                continue
    raise NotReadable(f"{value!r:.40} is not of the right type")


def _read_model(model: Any, value: dict[str, Any]) -> Any:
    hints, found = _hints(model), {}
    for each in fields(model):
        if each.name in value:
            found[each.name] = read(hints[each.name], value[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise NotReadable(f"{model.__name__} lacks {each.name}")
    return model(**found)


def _read_simple(kind: Any, value: Any) -> Any:
    try:
        if kind is datetime:
            return datetime.fromisoformat(_of_type(str, value))
        if kind is Decimal:
            return Decimal(_of_type(str, value))
    except (ValueError, InvalidOperation):
        raise NotReadable(f"{value!r:.40} is no {kind.__name__}") from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _of_type(kind, value)


def _of_type(kind: Any, value: Any) -> Any:
    is_flag = isinstance(value, bool) and kind is not bool
    if not isinstance(value, kind) or is_flag:
        raise NotReadable(f"{value!r:.40} is no {kind.__name__}")
    return value


def plain(value: Any) -> Any:
    """Return a value that JSON doesn't have as one that it has, as `json.dumps(default=…)`.

    Raises:
        TypeError: JSON has nothing like it.
    """
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    # Numbers of NumPy, which cells of DataFrames are.
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} can't be sent as JSON")
