"""The law of the files: export, import into an empty project, export again: equal examples."""

import csv
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotation.results.tables.exports import LABEL_COLUMNS, ExportRequest, export
from judging.dataset.writing import import_files
from tests.factories import make_examples, make_project

EXAMPLE_COLUMNS = (*LABEL_COLUMNS[:8], "reference")
# What separates, quotes, ends lines or starts formulas somewhere.
PIECES = st.sampled_from(
    [*"'=+-@\t\r\n\",;|\ufeff\u2028\x85\x0b\x0c\x1a\u202ea ", "sep=", "NaN", "true", "😀", "\r\n"]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
NAMES = st.sampled_from(["", "m", "=m", "'m", "-1", "a b", "fairjudge_escape", "x" * 200])
EXAMPLES = st.fixed_dictionaries(
    {
        "question": TEXTS.filter(str.strip),
        "response_1": TEXTS,
        "response_2": TEXTS,
        "model_1": NAMES,
        "model_2": NAMES,
        "category": NAMES,
        "gold_label": st.sampled_from([None, "win", "tie", "lose"]),
        "reference": TEXTS,
    }
)


def rows_of(data: bytes, wanted: ExportRequest) -> list[list[str]]:
    text = data.decode()
    if wanted.format == "jsonl":
        rows = [json.loads(line) for line in text.removesuffix("\n").split("\n")]
    else:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    return [[row[name] for name in EXAMPLE_COLUMNS] for row in rows]


@pytest.mark.parametrize(
    "wanted",
    [ExportRequest(), ExportRequest(escape=False), ExportRequest(format="jsonl")],
    ids=["csv", "raw", "jsonl"],
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(examples=st.lists(EXAMPLES, min_size=1, max_size=12))
@pytest.mark.django_db
def test_any_texts_come_back_as_they_were(tmp_path, wanted, examples):
    project = make_project()
    for fields in examples:
        make_examples(project, 1, **fields)
    first = b"".join(export(project, None, None, wanted))
    path = tmp_path / f"labels.{wanted.format}"
    path.write_bytes(first)
    again = make_project()
    import_files(again, None, [path])
    second = b"".join(export(again, None, None, wanted))
    assert rows_of(second, wanted) == rows_of(first, wanted)
