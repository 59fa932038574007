"""Compressed files, Parquet, Arrow and Excel: told by their content, and read as a CSV is."""

import csv
import gzip
import io
import json
import random
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import openpyxl
import pyarrow
import pyarrow.parquet as parquet
import pytest

from judging.core import bounds
from judging.core.errors import UserError
from judging.dataset.files import Records, data_files
from judging.dataset.reading import check
from judging.dataset.records import Record, Refused
from judging.dataset.uploads import refused_files_of
from judging.dataset.writing import import_files
from tests.factories import make_project

ROWS = [
    {"id": str(n), "question": f"q{n}", "response_1": '=a\n"b"', "response_2": "عربي"}
    for n in range(1, 4)
]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def as_csv(rows):
    stream = io.StringIO(newline="")
    table = csv.DictWriter(stream, rows[0])
    table.writeheader()
    table.writerows(rows)
    return stream.getvalue().encode()


def zstd(data):
    return pyarrow.Codec("zstd").compress(data, asbytes=True)


def as_parquet(rows):
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), stream)
    return stream.getvalue()


def as_arrow(rows, new=pyarrow.ipc.new_file):
    stream, table = io.BytesIO(), pyarrow.Table.from_pylist(rows)
    with new(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def as_excel(rows):
    book, stream = openpyxl.Workbook(), io.BytesIO()
    book.active.append(list(rows[0]))
    for number, row in enumerate(rows, start=2):
        for column, value in enumerate(row.values(), start=1):
            cell = book.active.cell(number, column, value)
            cell.data_type = "s" if isinstance(value, str) else cell.data_type
    book.save(stream)
    return stream.getvalue()


FILES = {
    "pairs.jsonl.gz": gzip.compress(TEXT),
    "two-members.jsonl.gz": gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:]),
    "pairs.jsonl.zst": zstd(TEXT),
    "two-frames.jsonl.zst": zstd(TEXT[:50]) + zstd(TEXT[50:]),
    "pairs.csv.gz": gzip.compress(as_csv(ROWS)),
    "utf16.csv.gz": gzip.compress(as_csv(ROWS).decode().encode("utf-16")),
    "array.json.zst": zstd(json.dumps(ROWS).encode()),
    "pairs.parquet": as_parquet(ROWS),
    "parquet-without-a-name.csv": as_parquet(ROWS),
    "pairs.arrow": as_arrow(ROWS),
    "stream.arrow": as_arrow(ROWS, pyarrow.ipc.new_stream),
    "pairs.xlsx": as_excel(ROWS),
    "no-ending": gzip.compress(TEXT),
}


@pytest.fixture
def put(tmp_path):
    def put(name, data):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return put


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_holds_the_same_rows(put, name):
    records = Records([put(name, FILES[name])])
    read = list(records)
    assert [record.values for record in read] == ROWS
    assert len(records.sha256) == 64
    summary = check([put(name, FILES[name])])
    assert (summary.n_rows, summary.n_problems) == (3, 0)


def test_types_are_read_as_the_texts_that_json_would_have(put):
    row = {
        "i": 7, "f": 0.1, "whole": 3.0, "nan": float("nan"), "b": True, "none": None,
        "day": date(2024, 5, 1), "moment": datetime(2024, 5, 1, 13, 5, tzinfo=UTC),
        "money": Decimal("1.50"), "list": [{"x": 1, "y": None}], "bytes": b"\xff",
    }  # fmt: skip
    table = pyarrow.Table.from_pylist([row])
    table = table.append_column("shared", pyarrow.array(["x"]).dictionary_encode())
    path = put("a.parquet", b"")
    parquet.write_table(table, path)
    (record,) = Records([path])
    assert record.values == {
        "i": "7", "f": "0.1", "whole": "3", "nan": None, "b": True, "none": None,
        "day": "2024-05-01", "moment": "2024-05-01T13:05:00+00:00", "money": "1.50",
        "list": [{"x": "1"}], "bytes": b"\xff", "shared": "x",
    }  # fmt: skip


def test_bytes_beside_a_message_are_kept_as_they_are_written(put):
    question = [{"role": "user", "content": "Why?", "raw": b"\xff"}]
    responses = [{"model": name, "text": name} for name in ("ash", "birch")]
    pair = {"question": question, "response_1": "a", "response_2": "b"}
    for row in (pair, {"question": question, "responses": responses}):
        (read,) = check([put("a.parquet", as_parquet([row]))]).rows
        assert json.loads(read.conversation)["question"][0]["raw"] == "b'\\xff'"


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.arrow", "pairs.xlsx"])
def test_problems_are_named_by_row(put, name):
    rows = [ROWS[0], ROWS[1] | {"question": ""}]
    write = {"parquet": as_parquet, "arrow": as_arrow, "xlsx": as_excel}[name.rpartition(".")[2]]
    (problem,) = check([put(name, write(rows))]).problems
    # A sheet counts its header.
    assert str(problem.place) == f"{name}, row {3 if name.endswith('xlsx') else 2}"
    assert problem.sentence == "question is empty."


def test_a_sheet_is_named_in_problems(put):
    book = openpyxl.Workbook()
    book.active.title = "other"
    sheet = book.create_sheet("pairs")
    sheet.append(["question", "response_1", "response_2"])
    sheet.append(["q", "a", "=1/0"])
    stream = io.BytesIO()
    book.save(stream)
    path = put("book.xlsx", stream.getvalue())
    (problem,) = check([path], options={"sheet": "pairs"}).problems
    assert str(problem.place) == "book.xlsx, sheet pairs, row 2"
    assert "C2 is a formula without a stored value" in problem.sentence
    (problem,) = check([path], options={"sheet": "none"}).problems
    assert problem.sentence == "There is no sheet none. Sheets: other, pairs."
    with pytest.raises(UserError, match="no Excel workbook"):
        Records([put("a.csv", as_csv(ROWS))], sheet="pairs")


@pytest.mark.parametrize(
    "name", ["pairs.jsonl.gz", "pairs.jsonl.zst", "pairs.parquet", "pairs.xlsx"]
)
def test_a_file_that_was_cut_is_refused(put, name):
    data = FILES[name]
    if "jsonl" in name:
        many = TEXT * 3000
        data = gzip.compress(many) if name.endswith("gz") else zstd(many)
    path = put(name, data[: len(data) // 2])
    records = Records([path])
    *_, last = records
    assert isinstance(last, Refused)
    assert last.fatal
    assert "cut or broken" in last.problems[0].sentence or "damaged" in last.problems[0].sentence
    assert len(records.sha256) == 64


@pytest.mark.system
def test_faireval_s_files_may_be_compressed_and_name_their_models(put):
    def packed(name):
        # More than is inflated to recognise the file.
        rows = (
            {"question_id": n, "text": f"{name}{random.Random(n).random()}"} for n in range(5000)
        )
        return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())

    paths = [put("question.jsonl.gz", packed("q"))]
    paths += [put(f"answer_{name}.jsonl.gz", packed(name)) for name in ("ash-1.5", "birch")]
    summary = check(paths)
    assert (summary.format, summary.n_rows, summary.n_problems) == ("faireval", 5000, 0)
    assert (summary.rows[0].model_1, summary.rows[0].model_2) == ("ash-1.5", "birch")
    for path in paths:
        data = path.read_bytes()
        path.write_bytes(data[:-4])
        summary = check(paths)
        path.write_bytes(data)
        assert summary.fatal
        assert "cut or broken" in summary.problems[0].sentence


def test_what_a_file_inflates_to_is_bounded(put, monkeypatch):
    monkeypatch.setattr(bounds, "FREE", 1 << 20)
    many = json.dumps(ROWS[0] | {"response_1": "x" * 1000}).encode() + b"\n"
    for name, data in (
        # The size at the end is the one of the last member.
        ("bomb.jsonl.gz", gzip.compress(many * 5000) + gzip.compress(many)),
        ("bomb.jsonl.zst", zstd(many * 5000)),
        ("bomb.parquet", as_parquet([ROWS[0] | {"response_1": "x" * 1000}] * 5000)),
    ):
        *_, last = Records([put(name, data)])
        assert isinstance(last, Refused), name
        assert "would inflate to more than" in last.problems[0].sentence


def test_a_gzip_file_that_says_it_is_too_large_is_refused_before_it_is_read(put, monkeypatch):
    monkeypatch.setattr(bounds, "FREE", 1 << 20)
    path = put("bomb.csv.gz", gzip.compress(b"q,a,b\n" * 1_000_000))
    with pytest.raises(UserError, match="would inflate to more than 1 MiB"):
        Records([path])


def test_a_gzip_file_that_is_cut_is_called_so_whatever_its_last_bytes_say(put):
    whole = gzip.compress(as_csv([ROWS[0] | {"external_id": str(n)} for n in range(9)]))
    with pytest.raises(UserError, match="cut or broken"):
        Records([put("pairs.csv.gz", whole[:-8] + b"\xff" * 4)])


def test_cells_of_several_rows_that_are_merged_are_named_and_not_skipped(put):
    book = openpyxl.Workbook()
    for row in (["Question", "Answer 1", "Answer 2", "Category"], ["q", "a", "b", "math"]):
        book.active.append(row)
    book.active.append(["r", "a", "b", None])
    book.active.merge_cells("F1:G1")
    book.active.merge_cells("D2:D3")
    stream = io.BytesIO()
    book.save(stream)
    found = check([put("book.xlsx", stream.getvalue())])
    assert found.fatal
    assert str(found.problems[0].place) == "book.xlsx, row 2"
    assert found.problems[0].sentence.startswith("The cells D2:D3 are merged")


def test_what_is_packed_twice_or_contradicts_its_format_is_refused(put):
    for name, data in (
        ("a.gz", gzip.compress(gzip.compress(TEXT))),
        ("b.gz", gzip.compress(FILES["pairs.parquet"])),
    ):
        with pytest.raises(UserError, match="compressed itself"):
            Records([put(name, data)])
    with pytest.raises(UserError, match="is a Parquet file, and the format says csv"):
        Records([put("a.parquet", FILES["pairs.parquet"])], "csv")


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.arrow", "pairs.jsonl.zst"])
def test_without_the_extra_a_file_says_what_to_install(put, monkeypatch, name):
    for module in ("pyarrow", "pyarrow.compute", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'fairjudge\[arrow\]'"):
        list(Records([put(name, FILES[name])]))


def test_excel_and_gzip_need_no_extra(put, monkeypatch):
    for module in ("pyarrow", "pyarrow.compute", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("pairs.xlsx", "pairs.csv.gz"):
        assert [record.values for record in Records([put(name, FILES[name])])] == ROWS


def test_an_export_that_was_saved_as_a_workbook_is_turned_back(put):
    rows = [ROWS[0] | {"response_1": "'=x", "fairjudge_escape": "1"}]
    (record,) = Records([put("a.xlsx", as_excel(rows))])
    assert record.values["response_1"] == "=x"


def test_a_folder_stands_for_the_files_of_its_data(tmp_path):
    (tmp_path / "data").mkdir()
    for number in (1, 0):
        (tmp_path / "data" / f"train-{number}.parquet").write_bytes(as_parquet([ROWS[number]]))
    (tmp_path / "README.md").write_text("---\n")
    (tmp_path / "dataset_info.json").write_text("{}")
    read = [one for one in Records(data_files([tmp_path])) if isinstance(one, Record)]
    assert [record.values["id"] for record in read] == ["1", "2"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no file of"):
        data_files([tmp_path / "empty"])


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.jsonl.gz"])
def test_refused_rows_are_copied_as_text_and_can_be_imported_once_corrected(put, name):
    rows = [ROWS[0], ROWS[1] | {"question": ""}]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path = put(name, as_parquet(rows) if name.endswith("parquet") else gzip.compress(text))
    project = make_project()
    done = import_files(project, None, [path], skip_invalid=True)
    with refused_files_of(done) as (copy,):
        assert copy.name == "pairs.refused.jsonl"
    copy.write_text(copy.read_text().replace('"question": ""', '"question": "q2"'))
    assert import_files(project, None, [copy]).n_written == 1


def test_a_text_that_many_rows_of_a_parquet_file_share_is_in_memory_once(put):
    shared = "x" * 100_000
    rows = [row | {"response_1": shared, "response_2": f"{n}"} for n, row in enumerate(ROWS * 100)]
    first, second, *_ = Records([put("a.parquet", as_parquet(rows))])
    assert first.values["response_1"] == shared
    assert first.values["response_1"] is second.values["response_1"]
