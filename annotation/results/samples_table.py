"""The samples export: one row a sample, its scores turned back to responses 1 and 2."""

from collections.abc import Iterator
from typing import Any

from judging.llm.parts import order, stage_of
from judging.models import Form, Parse, Run
from judging.runs.subjects import subject_field

COLUMNS = (
    "external_id", "run", "form", "part", "order", "stage", "permutation", "slot", "attempt",
    "status", "score_1", "score_2", "rating", "p_first", "mass", "outcome", "evidence",
    "raw_text", "finish_reason", "model", "prompt_tokens", "completion_tokens", "usd",
    "estimated",
)  # fmt: skip


_TEXTS = {
    "example": ("question", "response_1", "response_2"),
    "point_item": ("input", "output"),
}


def sample_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Every sample and every attempt. A call's prompt tokens and USD stand on its first sample,
    so that the columns add up to the run's totals."""
    field = subject_field(run)
    subject = f"sample__call__{field}"
    parses = (
        Parse.objects.filter(current=True, sample__call__run=run)
        .exclude(**{subject: None})
        .select_related(subject)
        .defer(*(f"{subject}__{name}" for name in _TEXTS[field]))
        .defer("sample__reasoning", "sample__logprobs")
        .order_by(f"{subject}__number", "sample__call", "sample__index")
    )
    for parse in parses.iterator(chunk_size=1000):
        yield _row(parse, run)


def _row(parse: Parse, run: Run) -> dict[str, Any]:
    sample = parse.sample
    call = sample.call
    first = sample.index == 0
    return {
        "external_id": (call.example or call.point_item).external_id,
        "run": run.name,
        "form": run.form,
        "part": call.part,
        "order": None if run.form == Form.POINTWISE else order(call.part),
        "stage": stage_of(call.part) if run.stages else None,
        "permutation": call.part if call.part.startswith("X") else None,
        "slot": sample.slot,
        "attempt": sample.attempt,
        "status": parse.status,
        "score_1": parse.score_1,
        "score_2": parse.score_2,
        "rating": parse.rating,
        "p_first": parse.p_first,
        "mass": parse.mass,
        "outcome": parse.outcome,
        "evidence": parse.evidence,
        "raw_text": sample.raw_text,
        "finish_reason": sample.finish_reason,
        "model": call.model or run.model,
        "prompt_tokens": call.prompt_tokens if first else 0,
        "completion_tokens": sample.completion_tokens,
        "usd": call.usd if first else 0,
        "estimated": call.estimated,
    }
