"""The first pass as a record: what a file holds, before anyone decides to import it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from judging.errors import UserError
from judging.imports.checking import Summary, check
from judging.imports.comparing import Comparison, Conflict
from judging.imports.layouts import refuse_unreadable
from judging.imports.reading import mapping_faults
from judging.imports.uploads import files_of, stored_name
from judging.models.imports import Import
from judging.models.projects import Project
from judging.numbering import next_number

SHOWN_TEXT = 160


def first_pass(
    project: Project | None,
    paths: Sequence[Path],
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
) -> tuple[Summary, Comparison | None]:
    """Read the files, and compare them to the project where there is one. Nothing is written."""
    faults = mapping_faults(mapping or {})
    if faults:
        raise UserError(f"{' '.join(faults)} Nothing was imported.")
    comparison = Comparison(project.pk) if project else None
    summary = check(paths, file_format, mapping, comparison.watch if comparison else None)
    if comparison:
        comparison.settle()
    return summary, comparison


def record_import(
    project: Project,
    user: AbstractUser | None,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
) -> Import:
    """Check files and keep what was found, as an import that nothing is written of yet."""
    imported = Import(
        project=project,
        created_by=user,
        file_names=[path.name for path in paths],
        stored_files=[stored_name(path) for path in paths],
        sha256=digest(paths),
    )
    _fill(imported, file_format, mapping or {})
    with transaction.atomic():
        imported.number = next_number(project, Import)
        imported.save()
    return imported


def check_again(imported: Import, file_format: str, mapping: Mapping[str, str]) -> bool:
    """Read the files again with another mapping; False when the import has begun already."""
    _fill(imported, file_format, mapping)
    fields = ("format", "mapping", "summary", "n_rows", "n_refused")
    checked = Import.objects.filter(pk=imported.pk, state=Import.State.CHECKED)
    return checked.update(**{name: getattr(imported, name) for name in fields}) == 1


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 over the contents of the files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        refuse_unreadable(path)
        with path.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def _fill(imported: Import, file_format: str, mapping: Mapping[str, str]) -> None:
    summary, comparison = first_pass(imported.project, files_of(imported), file_format, mapping)
    assert comparison is not None
    imported.format = file_format
    imported.mapping = dict(mapping)
    imported.n_rows = summary.n_rows
    imported.n_refused = summary.n_refused
    imported.summary = as_json(summary, comparison)


def as_json(summary: Summary, comparison: Comparison) -> dict[str, Any]:
    """What the preview shows: of texts their beginning, of lists their first entries."""
    kept = asdict(summary)
    kept["problems"] = [
        {"place": problem.place, "column": problem.column, "sentence": problem.sentence}
        for problem in summary.problems
    ]
    kept["rows"] = [
        {
            "external_id": row.external_id,
            "models": [row.model_1, row.model_2],
            "category": row.category,
            "gold_label": row.gold_label,
            "texts": [beginning(text) for text in row.texts],
        }
        for row in summary.rows
    ]
    kept["n_new"], kept["n_known"] = comparison.n_new, comparison.n_known
    kept["n_conflicts"] = comparison.n_conflicts
    kept["conflicts"] = as_sentences(comparison.conflicts)
    kept["acceptable"] = summary.acceptable
    return kept


def beginning(text: str) -> str:
    text = " ".join(text[: 4 * SHOWN_TEXT].split())
    return text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT] + "…"


def as_sentences(conflicts: Sequence[Conflict]) -> list[str]:
    return [str(conflict) for conflict in conflicts]
