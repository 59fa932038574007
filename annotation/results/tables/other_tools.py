"""Tables for other tools: annotations for alpaca_eval, tasks for Label Studio and Argilla.

Tasks name no model, and the example's ID draws which response is on the left. Votes on them can
be imported again: `judging.dataset.layouts` reads the exports of both tools.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from annotation.results.merge.final_labels import merged
from judging.core.errors import UserError
from judging.dataset.models import Example, Frame, frame_of
from judging.dataset.records import content_id
from judging.projects.models import Project
from judging.runs.models import Run

Rows = Iterator[dict[str, Any]]
ALPACA_COLUMNS = (
    "instruction", "output_1", "generator_1", "output_2", "generator_2", "annotator", "preference",
)  # fmt: skip
PREFERENCES = {"win": 1.0, "tie": 1.5, "lose": 2.0}
_AT_ONCE = 500


def _alpaca_rows(project: Project, run: Run | None, frame: Frame | None) -> Rows:
    """Yield the judge's label of each example as alpaca_eval writes it, empty without a label."""
    assert run is not None
    for final in merged(project, run, frame.pk if frame else None):
        example, verdict = final.example, final.verdict
        yield {
            "instruction": example.question,
            "output_1": example.response_1,
            "generator_1": example.model_1,
            "output_2": example.response_2,
            "generator_2": example.model_2,
            "annotator": run.name,
            "preference": PREFERENCES.get((verdict.label if verdict else None) or ""),
        }


def left_response(example: Example) -> int:
    """Return which response a task shows on the left, the same in every export."""
    return 1 + int(content_id(["left", example.external_id]), 16) % 2


def _shown(project: Project, frame: Frame | None) -> Iterator[tuple[Example, int, dict[str, str]]]:
    """Yield every example, the response on its left, and the texts in the order to show."""
    examples = frame_of(project, frame.pk if frame else None)
    for example in examples.iterator(chunk_size=_AT_ONCE):
        left = left_response(example)
        texts = [example.response_1, example.response_2]
        first, second = texts if left == 1 else texts[::-1]
        texts_shown = {"question": example.question, "response_a": first, "response_b": second}
        yield example, left, texts_shown


def _label_studio_rows(project: Project, run: Run | None, frame: Frame | None) -> Rows:
    for example, left, texts in _shown(project, frame):
        about = {"external_id": example.external_id, "left_response": left}
        yield {"data": {**texts, **about}}


def _argilla_rows(project: Project, run: Run | None, frame: Frame | None) -> Rows:
    for example, left, texts in _shown(project, frame):
        yield {
            "id": example.external_id,
            "fields": texts,
            "metadata": {"left_response": left},
            "suggestions": {},
            "responses": {},
            "vectors": {},
        }


Write = Callable[[Project, Run | None, Frame | None], Rows]
_TABLES: dict[str, tuple[tuple[str, ...], Write]] = {
    "alpaca_eval": (ALPACA_COLUMNS, _alpaca_rows),
    "label_studio": (("data",), _label_studio_rows),
    "argilla": (("id", "fields", "metadata", "suggestions", "responses", "vectors"), _argilla_rows),
}
OTHER_TOOLS = tuple(_TABLES)
# What holds no judge's label, and so belongs to the project.
TASKS = ("label_studio", "argilla")


def table_for(
    tool: str, project: Project, run: Run | None, frame: Frame | None
) -> tuple[Sequence[str], Rows]:
    """Return the columns and the rows of a table for one of `OTHER_TOOLS`.

    Raises:
        UserError: alpaca_eval's annotations are a judge's, and there is no run.
    """
    if tool not in TASKS and run is None:
        raise UserError("Annotations for alpaca_eval belong to a run, and this project has none.")
    columns, write = _TABLES[tool]
    return columns, write(project, run, frame)
