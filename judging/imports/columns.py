"""Which column of a file is which field of an example."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from judging.imports.escape import ESCAPE_COLUMN

REQUIRED = ("question", "response_1", "response_2")
IGNORE = "ignore"

# Names in the order of preference, without case and punctuation: where a file has several, the
# first is the field. A question's id is the last choice, since several pairs can share a question.
ALIASES = {
    "external_id": ("externalid", "exampleid", "id", "idx", "questionid"),
    "question": ("question", "prompt", "instruction", "query", "input"),
    "response_1": ("response1", "answer1", "output1", "responsea", "answera", "outputa"),
    "response_2": ("response2", "answer2", "output2", "responseb", "answerb", "outputb"),
    "model_1": ("model1", "modela"),
    "model_2": ("model2", "modelb"),
    "category": ("category", "subset"),
    "gold_label": ("goldlabel", "gold", "label"),
    "is_check": ("ischeck",),
}
FIELDS = tuple(ALIASES)
KNOWN = frozenset(name for names in ALIASES.values() for name in names)
# A column of PandaLM that names both models at once, `bloom-7b_llama-7b`.
BOTH_MODELS = "cmp_key"


def plain(name: str) -> str:
    """A column's name without case, spaces and punctuation: `Response 1` is `response1`."""
    return re.sub(r"[\W_]+", "", name.casefold())


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each field is read from; a question may be an instruction and its input."""

    sources: dict[str, tuple[str, ...]]
    both_models: str | None
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    absent: tuple[str, ...]


def recognise(names: Iterable[str], mapping: Mapping[str, str] | None = None) -> Columns:
    """Find the fields among column names; `mapping` (column → field, or `ignore`) goes first.

    `missing` are required fields without a column, `absent` mapped columns that aren't there.
    """
    names = list(names)
    mapping = mapping or {}
    sources: dict[str, tuple[str, ...]] = {}
    for column, field in mapping.items():
        if field != IGNORE and column in names:
            sources[field] = (*sources.get(field, ()), column)
    free = {plain(name): name for name in reversed(names) if name and name not in mapping}
    for field, aliases in ALIASES.items():
        for alias in aliases:
            if field not in sources and alias in free:
                sources[field] = (free.pop(alias),)
    question = sources.get("question", ())
    if "input" in free and [plain(name) for name in question] == ["instruction"]:
        sources["question"] = (*question, free.pop("input"))
    both = None
    if not {"model_1", "model_2"} & sources.keys():
        both = free.pop(plain(BOTH_MODELS), None)
    used = {name for columns in sources.values() for name in columns} | {both, ESCAPE_COLUMN}
    return Columns(
        sources=sources,
        both_models=both,
        unused=tuple(name for name in names if name and name not in used),
        missing=tuple(field for field in REQUIRED if field not in sources),
        absent=tuple(
            column for column, field in mapping.items() if field != IGNORE and column not in names
        ),
    )
