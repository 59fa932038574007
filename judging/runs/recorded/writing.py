"""Recorded judgments become a run: checked whole first, then written in chunks, then ranked."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.core.sql.statements import rows_came
from judging.dataset.uploads import digest
from judging.llm.prompts.templates import ORDERS, PromptVariant, balanced
from judging.methods.calibration.probabilities import PERMUTATIONS
from judging.methods.portia.stages import ALIGNMENTS, Stage
from judging.projects import access
from judging.projects.models import Project
from judging.runs import lifecycle
from judging.runs.models import Call, Form, Method, Parse, Run, Sample, Verdict
from judging.runs.planning.start import create
from judging.runs.recorded.formats import Line, RecordedRow, read_judgments
from judging.runs.verdicts.rebuild import rebuild_verdicts

CHUNK = 500
MOST_LISTED = 10
UNFINISHED = "The import of this run was cut off. Import it again under the same name."
Advance = Callable[[int], None]
Place = tuple[str, str]


@dataclass
class Survey:
    """What the first pass found, without writing."""

    rows: int = 0
    problems: int = 0
    listed: list[str] = field(default_factory=list)
    orders: set[str] = field(default_factory=set)
    forms: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    slots: Counter[Place] = field(default_factory=Counter)
    taken: set[tuple[str, str, int, int]] = field(default_factory=set)
    by_stage: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def refuse(self, line: Line, sentence: str) -> None:
        self.problems += 1
        if len(self.listed) < MOST_LISTED:
            self.listed.append(f"{line}: {sentence}")

    def add(self, line: Line, row: RecordedRow) -> None:
        self.rows += 1
        self.orders.add(row.part)
        self.by_stage[PromptVariant.parse(row.part).stage].add(row.external_id)
        self.forms.add(row.form or form_of(row))
        self.models.add(row.model)
        slot = next_slot(row, self.slots)
        key = (row.external_id, row.part, slot, row.attempt)
        if key in self.taken:
            self.refuse(line, f"Slot {slot} of {row.external_id}, {row.part}, is there already.")
        self.taken.add(key)

    @property
    def k(self) -> int:
        return max(self.slots.values(), default=1)

    @property
    def parameters(self) -> dict[str, Any]:
        """Which orders there are, and where PORTIA asked by stages, in which order it did.

        The unsplit prompt came first if every example that was split has it.
        """
        shown = {PromptVariant.parse(part).order for part in self.orders}
        orders = shown if self.stages else self.orders
        kept: dict[str, Any] = {
            "orders": [part for part in ORDERS if part in orders] or sorted(orders)
        }
        if self.orders <= set(PERMUTATIONS):
            # Those by which the verdict speaks: of X0 and X1 it is X0 alone.
            orders = {PromptVariant.parse(part).order for part in balanced(self.orders)}
            kept = {"orders": [one for one in ORDERS if one in orders]}
            kept["permutations"] = sorted(self.orders)
        return kept | ({"portia": {"stages": self.stages}} if self.stages else {})

    @property
    def stages(self) -> list[str]:
        split = [stage.value for stage in ALIGNMENTS if stage in self.by_stage]
        if not split or Stage.UNSPLIT not in self.by_stage:
            return split
        whole = self.by_stage[Stage.UNSPLIT]
        first = all(self.by_stage[stage] <= whole for stage in split)
        return [Stage.UNSPLIT.value, *split] if first else [*split, Stage.UNSPLIT.value]

    @property
    def form(self) -> str:
        """Rows without scores hold outcomes only, as the form `relation` does."""
        named = self.forms - {""}
        return named.pop() if len(named) == 1 else Form.RELATION


def import_judgments(
    project: Project,
    user: Any,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    name: str = "",
    advance: Advance = lambda rows: None,
) -> Run:
    """One run for all files. Raises UserError, with nothing written, when a row can't be used."""
    survey = check(project, paths, file_format)
    run = begin(project, user, paths, survey, name)
    examples = dict(project.examples.judged().values_list("external_id", "pk"))
    slots: Counter[Place] = Counter()
    rows = (row for _, row in read_judgments(paths, file_format))
    while chunk := list(islice(rows, CHUNK)):
        write(run, chunk, examples, slots)
        advance(len(chunk))
    finish(run)
    return run


def check(project: Project, paths: Sequence[Path], file_format: str) -> Survey:
    """Read everything once, and refuse the files if any row is wrong."""
    known = set(project.examples.judged().values_list("external_id", flat=True))
    survey = Survey()
    for line, row in read_judgments(paths, file_format):
        if not isinstance(row, RecordedRow):
            survey.refuse(line, str(row))
        elif row.external_id not in known:
            survey.refuse(line, f"Project {project.slug} has no example {row.external_id}.")
        else:
            survey.add(line, row)
    if len(survey.forms - {""}) > 1:
        raise UserError("The files hold more than one form. Nothing was imported. Split them.")
    if survey.problems:
        more = survey.problems - len(survey.listed)
        listed = "\n".join([*survey.listed, *([f"… and {more} more."] if more else [])])
        raise UserError(
            f"{number_of(survey.problems, 'row')} can't be used. Nothing was imported.\n{listed}"
        )
    if not survey.rows:
        raise UserError("The files hold no judgment. Nothing was imported.")
    return survey


def begin(project: Project, user: Any, paths: Sequence[Path], survey: Survey, name: str) -> Run:
    """The run as it stays if the import is cut off; one that stayed so under this name goes."""
    sha256 = digest(paths)
    models = survey.models - {""}
    fields = {
        "project": project,
        "method": Method.IMPORTED,
        "form": survey.form,
        "model": models.pop() if len(models) == 1 else "",
        "k": survey.k,
        "parameters": survey.parameters,
        "source_files": [{"name": path.name, "sha256": digest([path])} for path in paths],
        "state": Run.State.FAILED,
        "reason": UNFINISHED,
        "created_by": user,
    }  # fmt: skip
    with transaction.atomic():
        cut_off = project.runs.filter(method=Method.IMPORTED, reason=UNFINISHED)
        cut_off.filter(name=name, state=Run.State.FAILED).delete()
        run = create(name, fields)
        access.record_event(project, user, "judgments imported", run.name, sha256=sha256)
    return run


def write(
    run: Run, rows: Sequence[RecordedRow], examples: dict[str, int], slots: Counter[Place]
) -> None:
    """A call for each sample, since how they were asked for is not known."""
    with transaction.atomic():
        calls = Call.objects.bulk_create(made_calls(run, rows, examples, slots))
        samples = Sample.objects.bulk_create(
            Sample(
                call=call,
                index=0,
                slot=call.slots[0],
                attempt=row.attempt,
                raw_text=row.raw_text,
                finish_reason=row.finish_reason,
                completion_tokens=row.completion_tokens,
            )
            for call, row in zip(calls, rows, strict=True)
        )
        Parse.objects.bulk_create(
            Parse(
                sample=sample,
                version=0,
                parser="recorded",
                status=row.status,
                score_1=row.score_1,
                score_2=row.score_2,
                rating=row.rating,
                p_first=row.p_first,
                mass=row.mass,
                outcome=row.outcome,
                evidence=row.evidence,
            )
            for sample, row in zip(samples, rows, strict=True)
        )


def made_calls(
    run: Run, rows: Sequence[RecordedRow], examples: dict[str, int], slots: Counter[Place]
) -> Iterator[Call]:
    now = timezone.now()
    for row in rows:
        slot = next_slot(row, slots)
        yield Call(
            run=run,
            example_id=examples[row.external_id],
            part=row.part,
            seq=row.attempt * run.k + slot,
            slots=[slot],
            attempt=row.attempt,
            state=Call.State.DONE,
            claimed_at=now,
            finished_at=now,
            prompt_tokens=row.prompt_tokens,
            completion_tokens=row.completion_tokens,
            usd=row.usd,
            estimated=row.estimated,
            model=row.model,
        )


def form_of(row: RecordedRow) -> str:
    """What the values tell where the file doesn't; outcomes alone tell nothing."""
    if row.score_1 is not None:
        return Form.SCORE
    return Form.CHOICE if row.p_first is not None else ""


def next_slot(row: RecordedRow, slots: Counter[Place]) -> int:
    """The row's own slot, else the next one of its order; `slots` counts how many there are."""
    place = row.external_id, row.part
    slot = slots[place] if row.slot is None else row.slot
    slots[place] = max(slots[place], slot + 1)
    return slot


def finish(run: Run) -> None:
    spent = run.calls.aggregate(usd=Sum("usd"))["usd"] or 0
    rows_came(run.calls.count(), Call, Sample, Parse)
    rebuild_verdicts(run)
    rows_came(run.verdicts.count(), Verdict)
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.DONE, reason="", spent_usd=spent, finished_at=timezone.now()
    )
    lifecycle.make_primary(run)
    run.refresh_from_db()
