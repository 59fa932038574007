import csv
import hashlib
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.core.errors import UserError
from judging.core.text import escape_row
from judging.dataset.reading import Reader, check, mapping_faults
from judging.dataset.records import Refused

FIELDS = ("external_id", "question", "response_1", "response_2", "model_1", "category")


@pytest.fixture
def read(tmp_path):
    def read(content, name="pairs.jsonl", **options):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return list(Reader([path], **options))

    return read


def pair(**fields):
    return json.dumps({"question": "q", "response_1": "a", "response_2": "b", **fields}) + "\n"


def refusal(rows):
    (refused,) = rows
    assert isinstance(refused, Refused)
    (problem,) = refused.problems
    return problem


storable = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.text(storable, max_size=20)
names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=8)
rows = st.lists(
    st.tuples(names, names, texts, texts, names, names),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row[0],
)


def as_csv(rows, delimiter, escaped=False):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\r\n")
    if escaped:
        rows = [escape_row(row) for row in rows]
    writer.writerows([(*FIELDS, "fairjudge_escape") if escaped else FIELDS, *rows])
    return text.getvalue()


def as_jsonl(rows):
    objects = (dict(zip(FIELDS, row, strict=True)) for row in rows)
    return "".join(json.dumps(fields, ensure_ascii=False) + "\n" for fields in objects)


WRITERS = {
    "rows.csv": lambda rows: as_csv(rows, ","),
    "escaped.csv": lambda rows: as_csv(rows, ",", escaped=True),
    "semicolon.csv": lambda rows: as_csv(rows, ";"),
    "rows.tsv": lambda rows: as_csv(rows, "\t"),
    "rows.jsonl": as_jsonl,
    "rows.json": lambda rows: json.dumps([dict(zip(FIELDS, row, strict=True)) for row in rows]),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@given(rows=rows)
@settings(max_examples=25, deadline=None)
def test_whatever_was_written_is_read_back(tmp_path_factory, name, encoding, rows):
    path = tmp_path_factory.mktemp("round") / name
    path.write_bytes(WRITERS[name](rows).encode(encoding))
    found = [tuple(getattr(row, field) for field in FIELDS) for row in Reader([path])]
    assert found == rows


def test_true_and_numbers_become_their_text(read):
    (row,) = read(pair(response_1=True, response_2=1.5))
    assert row.texts == ("q", "true", "1.5")


@pytest.mark.parametrize(
    ("value", "found"), [({"x": 1}, "an object"), (["x"], "an array"), (None, "null")]
)
def test_a_response_that_is_no_text_is_refused_by_line_and_column(read, value, found):
    problem = refusal(read("\n" + pair(response_2=value)))
    assert (problem.place.line, problem.column) == (2, "response_2")
    assert problem.sentence == f"response_2 should be text, found {found}."


def test_a_lone_surrogate_written_as_an_escape_is_refused(read):
    problem = refusal(read(pair(response_1="\ud800")))
    assert problem.column == "response_1"
    assert "\\ud800" in problem.sentence


def test_every_problem_of_a_row_is_told(read):
    (refused,) = read(pair(response_1={}, gold_label="maybe", is_check="perhaps"))
    assert [problem.column for problem in refused.problems] == [
        "response_1",
        "gold_label",
        "is_check",
    ]


@pytest.mark.parametrize(
    ("written", "label"),
    [("win", "win"), (1, "win"), ("2", "lose"), (0, "tie"), ("Tie", "tie"), ("", None)],
)
def test_labels_are_read_from_the_point_of_view_of_response_1(read, written, label):
    (row,) = read(pair(label=written))
    assert row.gold_label == label


def test_a_check_needs_its_known_label(read):
    assert "needs its known label" in refusal(read(pair(is_check=True))).sentence
    (row,) = read(pair(is_check=True, gold_label="win"))
    assert row.is_check


def test_a_check_says_what_it_is_for_and_why_its_label_is_right(read):
    fields = {"gold_label": "win", "explanation": "It says *why*."}
    (row,) = read(pair(check_for="Training", **fields))
    assert (row.is_check, row.check_for, row.explanation) == (True, "training", "It says *why*.")
    (row,) = read(pair(check_for="attention", **fields))
    assert (row.is_check, row.check_for) == (True, "")
    # Pairs of other files, which explain something else.
    (row,) = read(pair(**fields))
    assert (row.is_check, row.check_for, row.explanation) == (False, "", "")
    assert (
        "attention, training, qualification"
        in refusal(read(pair(check_for="exam", gold_label="win"))).sentence
    )
    assert "needs its known label" in refusal(read(pair(check_for="training"))).sentence


def test_an_empty_question_is_refused(read):
    assert refusal(read(pair(question=" "))).sentence == "question is empty."


def test_a_long_or_broken_id_is_refused(read):
    assert "at most" in refusal(read(pair(id="x" * 201))).sentence
    assert "one line" in refusal(read(pair(id="x\ny"))).sentence


def test_rows_without_an_id_are_named_by_their_content(read):
    first, again, other = read(pair() + pair() + pair(model_1="m"))
    assert len(first.external_id) == 16
    assert again.external_id == f"{first.external_id}-2"
    assert other.external_id not in (first.external_id, again.external_id)
    assert read(pair())[0].external_id == first.external_id


def test_one_id_for_two_pairs_is_a_conflict_and_for_one_pair_twice_is_none(read):
    first, second, third = read(pair(id=1) + pair(id=1) + pair(id=1, response_1="c"))
    assert first.external_id == second.external_id == "1"
    (problem,) = third.problems
    assert problem.place.line == 3
    assert "is on line 1" in problem.sentence


def test_a_missing_column_is_told_once_for_a_table(read):
    problem = refusal(read("id,question,answer\n1,q,a\n2,q,a\n", name="pairs.csv"))
    assert problem.place.line == 1
    assert "No column for response_1, response_2. Found: id, question, answer." in problem.sentence


def test_a_mapping_gives_the_missing_columns(read):
    mapping = {"answer": "response_1", "rival": "response_2"}
    (row,) = read("id,question,answer,rival\n1,q,a,b\n", name="pairs.csv", mapping=mapping)
    assert row.texts == ("q", "a", "b")


def test_a_mapped_column_that_is_not_there_is_told(read):
    mapping = {"anwser": "response_1"}
    problem = refusal(read("id,question,response_1,response_2\n1,q,a,b\n", mapping=mapping,
                           name="pairs.csv"))  # fmt: skip
    assert "no column anwser" in problem.sentence


def test_a_mapped_column_may_be_missing_in_some_objects_but_not_in_all(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(pair(id=1, topic="maths") + pair(id=2), encoding="utf-8")
    found = check([path], mapping={"topic": "category"})
    assert found.acceptable
    assert [row.category for row in found.rows] == ["maths", ""]
    assert "no column tropic" in check([path], mapping={"tropic": "category"}).problems[0].sentence


def test_what_can_not_be_meant_by_a_mapping():
    assert mapping_faults({"a": "question", "b": "question", "c": "ignore"}) == []
    assert "no field answer" in mapping_faults({"a": "answer"})[0]
    assert "model_1" in mapping_faults({"a": "model_1", "b": "model_1"})[0]


def test_a_file_is_told_by_what_is_in_it_where_its_name_does_not_say(read):
    assert read("[" + pair().strip() + "]", name="pairs.txt")[0].question == "q"
    assert read(pair(), name="pairs.txt")[0].question == "q"
    assert read("question;response_1;response_2\nq;a;b\n", name="pairs.txt")[0].question == "q"


def test_a_file_that_is_not_there_and_an_unknown_format_are_the_users_to_solve(tmp_path):
    with pytest.raises(UserError, match="no file"):
        list(Reader([tmp_path / "none.csv"]))
    (tmp_path / "a.csv").touch()
    with pytest.raises(UserError, match="no format 'excel'"):
        list(Reader([tmp_path / "a.csv"], "excel"))


@pytest.mark.parametrize(
    ("head", "kind"), [(b"\xd0\xcf\x11\xe0", "old spreadsheet"), (b"\x1f\x8b\x08", "cut or broken")]
)
def test_a_file_that_is_no_text_is_named_for_what_it_is(tmp_path, head, kind):
    path = tmp_path / "pairs.csv"
    path.write_bytes(head + bytes(range(256)))
    with pytest.raises(UserError, match=kind):
        list(Reader([path]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.jsonl", pair().encode() * 10_000),
        ("pairs.json", b"[" + pair().encode() + b'{"a": ' + b"x" * 200_000),
        ("pairs.csv", "question,response_1,response_2\nq,a,b\n".encode("utf-16")),
        ("pairs.csv", b'question,response_1,response_2\nq,"a' + b"b\n" * 100_000),
        ("pairs.csv", b"a,a\n" * 50_000),
        ("pairs.csv", b""),
    ],
)
def test_a_file_is_hashed_to_its_end_even_if_its_rest_can_not_be_read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    reader = Reader([path])
    list(reader)
    assert reader.records.hashes == [hashlib.sha256(content).digest()]


def test_several_files_are_read_one_after_the_other(tmp_path):
    paths = [tmp_path / folder / "pairs.jsonl" for folder in ("one", "two")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(pair(id=number), encoding="utf-8")
    found = Reader(paths)
    assert [(row.place.file, row.external_id) for row in found] == [
        (str(paths[0]), "0"),
        (str(paths[1]), "1"),
    ]
