"""The samples export: one row a sample, its scores turned back to responses 1 and 2."""

from collections.abc import Iterator
from typing import Any

from judging.llm.parts import order, stage_of
from judging.models.calls import Parse
from judging.models.runs import Form, Run
from judging.runs.subjects import subject_field

COLUMNS = (
    "external_id", "run", "form", "part", "order", "stage", "permutation", "slot", "attempt",
    "status", "score_1", "score_2", "rating", "p_first", "mass", "outcome", "evidence",
    "raw_text", "finish_reason", "model", "prompt_tokens", "completion_tokens", "usd",
    "estimated",
)  # fmt: skip


# Where each column stands, seen from a reading of the sample. Values are read, not models: of the
# five that a row would take, a row shows a few fields.
_CALL = {
    "part": "sample__call__part",
    "model": "sample__call__model",
    "prompt_tokens": "sample__call__prompt_tokens",
    "usd": "sample__call__usd",
    "estimated": "sample__call__estimated",
}
_SAMPLE = ("slot", "attempt", "raw_text", "finish_reason", "completion_tokens")
_PARSE = ("status", "score_1", "score_2", "rating", "p_first", "mass", "outcome", "evidence")
_READ = _CALL | {name: f"sample__{name}" for name in _SAMPLE} | {name: name for name in _PARSE}


def sample_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Every sample and every attempt. A call's prompt tokens and USD stand on its first sample,
    so that the columns add up to the run's totals."""
    subject = f"sample__call__{subject_field(run)}"
    parses = (
        Parse.objects.filter(current=True, sample__call__run=run)
        .exclude(**{subject: None})
        .order_by(f"{subject}__number", "sample__call", "sample__index")
        .values_list(f"{subject}__external_id", "sample__index", *_READ.values())
    )
    for external_id, index, *values in parses.iterator(chunk_size=1000):
        row = {"external_id": external_id, "run": run.name, "form": run.form}
        row |= zip(_READ, values, strict=True)
        yield row | _derived(row, index, run)


def _derived(row: dict[str, Any], index: int, run: Run) -> dict[str, Any]:
    part = row["part"]
    return {
        "order": None if run.form == Form.POINTWISE else order(part),
        "stage": stage_of(part) if run.stages else None,
        "permutation": part if part.startswith("X") else None,
        "model": row["model"] or run.model,
        "prompt_tokens": row["prompt_tokens"] if index == 0 else 0,
        "usd": row["usd"] if index == 0 else 0,
    }
