"""Reading votes that people gave elsewhere: tables, JSON, and two published layouts.

Every row is a vote, or is refused by its line. Labels may be win, tie and lose of response 1, or
the name of the model that won.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from django.conf import settings

from annotation.queue.drafts import CANT_JUDGE, CONFIDENCE
from annotation.rendering.spans import Span, fault_of
from annotation.votes.agreement import strength_of
from judging.core.conversations import dumped
from judging.core.errors import UserError
from judging.core.languages import known
from judging.core.text import a_name, is_name, unstorable
from judging.dataset.files import Records, check_format
from judging.dataset.layouts import Holds
from judging.dataset.models import Label
from judging.dataset.reading import translated
from judging.dataset.records import (
    BOOLEANS,
    ById,
    Cells,
    Codes,
    Place,
    Record,
    Refused,
    canonical,
    expected_sentence,
    listed,
    plain,
    read_label,
    unstorable_sentence,
)
from judging.methods.verdicts.verdicts import CriteriaRule

FORMATS = ("auto", "csv", "tsv", "jsonl", "json", "faireval", "pandalm")
# A day for one vote: more is a mistake, and would be charged for.
LONGEST_SECONDS = 86_400
_SIDES = {"1": 1, "2": 2}
_FIELDS = (
    "external_id", "id", "idx", "annotator", "label", "left_response", "unblinded",
    "active_seconds", "submitted_at", "raw_answer", "comment", "vote_id", "protocol",
    "protocol_fingerprint", "example_votes_n", "overall_rule", "confidence", "reasons", "spans",
    "language",
)  # fmt: skip
_PANDALM = {"0": "tie", "1": "win", "2": "lose"}
# Before the name of a criterion, so that none is called like a column.
CRITERION = "criterion:"
# The rule that derived the label from these, as JSON.
OVERALL_RULE = "overall_rule"
# What a protocol may ask in addition. An export has these columns if there is anything in them.
MORE = ("confidence", "reasons", "spans")


@dataclass(frozen=True)
class KnownExample:
    """An example that votes can be about."""

    pk: int
    external_id: str
    model_1: str
    model_2: str


@dataclass(frozen=True)
class VoteRow:
    """One vote, ready to be written.

    label: Empty if the annotator can't judge the example.
    vote_id, protocol, fingerprint: of an export of FairJudge, in which `exported` is set.
    """

    place: Place
    example: KnownExample
    annotator: str
    label: Label | Literal[""]
    left_response: int | None = None
    comment: str = ""
    active_seconds: float | None = None
    submitted_at: datetime | None = None
    answer: dict[str, Any] | None = None
    unblinded: bool = False
    language: str = ""
    vote_id: str = ""
    protocol: str = ""
    fingerprint: str = ""
    exported: bool = False

    def conflict(self, held: str) -> str | None:
        if held == self.label:
            return None
        before, now = held or "that they can't judge", self.label or "that they can't judge"
        return (
            f"{self.annotator} voted {before} on {self.example.external_id} before, now {now}. "
            "The earlier vote stays."
        )


@dataclass(frozen=True)
class VoteReader:
    """Turns the records of a file into votes.

    Args:
        annotator: whose votes they are, for a file that doesn't say it.
        names: plain spelling of a winner → the model's name.
        labels: what codes mean.
    """

    examples: Sequence[KnownExample]
    annotator: str
    names: Mapping[str, str]
    labels: Codes = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.annotator and not is_name(self.annotator):
            raise UserError(f"--annotator should be {a_name()}. Nothing was imported.")

    def rows(self, records: Records) -> Iterator[VoteRow | Refused]:
        """Give every vote of a file in order. Raises UserError if the file as a whole is wrong."""
        if records.file_format == "labels":
            yield from self._faireval(records)
            return
        by_id = ById((example.external_id, example) for example in self.examples)
        read: Iterable[Record | Refused] = records
        if records.file_format == "auto":
            read = translated(records, Holds.VOTES, by_id)
        for record in read:
            if refused := record if isinstance(record, Refused) else _unstorable(record):
                yield refused
            elif records.file_format == "pandalm" or (
                records.file_format in ("auto", "json") and _is_pandalm(record)
            ):
                yield from self._pandalm(record, by_id)
            else:
                yield self._row(record, by_id)

    def _row(self, record: Record, by_id: Mapping[str, KnownExample]) -> VoteRow | Refused:
        # A list or an object counts as an empty cell: other programs' files hold such columns.
        flat = (
            name
            for name, value in record.values.items()
            if not isinstance(value, list | dict) or plain(name) in ("reasons", "spans")
        )
        spelled = {plain(name): name for name in flat}
        # A column spelled exactly as ours counts before one that only looks like it.
        spelled |= {plain(name): name for name in _FIELDS if name in record.values}
        columns = {name: spelled[plain(name)] for name in _FIELDS if plain(name) in spelled}
        cells = Cells(record, columns)
        cells.refuse_twins()
        external_id = cells.text("external_id") or cells.text("id") or cells.text("idx")
        example = by_id.get(external_id)
        written = cells.text("label").strip()
        label = self._label(written, example) if example else None
        cannot = plain(cells.text("raw_answer") or written) == plain(CANT_JUDGE)
        if cannot and plain(written) in ("", plain(CANT_JUDGE)):
            label = ""
        annotator = (cells.text("annotator") or self.annotator).strip()
        if example is None:
            expected = "the ID of an example of this project"
            cells.expect("external_id", expected, external_id)
        elif label is None:
            expected = "win, tie, lose, a model's name, or a code that --labels names"
            cells.expect("label", expected, written)
        if not is_name(annotator):
            cells.expect("annotator", f"{a_name()}, or --annotator NAME", annotator)
        left_response = cells.one_of("left_response", _SIDES, "1, 2 or nothing")
        unblinded = cells.one_of("unblinded", BOOLEANS, "true, false or nothing")
        expected = f"seconds, 0 to {LONGEST_SECONDS}"
        seconds = cells.decimal("active_seconds", 0, LONGEST_SECONDS, expected=expected)
        exported = "example_votes_n" in columns
        # In files of other programs it is the language of texts.
        language = cells.text("language").strip().lower() if exported else ""
        if language and known(language) != language:
            cells.expect("language", f"{listed(dict(settings.LANGUAGES))} or nothing", language)
        submitted_at = cells.time("submitted_at", in_utc=exported)
        # "Both are bad" is a tie as a label, and the answer keeps the difference.
        answer = cells.text("raw_answer") or ("both_bad" if "bothbad" in plain(written) else "")
        answer = CANT_JUDGE if label == "" else answer
        criteria = {
            name.removeprefix(CRITERION): value
            for name, value in record.values.items()
            if name.startswith(CRITERION) and isinstance(value, str) and value
        }
        rule = _rule(cells, criteria, label, left_response)
        expected = f"{listed(CONFIDENCE)} or nothing"
        confidence = cells.one_of("confidence", {name: name for name in CONFIDENCE}, expected)
        reasons = _reasons(cells, record.values.get(columns.get("reasons", "")))
        spans = _spans(cells, record.values.get(columns.get("spans", "")))
        comment = cells.text("comment")
        vote_id, protocol = cells.text("vote_id"), cells.text("protocol")
        fingerprint = cells.text("protocol_fingerprint")
        if example is None or label is None or cells.problems:
            return Refused(tuple(cells.problems), record.raw)
        return VoteRow(
            place=record.place,
            example=example,
            annotator=annotator,
            label=label,
            left_response=left_response,
            comment=comment,
            active_seconds=None if seconds is None else float(seconds),
            submitted_at=submitted_at,
            answer=({"overall": answer} if answer else {})
            | ({"criteria": criteria} if criteria else {})
            | ({"rule": rule} if rule else {})
            | ({"confidence": confidence} if confidence else {})
            | ({"reasons": reasons} if reasons else {})
            | ({"spans": spans} if spans else {}),
            unblinded=bool(unblinded),
            language=language,
            vote_id=vote_id,
            protocol=protocol,
            fingerprint=fingerprint,
            exported=exported,
        )

    def _label(self, text: str, example: KnownExample) -> Label | Literal[""] | None:
        """Read win, tie or lose, the name of the model that won, or a code."""
        name = self.names.get(plain(text), text)
        label = read_label(name, self.labels, (example.model_1, example.model_2))
        return None if label is None else Label(label)

    def _pandalm(
        self, record: Record, by_id: Mapping[str, KnownExample]
    ) -> Iterator[VoteRow | Refused]:
        """Read one item's columns annotator1, annotator2, …: 0 a tie, else the better response."""
        external_id = str(record.values.get("idx", ""))
        example = by_id.get(external_id)
        if example is None:
            yield _expected(record, "idx", "the ID of an example", external_id)
            return
        people = [name for name in record.values if plain(name).startswith("annotator")]
        if not people:
            yield _expected(record, "annotator1", "annotator1 and so on", listed(record.values))
        for name in people:
            label = (self.labels or _PANDALM).get(canonical(str(record.values[name])))
            if not is_name(name):
                yield _expected(record, "annotator", a_name(), name)
            elif label is None:
                yield _expected(record, name, "0, 1 or 2", str(record.values[name]))
            else:
                yield VoteRow(record.place, example, name, Label(label))

    def _faireval(self, records: Records) -> Iterator[VoteRow | Refused]:
        """Read one label per line, in the order of the questions."""
        labels = [record for record in records if isinstance(record, Record)]
        # Editors end a file with empty lines, which are no labels.
        while labels and not labels[-1].raw:
            labels.pop()
        path, asked = records.paths[0], self._of_named_models()
        if len(labels) != len(asked):
            raise UserError(
                f"{path.name} has {len(labels)} labels, but the project has {len(asked)} examples "
                "to put them on, one per line in import order. Nothing was imported."
            )
        annotator = self.annotator or path.stem[:200]
        for record, example in zip(labels, asked, strict=True):
            label = self._label(record.raw, example)
            if label is None:
                expected = f"TIE, or {example.model_1} or {example.model_2} (see --map)"
                yield _expected(record, "label", expected, record.raw)
            else:
                yield VoteRow(record.place, example, annotator, label)

    def _of_named_models(self) -> Sequence[KnownExample]:
        """Return the examples that such a file is about.

        If --map names two models, they are the pairs of these two; if it names one, the pairs that
        it is in.
        """
        named = {plain(model) for model in self.names.values()}
        fewest = min(len(named), 2)
        return [
            example
            for example in self.examples
            if len(named & {plain(example.model_1), plain(example.model_2)}) >= fewest
        ]


def _rule(
    cells: Cells, criteria: Mapping[str, str], label: str | None, left_response: int | None
) -> dict[str, Any]:
    """Return the rule that derived the label, and complain if it derives another one."""
    text = cells.text(OVERALL_RULE)
    try:
        rule = CriteriaRule.from_json(json.loads(text)) if text else None
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
        cells.expect(OVERALL_RULE, "the rule of an export, as JSON, or nothing", text)
        return {}
    if rule is None or not label:
        return {}
    words = {
        name: strength_of(criteria.get(name, ""), left_response, five=False)
        for name in rule.criteria
    }
    strengths = {name: value for name, value in words.items() if value is not None}
    if len(strengths) < len(words):
        cells.complain(OVERALL_RULE, "The rule needs an answer on each of its criteria.")
    elif (derived := rule.overall(strengths)) != label:
        cells.complain("label", f"The rule derives {derived} from the criteria, not {label}.")
    return rule.to_json()


def _reasons(cells: Cells, value: Any) -> list[str]:
    """Return the reasons of a list, or of a text that parts them by semicolons."""
    if not isinstance(value, list):
        value = cells.text("reasons").split(";")
    names = [name.strip() if isinstance(name, str) else "" for name in value]
    names = list(dict.fromkeys(name for name in names if name))
    if wrong := next((name for name in names if not is_name(name) or ";" in name), None):
        cells.expect("reasons", f"reasons of {a_name()}", wrong)
        return []
    return names


def _spans(cells: Cells, value: Any) -> list[Span]:
    """Return the spans of a vote, whose quotes are still to be compared with the responses."""
    if value is None or value == "":
        return []
    try:
        # Numbers of a file of JSON are texts of their own kind.
        answers = json.loads(value if isinstance(value, str) else dumped(value))
    except (ValueError, RecursionError):
        answers = None
    if fault := fault_of(answers):
        cells.complain("spans", f"{cells.column('spans')} {fault}.")
        return []
    return list(answers)


def vote_records(path: Path, file_format: str, sheet: str = "") -> Records:
    """Open a file of votes. FairEval's own layout is a .txt file of labels alone."""
    check_format(file_format, FORMATS)
    if file_format == "faireval" or (file_format == "auto" and path.suffix == ".txt"):
        file_format = "labels"
    return Records([path], file_format, sheet)


def names_of(pairs: Sequence[str]) -> dict[str, str]:
    """Read `CHATGPT=gpt35` and the like, as plain spelling → model name."""
    names = {}
    for pair in pairs:
        spelling, equals, model = pair.partition("=")
        if not equals or not plain(spelling) or not model.strip():
            raise UserError(f"“{pair}” should read FOUND=MODEL, such as CHATGPT=gpt35.")
        names[plain(spelling)] = model.strip()
    return names


def _is_pandalm(record: Record) -> bool:
    """Return True if there is a column for each annotator, and none for the label."""
    names = {plain(name) for name in record.values}
    return {"idx", "annotator1"} <= names and not {"label", "annotator"} & names


def _unstorable(record: Record) -> Refused | None:
    """Refuse text that no database stores, in the names of columns too: some name people."""
    for column, value in record.values.items():
        fault = unstorable(column) or (unstorable(value) if isinstance(value, str) else None)
        if fault:
            name = plain(column)
            return record.refuse(name, unstorable_sentence(name, fault))
    return None


def _expected(record: Record, column: str, expected: str, given_value: str) -> Refused:
    return record.refuse(column, expected_sentence(column, expected, given_value))
