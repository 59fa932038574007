"""DataFrames, dictionaries and files in; DataFrames, dictionaries and files out."""

import asyncio
import datetime
import gzip
import json
import os
import subprocess
import sys
import zipfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy
import openpyxl
import pandas
import polars
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from fairjudge_client import FairJudge, Filters, Invalid, NotFound, Unreachable, tables
from fairjudge_client.tables import Columns, Upload, frame_of_parquet, kind_of_frame

from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.projects.models import Export
from tests.client.proxy import cut, passed_on, status
from tests.client.test_generated import SCHEMA
from tests.client.test_walk import BLOCKING_FIRST, CLIENTS, judged, pairs

ROOT = Path(__file__).parents[2]
on_site = pytest.mark.django_db(transaction=True)
AT = "2026-01-02T03:04:05Z"
ROWS = [
    {"external_id": "a", "question": "Ü “1”?", "response_1": "x\ny", "response_2": "b",
     "category": "math", "gold_label": "win", "is_check": False},
    {"external_id": "b", "question": "Q2?", "response_1": "<b>", "response_2": "😀",
     "category": None, "gold_label": None, "is_check": False},
]  # fmt: skip
FRAMES = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "lazy": polars.LazyFrame,
    "arrow": pyarrow.Table.from_pylist,
    "batch": pyarrow.RecordBatch.from_pylist,
    "list": list,
    "iterator": iter,
}


def sent(data):
    with closing(Upload(data)) as upload:
        upload.prepare()
        text = b"".join(upload.pieces())
        assert upload.size == len(text)
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("kind", FRAMES)
def test_all_kinds_of_rows_are_sent_alike(kind):
    known = [{name: value for name, value in row.items() if value is not None} for row in ROWS]
    assert sent(FRAMES[kind](ROWS)) == known


@on_site
@CLIENTS
@pytest.mark.parametrize("kind", FRAMES)
def test_rows_of_all_kinds_become_examples(proxy, token, media, client, kind):
    with client(proxy.url, token) as (fj, do):
        project = do(fj.create_project("New"))
        do(project.examples.upsert(FRAMES[kind](ROWS)))
        writing.write(Import.objects.get().pk)
        first, second = do(project.examples.list())
    assert (first.question, first.gold_label, first.response_1) == ("Ü “1”?", "win", "x\ny")
    assert (second.response_2, second.category, second.gold_label) == ("😀", "", None)


def test_missing_values_are_left_out_whatever_marks_them():
    frame = pandas.DataFrame(
        {
            "a": [1.5, numpy.nan],
            "b": pandas.array([1, pandas.NA], dtype="Int64"),
            "c": [pandas.Timestamp("2026-01-02T03:04:05Z"), pandas.NaT],
            "d": ["x", None],
        }
    )
    full = {"a": 1.5, "b": 1, "c": "2026-01-02T03:04:05+00:00", "d": "x"}
    assert sent(frame) == [full, {}]
    assert sent([{"a": float("nan"), "b": None}]) == [{}]


def test_values_that_json_does_not_have():
    row = {
        "a": Decimal("0.10"), "b": datetime.date(2026, 1, 2), "c": numpy.float32(0.5),
        "d": numpy.int64(3), "e": numpy.array([1, 2]), 7: True,
    }  # fmt: skip
    expected = {"a": "0.10", "b": "2026-01-02", "c": 0.5, "d": 3, "e": [1, 2], "7": True}
    assert sent([row]) == [expected]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([{"a": 1}, {"a": object()}], "Row 2 can't be sent: a object"),
        ([{"a": 1}, {"a": float("inf")}], "Row 2 can't be sent"),
        ([{"a": "\ud800"}], "Row 1 can't be sent"),
        ([["a", 1]], "Row 1 is a list"),
        ({"a": 1}, "can't be read from a dict"),
        (7, "can't be read from a int"),
        ("pairs.pdf", r"ends with none of \.csv, \.json"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "two columns of the same name"),
    ],
)
def test_what_cannot_be_sent_is_named(data, said):
    with pytest.raises((TypeError, ValueError), match=said):
        sent(data)


@on_site
def test_files_are_sent_as_they_are(fj, proxy, tmp_path):
    table = tmp_path / "pairs.csv"
    table.write_text("question,response_1,response_2\nQ?,a,b\n")
    lines = tmp_path / "pairs.jsonl"
    lines.write_text(json.dumps({"question": "R?", "response_1": "a", "response_2": "b"}) + "\n")
    project = fj.create_project("New")
    for path in (table, str(lines)):
        project.examples.upsert(path)
        writing.write(Import.objects.last().pk)
    kinds = [seen.headers["content-type"] for seen in proxy.log if "/examples" in seen.path]
    assert kinds == ["text/csv", "application/x-ndjson"]
    assert set(Example.objects.values_list("question", flat=True)) == {"Q?", "R?"}
    with pytest.raises(FileNotFoundError):
        project.examples.upsert("nowhere.csv")


@pytest.fixture
def project(fj):
    project = fj.create_project("Tables")
    project.examples.upsert(pairs(5))
    writing.write(Import.objects.get().pk)
    judged("tables")
    project.rounds.open(everything=True, votes=1)
    votes = [
        {"external_id": f"e{n}", "label": "win", "annotator": "zoe", "submitted_at": AT}
        for n in range(4)
    ]
    project.import_votes(pandas.DataFrame(votes))
    return project


@on_site
def test_tables_are_dataframes_of_the_kind_that_you_want(project):
    labels = project.labels()
    assert isinstance(labels, pandas.DataFrame)
    assert list(labels.external_id) == [f"e{n}" for n in range(5)]
    assert labels.bpde.dtype == float
    assert labels.human_usd.dtype == float
    assert labels.judge_usd.dtype == float
    assert labels.n_votes.sum() == 4
    assert isinstance(project.labels(frame="polars"), polars.DataFrame)
    assert isinstance(project.labels(frame="arrow"), pyarrow.Table)
    again = project.labels(frame="polars").to_pandas()
    assert list(again.columns) == list(labels.columns)
    assert again.final_label.to_list() == labels.final_label.to_list()
    votes = project.votes(frame="arrow").to_pylist()
    assert votes[0]["submitted_at"] == datetime.datetime.fromisoformat(AT)
    assert {vote["annotator"] for vote in project.votes(names=True).to_dict("records")} == {"zoe"}


@on_site
def test_rows_are_dictionaries_with_every_digit(project):
    first = next(iter(project.rows("labels")))
    assert first["external_id"] == "e0"
    assert isinstance(first["human_usd"], str)


@on_site
def test_a_client_makes_one_kind_of_frames_throughout(project, proxy, token):
    with FairJudge(proxy.url, token, frames="polars") as fj:
        assert isinstance(fj.project("tables").head("votes", 2), polars.DataFrame)
        assert isinstance(fj.project("tables").labels(frame="pandas"), pandas.DataFrame)
    with pytest.raises(ValueError, match="pandas, polars, arrow"):
        FairJudge(proxy.url, token, frames="excel")


@on_site
@CLIENTS
def test_a_table_that_breaks_off_is_asked_for_again(project, proxy, token, client, tmp_path):
    with client(proxy.url, token) as (fj, do):
        there = fj.project("tables")
        proxy.faults = [cut, passed_on]
        assert len(do(there.labels())) == 5
        whole = do(there.save("labels", tmp_path / "labels.jsonl")).read_text()
        proxy.faults = [cut, passed_on]
        assert do(there.save("labels", tmp_path / "labels.jsonl")).read_text() == whole
        proxy.faults = [cut]
        with pytest.raises(Unreachable, match="broke off") as error:
            do(there.rows("labels"))
        assert error.value.code == "broken_off"
    assert [path.name for path in tmp_path.glob("labels*")] == ["labels.jsonl"]


@on_site
def test_a_line_that_is_cut_is_no_row(project, proxy):
    """A proxy in between may end an answer as if it were whole."""
    proxy.faults = [status(200, b'{"external_id": "e0"}\n{"external_id": "e')]
    seen = []
    with pytest.raises(Unreachable, match="a line is cut"):
        seen.extend(project.rows("labels"))
    proxy.faults = [status(200, b'{"external_id": "e0"}\n{"external_id": "e')]
    assert len(project.labels()) == 5


@on_site
def test_a_file_is_written_whole_or_not_at_all(project, proxy, tmp_path):
    target = tmp_path / "labels.csv"
    target.write_text("mine")
    with pytest.raises(NotFound):
        project.save("labels", target, run=99)
    assert target.read_text() == "mine"
    with pytest.raises(ValueError, match=r"with \.jsonl, \.arrow, .* or \.parquet\."):
        project.save("preferences", target)
    with pytest.raises(ValueError, match=r"\.csv, \.jsonl, .* or \.parquet"):
        project.save("labels", tmp_path / "labels.pdf")
    project.save("labels", target)
    assert target.read_bytes().startswith(b"external_id,question,")
    assert [path.name for path in tmp_path.glob("labels*")] == ["labels.csv"]
    assert Export.objects.filter(what="labels", format="csv").exists()


@on_site
def test_parquet_keeps_the_types_of_the_columns(project, tmp_path):
    table = project.labels(frame="arrow", format="parquet")
    assert isinstance(table, pyarrow.Table)
    assert str(table.schema.field("judge_usd").type) == "decimal128(38, 18)"
    assert table.column("external_id").to_pylist() == [f"e{n}" for n in range(5)]
    votes = project.votes(frame="polars", format="parquet", names=True)
    assert votes["submitted_at"][0] == datetime.datetime.fromisoformat(AT)
    assert set(votes["annotator"]) == {"zoe"}
    assert isinstance(project.preferences(frame="pandas", format="parquet"), pandas.DataFrame)
    saved = project.save("preferences", tmp_path / "pairs.parquet")
    assert pyarrow.parquet.read_table(saved).num_rows == len(list(project.rows("preferences")))
    with pytest.raises(ValueError, match="jsonl or parquet"):
        project.labels(format="csv")
    assert {one.format for one in project.exports()} == {"parquet", "jsonl"}


FILES = {"labels.arrow": b"ARROW1", "labels.xlsx": b"PK", "labels.zip": b"PK"}


@on_site
@BLOCKING_FIRST
@pytest.mark.parametrize("name", FILES)
def test_arrow_excel_and_data_sets_are_saved_whole(project, proxy, token, client, tmp_path, name):
    with client(proxy.url, token) as (fj, do):
        proxy.faults = [status(200, FILES[name] + b" and no end"), passed_on]
        saved = do(fj.project("tables").save("labels", tmp_path / name))
    content = saved.read_bytes()
    if name.endswith("arrow"):
        assert pyarrow.ipc.open_file(content).read_all().num_rows == 5
    elif name.endswith("xlsx"):
        assert openpyxl.load_workbook(saved)["labels"].max_row == 6
    else:
        assert zipfile.ZipFile(saved).testzip() is None
    assert not list(tmp_path.glob("*.part"))


ROW = {"external_id": "x", "question": "Q?", "response_1": "a", "response_2": "b"}


def workbook(path):
    book = openpyxl.Workbook()
    book.create_sheet("pairs")
    for row in (list(ROW), list(ROW.values())):
        book["pairs"].append(row)
    book.save(path)


def written_by_arrow(path):
    table = pyarrow.Table.from_pylist([ROW])
    with pyarrow.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


SENT = {
    "pairs.parquet": lambda path: pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([ROW]), path
    ),
    "pairs.arrow": written_by_arrow,
    "pairs.feather": lambda path: pyarrow.feather.write_feather(
        pyarrow.Table.from_pylist([ROW]), path
    ),
    "pairs.xlsx": workbook,
    "pairs.json": lambda path: path.write_text(json.dumps([ROW], indent=1)),
    "pairs.jsonl.gz": lambda path: path.write_bytes(gzip.compress(json.dumps(ROW).encode())),
}


@on_site
@pytest.mark.parametrize("name", SENT)
def test_typed_and_compressed_files_are_sent_as_they_are(fj, tmp_path, name):
    SENT[name](tmp_path / name)
    examples = fj.create_project("New").examples
    sheet = "pairs" if name.endswith("xlsx") else ""
    assert examples.estimate(tmp_path / name, sheet=sheet).new == 1
    examples.upsert(tmp_path / name, sheet=sheet)
    writing.write(Import.objects.get().pk)
    kept = Example.objects.get()
    assert {field: getattr(kept, field) for field in ROW} == ROW


@on_site
@CLIENTS
def test_a_parquet_file_that_breaks_off_is_asked_for_again(project, proxy, token, client, tmp_path):
    with client(proxy.url, token) as (fj, do):
        there = fj.project("tables")
        proxy.faults = [cut, status(200, b"PAR1 and no end"), passed_on]
        assert len(do(there.labels(format="parquet"))) == 5
        proxy.faults = [status(200, b"PAR"), passed_on]
        saved = do(there.save("labels", tmp_path / "labels.parquet"))
        assert pyarrow.parquet.read_table(saved).num_rows == 5
        for name in ("labels.parquet", "labels.jsonl"):
            do(there.save("labels", tmp_path / name, model="dawid_skene"))
            assert "model=dawid_skene" in proxy.log[-1].path


@on_site
@CLIENTS
def test_tables_are_filtered_by_columns_and_by_examples(project, proxy, token, client, tmp_path):
    with client(proxy.url, token) as (fj, do):
        there = fj.project("tables")
        do(there.examples.tag(tag="hard", examples=["e1", "e4"]))
        assert list(do(there.labels(source="judge")).external_id) == ["e4"]
        # Two conditions are two parameters, and an example has to fit both.
        both = {"where": ["tag=hard", "text=Q1"]}
        for found in (
            do(there.labels(**both)),
            do(there.labels(**both, format="parquet")),
            do(there.head("labels", **both)),
            do(there.votes(**both)),
        ):
            assert list(found.external_id) == ["e1"]
        assert [row["external_id"] for row in do(there.rows("labels", where=["tag=hard"]))] == [
            "e1", "e4",
        ]  # fmt: skip
        saved = do(there.save("labels", tmp_path / "labels.jsonl", external_id="e2"))
        assert len(saved.read_text().splitlines()) == 1
        with pytest.raises(TypeError, match="categories"):
            do(there.labels(categories="math"))
        with pytest.raises(Invalid):
            do(there.votes(final_label="win"))


def test_filters_are_those_of_the_site():
    parameters = SCHEMA["paths"]["/api/v1/projects/{slug}/{what}.parquet"]["get"]["parameters"]
    named = {one["name"] for one in parameters if one["in"] == "query"}
    assert set(Filters.__annotations__) == named - {"run", "names", "background", "model"}


def test_columns_that_come_late_are_filled():
    columns = Columns()
    columns.add([{"a": 1}, {"b": "x"}])
    columns.add([{"a": 3, "usd": "0.25"}])
    frame = columns.frame("arrow")
    assert frame.to_pylist() == [
        {"a": 1, "b": None, "usd": None},
        {"a": None, "b": "x", "usd": None},
        {"a": 3, "b": None, "usd": 0.25},
    ]
    assert columns.frame("pandas").shape == columns.frame("polars").shape == (3, 3)


def test_without_a_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"fairjudge-client\[pandas\]"):
        kind_of_frame(None)
    with pytest.raises(ImportError, match=r"fairjudge-client\[polars\]"):
        kind_of_frame("polars")
    with pytest.raises(ImportError, match=r"fairjudge-client\[arrow\]"):
        frame_of_parquet("pandas")
    monkeypatch.setattr(tables, "find_spec", lambda name: name == "polars" or None)
    assert kind_of_frame(None) == "polars"


MEMORY = """
import json, resource, sys
from fairjudge_client import FairJudge
from tests.client.endless import Endless, ROW

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

with Endless() as site, FairJudge(site.url, "fj_x") as fj:
    def both_ways(n):
        site.n = n
        fj.project("x").examples.upsert(ROW | {"external_id": str(k)} for k in range(n))
        assert site.received > n * 2000, site.received
        assert sum(1 for _ in fj.project("x").rows("labels")) == n
    both_ways(500)
    before = peak()
    both_ways(30_000)
    print(peak() - before)
"""


@pytest.mark.system
def test_large_tables_take_little_memory_both_ways():
    """60 MB in, and 60 MB out, over an iteration of 1 MB of each."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'client'}"}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 15


def test_reading_rows_lets_the_loop_go_on():
    """Rows are encoded in a thread, so that other tasks aren't held up."""
    from tests.client.endless import Endless

    async def main(url):
        from fairjudge_client import AsyncFairJudge

        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        async with AsyncFairJudge(url, "fj_x") as fj:
            ticking = asyncio.create_task(tick())
            await fj.project("x").examples.upsert({"a": "x" * 200} for _ in range(60_000))
            ticking.cancel()
        return ticks

    with Endless() as site:
        assert asyncio.run(main(site.url)) >= 10
