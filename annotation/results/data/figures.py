"""A figure as the report writes it: value, interval and n, or the reason why there is none."""

import importlib
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from judging.core.errors import UserError
from judging.methods.intervals.estimates import Estimate, Undefined

Json = dict[str, Any]


def shown(found: Any, n: int | None = None) -> Json:
    """An Estimate, a plain number with its n, or an Undefined, in one shape."""
    if isinstance(found, Estimate | Undefined):
        return found.as_json()
    return {"value": float(found), "low": None, "high": None, "n": n}


def undefined(reason: str) -> Json:
    return Undefined(reason).as_json()


def lacking(reason: Undefined, *names: str) -> Json:
    """The same reason under each of these names."""
    return {name: reason.as_json() for name in names}


def usd(amount: Decimal | None) -> str | None:
    """Exact, without an exponent; None is unknown."""
    return None if amount is None else f"{amount.normalize():f}"


WIDTH, HEIGHT = 560, 280
NEEDS_CONVERTER = (
    "Plots are drawn as SVG or PNG by vl-convert-python, which is not installed here. Install it "
    "with: pip install 'fairjudge[pictures]'"
)
# For paper: the page takes its colours from the stylesheet instead.
PAPER = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "range": {"category": ["#2f5fb3", "#777777", "#b3622f", "#3f8f5f", "#8a4fa0", "#111111"]},
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
        return importlib.import_module("vl_convert")
    except ImportError:
        raise UserError(NEEDS_CONVERTER) from None


def _on_paper(plot: Plot) -> Json:
    return plot.spec | {"config": PAPER, "title": plot.title, "width": WIDTH}


def intervals(field: str, title: str) -> Json:
    y = {"field": field, "type": "nominal", "sort": None, "title": None}
    x = {"field": "value", "type": "quantitative", "title": title, "scale": {"zero": False}}
    x["axis"] = {"tickCount": 6}
    ends = {"x": x | {"field": "low"}, "x2": {"field": "high"}, "y": y}
    point = {"x": x, "y": y, "tooltip": tooltip(field, "value", "low", "high")}
    return {
        "layer": [
            {"mark": "rule", "encoding": ends},
            {"mark": {"type": "circle", "size": 70, "strokeWidth": 1.5}, "encoding": point},
        ]
    }


def plot(name: str, title: str, caption: str, rows: list[Json], drawing: Json) -> Plot:
    size = {"width": "container", "height": HEIGHT}
    if "layer" not in drawing:
        size["autosize"] = {"type": "fit-x", "contains": "padding"}
    return Plot(name, title, caption, {"data": {"values": rows}} | size | drawing)


def value_of(figure: Json) -> Json:
    return {name: figure.get(name) for name in ("value", "low", "high")}


def x_axis(field: str, title: str) -> Json:
    return {"field": field, "type": "quantitative", "title": title}


def y_axis(field: str, title: str) -> Json:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False},
    }


def colour(field: str, domain: list[Any]) -> Json:
    return {"field": field, "type": "nominal", "title": None, "scale": {"domain": domain}}


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
