"""Typed and compressed files in and out by the interface, and rows with several responses."""

import gzip
import io
import json
import re
import zipfile

import openpyxl
import pyarrow
import pyarrow.parquet as parquet
import pytest
from django.core.management import CommandError, call_command

from annotation.models import Vote
from judging.dataset import writing
from judging.dataset.models import Example, HumanScore, Import
from judging.runs.models import Sample
from tests.factories import make_examples, make_run, make_verdict

pytestmark = pytest.mark.django_db
ROW = {"external_id": "a", "question": "Q?", "response_1": "one", "response_2": "two"}
WIDE = {
    "question": "Q?",
    "responses": [{"model": name, "response": name} for name in ("ash", "birch", "cedar", "elm")],
}
EXAMPLES = "projects/vicuna/examples"


@pytest.fixture(autouse=True)
def media(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def as_owner(token_for, owner):
    return token_for(owner)


def as_parquet(row):
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([row]), stream)
    return stream.getvalue()


def as_excel(row):
    book, stream = openpyxl.Workbook(), io.BytesIO()
    sheet = book.create_sheet("pairs")
    sheet.append(list(row))
    sheet.append(list(row.values()))
    book.save(stream)
    return stream.getvalue()


def as_gzip(row):
    return gzip.compress(json.dumps(row).encode())


@pytest.mark.parametrize(
    ("made", "kind", "query"),
    [
        (as_parquet, "application/vnd.apache.parquet", ""),
        (as_gzip, "application/gzip", ""),
        (
            as_excel,
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "?sheet=pairs",
        ),
        # The content counts, not what it is called.
        (as_parquet, "text/csv", ""),
    ],
)
def test_bodies_of_every_kind_come_in(as_owner, project, made, kind, query):
    body = made(ROW)
    answer = as_owner.post(EXAMPLES + query, body, **{"Content-Type": kind})
    assert answer.status_code == 202, answer.content
    writing.write(Import.objects.get().pk)
    assert Example.objects.get().response_2 == "two"


# What a row of the sheet becomes, by the last part of the address.
OTHER_ROWS = {
    "votes": {"annotator": "ana", "label": "win"},
    "judgments": {"order": "original", "outcome": "win"},
    "scores": {"input": "i", "output": "o", "criterion": "c", "rater": "ana", "score": "3"},
}
NO_SHEET = "There is no sheet answers. Sheets: Sheet, pairs."


def n_imported():
    return Vote.objects.count(), Sample.objects.count(), HumanScore.objects.count()


@pytest.mark.parametrize("what", OTHER_ROWS)
def test_votes_judgments_and_scores_come_in_from_a_named_sheet(as_owner, project, what):
    (example,) = make_examples(project, 1)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    body = as_excel(OTHER_ROWS[what] | {"external_id": example.external_id})
    address = f"projects/vicuna/{what}?sheet="
    refused = as_owner.post(f"{address}answers", body, **{"Content-Type": kind})
    assert refused.status_code == 422
    assert NO_SHEET in refused.json()["detail"]
    assert n_imported() == (0, 0, 0)
    answer = as_owner.post(f"{address}pairs", body, **{"Content-Type": kind})
    assert answer.status_code == 201, answer.content
    assert sum(n_imported()) == 1


@pytest.mark.parametrize("what", OTHER_ROWS)
def test_the_commands_read_a_named_sheet(project, tmp_path, what):
    (example,) = make_examples(project, 1)
    path = tmp_path / "book.xlsx"
    path.write_bytes(as_excel(OTHER_ROWS[what] | {"external_id": example.external_id}))
    with pytest.raises(CommandError, match=re.escape(NO_SHEET)):
        call_command(f"import_{what}", "vicuna", path, "--sheet", "answers")
    assert n_imported() == (0, 0, 0)
    call_command(f"import_{what}", "vicuna", path, "--sheet", "pairs")
    assert sum(n_imported()) == 1


def test_a_problem_is_named_by_its_row(as_owner, project):
    body = as_parquet(ROW | {"question": ""})
    answer = as_owner.post(EXAMPLES, body, **{"Content-Type": "application/vnd.apache.parquet"})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("Row 1: question is empty.")


def test_rows_with_several_responses_need_a_design_and_have_a_price(as_owner, project):
    body = json.dumps(WIDE).encode()
    assert as_owner.post(EXAMPLES, body).status_code in (409, 422)
    planned = as_owner.post(f"{EXAMPLES}/estimate?design=random%3D2&seed=4", body).json()
    assert (planned["rows"], planned["new"], planned["questions"]) == (5, 5, 1)
    assert planned["models"] == ["ash", "birch", "cedar", "elm"]
    assert planned["calls"] is None
    assert "at least 10 times" in planned["basis"]
    assert not Import.objects.exists()
    as_owner.post(f"{EXAMPLES}?design=random%3D2&seed=4", body)
    imported = Import.objects.get()
    assert imported.options["design"]["seed"] == 4
    writing.write(imported.pk)
    assert Example.objects.count() == 5


def test_tables_go_out_with_types(as_owner, project):
    run = make_run(project)
    for example in make_examples(project, 2):
        make_verdict(run, example, 0.5)
    name = "projects/vicuna/labels"
    content = {
        kind: b"".join(as_owner.get(f"{name}.{kind}?run=1")) for kind in ("arrow", "xlsx", "zip")
    }
    assert pyarrow.ipc.open_file(content["arrow"]).read_all()["bpde"].to_pylist() == [0.5, 0.5]
    assert openpyxl.load_workbook(io.BytesIO(content["xlsx"]))["labels"].max_row == 3
    with zipfile.ZipFile(io.BytesIO(content["zip"])) as archive:
        assert "README.md" in archive.namelist()
