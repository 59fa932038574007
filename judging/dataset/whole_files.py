"""Import a file whole or not at all: the steps that scores, votes and recorded judgments share.

1. `Records` reads the file once, and hashes it on the way.
2. `accepted` checks every row, and refuses the file with all its problems by line. Until then
   nothing is written.
3. `records.compare` parts the rows into new ones, ones that the project has, and conflicts. What is
   there stays, so the same file again adds nothing. Pairs are compared by the same rule.
4. The room of the rows writes the new ones in chunks.
5. `record_import` keeps what was imported from which file.

Pairs have two passes of their own instead (`reading`, `writing`), since their import can be resumed
and can leave rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.utils import timezone

from judging.core.errors import UserError
from judging.dataset.models import Import
from judging.dataset.records import AnyRow, Compared, Refused
from judging.projects.access import next_number
from judging.projects.models import Project

SHOWN = 20


def accepted(
    rows: Iterable[AnyRow | Refused],
    check: Callable[[AnyRow], str | None],
    paths: Sequence[Path],
    noun: str,
) -> Iterator[AnyRow]:
    """Give each row that can be imported. Raises UserError at the end if any row can't be.

    Args:
        check: says why a row contradicts an earlier one or the project; None if it doesn't.
        noun: what a row is, for the sentence that none was found.
    """
    n_rows = n_problems = 0
    shown: list[str] = []
    for row in rows:
        if isinstance(row, Refused):
            sentences = [f"{problem.place}: {problem.sentence}" for problem in row.problems]
        else:
            fault = check(row)
            sentences = [f"{row.place}: {fault}"] if fault else []
        n_problems += len(sentences)
        shown += sentences[: SHOWN - len(shown)]
        # Rows go on to the caller, who keeps them and writes none before the last one is checked.
        if not isinstance(row, Refused) and not sentences:
            n_rows += 1
            yield row
    if n_problems:
        more = [f"… and {n_problems - SHOWN} more."] if n_problems > SHOWN else []
        raise UserError("\n".join(["Nothing was imported.", *shown, *more]))
    if not n_rows:
        names = ", ".join(path.name for path in paths)
        raise UserError(f"No {noun} was found in {names}. Nothing was imported.")


def record_import(
    project: Project,
    user: AbstractUser | None,
    kind: str,
    path: Path,
    sha256: str,
    n_rows: int,
    compared: Compared[Any],
    **fields: Any,
) -> Import:
    """Keep what was imported; to be called in the transaction that writes it."""
    done = {"state": Import.State.DONE}
    return Import.objects.create(
        project=project, number=next_number(project, Import), kind=kind, file_names=[path.name],
        sha256=sha256, n_rows=n_rows, n_written=len(compared.new), n_known=compared.n_known,
        n_conflicts=len(compared.conflicts), created_by=user, finished_at=timezone.now(),
        **done | fields,
    )  # fmt: skip
