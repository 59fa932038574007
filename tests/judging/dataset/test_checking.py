import json
import tracemalloc

import pytest

from judging.core.errors import UserError
from judging.dataset import reading
from judging.dataset.reading import check
from judging.dataset.records import codes_of, spelled
from judging.dataset.uploads import first_pass


def write(path, rows):
    text = "".join(
        json.dumps({"question": "q", "response_1": "a", "response_2": "b", **row}) + "\n"
        for row in rows
    )
    path.write_text(text, encoding="utf-8")
    return path


def test_a_summary_says_what_was_found(tmp_path):
    rows = [
        {"id": 1, "gold": "win"},
        {"id": 2, "response_2": "", "gold": "lose"},
        {"id": 3, "response_1": "b"},
        {"id": 4, "colour": "red"},
        {"id": 1, "gold": "win"},
    ]
    found = check([write(tmp_path / "pairs.jsonl", rows)])
    assert found.acceptable
    assert (found.n_rows, found.n_problems) == (4, 0)
    assert found.columns["external_id"] == "id"
    assert found.unused == ["colour"]
    assert found.gold == {"win": 1, "tie": 0, "lose": 1}
    notices = {notice.kind: (notice.count, notice.lines) for notice in found.notices}
    assert notices == {
        "empty response": (1, (2,)),
        "same responses": (1, (3,)),
        "same texts": (1, (4,)),
        "repeated": (1, (5,)),
    }


@pytest.mark.parametrize(
    ("column", "labels", "read_as"),
    [
        ("label", (0, 1), ["0=tie,1=win", "0=win,1=lose", "0=lose,1=win"]),
        ("gold_label", ("1.0", "0.0"), ["0=tie,1=win", "0=win,1=lose", "0=lose,1=win"]),
        ("label", (0, 1, 2), ["0=tie,1=win,2=lose", "0=win,1=lose,2=tie", "0=lose,1=win,2=tie"]),
        ("gold_label", (0, 1, 2), ["0=tie,1=win,2=lose"]),
        ("label", (0, 0), ["0=tie", "0=win", "0=lose"]),
        ("label", (1, 2), ["1=win,2=lose", "1=lose,2=tie", "1=win,2=tie"]),
        ("winner", ("2.0", "1.0"), ["1=win,2=lose", "1=lose,2=tie", "1=win,2=tie"]),
        ("gold_label", (2, 1), ["1=win,2=lose"]),
        ("gold", (1, 2), ["1=win,2=lose", "1=lose,2=tie", "1=win,2=tie"]),
        ("label", (1, 1), ["1=win", "1=lose"]),
        ("label", (2, 2), ["2=lose", "2=tie"]),
        ("gold_label", (1, 1), ["1=win"]),
        ("label", (0, 2), ["0=tie,2=lose", "0=win,2=tie", "0=lose,2=tie"]),
        ("label", (1, 3), ["1=win,3=tie"]),
        ("label", (0, 1, -1), ["-1=lose,0=tie,1=win"]),
        ("label", (3, 2, 1), ["1=win,2=lose,3=tie"]),
        ("label", (0, 1, 0.5), ["0=lose,0.5=tie,1=win"]),
        ("label", ("win", "lose"), []),
    ],
)
def test_what_codes_can_mean_is_asked_and_what_they_must_mean_is_said(
    tmp_path, column, labels, read_as
):
    rows = [{"id": n, "question": f"q{n}", column: label} for n, label in enumerate(labels)]
    summary = first_pass(None, [write(tmp_path / "pairs.jsonl", rows)]).summary
    assert [spelled(one) for one in summary.readings] == (read_as if len(read_as) > 1 else [])
    assert spelled(summary.labels) == (read_as[0] if read_as else "")
    assert summary.acceptable == (len(read_as) < 2)
    assert not summary.problems


@pytest.mark.parametrize(("label", "read_as"), [(1, "1=win,2=lose"), (0, "")])
def test_the_codes_of_llmbar_are_known_by_its_columns(tmp_path, label, read_as):
    rows = [{"input": "q", "output_1": "a", "output_2": "b", "label": n} for n in (label, 2)]
    path = tmp_path / "Dataset.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    summary = first_pass(None, [path]).summary
    assert bool(summary.readings) is not bool(read_as)
    assert not read_as or spelled(summary.labels) == read_as


def test_codes_mean_what_was_said(tmp_path):
    rows = [{"id": n, "question": f"q{n}", "label": n} for n in range(3)]
    path = write(tmp_path / "pairs.jsonl", rows)
    summary = first_pass(None, [path], labels=codes_of("0=win, 1=lose, 2=tie")).summary
    assert [row.gold_label for row in summary.rows] == ["win", "lose", "tie"]
    with pytest.raises(UserError, match="1=win,2=lose,0=tie"):
        codes_of("0=win,0=lose")
    short = first_pass(None, [path], labels=codes_of("0=win,1=lose")).summary
    assert [problem.place.line for problem in short.problems] == [3]


@pytest.mark.parametrize("codes", [(0, 1, 2, -1), (0, 1, 7)])
def test_a_code_that_no_reading_knows_does_not_let_the_others_pass(tmp_path, codes):
    rows = [{"id": n, "label": code} for n, code in enumerate(codes)]
    summary = first_pass(None, [write(tmp_path / "pairs.jsonl", rows)]).summary
    assert summary.readings
    assert summary.problems


def test_the_labels_of_arenas_and_names_of_models_are_read(tmp_path):
    labels = ["model_a", "model_b", "tie (bothbad)", "both_bad", "Maple 7B", "birch"]
    models = {"model_a": "maple-7b", "model_b": "birch"}
    rows = [{"id": n, "question": f"q{n}", "winner": w, **models} for n, w in enumerate(labels)]
    summary = check([write(tmp_path / "pairs.jsonl", rows)])
    assert summary.gold == {"win": 2, "tie": 2, "lose": 2}


@pytest.mark.parametrize("twin", ["GOLD_LABEL", "Gold label", "gold-label"])
def test_two_columns_of_one_name_are_refused_until_one_is_chosen(tmp_path, twin):
    rows = [{"id": 1, "gold_label": "win", twin: "lose"}, {"id": 2}]
    path = write(tmp_path / "pairs.jsonl", rows)
    found = check([path])
    assert [problem.place.line for problem in found.problems] == [1]
    assert f"gold_label, {twin} are the same column" in found.problems[0].sentence
    found = check([path], mapping={"gold_label": "ignore", twin: "gold_label"})
    assert found.acceptable
    assert found.gold == {"win": 0, "tie": 0, "lose": 1}
    table = tmp_path / "pairs.csv"
    table.write_text(f"id,question,response_1,response_2,gold_label,{twin}\n1,q,a,b,win,lose\n")
    assert not check([table]).acceptable
    assert "are the same column" in check([table]).problems[0].sentence


def test_a_column_that_is_to_be_left_out_may_be_missing(tmp_path):
    path = write(tmp_path / "pairs.jsonl", [{"id": 1}])
    assert check([path], mapping={"nothing": "ignore"}).acceptable
    assert not check([path], mapping={"nothing": "category"}).acceptable


def test_problems_are_counted_beyond_those_that_are_shown(tmp_path):
    rows = [{"id": n, "response_1": None} for n in range(reading.SHOWN_PROBLEMS + 7)]
    found = check([write(tmp_path / "pairs.jsonl", rows)])
    assert len(found.problems) == reading.SHOWN_PROBLEMS
    assert found.n_problems == found.n_refused == reading.SHOWN_PROBLEMS + 7
    assert not found.acceptable


def test_a_file_without_rows_is_not_acceptable(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("id,question,response_1,response_2\n", encoding="utf-8")
    found = check([path])
    assert not found.acceptable
    assert "no rows" in found.problems[0].sentence
    assert not found.missing


def test_the_columns_that_are_missing_are_named_for_the_mapping(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("id,question,mine,theirs\n1,q,a,b\n", encoding="utf-8")
    found = check([path])
    assert found.missing == ["response_1", "response_2"]
    assert found.unused == ["mine", "theirs"]


@pytest.mark.system
def test_memory_stays_flat_however_long_the_file(tmp_path):
    texts = "".join(
        json.dumps({"id": n, "question": f"q{n}", "response_1": "x" * 4000, "response_2": "y"})
        + ("," if n < 2999 else "")
        for n in range(3000)
    )
    sizes = {"pairs.json": "[" + texts + "]", "pairs.jsonl": texts.replace("},{", "}\n{")}
    for name, text in sizes.items():
        path = tmp_path / name
        path.write_text(text.removesuffix(","), encoding="utf-8")
        tracemalloc.start()
        found = check([path])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.n_rows == 3000
        assert peak < path.stat().st_size / 6, name


def test_pandalm_with_its_odd_values(test_data):
    found = check([test_data / "pandalm" / "testset-v1.json"])
    assert found.acceptable
    assert found.n_rows == 999
    notices = {notice.kind: notice.count for notice in found.notices}
    assert notices["empty response"] == 54
    assert (found.rows[0].external_id, found.rows[0].model_1) == ("0", "bloom-7b")
    assert found.columns["question"] == "instruction + input"


def test_llmbar_labels_become_win_and_lose(test_data):
    found = check([test_data / "llmbar" / "Natural" / "GPT-4" / "Swap" / "result.json"], "llmbar")
    assert found.n_rows == 100
    assert found.gold == {"win": 42, "tie": 0, "lose": 58}
