"""What a report is made of: its parts as JSON, its plots, and what a section reads for them.

Sections return frozen dataclasses whose fields are named as the keys of `report --json`
(docs/report.md). Pages, plots, sentences and the planner read these by attribute, and `to_json` is
the only place that turns them into JSON.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from judging.core.errors import UserError
from judging.core.formatting import NARROW_SPACE, count, decimals, interval, percent
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, exact_decimal
from judging.methods.intervals.estimates import optional as optional
from judging.methods.intervals.estimates import to_json as to_json

Json = dict[str, Any]


@dataclass(frozen=True)
class Sentence:
    """section: where the page shows what it is about. warns: it speaks against trust."""

    text: str
    section: str
    warns: bool = False


@dataclass(frozen=True)
class Number:
    """A value that has no interval and is no mean over examples, such as a ratio of widths."""

    value: float
    low: None = None
    high: None = None
    n: None = None


@dataclass(frozen=True)
class HollowEstimate(Estimate):
    """An estimate that does not answer about people. hollow: what its interval leaves out."""

    hollow: str = "Covers sampling error only, not judge bias on unreviewed pairs"

    def as_json(self) -> Json:
        return super().as_json() | {"hollow": self.hollow}


@dataclass(frozen=True)
class BandEstimate(Estimate):
    """A point of a curve. lower_band: the lower limit that holds at all points at once."""

    lower_band: float = 0.0

    def as_json(self) -> Json:
        return super().as_json() | {"lower_band": self.lower_band}


def extended(kind: type[Estimate], figure: Figure, **more: Any) -> Figure:
    """The figure as another kind of estimate; an Undefined stays one."""
    return figure if isinstance(figure, Undefined) else kind(**asdict(figure), **more)


def figure_from(stored: Json) -> Figure:
    """A figure that was stored as JSON."""
    if stored["value"] is None:
        return Undefined(stored["reason"])
    return Estimate(**stored)


def short(figure: Estimate) -> str:
    """`.732 [.69–.77]`: a figure within a sentence."""
    text = decimals(figure.value)
    if figure.low is None or figure.high is None:
        return text
    return f"{text} [{interval(figure.low, figure.high)}]"


def share(figure: Estimate, of: str = "") -> str:
    """`58 % of pairs (40–77 %, n = 60)`: a share within a sentence."""
    digits = int(figure.n >= 1000)
    limits = ""
    if figure.low is not None and figure.high is not None:
        limits = f"{interval(100 * figure.low, 100 * figure.high, digits)}{NARROW_SPACE}%, "
    whole = f" of {of}" if of else ""
    return f"{percent(figure.value, digits)}{whole} ({limits}n = {count(figure.n)})"


def json_schema(kind: Any, parts: Json, prefix: str = "Report") -> Json:
    """Return the JSON schema of what `to_json` makes of a value of this type.

    Args:
        parts: gets the schemas of dataclasses, by their name after the prefix. Others refer to
            them at `#/x-reports/`.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin in (Union, UnionType):
        kinds = [json_schema(branch, parts, prefix) for branch in inner]
        # Types may share a schema, such as a text and an Enum. It is listed once.
        return {"anyOf": [form for place, form in enumerate(kinds) if form not in kinds[:place]]}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": json_schema(inner[1], parts, prefix)}
    if origin is not None:
        items = [element for element in inner if element is not Ellipsis] or [Any]
        several = {"anyOf": [json_schema(element, parts, prefix) for element in items]}
        same = len(set(items)) == 1
        return {"type": "array", "items": json_schema(items[0], parts, prefix) if same else several}
    if kind in _JSON_TYPES:
        return {"type": _JSON_TYPES[kind]}
    # Estimates write their own fields, so that their schema is the one of a dataclass.
    if hasattr(kind, "as_json") and not issubclass(kind, Estimate | Undefined):
        return {"type": "object"}
    if not is_dataclass(kind):
        is_text = isinstance(kind, type) and issubclass(kind, Enum | Decimal)
        return {"type": "string"} if is_text else {}
    name = f"{prefix}{kind.__name__.removeprefix(prefix)}"
    if name not in parts:
        # Its own fields may refer to it.
        parts[name] = {}
        parts[name] = _schema_of_fields(kind, parts, prefix)
    return {"$ref": f"#/x-reports/{name}"}


_JSON_TYPES = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    dict: "object",
}  # fmt: skip


def _schema_of_fields(kind: Any, parts: Json, prefix: str) -> Json:
    if kind is Undefined:
        properties: Json = {"value": {"type": "null"}, "reason": {"type": "string"}}
        return {"type": "object", "properties": properties, "required": list(properties)}
    hints = get_type_hints(kind)
    properties, required = {}, []
    for member in fields(kind):
        name = member.name.rstrip("_")
        properties[name] = json_schema(hints[member.name], parts, prefix)
        # The note of an estimate is left out if it is empty.
        is_note = name == "note" and issubclass(kind, Estimate)
        if not (is_note or member.metadata.get("optional")):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def usd(amount: Decimal | None) -> str | None:
    """Exact, without an exponent; None is unknown."""
    return None if amount is None else exact_decimal(amount)


WIN, TIE, LOSE = "win", "tie", "lose"
WIDTH, HEIGHT = 560, 280
NEEDS_CONVERTER = (
    "The plots need vl-convert-python, which is not installed here. Install it with: pip install "
    "'fairjudge[pictures]'"
)
# The three outcomes look alike everywhere. plots.js takes the colours from the stylesheet.
OUTCOME_COLOURS = {WIN: "var(--win)", TIE: "var(--tie)", LOSE: "var(--lose)"}
# A picture has no stylesheet: the names of its colours become those of the light theme.
_INKS = {
    "var(--win)": "#0060a8",
    "var(--tie)": "#8b8981",
    "var(--lose)": "#b04a00",
    "var(--quiet)": "#5c5b57",
}
SHARES = {"domain": [0, 1]}
# For paper: the page takes its colours from the stylesheet instead.
PAPER = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "range": {
        "category": ["#2f5fb3", "#777777", "#b3622f", "#3f8f5f", "#8a4fa0", "#111111"],
        # No shade is so dark that black text on it is hard to read.
        "heatmap": ["#f4f4f4", "#7fa6d9"],
        "ramp": ["#f4f4f4", "#7fa6d9"],
    },
    "axis": {"labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"},
    "legend": {"labelFontSize": 12, "titleFontSize": 13},
    "view": {"stroke": None},
}


@dataclass(frozen=True)
class Plot:
    """table: the numbers drawn, one dict a row, for those who can't see the plot."""

    name: str
    title: str
    caption: str
    spec: Json

    @property
    def table(self) -> list[Json]:
        return self.spec["data"]["values"]

    @property
    def columns(self) -> list[str]:
        return list(self.table[0])


def can_draw() -> bool:
    """Whether plots can be drawn here. Pages draw theirs in the browser, which needs nothing."""
    try:
        _converter()
    except UserError:
        return False
    return True


def as_svg(plot: Plot) -> str:
    """Raises UserError if the extra `pictures` is not installed."""
    drawn: str = _converter().vegalite_to_svg(_on_paper(plot))
    return drawn


def as_png(plot: Plot) -> bytes:
    """Twice the size on the screen, for print. Raises UserError as `as_svg` does."""
    drawn: bytes = _converter().vegalite_to_png(_on_paper(plot), scale=2)
    return drawn


def _converter() -> Any:
    try:
        # Imported when it is needed, because the extra `pictures` is optional.
        return importlib.import_module("vl_convert")
    except ImportError:
        raise UserError(NEEDS_CONVERTER) from None


def _on_paper(plot: Plot) -> Json:
    spec: Json = _in_colour(plot.spec)
    return spec | {"config": PAPER, "title": plot.title, "width": WIDTH}


def _in_colour(part: Any) -> Any:
    """The same drawing with the colours of paper for those that the stylesheet names."""
    if isinstance(part, dict):
        return {key: _in_colour(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_in_colour(value) for value in part]
    return _INKS.get(part, part) if isinstance(part, str) else part


def intervals(field: str, title: str, *, scale: Json | None = None, line_at: float = 0.5) -> Json:
    """Points with their intervals, one a row, and a line where nothing is shown.

    Args:
        scale: that of the values; shares from 0 to 1 unless given.
    """
    y = {"field": field, "type": "nominal", "sort": None, "title": None}
    y["axis"] = {"labelLimit": 220}
    x = {"field": "value", "type": "quantitative", "title": title, "scale": scale or SHARES}
    x["axis"] = {"tickCount": 6}
    chance = {
        "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--quiet)"},
        "encoding": {"x": x | {"datum": line_at}},
    }
    # A channel of Vega-Lite has a field or a datum, and not both.
    del chance["encoding"]["x"]["field"]
    ends = {"x": x | {"field": "low"}, "x2": {"field": "high"}, "y": y}
    point = {"x": x, "y": y, "tooltip": tooltip(field, "value", "low", "high")}
    return {
        "layer": [
            chance,
            {"mark": "rule", "encoding": ends},
            {"mark": {"type": "circle", "size": 70, "strokeWidth": 1.5}, "encoding": point},
        ]
    }


def plot(name: str, title: str, caption: str, rows: list[Json], drawing: Json) -> Plot:
    size = {"width": "container", "height": HEIGHT}
    if "layer" not in drawing:
        size["autosize"] = {"type": "fit-x", "contains": "padding"}
    return Plot(name, title, caption, {"data": {"values": rows}} | size | drawing)


def value_of(figure: Figure) -> Json:
    """What a plot draws of a figure."""
    return {name: getattr(figure, name, None) for name in ("value", "low", "high")}


def x_axis(field: str, title: str) -> Json:
    return {"field": field, "type": "quantitative", "title": title}


def y_axis(field: str, title: str) -> Json:
    """The axis of a share."""
    return {"field": field, "type": "quantitative", "title": title, "scale": SHARES}


def colour(field: str, domain: list[Any]) -> Json:
    return {"field": field, "type": "nominal", "title": None, "scale": {"domain": domain}}


def named_lines(
    rows: list[Json], x: Json, y: Json, by: str, names: Sequence[str], **more: Any
) -> list[Json]:
    """Return the layers of lines of which each has its name next to it, instead of a legend.

    A name is at the point at which its line is farthest from all others. Lines that run too
    close together everywhere have a legend.

    Args:
        rows: what is drawn; rows of other names are no part of a line.
        by: the field that holds a line's name.
        more: further parts of the mark, as `mark`, and further channels by their names.
    """
    mark = {"type": "line"} | more.pop("mark", {})
    encoding = {"x": x, "y": y, "color": colour(by, list(names))} | more
    places = _places_of_names([row for row in rows if row[by] in names], x["field"], y["field"], by)
    if places:
        for channel in encoding.keys() & {"color", "strokeDash"}:
            encoding[channel] = encoding[channel] | {"legend": None}
    lines = {"filter": {"field": by, "oneOf": list(names)}}
    layers: list[Json] = [{"transform": [lines], "mark": mark, "encoding": encoding}]
    for name, (at, is_above) in places.items():
        text = {"type": "text", "fontSize": 12, "dy": -9 if is_above else 12}
        # Lines rise to the right: there is more room to the left above them, and right below.
        text["align"] = "right" if is_above else "left"
        here = [{"field": by, "equal": name}, {"field": x["field"], "equal": at}]
        named = {"x": x, "y": y, "color": encoding["color"]}
        named["text"] = {"field": by, "type": "nominal"}
        layers.append({"transform": [{"filter": {"and": here}}], "mark": text, "encoding": named})
    return layers


# As shares of the drawing: how far a line is from all others at its name, and how far
# the next name is to the side. A name at the edge would leave the drawing.
_ROOM, _ASIDE, _EDGE = 0.04, 0.3, 0.15


def _places_of_names(rows: list[Json], x: str, y: str, by: str) -> dict[str, tuple[float, bool]]:
    """Return where each line is farthest from the others, and if it has more room above it.

    Nothing if a line is nowhere far from the others.
    """
    lines: dict[str, dict[float, float]] = {}
    for row in rows:
        lines.setdefault(row[by], {})[row[x]] = row[y]
    at = sorted({row[x] for row in rows})
    if len(lines) < 2 or len(at) < 2:
        return {}
    width, height = at[-1] - at[0], max(1.0, *(row[y] for row in rows))
    placed: dict[str, tuple[float, bool]] = {}
    levels: list[tuple[float, float]] = []
    for name, line in lines.items():
        best, height_of_name, room = None, 0.0, _ROOM * height
        for place, value in line.items():
            gaps = [
                other[place] - value
                for key, other in lines.items()
                if key != name and place in other
            ]
            near = min(gaps, key=abs, default=0.0)
            level = value + (_ROOM if near < 0 else -_ROOM) * height
            is_taken = any(
                abs(place - other_at) < _ASIDE * width and abs(level - other) < 2 * _ROOM * height
                for other_at, other in levels
            )
            inside = _EDGE * width <= place - at[0] <= (1 - _EDGE) * width
            if inside and not is_taken and abs(near) > room:
                best, height_of_name, room = (place, near < 0), level, abs(near)
        if best is None:
            return {}
        placed[name] = best
        levels.append((best[0], height_of_name))
    return placed


def tooltip(*fields: str) -> list[Json]:
    rounded = ("value", "low", "high", "kappa", "usd", "seconds")
    return [
        {"field": field} | ({"format": ".3f", "type": "quantitative"} if field in rounded else {})
        for field in fields
    ]


@dataclass(frozen=True)
class Data:
    """What a section read from the database: arrays (no objects), and what JSON can hold."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    plain: Json = field(default_factory=dict)
