"""Recorded judgments become a run: checked whole first, then written in chunks, then ranked.

The files are read once. Samples are in a temporary file in between, since there may be millions.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, count, islice
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.leases import Chunks, KeptRows, delete_rows, in_chunks
from judging.core.sql.statements import insert_columns, rows_came
from judging.dataset.files import Records, check_format, combined, data_files
from judging.dataset.models import Import
from judging.dataset.records import ById, Codes, Place
from judging.dataset.whole_files import accepted
from judging.llm.prompts.templates import ORDERS, PromptVariant, balanced
from judging.methods.calibration.probabilities import PERMUTATIONS
from judging.methods.portia.stages import ALIGNMENTS, Stage
from judging.projects import access
from judging.projects.access import tell
from judging.projects.models import Project
from judging.runs import lifecycle
from judging.runs.models import Call, Form, Method, Parse, Run, Sample, Verdict
from judging.runs.planning.start import create
from judging.runs.recorded.formats import FORMATS, RecordedRow, judgment_rows
from judging.runs.verdicts.judge_figures import prepare_page
from judging.runs.verdicts.rebuild import Advance as Ranked
from judging.runs.verdicts.rebuild import rebuild_verdicts

CHUNK = 500
# Rows that are inserted together at most.
_MOST_ROWS = 5000
# The fields of a row that a call and a parse take over as they are.
CALLED = ("prompt_tokens", "completion_tokens", "usd", "estimated", "model")
PARSED = (
    "status", "score_1", "score_2", "rating", "p_first", "mass", "outcome", "evidence",
    "criteria", "why",
)  # fmt: skip
UNFINISHED = "The import of this run was cut off. Import it again under the same name."
Advance = Callable[[int], None]
_NOWHERE = Place("", 0)


# Slots from this one on are rare, and kept apart from the bits of the others.
_MOST_BITS = 63


class _Examples:
    """The examples that samples can be about. places: by ID, counted from 0."""

    def __init__(self, project: Project) -> None:
        self._keys = array("q")
        rows = project.examples.judged().order_by().values_list("external_id", "pk")
        self.places = ById(self._numbered(rows.iterator(chunk_size=5000)))

    def _numbered(self, rows: Iterator[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        for place, (name, key) in enumerate(rows):
            self._keys.append(key)
            yield name, place

    def keys_of(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self._keys[self.places[name]] for name in names)


@dataclass
class Survey:
    """What the first pass found, without writing.

    It needs 8 bytes for each part of each example, and more only for the rows in `others`.

    n: how many examples the project has.
    slots: for each part and the place of each example, the slots with a first attempt, as bits.
    others: the slots of other attempts, and those that have no bit, by part and place.
    """

    n: int
    forms: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    slots: dict[str, array[int]] = field(default_factory=dict)
    others: dict[tuple[str, int], set[tuple[int, int]]] = field(default_factory=dict)
    k: int = 1
    hashes: list[bytes] = field(default_factory=list)

    def add(self, row: RecordedRow, place: int) -> int | str:
        """Count a row, and return its slot; or say that this slot is taken.

        Without a slot it gets the next one of its order.
        """
        part = row.part
        if part not in self.slots:
            self.slots[part] = array("Q", bytes(8 * self.n))
        bits, others = self.slots[part], self.others.get((part, place), ())
        slot = row.slot
        if slot is None:
            slot = max(bits[place].bit_length(), *(other + 1 for other, _ in others), 0)
        if row.attempt == 0 and slot < _MOST_BITS:
            is_taken = bits[place] >> slot & 1
            bits[place] |= 1 << slot
        else:
            is_taken = (slot, row.attempt) in others
            self.others.setdefault((part, place), set()).add((slot, row.attempt))
        if is_taken:
            return f"Slot {slot} of {row.external_id}, {part}, is there already."
        self.k = max(self.k, slot + 1)
        self.forms.add(row.form or _form_of(row))
        self.models.add(row.model)
        return slot

    @property
    def orders(self) -> set[str]:
        return set(self.slots)

    @property
    def parameters(self) -> dict[str, Any]:
        """The orders that there are, and PORTIA's stages as it asked for them."""
        shown = {PromptVariant.parse(part).order for part in self.orders}
        orders = shown if self.stages else self.orders
        kept: dict[str, Any] = {
            "orders": [part for part in ORDERS if part in orders] or sorted(orders)
        }
        if self.orders <= set(PERMUTATIONS):
            # The orders that make the verdict: of X0 and X1 it is X0 alone.
            orders = {PromptVariant.parse(part).order for part in balanced(self.orders)}
            kept = {"orders": [name for name in ORDERS if name in orders]}
            kept["permutations"] = sorted(self.orders)
        return kept | ({"portia": {"stages": self.stages}} if self.stages else {})

    @property
    def stages(self) -> list[str]:
        """PORTIA's stages. The unsplit prompt came first if every split example has it."""
        named = {PromptVariant.parse(part).stage for part in self.slots}
        split = [stage.value for stage in ALIGNMENTS if stage in named]
        if not split or Stage.UNSPLIT not in named:
            return split
        whole = self._examples(Stage.UNSPLIT)
        first = all(self._examples(stage) <= whole for stage in split)
        return [Stage.UNSPLIT.value, *split] if first else [*split, Stage.UNSPLIT.value]

    def _examples(self, stage: str) -> set[int]:
        """Return the places of the examples that have a sample of this stage."""
        parts = {part for part in self.slots if PromptVariant.parse(part).stage == stage}
        others = {place for part, place in self.others if part in parts}
        return others.union(*(compress(count(), self.slots[part]) for part in parts))

    @property
    def form(self) -> str:
        """The form of all rows. Without scores they hold outcomes only, as `relation` does."""
        named = self.forms - {""}
        return named.pop() if named else Form.RELATION


def import_judgments(
    project: Project,
    user: Any,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    name: str = "",
    labels: Codes | None = None,
    sheet: str = "",
    advance: Advance = lambda rows: None,
    ranked: Ranked = lambda done, total: True,
    keep: Callable[[Run], object] = lambda run: None,
) -> Run:
    """Make one run of all files. Raises UserError, with nothing written, if a row can't be used.

    Args:
        advance: Gets the number of rows of each chunk that is written.
        ranked: Told how many examples of how many are ranked, once all rows are written.
        keep: Gets the run, in the last transaction.
    """
    access.need_texts(project, access.BRINGS_TEXTS)
    check_format(file_format, FORMATS)
    paths = data_files(paths)
    kept: KeptRows[RecordedRow] = KeptRows(RecordedRow)
    examples = _Examples(project)
    survey = _check(
        project, Records(paths, file_format, sheet), labels or {}, examples.places, kept
    )
    run = _begin(project, user, paths, survey, name)
    rows, chunks = iter(kept), Chunks(Call, Sample)
    while chunk := list(islice(rows, min(chunks.size, _MOST_ROWS))):
        with chunks.transaction():
            _write(run, chunk, examples)
        advance(len(chunk))
    finish(run, keep, ranked)
    # Its page would otherwise sum all samples while somebody waits.
    prepare_page(run)
    return run


def _check(
    project: Project, records: Records, labels: Codes, known: ById[int], kept: KeptRows[RecordedRow]
) -> Survey:
    """Read everything and keep the rows, or refuse the files if any row is wrong."""
    survey = Survey(len(known))

    def fault(row: RecordedRow) -> str | None:
        try:
            place = known[row.external_id]
        except KeyError:
            return f"Project {project.slug} has no example {row.external_id}."
        slot = survey.add(row, place)
        if isinstance(slot, str):
            return slot
        _, name, part, status, _, *rest = row
        # The place in the file is needed no more, and to keep it would take longer than the rest.
        kept.add(RecordedRow(_NOWHERE, name, part, status, slot, *rest))
        return None

    for _ in accepted(judgment_rows(records, labels, known), fault, records.paths, "judgment"):
        pass
    if len(survey.forms - {""}) > 1:
        raise UserError("The files hold more than one form. Nothing was imported. Split them.")
    survey.hashes = records.hashes
    return survey


def _begin(project: Project, user: Any, paths: Sequence[Path], survey: Survey, name: str) -> Run:
    """Make the run as it stays if the import is cut off, and replace one of this name that was."""
    models = survey.models - {""}
    fields = {
        "project": project,
        "method": Method.IMPORTED,
        "form": survey.form,
        "model": models.pop() if len(models) == 1 else "",
        "k": survey.k,
        "parameters": survey.parameters,
        "source_files": [
            {"name": path.name, "sha256": combined([sha256])}
            for path, sha256 in zip(paths, survey.hashes, strict=True)
        ],
        "state": Run.State.FAILED,
        "reason": UNFINISHED,
        "created_by": user,
    }  # fmt: skip
    cut_off = project.runs.filter(method=Method.IMPORTED, reason=UNFINISHED)
    cut_off = cut_off.filter(name=name, state=Run.State.FAILED)
    for unfinished in cut_off:
        _remove_rows(unfinished)
    with transaction.atomic():
        cut_off.delete()
        run = create(name, fields)
        sha256 = combined(survey.hashes)
        access.record_event(project, user, "judgments imported", run.name, sha256=sha256)
    return run


def _remove_rows(run: Run) -> None:
    """Delete what was written of it, in short transactions."""

    def delete(keys: list[int]) -> None:
        delete_rows(Parse, sample__call__in=keys)
        delete_rows(Sample, call__in=keys)
        delete_rows(Call, pk__in=keys)

    in_chunks(Call.objects.filter(run=run), delete, CHUNK)
    verdicts = Verdict.objects.filter(run=run)
    in_chunks(verdicts, lambda keys: delete_rows(Verdict, pk__in=keys), CHUNK)


def _write(run: Run, rows: Sequence[RecordedRow], examples: _Examples) -> None:
    """Write a call for each sample, since it is not known how they were asked for."""
    n, now = len(rows), timezone.now()
    columns: Any = RecordedRow(*zip(*rows, strict=True))
    attempts, slots = columns.attempt, columns.slot
    lists = {slot: [slot] for slot in slots}
    calls = insert_columns(
        Call,
        n,
        run_id=run.pk,
        example_id=examples.keys_of(columns.external_id),
        part=columns.part,
        seq=tuple(run.k * attempt + slot for attempt, slot in zip(attempts, slots, strict=True)),
        slots=tuple(map(lists.__getitem__, slots)),
        attempt=attempts,
        state=Call.State.DONE,
        claimed_at=now,
        finished_at=now,
        **{name: getattr(columns, name) for name in CALLED},
    )
    samples = insert_columns(
        Sample, n, call_id=tuple(calls), index=0, slot=slots, attempt=attempts,
        raw_text=columns.raw_text, finish_reason=columns.finish_reason,
        completion_tokens=columns.completion_tokens,
    )  # fmt: skip
    read = {name: getattr(columns, name) for name in PARSED}
    insert_columns(Parse, n, sample_id=tuple(samples), version=0, parser="recorded", **read)


def _form_of(row: RecordedRow) -> str:
    """Tell the form by the values, if the file doesn't name it; outcomes alone tell nothing."""
    if row.score_1 is not None:
        return Form.SCORE
    return Form.CHOICE if row.p_first is not None else ""


def finish(run: Run, keep: Callable[[Run], object], ranked: Ranked) -> None:
    spent = run.calls.aggregate(usd=Sum("usd"))["usd"] or 0
    rows_came(run.calls.count(), Call, Sample, Parse)
    rebuild_verdicts(run, ranked)
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.DONE, reason="", spent_usd=spent, finished_at=timezone.now()
        )
        data = {"kind": Import.Kind.JUDGMENTS, "run": run.number, "rows": run.calls.count()}
        tell(run.project, "import.done", lambda: data)
        lifecycle.make_primary(run)
        run.refresh_from_db()
        keep(run)
