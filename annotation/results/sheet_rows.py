"""The rows that a sheet is made of, read as arrays: the examples, and a run's verdicts on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Case, F, IntegerField, Value, When
from django.db.models.functions import MD5, Coalesce, Length
from numpy.typing import NDArray

from annotation.agreement import SIGN
from annotation.results.columns import CHUNK, as_read, places_of
from annotation.selecting import frame
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.hitlc import routing_level
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict
from judging.questions import question_codes

# Larger than any rank: what was not ranked comes last.
_LAST = 2**62
_NO_LABEL = 2
_STATES = Verdict.State.values
_PENDING, _UNJUDGED, _INCONSISTENT = (
    _STATES.index(state)
    for state in (Verdict.State.PENDING, Verdict.State.UNJUDGED, Verdict.State.INCONSISTENT)
)
_EXAMPLE = np.dtype(
    [
        ("id", "i8"),
        ("category", "O"),
        ("sign", "i1"),
        ("model_1", "O"),
        ("model_2", "O"),
        ("question", "O"),
        ("length", "i8"),
    ]
)
_VERDICT = np.dtype(
    [
        ("example", "i8"),
        ("state", "i1"),
        ("sign", "i1"),
        ("bpde", "f8"),
        ("gap", "f8"),
        ("score", "f8"),
        ("rank", "i8"),
    ]
)


@dataclass(frozen=True)
class ExampleRows:
    """As in `Sheet`; gold, golden: the label that an example came with, and whether it has one."""

    ids: Codes
    category: NDArray[np.str_]
    gold: Signs
    golden: Booleans
    models: tuple[str, ...]
    model_1: Codes
    model_2: Codes
    question: Codes
    length: NDArray[np.int64]


@dataclass(frozen=True)
class VerdictRows:
    """The judge's part of a `Sheet`, which says what they mean; in its order of the examples."""

    judge: Signs
    judged: Booleans
    level: Floats
    bpde: Floats
    gap: Floats
    ranking: Codes


def example_rows(project: Project) -> ExampleRows:
    """One query, and no text: equal questions are known by their hash."""
    rows = (
        frame(project)
        .annotate(
            question_md5=as_read(MD5(F("question"))),
            length=as_read(Length("response_1") - Length("response_2")),
            sign=as_read(label_sign("gold_label")),
        )
        .values_list("pk", "category", "sign", "model_1", "model_2", "question_md5", "length")
    )
    found = np.fromiter(rows.iterator(chunk_size=CHUNK), dtype=_EXAMPLE)
    golden = found["sign"] != _NO_LABEL
    models, (model_1, model_2) = _codes(found["model_1"], found["model_2"])
    return ExampleRows(
        ids=found["id"].astype(np.intp),
        category=found["category"].astype(np.str_),
        gold=np.where(golden, found["sign"], 0).astype(np.int8),
        golden=golden,
        models=models,
        model_1=model_1,
        model_2=model_2,
        question=question_codes(found["question"].tolist()),
        length=found["length"].copy(),
    )


def verdict_rows(run: Run, ids: Codes) -> VerdictRows:
    """One query. An example without a verdict is pending."""
    found = np.fromiter(_verdicts(run), dtype=_VERDICT)
    places = places_of(ids, found["example"])
    rows = np.zeros(len(ids), dtype=_VERDICT)
    rows["state"], rows["sign"], rows["rank"] = _PENDING, _NO_LABEL, _LAST
    for name in ("bpde", "gap", "score"):
        rows[name] = np.nan
    rows[places[places >= 0]] = found[places >= 0]
    judged = rows["sign"] != _NO_LABEL
    by_rank = np.argsort(rows["rank"], kind="stable")
    return VerdictRows(
        judge=np.where(judged, rows["sign"], 0).astype(np.int8),
        judged=judged,
        level=_levels(rows),
        bpde=rows["bpde"].copy(),
        gap=rows["gap"].copy(),
        ranking=by_rank[rows["rank"][by_rank] < _LAST],
    )


def _verdicts(run: Run) -> Iterator[tuple]:
    states = [When(state=name, then=Value(code)) for code, name in enumerate(_STATES)]
    return (
        Verdict.objects.filter(run=run)
        .order_by()
        .annotate(
            code=as_read(Case(*states, output_field=IntegerField())),
            sign=as_read(label_sign()),
            place=as_read(Coalesce("rank", Value(_LAST))),
        )
        .values_list("example", "code", "sign", "bpde", "gap", "routing_score", "place")
        .iterator(chunk_size=CHUNK)
    )


def label_sign(column: str = "label") -> Case:
    """A label as a number."""
    labels = [When(**{column: name}, then=Value(sign)) for name, sign in SIGN.items()]
    return Case(*labels, default=Value(_NO_LABEL), output_field=IntegerField())


def signs(labels: Sequence[str | None]) -> tuple[Signs, Booleans]:
    """1, 0, -1 for win, tie, lose, and where there is a label."""
    there = np.array([label is not None for label in labels], dtype=bool)
    given = [0 if label is None else SIGN[label] for label in labels]
    return np.array(given, dtype=np.int8), there


def _levels(rows: NDArray[np.void]) -> Floats:
    """By the learned score where there is one, else by BPDE; what is pending has neither."""
    score = np.where(np.isnan(rows["score"]), rows["bpde"], rows["score"])
    state = rows["state"]
    return routing_level(score, state == _UNJUDGED, state == _INCONSISTENT)


def _codes(*columns: NDArray[np.object_]) -> tuple[tuple[str, ...], list[Codes]]:
    names: dict[str, int] = {}
    coded = [
        np.array([names.setdefault(name, len(names)) for name in column.tolist()], dtype=np.intp)
        for column in columns
    ]
    return tuple(names), coded
