"""Where the bars of a plot stand: widths in per cent of the drawing, heights in pixels."""

from collections.abc import Sequence
from dataclasses import dataclass

from judging.runs.judge_report import Bar

HEIGHT, TOP = 150, 18
GAP = 0.15


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """`x`, `width` and `middle` in per cent; the selected part stands at the bottom."""

    bar: Bar
    x: float
    width: float
    middle: float
    y: float
    height: float
    selected_y: float
    selected_height: float

    @property
    def label_y(self) -> float:
        return self.y - 4


def drawn(bars: Sequence[Bar]) -> list[DrawnBar]:
    step = 100 / len(bars)
    scale = HEIGHT / max(1, *(bar.n for bar in bars))
    bottom = TOP + HEIGHT
    return [
        DrawnBar(
            bar,
            x=round(step * (place + GAP / 2), 3),
            width=round(step * (1 - GAP), 3),
            middle=round(step * (place + 0.5), 3),
            y=round(bottom - bar.n * scale, 2),
            height=round(bar.n * scale, 2),
            selected_y=round(bottom - bar.selected * scale, 2),
            selected_height=round(bar.selected * scale, 2),
        )
        for place, bar in enumerate(bars)
    ]
