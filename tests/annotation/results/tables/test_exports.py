"""Exports: the columns are stable, cells are exact, and the merge can be done again from them."""

import csv
import hashlib
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from annotation.models import Item, Protocol, Vote
from annotation.queue.queue import claim_next
from annotation.results.tables.exports import (
    LABEL_COLUMNS,
    ExportRequest,
    as_cell,
    csv_line,
    export,
)
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.votes.voting import decide, record_vote
from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.projects.models import AuditEvent, Export
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)

EXAMPLE_COLUMNS = LABEL_COLUMNS[:8]
HOSTILE = [
    "=1+1",
    "'=x",
    "@a\tb",
    'quote " and, comma',
    "two\nlines",
    "car\r\nriage",
    "  spaces  ",
    "عربي",
    "👩‍👩‍👧",
    "-",
    "",
]


CELLS = st.one_of(st.sampled_from(HOSTILE), st.text(st.sampled_from("a \",\r\n;'=")), st.text())


@given(st.lists(CELLS, min_size=2, max_size=6))
def test_lines_are_those_that_pythons_csv_writer_writes(cells):
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(cells)
    assert csv_line(cells) == buffer.getvalue()


def read(project, run=None, **wanted):
    return b"".join(export(project, run, None, ExportRequest(**wanted)))


def rows_of(data):
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.fixture
def judged(project):
    """Ten judged examples, the two most contested labelled by three people."""
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10, usd=Decimal("0.0123"))
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20)))
    for number in range(3):
        person = make_annotator(project, f"secret-name-{number}")
        for _ in range(2):
            choice = "tie" if number == 2 else "left"
            record_vote(claim_next(round_, person), {"overall": choice}, f"note {number}")
    return run


def test_labels_have_the_columns_that_scripts_depend_on(project, judged):
    data = read(project, judged)
    assert data.decode().splitlines()[0] == ",".join(
        [*LABEL_COLUMNS, "model_of_votes", "p_win", "p_tie", "p_lose", "fairjudge_escape"]
    )
    first = rows_of(data)[0]
    assert (first["judge_label"], first["score_1"], first["bpde"]) == ("win", "8.0", "0.0")
    assert (first["judge_usd"], first["human_usd"], first["votes_win"]) == ("0.0123", "", "")


def test_the_winner_has_a_name_at_the_end_of_the_row(project, judged):
    assert LABEL_COLUMNS[-3:] == ("winner", "reference", "tags")
    project.examples.filter(external_id="e1").update(model_1="")
    judged.verdicts.filter(example__external_id="e2").update(label="lose")
    won = {"win": "maple-7b", "tie": "tie", "lose": "birch-3b", "": ""}
    seen = set()
    for row in rows_of(read(project, judged)):
        nameless = row["external_id"] == "e1" and row["final_label"] == "win"
        assert row["winner"] == ("" if nameless else won[row["final_label"]])
        seen.add(row["final_label"])
    assert seen >= {"win", "lose"}
    lines = read(project, judged, format="jsonl").decode().splitlines()
    assert {json.loads(line)["winner"] for line in lines} >= {"maple-7b", "birch-3b", None}


def test_the_merge_can_be_done_again_from_the_export_alone(project, judged):
    for row in rows_of(read(project, judged)):
        votes = {label: int(row[f"votes_{label}"] or 0) for label in ("win", "tie", "lose")}
        label = row["judge_label"]
        if row["selection"] in ("top", "audit", "learn", "all"):
            top = max(votes, key=votes.get)
            label = top if 2 * votes[top] > sum(votes.values()) else ""
        assert row["final_label"] == label
        assert int(row["n_votes"]) == sum(votes.values())


def merged_again(row, policy):
    """Final label and source of a row of the export, by what stands in it and nothing else."""
    votes = {label: int(row[f"votes_{label}"] or 0) for label in ("win", "tie", "lose")}
    judge = row["judge_label"], "judge"
    top = max(votes, key=votes.get)
    if row["adjudicator"]:
        return row["final_label"], "adjudicated"
    if not row["selection"] or not any(votes.values()) or "so far" in row["rule"]:
        return judge
    if 2 * votes[top] > sum(votes.values()):
        return top, "majority"
    if policy == "tie":
        return "tie", "policy:tie"
    if policy == "judge" and row["selection"] != "audit":
        return judge[0], "policy:judge"
    return "", "none"


@pytest.mark.parametrize("policy", ["adjudicate", "tie", "judge"])
def test_every_way_to_a_label_can_be_followed_in_the_export(project, owner, policy):
    project.no_majority = policy
    run = make_run(project)
    for example in make_examples(project, 12):
        make_verdict(run, example, example.number / 12)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=2, audit=4))
    people = [make_annotator(project) for _ in range(3)]
    labels = {0: ("win", "win"), 1: ("win", "lose"), 2: ("lose",), 3: ("tie", "win"), 4: ()}
    items = round_.items.select_related("example", "round__protocol").order_by("example__number")
    for number, item in enumerate(items):
        for person, label in zip(people, labels[number % 5], strict=False):
            make_vote(item, person, label)
    for item in Item.objects.filter(round=round_, state=Item.State.ADJUDICATE)[:1]:
        decide(item, owner, "lose", "the first is wrong")
    for close_first in (False, True):
        if close_first:
            close(round_, None)
        rows = rows_of(read(project, run))
        found = [(row["final_label"], row["source"]) for row in rows]
        assert found == [merged_again(row, policy) for row in rows]
        assert {"judge", "majority"} < {source for _, source in found}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_export_import_export_gives_equal_bytes(project, tmp_path, form):
    for text in HOSTILE:
        category = text.strip() if text.isprintable() else ""
        texts = {"question": text or "q", "response_1": text, "response_2": text}
        make_examples(project, 1, category=category, gold_label="tie", **texts)
    first = read(project, format=form)
    path = tmp_path / f"labels.{form}"
    path.write_bytes(first)
    again = make_project("again")
    call_command("import_examples", "again", str(path))
    assert example_columns(read(again, format=form), form) == example_columns(first, form)
    assert list(again.examples.order_by("number").values_list("response_1", flat=True)) == HOSTILE


def example_columns(data, form):
    if form == "jsonl":
        rows = [json.loads(line) for line in data.decode().splitlines()]
    else:
        rows = rows_of(data)
    return [[row[name] for name in EXAMPLE_COLUMNS] for row in rows]


def test_spreadsheets_get_no_formula_unless_asked(project):
    make_examples(project, 1, response_1="=HYPERLINK(1)")
    assert ",'=HYPERLINK(1)," in read(project).decode()
    plain = read(project, escape=False).decode()
    assert ",=HYPERLINK(1)," in plain
    assert "fairjudge_escape" not in plain
    assert json.loads(read(project, format="jsonl"))["response_1"] == "=HYPERLINK(1)"


def test_a_criterion_in_the_header_is_no_formula_either(project):
    current_protocol(project)
    Protocol.objects.update(criteria=["=HYPERLINK(1)"])
    assert ",criterion:=HYPERLINK(1),vote_id," in read(project, what="votes").decode()


def test_votes_bear_pseudonyms_unless_names_are_asked_for(project, judged):
    rows = rows_of(read(project, judged, what="votes"))
    assert len(rows) == 6
    assert {row["annotator"] for row in rows} == {"annotator-1", "annotator-2", "annotator-3"}
    assert {row["selection"] for row in rows} == {"top"}
    assert {row["example_votes_n"] for row in rows} == {"3"}
    assert all(row["submitted_at"].endswith("Z") for row in rows)
    named = rows_of(read(project, judged, what="votes", names=True))
    assert {row["annotator"] for row in named} == {f"secret-name-{n}" for n in range(3)}


def test_exported_votes_can_be_imported_elsewhere(project, judged, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes(read(project, judged, what="votes"))
    other = make_project("other")
    make_examples(other, 10)
    call_command("import_votes", "other", str(path))
    kept = Vote.objects.filter(example__project=other)
    labels = sorted(kept.values_list("example__external_id", "label"))
    given = Vote.objects.filter(example__project=project)
    assert labels == sorted(given.values_list("example__external_id", "label"))
    assert {vote.answer["overall"] for vote in kept} == {"left", "tie"}


def test_an_export_is_put_on_record_with_its_hash(project, judged):
    data = read(project, judged)
    made = Export.objects.get()
    assert made.sha256 == hashlib.sha256(data).hexdigest()
    assert made.n_rows == 10
    assert AuditEvent.objects.filter(action="exported", detail__sha256=made.sha256).exists()


def test_an_export_that_is_broken_off_is_on_record_with_what_was_sent(project, judged, owner):
    make_examples(project, 500)
    pieces = export(project, judged, owner, ExportRequest(names=True))
    sent = next(pieces) + next(pieces)
    pieces.close()
    event = AuditEvent.objects.get(action="export broken off")
    assert event.actor == owner.username
    assert event.detail["rows"] == len(rows_of(sent)) == 200
    assert event.detail["sha256"] == hashlib.sha256(sent).hexdigest()
    assert event.detail["names"]
    assert not Export.objects.exists()


def test_samples_without_a_run_are_refused(project):
    with pytest.raises(UserError, match="run"):
        read(project, what="samples")


def test_check_examples_are_in_no_labels_export(project):
    make_examples(project, 2)
    Example.objects.filter(external_id="e0").update(is_check=True, gold_label="win")
    assert [row["external_id"] for row in rows_of(read(project))] == ["e1"]


def test_the_command_writes_a_whole_file_or_none(project, judged, tmp_path, capsys):
    path = tmp_path / "labels.csv"
    call_command("export", project.slug, "--run=latest", "-o", str(path))
    assert len(rows_of(path.read_bytes())) == 10
    assert str(path) in capsys.readouterr().out
    assert not path.with_name("labels.csv.part").exists()


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (0.1, "0.1"),
        (1e-07, "1e-07"),
        (Decimal("0E-10"), "0"),
        (Decimal("1.2300000000"), "1.23"),
        (Decimal("100"), "100"),
        (True, "true"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
    ],
)
def test_cells_are_exact(value, cell):
    assert as_cell(value) == cell
