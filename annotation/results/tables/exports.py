"""Exports of labels, votes, samples, preferences and people as CSV, JSON lines and typed files.

Each table is a tuple of columns and a generator of rows:

- labels: one row per example, with everything that is needed to merge it again;
- votes: one row per vote, with why it was asked for and how the pair was shown;
- samples: one row per sample, with scores turned back to responses 1 and 2;
- preferences: the better and the worse response, as trainers such as TRL's DPO read them;
- people: what each annotator did, costs, and agrees with, and what people say on each criterion of
  each example, in `annotation.results.tables.people`;
- tables for other tools (`other_tools`).

Parquet, Arrow, Excel and the folder of a data set are written by `typed`.

`export` writes a table, piece by piece in constant memory, and puts the file and its hash on
record. Columns are public: their names, their order and their meaning stay.
"""

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TypeVar

from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import Exists, Model, OuterRef, QuerySet

from annotation.models import Annotator, Protocol, RoutingScores, Vote
from annotation.results.merge.final_labels import Merged, merged
from annotation.results.tables.other_tools import OTHER_TOOLS, TASKS, table_for
from annotation.results.tables.people import (
    CRITERION_COLUMNS,
    criterion_rows,
    people_columns,
    people_rows,
)
from annotation.results.tables.typed import Card, Sink, arrow_for_export, typed_file
from annotation.votes.files import CRITERION, MORE, OVERALL_RULE
from annotation.votes.imports import vote_id
from judging.core.conversations import ALONE, dumped, unpacked
from judging.core.errors import UserError
from judging.core.models import count_of
from judging.core.sql.statements import after_snapshot
from judging.core.text import ESCAPE_COLUMN, escape_cell, escape_row
from judging.dataset.models import Example, Frame, FrameMember, Label, Tag, tags_of_examples
from judging.dataset.records import CONVERSATION
from judging.llm.prompts.templates import PromptVariant
from judging.methods.agreement.votes import JUDGE_SOURCES, LabelSource
from judging.projects import access
from judging.projects.models import Export, Project, Role
from judging.runs.models import Form, Parse, Run, subject_field

Row = TypeVar("Row", bound=Model)
_ROWS_A_PIECE = 200
CHANCES = ("p_win", "p_tie", "p_lose")
LABEL_COLUMNS = (
    "external_id", "question", "response_1", "response_2", "model_1", "model_2", "category",
    "gold_label", "run", "judge_label", "score_1", "score_2", "bpde", "rank", "routing_score",
    "n_valid", "n_asked", "selection", "probability", "votes_win", "votes_tie", "votes_lose",
    "n_votes", "human_label", "final_label", "source", "rule", "adjudicator", "judge_usd",
    "human_usd", "winner", "reference", "tags",
)  # fmt: skip


def label_columns(project: Project) -> tuple[str, ...]:
    """Return the columns of labels, with that of messages if an example came as a conversation."""
    lists = Example.objects.filter(project=project, conversation__isnull=False)
    messages = (CONVERSATION,) if lists.exists() else ()
    return (*LABEL_COLUMNS, *messages, "model_of_votes", *CHANCES)


def label_rows(
    project: Project, run: Run | None, *, names: bool, frame: Frame | None = None, model: str = ""
) -> Iterator[dict[str, Any]]:
    """Every example in import order. Without `names`, a deciding person is a pseudonym.

    Args:
        model: Whose probabilities are given if majorities are final; by default none are.
    """
    people = Annotator.objects.filter(project=project, user__isnull=False)
    annotators = {person.user.username: person for person in people.select_related("user")}
    learned = _learned_scores(run)
    is_tagged = Tag.objects.filter(project=project).exists()
    if project.label_rule != Project.LabelRule.MAJORITY:
        model = project.label_rule
    finals = merged(project, run, frame.pk if frame else None, model=model)
    while chunk := list(islice(finals, _ROWS_A_PIECE)):
        # One query for a piece of rows, instead of one for each row.
        tags = tags_of_examples([final.example.pk for final in chunk]) if is_tagged else {}
        for final in chunk:
            row = _label_row(final, run, annotators, names=names)
            row["tags"] = ";".join(tags.get(final.example.pk, ()))
            if final.people and final.people.posterior:
                row |= {"model_of_votes": model} | dict(
                    zip(CHANCES, final.people.posterior, strict=True)
                )
            if final.example.pk in learned:
                row["routing_score"] = learned[final.example.pk]
            yield row


def _learned_scores(run: Run | None) -> dict[int, float]:
    """Return the scores by which the run's newest round that learned selected, by example id."""
    kept = RoutingScores.objects.filter(round__run=run).order_by("-round__number").first()
    return dict(zip(kept.examples, kept.scores, strict=True)) if run and kept else {}


def _label_row(
    final: Merged, run: Run | None, annotators: dict[str, Annotator], *, names: bool
) -> dict[str, Any]:
    example, verdict, people = final.example, final.verdict, final.people
    counts = people.counts if people and people.votes else {}
    decider = people.adjudicator if people else ""
    if decider and not names:
        # A manager decides without being an annotator, and then has no pseudonym.
        decider = annotators[decider].pseudonym if decider in annotators else "manager"
    row = {
        "external_id": example.external_id,
        "question": example.question,
        "response_1": example.response_1,
        "response_2": example.response_2,
        "model_1": example.model_1,
        "model_2": example.model_2,
        "category": example.category,
        "gold_label": example.gold_label,
        "run": run.name if run else None,
        "selection": people.selection if people else None,
        "probability": people.probability if people else None,
        "votes_win": counts.get("win"),
        "votes_tie": counts.get("tie"),
        "votes_lose": counts.get("lose"),
        "n_votes": people.n_votes if people else 0,
        "human_label": final.human_label,
        "final_label": final.label,
        "source": final.source,
        "rule": final.rule,
        "adjudicator": decider or None,
        "human_usd": final.human_usd,
        "winner": _winner(final),
        "reference": example.reference,
    }
    if example.conversation:
        row[CONVERSATION] = InJson(example.conversation)
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


class InJson(str):
    """A cell of JSON: in JSON files the value itself, in tables its text."""

    __slots__ = ()


def _winner(final: Merged) -> str | None:
    """Return the name of the model that wins, or `tie`; None without a label or a name."""
    if final.label is None:
        return None
    example = final.example
    names = {"win": example.model_1, "tie": "tie", "lose": example.model_2}
    return names[final.label] or None


VOTE_COLUMNS = (
    "external_id", "annotator", "label", "raw_answer", "left_response", "comment",
    "active_seconds", "submitted_at", "round", "protocol", "example_votes_n", "selection",
    "probability", "source",
)  # fmt: skip
TEXTS = ("question", "response_1", "response_2", "reference", "conversation")
# After the criteria, the mark as the last one, so that scripts that read columns by position keep
# working.
IDENTITY = ("vote_id", "protocol_fingerprint")
UNBLINDED = "unblinded"
# The language of the page on which the vote was cast.
LANGUAGE = "language"


def vote_columns(project: Project) -> tuple[str, ...]:
    """Return the fixed columns, one for each criterion of any protocol or vote, and the last ones.

    The rule that derived overall answers has a column if a protocol has one, and so have
    confidence, reasons and spans if a protocol asks for them, or imported votes have them.
    """
    criteria: dict[str, None] = {}
    asked = list(Protocol.objects.filter(project=project).order_by("number"))
    for protocol in asked:
        criteria |= dict.fromkeys(f"{CRITERION}{name}" for name in protocol.criteria)
    rule = (OVERALL_RULE,) if any(protocol.criteria_rule for protocol in asked) else ()
    asks = {
        "confidence": any(protocol.ask_confidence for protocol in asked),
        "reasons": any(protocol.reason_tags for protocol in asked),
        "spans": any(protocol.ask_spans for protocol in asked),
    }
    votes = Vote.objects.filter(example__project=project, source=Vote.Source.IMPORT)
    more = [name for name in MORE if asks[name] or votes.filter(answer__has_key=name).exists()]
    # Imported votes may answer criteria that no protocol asks about. The different answers are few.
    answers = votes.filter(answer__has_key="criteria").order_by()
    answered = answers.values_list("answer__criteria", flat=True).distinct()
    names = sorted({name for keys in answered.iterator(chunk_size=500) for name in keys})
    criteria |= dict.fromkeys(f"{CRITERION}{name}" for name in names)
    return (*VOTE_COLUMNS, *criteria, *IDENTITY, *rule, *more, UNBLINDED, LANGUAGE)


def in_frame(rows: QuerySet[Row], example: str, frame: Frame | None) -> QuerySet[Row]:
    """Keep rows of which the field `example` names a member of the frame; all without a frame."""
    if frame is None:
        return rows
    return rows.filter(Exists(FrameMember.objects.filter(frame=frame, example=OuterRef(example))))


def vote_rows(
    project: Project, *, names: bool, frame: Frame | None = None
) -> Iterator[dict[str, Any]]:
    """Yield every vote, by example in import order."""
    same = Vote.objects.filter(example=OuterRef("example"), protocol=OuterRef("protocol"))
    votes = (
        in_frame(Vote.objects.filter(example__project=project), "example", frame)
        .select_related("example", "annotator", "protocol", "item__round", "item__selection")
        .annotate(n_votes=count_of(same, "example"))
        .defer(*(f"example__{name}" for name in TEXTS))
        .order_by("example__number", "example", "pk")
    )
    for vote in votes.iterator(chunk_size=500):
        person = vote.annotator
        row = {
            "external_id": vote.example.external_id,
            "annotator": person.name if names else person.pseudonym,
            "label": vote.label or None,
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
            LANGUAGE: vote.language or None,
            "vote_id": vote_id(project, vote.pk),
            "protocol_fingerprint": vote.protocol.digest,
        }
        if rule := vote.answer.get("rule"):
            row[OVERALL_RULE] = json.dumps(rule, ensure_ascii=False)
        if confidence := vote.answer.get("confidence"):
            row["confidence"] = confidence
        if reasons := vote.answer.get("reasons"):
            row["reasons"] = ";".join(reasons)
        if spans := vote.answer.get("spans"):
            row["spans"] = InJson(json.dumps(spans, ensure_ascii=False))
        criteria = vote.answer.get("criteria") or {}
        yield row | {f"{CRITERION}{name}": value for name, value in criteria.items()}


SAMPLE_COLUMNS = (
    "external_id", "run", "form", "part", "order", "stage", "permutation", "slot", "attempt",
    "status", "score_1", "score_2", "rating", "p_first", "mass", "outcome", "evidence",
    "raw_text", "finish_reason", "model", "prompt_tokens", "completion_tokens", "usd",
    "estimated", "reused_from", "criteria", "why",
)  # fmt: skip


# The field of each column, seen from a parse of the sample. Values are read instead of the five
# models that a row would take, because a row shows only a few fields of each.
_CALL = {
    "part": "sample__call__part",
    "model": "sample__call__model",
    "prompt_tokens": "sample__call__prompt_tokens",
    "usd": "sample__call__usd",
    "estimated": "sample__call__estimated",
    "reused_from": "sample__call__reused_from",
}
_SAMPLE = ("slot", "attempt", "raw_text", "finish_reason", "completion_tokens")
_PARSE = (
    "status", "score_1", "score_2", "rating", "p_first", "mass", "outcome", "evidence", "criteria",
    "why",
)  # fmt: skip
_READ = _CALL | {name: f"sample__{name}" for name in _SAMPLE} | {name: name for name in _PARSE}


def sample_rows(run: Run, frame: Frame | None = None) -> Iterator[dict[str, Any]]:
    """Yield every sample, with every attempt.

    Only a call's first sample has its prompt tokens and USD, so that the columns add up to the
    run's totals.
    """
    subject = f"sample__call__{subject_field(run)}"
    parses = (
        in_frame(
            Parse.objects.filter(current=True, sample__call__run=run),
            "sample__call__example",
            frame,
        )
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
        "criteria": row["criteria"] and json.dumps(row["criteria"], ensure_ascii=False),
        "model": row["model"] or run.model,
        "prompt_tokens": row["prompt_tokens"] if index == 0 else 0,
        "usd": row["usd"] if index == 0 else 0,
    }


PREFERENCE_COLUMNS = (
    "prompt", "chosen", "rejected", "source", "reviewed", "p_chosen", "bpde", "external_id",
    "reference",
)  # fmt: skip


@dataclass
class PreferencePairs:
    """The rows of the preferences. Ties, both-bad and pairs of equal texts hold no preference.

    If a pair occurs twice with opposite labels, neither is exported. `contradictory` holds the
    external ids of all such pairs, once the rows were read.
    """

    project: Project
    run: Run | None
    frame: Frame | None = None
    contradictory: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows in a second pass, so that memory holds only a hash of each pair."""
        refused = self._find_contradictory()
        for final in self._preferences():
            if _pair_hash(final) not in refused:
                yield _preference_row(final)

    def _find_contradictory(self) -> set[bytes]:
        chosen: dict[bytes, set[bytes]] = defaultdict(set)
        ids: dict[bytes, list[str]] = defaultdict(list)
        for final in self._preferences():
            pair = _pair_hash(final)
            chosen[pair].add(_hash(_texts(final)[1]))
            ids[pair].append(final.example.external_id)
        refused = {pair for pair, texts in chosen.items() if len(texts) > 1}
        self.contradictory = [name for pair in refused for name in ids[pair]]
        return refused

    def _preferences(self) -> Iterator[Merged]:
        frame = self.frame.pk if self.frame else None
        return filter(_has_preference, merged(self.project, self.run, frame))


def _has_preference(final: Merged) -> bool:
    example = final.example
    if final.label not in (Label.WIN, Label.LOSE) or example.response_1 == example.response_2:
        return False
    votes = final.people.votes if final.people and final.source != LabelSource.JUDGE else ()
    # More than half of the voters finding both bad prefer neither.
    return not votes or 2 * sum(vote.both_bad for vote in votes) <= len(votes)


def _texts(final: Merged) -> tuple[str, str, str]:
    """Return the question, the chosen and the rejected response."""
    texts = (final.example.response_1, final.example.response_2)
    chosen, rejected = texts if final.label == Label.WIN else texts[::-1]
    return final.example.question, chosen, rejected


def _messages(final: Merged) -> tuple[str, str, str] | None:
    """Return the same three as lists of messages if one of them is a conversation.

    Trainers take either three texts or three lists.
    """
    example = final.example
    if not example.conversation:
        return None
    lists = unpacked(example.conversation)
    question, *responses = (
        InJson(dumped(lists.get(name) or [{"role": role, "content": getattr(example, name)}]))
        for name, role in ALONE.items()
    )
    chosen, rejected = responses if final.label == Label.WIN else responses[::-1]
    return question, chosen, rejected


def _pair_hash(final: Merged) -> bytes:
    """Return the same hash for a pair in either order."""
    question, chosen, rejected = _texts(final)
    return _hash(question, *sorted((chosen, rejected)))


def _hash(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode()).digest()


def _preference_row(final: Merged) -> dict[str, Any]:
    prompt, chosen, rejected = _messages(final) or _texts(final)
    reviewed = final.source not in JUDGE_SOURCES
    share = _share_of_votes(final) if reviewed else _share_of_samples(final.verdict, final.label)
    return {
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "source": final.source,
        "reviewed": reviewed,
        "p_chosen": share,
        "bpde": final.verdict.bpde if final.verdict else None,
        "external_id": final.example.external_id,
        "reference": final.example.reference,
    }


def _share_of_votes(final: Merged) -> float | None:
    votes = final.people.votes if final.people else ()
    return sum(vote.label == final.label for vote in votes) / len(votes) if votes else None


def _share_of_samples(verdict: Any, label: str | None) -> float | None:
    """Return the outcome's share within each order, averaged over the orders like BPDE's shares."""
    orders = json.loads(verdict.outcomes_read).values() if verdict else ()
    valid = [[outcome for outcome in order if outcome] for order in orders]
    if not valid or not all(valid):
        return None
    return sum(order.count(label) / len(order) for order in valid) / len(valid)


def as_cell(value: Any) -> str:
    """Return a CSV cell: floats as their shortest exact text, empty for what isn't known."""
    if isinstance(value, InJson):
        return str(value)
    value = as_json(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


# Most values, which are JSON as they are: to ask for more costs a third of an export.
_PLAIN = frozenset({str, int, float, bool, type(None)})
# The same for cells.
_CELLS: dict[type, Any] = {str: str, int: repr, float: repr, type(None): lambda _: ""}


def as_json(value: Any) -> Any:
    """Return a JSON value. Decimals become text, since a JSON number is read as a float."""
    if isinstance(value, InJson):
        return json.loads(value)
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to, which replaces `path` at the end. No partial file is ever left.

    Raises:
        UserError: The file can't be written.
    """
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name the file too; nothing was written.")
        # In the same folder, so that the file replaces the old one in a single step.
        partial = path.with_name(f"{path.name}.part")
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path} could not be written: {error.strerror}.") from error


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


KINDS = ("labels", "votes", "samples", "preferences", "people", "criteria", "trail", *OTHER_TOOLS)
# These show neither what a judge said nor whose response is whose.
BLIND_KINDS = ("votes", "people", "trail")
TRAIL_COLUMNS = ("at", "actor", "action", "subject", "detail")
CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "dataset": "application/zip",
}
FORMATS = tuple(CONTENT_TYPES)
# What these write differs from a row of texts, or is more than a file.
_TYPED = ("parquet", "arrow", "xlsx", "dataset")
# The first rows of these are sent at once.
STREAMED = tuple(name for name in FORMATS if name not in _TYPED)
PACKINGS = ("gz", "zst")
MOST_NAMED = 1000


@dataclass(frozen=True)
class ExportRequest:
    """What to export.

    Attributes:
        what: One of `KINDS`.
        format: One of `FORMATS`. Preferences are no CSV, since trainers read none: they are JSON
            lines instead. Tables for other tools are always JSON.
        names: Write names of people instead of pseudonyms.
        escape: Protect spreadsheets from cells that they would compute. JSON lines are never
            changed.
        values: Only rows that have these values, by column.
        frame: The examples that it is about; by default those of the run.
        background: Add to the people what those of a panel said about themselves.
        packing: Compress a file of texts: one of `PACKINGS`, or "".
        model: Of labels: the model of votes whose probabilities are given if majorities are final.
    """

    what: str = "labels"
    format: str = "csv"
    names: bool = False
    escape: bool = True
    values: Mapping[str, str] = field(default_factory=dict)
    frame: Frame | None = None
    background: bool = False
    packing: str = ""
    model: str = ""

    def __post_init__(self) -> None:
        if self.what == "preferences" and self.format == "csv":
            object.__setattr__(self, "format", "jsonl")
        if self.what in OTHER_TOOLS:
            object.__setattr__(self, "format", "json")

    @property
    def escaped(self) -> bool:
        return self.escape and self.format == "csv"


def role_for(request: ExportRequest) -> Role:
    """Return the role that an export needs.

    Observers see pseudonyms. Only owners see the audit trail, and what each person of a panel said
    about themselves.
    """
    if request.background or request.what == "trail":
        return Role.OWNER
    return Role.RESEARCHER if request.names else Role.OBSERVER


def export(
    project: Project,
    run: Run | None,
    user: AbstractUser | None,
    request: ExportRequest,
    *,
    advance: Callable[[int], None] | None = None,
) -> Iterator[bytes]:
    """Return the file, piece by piece. The last piece puts it and its hash on record.

    Args:
        advance: Told how many rows were read since it was told last. If it raises, the file is
            broken off.

    Raises:
        UserError: There is nothing to export. Raised before the first piece.
    """
    if request.model and request.model not in Project.LabelRule.values[1:]:
        raise UserError(f"{request.model} is no model of votes. Nothing was exported.")
    if request.what not in KINDS or request.format not in FORMATS:
        raise UserError(f"Export one of {', '.join(KINDS)} as {' or '.join(FORMATS)}.")
    if request.format in _TYPED and request.packing:
        raise UserError(
            f"A file of the format {request.format} is compressed already. Leave "
            f".{request.packing} out. Nothing was exported."
        )
    needs = request.format if request.format in _TYPED else {"zst": "zstd"}.get(request.packing)
    if needs and needs != "xlsx":
        arrow_for_export(needs)
    if request.what == "preferences" or request.what in OTHER_TOOLS:
        access.need_texts(project, f"There are no {request.what} without them.")
    # This is no generator, so that every refusal comes before an answer has begun.
    columns, rows, preferences = _table(project, run, request)
    if advance is not None:
        rows = _told(rows, advance)
    if request.format in _TYPED:
        about = Card(project, run, request.what, request.frame or (run.frame if run else None))
        pieces = typed_file(request.format, about, columns, rows, as_cell)
    else:
        pieces = _text(columns, rows, request)
    if request.packing:
        pieces = _packed(pieces, request.packing)
    return _recorded(project, run, user, request, pieces, preferences)


def rows_as_json(
    project: Project, run: Run | None, request: ExportRequest, start: int, end: int
) -> list[dict[str, Any]]:
    """Return some rows of a table, from `start` to before `end`, as JSON lines have them."""
    columns, rows, _ = _table(project, run, request)
    shown = islice(rows, start, end)
    return [{name: as_json(row.get(name)) for name in columns} for row in shown]


def _table(
    project: Project, run: Run | None, request: ExportRequest
) -> tuple[Sequence[str], Iterable[dict[str, Any]], "PreferencePairs | None"]:
    if request.what == "samples" and run is None:
        raise UserError("Samples belong to a run, and this project has none yet.")
    frame = request.frame or (run.frame if run else None)
    preferences = PreferencePairs(project, run, frame) if request.what == "preferences" else None
    columns: Sequence[str] = label_columns(project) if request.what == "labels" else ()
    if preferences is not None:
        columns, rows = PREFERENCE_COLUMNS, preferences.rows()
    elif request.what == "votes":
        # Votes belong to the project, so only a chosen part of it leaves some out.
        rows = vote_rows(project, names=request.names, frame=request.frame)
        columns = vote_columns(project)
    elif request.what == "people":
        # Votes that were put aside are paid all the same.
        votes = in_frame(Vote.every.filter(example__project=project), "example", request.frame)
        columns = people_columns(project, background=request.background)
        rows = people_rows(project, votes, names=request.names, background=request.background)
    elif request.what == "trail":
        columns, rows = TRAIL_COLUMNS, _trail_rows(project)
    elif request.what == "criteria":
        columns, rows = CRITERION_COLUMNS, criterion_rows(project, run, frame)
    elif request.what == "samples" and run is not None:
        columns, rows = SAMPLE_COLUMNS, sample_rows(run, request.frame)
    elif request.what in OTHER_TOOLS:
        columns, rows = table_for(request.what, project, run, frame)
    else:
        rows = label_rows(project, run, names=request.names, frame=frame, model=request.model)
    if unknown := sorted(set(request.values) - set(columns)):
        raise UserError(f"{request.what} have no column {unknown[0]}. Nothing was exported.")
    return columns, _chosen(rows, request.values), preferences


def _trail_rows(project: Project) -> Iterator[dict[str, Any]]:
    for event in project.audit_events.order_by("pk").iterator():
        row = {name: getattr(event, name) for name in TRAIL_COLUMNS}
        yield row | {"detail": json.dumps(event.detail, ensure_ascii=False, sort_keys=True)}


def _chosen(rows: Iterable[dict[str, Any]], values: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    def fits(row: dict[str, Any]) -> bool:
        return all(as_cell(row.get(name)) == value for name, value in values.items())

    return filter(fits, rows) if values else rows


def _told(
    rows: Iterable[dict[str, Any]], advance: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    """Pass the rows on. A workbook is not written before its last one."""
    for n, row in enumerate(rows, start=1):
        yield row
        if not n % _ROWS_A_PIECE:
            advance(_ROWS_A_PIECE)


def file_name(project: Project, run: Run | None, request: ExportRequest) -> str:
    """Return a name such as `vicuna-run2-labels.csv`."""
    part = f"-run{run.number}" if run and request.what not in (*BLIND_KINDS, *TASKS) else ""
    ending = "zip" if request.format == "dataset" else request.format
    packing = f".{request.packing}" if request.packing else ""
    return f"{project.slug}{part}-{request.what}.{ending}{packing}"


def csv_line(cells: Iterable[str]) -> str:
    """Return a line of CSV (RFC 4180), with the quotes that `csv.writer` would set.

    It writes long texts six times as fast, because it looks for a character at a time and not at
    one character after the other: half of an export's time went into that.
    """
    return ",".join(map(_csv_cell, cells)) + "\r\n"


def _csv_cell(cell: str) -> str:
    if "," in cell or '"' in cell or "\n" in cell or "\r" in cell:
        return f'"{cell.replace(chr(34), chr(34) * 2)}"'
    return cell


def _lines(
    columns: Sequence[str], rows: Iterable[dict[str, Any]], request: ExportRequest
) -> Iterator[str]:
    if request.format in ("jsonl", "json"):
        encode = json.JSONEncoder(ensure_ascii=False).encode
        # An array's brackets and commas stand before the lines, and its end counts as one.
        before, after = ("", "\n") if request.format == "jsonl" else ("[\n", "")
        for row in rows:
            ordered = dict(zip(columns, map(row.get, columns), strict=True))
            if not _PLAIN.issuperset(map(type, ordered.values())):
                ordered = {name: as_json(value) for name, value in ordered.items()}
            yield before + encode(ordered) + after
            before = before and ",\n"
        if request.format == "json":
            yield "\n]\n" if before == ",\n" else "[]\n"
        return
    # Criteria are named by people, so that the head is escaped as well.
    yield csv_line([*map(escape_cell, columns), ESCAPE_COLUMN] if request.escaped else columns)
    for row in rows:
        cells = [_CELLS.get(type(value), as_cell)(value) for value in map(row.get, columns)]
        yield csv_line(escape_row(cells) if request.escaped else cells)


def _text(
    columns: Sequence[str], rows: Iterable[dict[str, Any]], request: ExportRequest
) -> Iterator[tuple[bytes, int]]:
    """Yield pieces of the file, each with how many rows it ends."""
    lines = _lines(columns, rows, request)
    # A table's head, or an array's end, is no row.
    head = request.format in ("csv", "json")
    # The first line goes out at once: a large project takes a while to read the rest.
    for size in chain([1], repeat(_ROWS_A_PIECE)):
        piece = list(islice(lines, size))
        if not piece:
            return
        yield "".join(piece).encode(), len(piece) - head
        head = False


def _packed(pieces: Iterator[tuple[bytes, int]], packing: str) -> Iterator[tuple[bytes, int]]:
    """Compress a file piece by piece."""
    sink = Sink()
    stream: Any
    if packing == "zst":
        stream = arrow_for_export("zstd").CompressedOutputStream(sink, "zstd")
    else:
        # Without a time, the same table gives the same bytes.
        stream = gzip.GzipFile(fileobj=sink, mode="wb", mtime=0)
    with stream:
        for data, n in pieces:
            stream.write(data)
            yield sink.taken(), n
    yield sink.taken(), 0


def _recorded(
    project: Project,
    run: Run | None,
    user: AbstractUser | None,
    request: ExportRequest,
    pieces: Iterator[tuple[bytes, int]],
    preferences: PreferencePairs | None,
) -> Iterator[bytes]:
    digest, n_rows = hashlib.sha256(), 0

    def record(action: str) -> dict[str, Any]:
        facts = {"rows": n_rows, "sha256": digest.hexdigest(), "names": request.names}
        access.record_event(project, user, action, file_name(project, run, request), **facts)
        return facts

    try:
        for data, n in pieces:
            digest.update(data)
            n_rows += n
            yield data
    except BaseException:
        # A reader who breaks off keeps what was sent before.
        after_snapshot(partial(record, "export broken off"))
        raise
    options: dict[str, Any] = {"names": request.names, "escape": request.escaped}
    if request.values:
        options["values"] = dict(request.values)
    if frame := request.frame or (run.frame if run and request.what not in BLIND_KINDS else None):
        options |= {"frame": frame.pk, "subset": frame.subset}
    if request.background:
        options["background"] = True
    if preferences is not None:
        options["contradictory"] = preferences.contradictory[:MOST_NAMED]

    def put_on_record() -> None:
        try:
            with transaction.atomic():
                facts = record("exported")
                # On SQLite, only the end of a transaction would miss what was deleted meanwhile.
                refreshed = Project.objects.get(pk=project.pk)
                Export.objects.create(
                    project=refreshed, run=run, what=request.what, format=request.format,
                    options=options, n_rows=facts["rows"], sha256=facts["sha256"], created_by=user,
                )  # fmt: skip
        except (IntegrityError, Project.DoesNotExist):
            raise UserError(
                "The project was deleted during the export, which is incomplete."
            ) from None

    # On PostgreSQL the snapshot of the rows is read-only, so what is recorded waits for its end.
    after_snapshot(put_on_record)
