"""What a section of the report is made of; `annotation.results.report` says how to add one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from annotation.results.figures import Json
from annotation.results.vega import Plot
from judging.methods.estimates import Undefined

if TYPE_CHECKING:
    from annotation.results.analysis import Analysis


@dataclass(frozen=True)
class Data:
    """What a section read from the database: arrays (no objects), and what JSON can hold."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    plain: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """figures: the section's keys of `report --json`, computed without a database.

    template: its part of the results page and of the HTML file; empty where another shows it.
    read: what it needs beside the analysis' own data, had by `analysis.own(name, read)`; an
    Undefined says why it has none. Packed into the ZIP, and found there again by `verify`.
    plots: each makes a drawing from the whole report; one without rows is left out.
    """

    name: str
    figures: Callable[["Analysis"], Json]
    template: str = ""
    read: Callable[["Analysis"], Data | Undefined] | None = None
    plots: tuple[Callable[[Json], Plot], ...] = ()
