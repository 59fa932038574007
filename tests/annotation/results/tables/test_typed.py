"""Exports with types: what datasets, pandas, polars and spreadsheets read, and what comes back."""

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from decimal import Decimal

import openpyxl
import pandas
import polars
import pyarrow
import pytest
from django.core.management import CommandError, call_command

from annotation.results.management.commands.export import OF_ALL
from annotation.results.tables import typed
from annotation.results.tables.exports import (
    LABEL_COLUMNS,
    ExportRequest,
    export,
    label_rows,
)
from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.dataset.writing import import_files
from judging.projects.models import Export
from tests.factories import make_examples, make_project, make_run, make_verdict

pytestmark = pytest.mark.django_db
HOSTILE = ["=1+1", "two\nlines", "عربي 👩‍👩‍👧", "007", "'=x", "  spaces  ", 'quote " and, comma']
READ = """
import json, sys
from datasets import load_dataset
found = load_dataset(sys.argv[1])
print(json.dumps({
    "splits": {name: len(split) for name, split in found.items()},
    "rows": [{k: v for k, v in row.items() if isinstance(v, str)} for row in found["train"]],
    "types": {name: str(kind) for name, kind in found["train"].features.items()},
}))
found.save_to_disk(sys.argv[2])
"""


@pytest.fixture
def judged():
    project = make_project("pairs", name="Pairs: “of” \n two")
    examples = make_examples(project, len(HOSTILE), category="math")
    run = make_run(project)
    for example, text in zip(examples, HOSTILE, strict=True):
        example.question = example.response_1 = text
        example.save()
        make_verdict(run, example, 0.25, usd=Decimal("0.0123"))
    return project


def read(project, **wanted):
    run = project.runs.first()
    return b"".join(export(project, run, None, ExportRequest(**wanted)))


def run_datasets(folder, tmp_path, script=READ):
    """Let the library read the folder in a process of its own, without the network."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    arguments = [sys.executable, "-c", script, str(folder), str(tmp_path / "saved")]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def contents(project):
    names = ("external_id", "question", "response_1", "response_2", "model_1", "category")
    return list(Example.objects.filter(project=project).order_by("number").values(*names))


def test_a_data_set_is_opened_by_its_library_and_comes_back(judged, tmp_path, monkeypatch):
    monkeypatch.setattr(typed, "_ROWS_A_SHARD", 3)
    folder = tmp_path / "set"
    call_command("export", "pairs", "--format", "dataset", "--run", "1", "-o", folder)
    shards = sorted(path.name for path in (folder / "data").iterdir())
    assert shards == [f"train-{n:05d}-of-00003.parquet" for n in range(3)]
    found = run_datasets(folder, tmp_path)
    assert found["splits"] == {"train": len(HOSTILE)}
    assert [row["question"] for row in found["rows"]] == HOSTILE
    assert found["types"]["bpde"] == "Value('float64')"
    for number, source in enumerate((folder, tmp_path / "saved")):
        fresh = make_project(f"fresh-{number}")
        done = import_files(fresh, None, [source])
        assert (done.n_written, done.n_refused) == (len(HOSTILE), 0)
        assert contents(fresh) == contents(judged)


READ_EACH = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
names = get_dataset_config_names(sys.argv[1])
found = {name: load_dataset(sys.argv[1], name)["train"] for name in names}
default = load_dataset(sys.argv[1])["train"]
print(json.dumps({
    "rows": {name: len(rows) for name, rows in found.items()},
    "default": default.column_names == found["labels"].column_names,
    "voted": [row["label"] for row in found["votes"]],
}))
"""


@pytest.mark.system
def test_all_tables_are_the_configurations_of_one_data_set(judged, tmp_path, capsys):
    votes, folder = tmp_path / "votes.csv", tmp_path / "set"
    votes.write_text(f"id,annotator,label\n{judged.examples.first().external_id},ana,tie\n")
    call_command("import_votes", "pairs", votes)
    capsys.readouterr()
    call_command(
        "export", "pairs", "--format", "dataset", "--run", "1", "--what", "all", "-o", folder,
        "--json",
    )  # fmt: skip
    said = capsys.readouterr()
    document = json.loads(said.out)
    written = ["labels", "votes", "preferences"]
    assert (document["what"], list(document["sha256"])) == ("all", written)
    # No sample was kept, and people answered no criterion.
    left_out = [what for what in OF_ALL if f"because there are none: {what}" in said.err]
    assert left_out == ["samples", "criteria"]
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert document["bytes"] == sum(sizes)
    found = run_datasets(folder, tmp_path, READ_EACH)
    assert list(found["rows"]) == written
    assert (found["rows"]["labels"], found["voted"]) == (len(HOSTILE), ["tie"])
    assert found["default"]
    assert import_files(make_project(), None, [folder / "labels"]).n_written == len(HOSTILE)


@pytest.mark.parametrize(("name", "more"), [("all.csv", ()), ("all.zip", ("--format", "dataset"))])
def test_all_tables_need_the_folder_of_a_data_set(judged, tmp_path, name, more):
    with pytest.raises(CommandError, match="--what all writes the folder of a data set"):
        call_command("export", "pairs", "--what", "all", "-o", tmp_path / name, *more)
    assert list(tmp_path.iterdir()) == []
    assert not Export.objects.exists()


def test_the_json_document_of_a_data_set_counts_the_bytes_of_its_files(judged, tmp_path, capsys):
    folder = tmp_path / "set"
    call_command("export", "pairs", "--format", "dataset", "--run", "1", "-o", folder, "--json")
    sizes = [path.stat().st_size for path in (folder / "README.md", *(folder / "data").iterdir())]
    assert json.loads(capsys.readouterr().out)["bytes"] == sum(sizes)


def test_every_number_of_people_has_the_type_of_one(judged, tmp_path):
    (tmp_path / "a.parquet").write_bytes(read(judged, what="people", format="parquet"))
    kinds = polars.read_parquet_schema(tmp_path / "a.parquet")
    texts = [name for name, kind in kinds.items() if kind == polars.String]
    assert texts == ["annotator", "group", "crowd_id", "crowd_state"]


def test_the_card_says_how_the_labels_were_made_and_leaves_the_licence_open(judged, tmp_path):
    call_command("export", "pairs", "--format", "dataset", "--run", "1", "-o", tmp_path / "set")
    card = (tmp_path / "set" / "README.md").read_text(encoding="utf-8")
    assert "\n# license:\n" in card
    assert 'pretty_name: "Pairs: “of” \\n two: labels"' in card
    assert "# Pairs: “of” two: labels\n" in card
    assert f"| train | {len(HOSTILE)} | 1 |" in card
    assert "The judge is" in card
    assert "0 annotators gave 0 votes." in card
    assert f"Rows by the source of their label: judge: {len(HOSTILE)}." in card


def test_a_folder_that_is_full_is_left_alone(judged, tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(CommandError, match="is there already"):
        call_command("export", "pairs", "--format", "dataset", "-o", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert not Export.objects.exists()


def test_the_page_sends_a_data_set_as_one_archive(judged):
    data = read(judged, format="dataset")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["README.md", "data/train-00000-of-00001.parquet"]
    assert read(judged, format="dataset") == data
    assert Export.objects.latest("pk").n_rows == len(HOSTILE)


def test_arrow_and_parquet_are_read_by_pandas_and_polars(judged, tmp_path):
    (tmp_path / "a.arrow").write_bytes(read(judged, format="arrow"))
    (tmp_path / "a.parquet").write_bytes(read(judged, format="parquet"))
    tables = [
        pandas.read_feather(tmp_path / "a.arrow").to_dict("list"),
        polars.read_ipc(tmp_path / "a.arrow").to_dict(as_series=False),
        pandas.read_parquet(tmp_path / "a.parquet").to_dict("list"),
        polars.read_parquet(tmp_path / "a.parquet").to_dict(as_series=False),
    ]
    for table in tables:
        assert table["question"] == HOSTILE
        assert table["bpde"] == [0.25] * len(HOSTILE)
    assert import_files(make_project(), None, [tmp_path / "a.arrow"]).n_written == len(HOSTILE)


def test_files_that_pandas_and_polars_write_are_imported(judged, tmp_path):
    rows = list(label_rows(judged, None, names=False))
    texts = [{name: row[name] for name in LABEL_COLUMNS[:7]} for row in rows]
    pandas.DataFrame(texts).to_parquet(tmp_path / "pandas.parquet")
    pandas.DataFrame(texts).to_feather(tmp_path / "pandas.arrow")
    polars.DataFrame(texts).write_parquet(tmp_path / "polars.parquet")
    polars.DataFrame(texts).write_ipc(tmp_path / "polars.arrow")
    polars.DataFrame(texts).write_ipc_stream(tmp_path / "stream.arrow")
    polars.DataFrame(texts).write_csv(tmp_path / "polars.csv.zst", compression="zstd")
    pandas.DataFrame(texts).to_json(tmp_path / "p.jsonl.gz", orient="records", lines=True)
    for path in sorted(tmp_path.iterdir()):
        fresh = make_project()
        assert import_files(fresh, None, [path]).n_written == len(HOSTILE), path
        assert contents(fresh) == contents(judged), path


def test_a_workbook_has_numbers_as_numbers_and_no_formula(judged, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(read(judged, format="xlsx"))
    head, *rows = openpyxl.load_workbook(tmp_path / "a.xlsx")["labels"].iter_rows()
    cells = [dict(zip([cell.value for cell in head], row, strict=False)) for row in rows]
    assert [row["question"].value for row in cells] == HOSTILE
    assert {cell.data_type for row in rows for cell in row} <= {"s", "n"}
    assert {(row["bpde"].value, row["judge_usd"].value) for row in cells} == {(0.25, 0.0123)}
    fresh = make_project()
    assert import_files(fresh, None, [tmp_path / "a.xlsx"]).n_written == len(HOSTILE)
    assert contents(fresh) == contents(judged)


def test_a_text_longer_than_a_cell_refuses_the_workbook_before_its_first_byte(judged):
    Example.objects.filter(project=judged).update(response_2="x" * 32_768)
    with pytest.raises(UserError, match=r"response_2 in row 1 of the table has 32.768\. Nothing"):
        export(judged, None, None, ExportRequest(format="xlsx"))
    assert not Export.objects.exists()


def test_texts_are_compressed_as_the_file_is_named(judged, tmp_path):
    plain = read(judged, format="csv")
    call_command("export", "pairs", "--run", "1", "-o", tmp_path / "labels.csv.gz")
    assert gzip.decompress((tmp_path / "labels.csv.gz").read_bytes()) == plain
    call_command("export", "pairs", "--run", "1", "-o", tmp_path / "labels.jsonl.zst")
    with pyarrow.input_stream(str(tmp_path / "labels.jsonl.zst"), compression="zstd") as stream:
        assert stream.read() == read(judged, format="jsonl")
    with pytest.raises(CommandError, match="compressed already"):
        call_command("export", "pairs", "-o", tmp_path / "labels.parquet.gz")


@pytest.mark.parametrize("wanted", [{"format": "arrow"}, {"format": "dataset"}, {"packing": "zst"}])
def test_without_the_extra_an_export_says_what_to_install(judged, monkeypatch, wanted):
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"pip install 'fairjudge\[arrow\]'"):
        export(judged, None, None, ExportRequest(**wanted))
    assert b"".join(export(judged, None, None, ExportRequest(format="xlsx"))).startswith(b"PK")
