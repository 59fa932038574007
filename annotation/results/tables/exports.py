"""The labels export: one row an example, with all that is needed to merge it again."""

import csv
import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import OuterRef, QuerySet

from annotation.models import Annotation, Annotator, Protocol, RoutingScores
from annotation.results.merge.final_labels import Merged, merged
from judging.core.errors import UserError
from judging.core.queries import count_of
from judging.core.text import ESCAPE_COLUMN, ESCAPED, escape_cell
from judging.dataset.models import Label
from judging.llm.prompts.templates import PromptVariant
from judging.projects import access
from judging.projects.models import Export, Project
from judging.runs.models import Form, Parse, Run, Verdict, subject_field

LABEL_COLUMNS = (
    "external_id", "question", "response_1", "response_2", "model_1", "model_2", "category",
    "gold_label", "run", "judge_label", "score_1", "score_2", "bpde", "rank", "routing_score",
    "n_valid", "n_asked", "selection", "probability", "votes_win", "votes_tie", "votes_lose",
    "n_votes", "human_label", "final_label", "source", "rule", "adjudicator", "judge_usd",
    "human_usd",
)  # fmt: skip


def label_rows(project: Project, run: Run | None, *, names: bool) -> Iterator[dict[str, Any]]:
    """Every example in import order. Without `names` a deciding person is a pseudonym."""
    people = Annotator.objects.filter(project=project, user__isnull=False)
    pseudonyms = {one.user.username: one.pseudonym for one in people.select_related("user")}
    learned = _learned_scores(run)
    for one in merged(project, run):
        row = _row(one, run, pseudonyms, names=names)
        if one.example.pk in learned:
            row["routing_score"] = learned[one.example.pk]
        yield row


def _learned_scores(run: Run | None) -> dict[int, float]:
    """By example, what the newest round of the run that learned went by."""
    kept = RoutingScores.objects.filter(round__run=run).order_by("-round__number").first()
    if run is None or kept is None:
        return {}
    return dict(zip(kept.examples, kept.scores, strict=True))


def _row(
    one: Merged, run: Run | None, pseudonyms: dict[str, str], *, names: bool
) -> dict[str, Any]:
    example, verdict, people = one.example, one.verdict, one.people
    counts = people.counts if people and people.votes else {}
    decider = people.adjudicator if people else ""
    if decider and not names:
        decider = pseudonyms.get(decider, "manager")
    row = {name: getattr(example, name) for name in LABEL_COLUMNS[:8]}
    row |= {
        "run": run.name if run else None,
        "selection": people.selection if people else None,
        "probability": people.probability if people else None,
        "votes_win": counts.get("win"),
        "votes_tie": counts.get("tie"),
        "votes_lose": counts.get("lose"),
        "n_votes": people.n_votes if people else 0,
        "human_label": one.human_label,
        "final_label": one.label,
        "source": one.source,
        "rule": one.rule,
        "adjudicator": decider or None,
        "human_usd": one.human_usd,
    }
    if verdict is not None:
        row |= {
            "judge_label": verdict.label,
            "score_1": verdict.cs_1,
            "score_2": verdict.cs_2,
            "bpde": verdict.bpde,
            "rank": verdict.rank,
            "routing_score": verdict.routing_score,
            "n_valid": verdict.n_valid,
            "n_asked": verdict.n_asked,
            "judge_usd": verdict.usd,
        }
    return row


VOTE_COLUMNS = (
    "external_id", "annotator", "label", "raw_answer", "left_response", "comment",
    "active_seconds", "submitted_at", "round", "protocol", "example_votes_n", "selection",
    "probability", "source",
)  # fmt: skip
# The last of all, behind the criteria: whoever reads columns by their place finds them there.
UNBLINDED = "unblinded"


def vote_columns(project: Project) -> tuple[str, ...]:
    """The fixed columns, one for each criterion that any protocol asked, and the mark."""
    fixed = (*VOTE_COLUMNS, UNBLINDED)
    criteria: dict[str, None] = {}
    for asked in Protocol.objects.filter(project=project).order_by("number"):
        criteria |= dict.fromkeys(str(name) for name in asked.criteria if name not in fixed)
    return (*VOTE_COLUMNS, *criteria, UNBLINDED)


def vote_rows(project: Project, *, names: bool) -> Iterator[dict[str, Any]]:
    """Every vote, by example in import order."""
    for vote in _votes(project).iterator(chunk_size=500):
        person = vote.annotator
        row = {
            "external_id": vote.example.external_id,
            "annotator": person.name if names else person.pseudonym,
            "label": vote.label,
            "raw_answer": vote.answer.get("overall"),
            "left_response": vote.left_response,
            "comment": vote.comment,
            "active_seconds": vote.active_seconds,
            "submitted_at": vote.submitted_at,
            "round": vote.item.round.number,
            "protocol": vote.protocol.name,
            "example_votes_n": vote.n_votes,
            "selection": vote.item.selection.kind,
            "probability": vote.item.probability,
            "source": vote.source,
            UNBLINDED: vote.unblinded,
        }
        yield row | {
            name: value
            for name, value in (vote.answer.get("criteria") or {}).items()
            if name not in row
        }


def _votes(project: Project) -> QuerySet[Annotation]:
    same = Annotation.objects.filter(example=OuterRef("example"), protocol=OuterRef("protocol"))
    return (
        Annotation.objects.filter(example__project=project)
        .select_related("example", "annotator", "protocol", "item__round", "item__selection")
        .annotate(n_votes=count_of(same, "example"))
        .defer("example__question", "example__response_1", "example__response_2")
        .order_by("example__number", "example", "pk")
    )


SAMPLE_COLUMNS = (
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
        "order": None if run.form == Form.POINTWISE else PromptVariant.parse(part).order,
        "stage": PromptVariant.parse(part).stage if run.stages else None,
        "permutation": PromptVariant.parse(part).permutation,
        "model": row["model"] or run.model,
        "prompt_tokens": row["prompt_tokens"] if index == 0 else 0,
        "usd": row["usd"] if index == 0 else 0,
    }


PREFERENCE_COLUMNS = (
    "prompt", "chosen", "rejected", "source", "reviewed", "p_chosen", "bpde", "external_id",
)  # fmt: skip


@dataclass
class PreferencePairs:
    """Rows, and in `contradictory` the external ids of what contradicts itself."""

    project: Project
    run: Run | None
    contradictory: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Two passes, so that only a hash of each pair is held in memory."""
        refused = self._refused()
        for one in merged(self.project, self.run):
            if has_preference(one) and _pair(one) not in refused:
                yield _preferences_table_row(one)

    def _refused(self) -> set[bytes]:
        seen: dict[bytes, set[bytes]] = defaultdict(set)
        ids: dict[bytes, list[str]] = defaultdict(list)
        for one in merged(self.project, self.run):
            if has_preference(one):
                seen[_pair(one)].add(_digest(_texts(one)[1]))
                ids[_pair(one)].append(one.example.external_id)
        refused = {pair for pair, chosen in seen.items() if len(chosen) > 1}
        self.contradictory = [name for pair in refused for name in ids[pair]]
        return refused


def has_preference(one: Merged) -> bool:
    if one.label not in (Label.WIN, Label.LOSE) or one.example.response_1 == one.example.response_2:
        return False
    votes = one.people.votes if one.people and one.source != "judge" else ()
    return 2 * sum(vote.both_bad for vote in votes) <= len(votes) if votes else True


def _texts(one: Merged) -> tuple[str, str, str]:
    """Question, chosen, rejected."""
    example = one.example
    texts = (example.response_1, example.response_2)
    chosen, rejected = texts if one.label == Label.WIN else texts[::-1]
    return example.question, chosen, rejected


def _pair(one: Merged) -> bytes:
    """The same for a pair in either order."""
    question, chosen, rejected = _texts(one)
    return _digest(question, *sorted((chosen, rejected)))


def _digest(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode()).digest()


def _preferences_table_row(one: Merged) -> dict[str, Any]:
    prompt, chosen, rejected = _texts(one)
    reviewed = one.source not in ("judge", "policy:judge")
    return {
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "source": one.source,
        "reviewed": reviewed,
        "p_chosen": _share_of_votes(one) if reviewed else share_of_samples(one.verdict, one.label),
        "bpde": one.verdict.bpde if one.verdict else None,
        "external_id": one.example.external_id,
    }


def _share_of_votes(one: Merged) -> float | None:
    votes = one.people.votes if one.people else ()
    return sum(vote.label == one.label for vote in votes) / len(votes) if votes else None


def share_of_samples(verdict: Verdict | None, label: str | None) -> float | None:
    """Share of this outcome within each order, averaged over the orders, as BPDE's shares are."""
    orders = verdict.outcomes.values() if verdict else ()
    valid = [[one for one in order if one] for order in orders]
    if not valid or not all(valid):
        return None
    return sum(order.count(label) / len(order) for order in valid) / len(valid)


def as_cell(value: Any) -> str:
    """Text for CSV. Floats by their shortest exact text, decimals without an exponent."""
    value = as_json(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def as_json(value: Any) -> Any:
    """For JSON lines: decimals as text, since a JSON number is read as a float elsewhere."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write it meanwhile. Raises UserError where that can't be; then nothing is left."""
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name the file too; nothing was written.")
        partial = path.with_name(f"{path.name}.part")
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path} could not be written: {error.strerror}.") from error


KINDS = ("labels", "votes", "samples", "preferences")
FORMATS = ("csv", "jsonl")
_ROWS_A_PIECE = 200
MOST_NAMED = 1000


@dataclass(frozen=True)
class ExportRequest:
    """What to export. `escape` protects spreadsheets; JSON lines are never changed.

    Preferences are JSON lines whatever `format` says: nothing that trains reads them from a table.
    """

    what: str = "labels"
    format: str = "csv"
    names: bool = False
    escape: bool = True

    def __post_init__(self) -> None:
        if self.what == "preferences":
            object.__setattr__(self, "format", "jsonl")

    @property
    def escaped(self) -> bool:
        return self.escape and self.format == "csv"


def export(
    project: Project, run: Run | None, user: AbstractUser | None, wanted: ExportRequest
) -> Iterator[bytes]:
    """The file, piece by piece in constant memory. Its hash is put on record with the last piece.

    Raises UserError before the first piece when there is nothing to export.
    """
    if wanted.what not in KINDS or wanted.format not in FORMATS:
        raise UserError(f"Export one of {', '.join(KINDS)} as {' or '.join(FORMATS)}.")
    if wanted.what == "samples" and run is None:
        raise UserError("Samples belong to a run, and this project has none yet.")
    if wanted.what == "preferences":
        found = PreferencePairs(project, run)
        lines = _lines(PREFERENCE_COLUMNS, found.rows(), wanted)
        return _recorded(project, run, user, wanted, lines, found)
    columns, rows = _table(project, run, wanted)
    return _recorded(project, run, user, wanted, _lines(columns, rows, wanted))


def file_name(project: Project, run: Run | None, wanted: ExportRequest) -> str:
    """`vicuna-run2-labels.csv`."""
    part = f"-run{run.number}" if run and wanted.what != "votes" else ""
    return f"{project.slug}{part}-{wanted.what}.{wanted.format}"


def _table(
    project: Project, run: Run | None, wanted: ExportRequest
) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
    if wanted.what == "votes":
        rows = vote_rows(project, names=wanted.names)
        return vote_columns(project), rows
    if wanted.what == "samples" and run is not None:
        return SAMPLE_COLUMNS, sample_rows(run)
    return LABEL_COLUMNS, label_rows(project, run, names=wanted.names)


def _lines(
    columns: Sequence[str], rows: Iterable[dict[str, Any]], wanted: ExportRequest
) -> Iterator[str]:
    if wanted.format == "jsonl":
        for row in rows:
            ordered = {name: as_json(row.get(name)) for name in columns}
            yield json.dumps(ordered, ensure_ascii=False) + "\n"
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")

    def line(cells: Iterable[str]) -> str:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        return buffer.getvalue()

    # The names of criteria are a person's text as well.
    yield line([*map(escape_cell, columns), ESCAPE_COLUMN] if wanted.escaped else columns)
    for row in rows:
        cells = [as_cell(row.get(name)) for name in columns]
        if wanted.escaped:
            cells = [*map(escape_cell, cells), ESCAPED]
        yield line(cells)


class _Sent:
    """What was handed over so far."""

    def __init__(self) -> None:
        self.digest, self.n_lines = hashlib.sha256(), 0

    def pieces(self, lines: Iterator[str]) -> Iterator[bytes]:
        piece: list[str] = []
        for text in lines:
            piece.append(text)
            # The first line goes off at once: what a large project takes to gather comes after it.
            if len(piece) >= _ROWS_A_PIECE or not self.n_lines:
                yield self._piece(piece)
                piece = []
        yield self._piece(piece)

    def _piece(self, lines: list[str]) -> bytes:
        data = "".join(lines).encode()
        self.digest.update(data)
        self.n_lines += len(lines)
        return data


def _recorded(
    project: Project,
    run: Run | None,
    user: AbstractUser | None,
    wanted: ExportRequest,
    lines: Iterator[str],
    preferences: PreferencePairs | None = None,
) -> Iterator[bytes]:
    sent = _Sent()

    def tell(action: str) -> dict[str, Any]:
        n_rows = max(0, sent.n_lines - (wanted.format == "csv"))
        facts = {"rows": n_rows, "sha256": sent.digest.hexdigest(), "names": wanted.names}
        access.record_event(project, user, action, file_name(project, run, wanted), **facts)
        return facts

    try:
        yield from sent.pieces(lines)
    except BaseException:
        # Whoever breaks off keeps what was sent before.
        tell("export broken off")
        raise
    options: dict[str, Any] = {"names": wanted.names, "escape": wanted.escaped}
    if preferences is not None:
        options["contradictory"] = preferences.contradictory[:MOST_NAMED]
    facts = tell("exported")
    Export.objects.create(
        project=project,
        run=run,
        what=wanted.what,
        format=wanted.format,
        options=options,
        n_rows=facts["rows"],
        sha256=facts["sha256"],
        created_by=user,
    )
