import csv
import json

import pytest
from django.core.management import call_command

from judging.core.errors import UserError
from judging.core.leases import KeptRows
from judging.dataset.writing import import_files
from judging.runs import lifecycle
from judging.runs.models import Call, Method, Parse, Run, Sample, Verdict
from judging.runs.recorded.writing import import_judgments
from tests.factories import make_examples

pytestmark = pytest.mark.django_db


@pytest.fixture
def project(project):
    make_examples(project, 2)
    return project


def write_csv(path, rows):
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(external_id, order, score_1, score_2):
    return {"external_id": external_id, "order": order, "score_1": score_1, "score_2": score_2}


def test_scores_in_both_orders_become_a_ranked_run(project, tmp_path):
    rows = [row("e0", "original", 9, 8), row("e0", "swapped", "7.5", 8)]
    rows += [row("e0", "original", 9, 6), row("e0", "swapped", "", "")]
    rows += [row("e1", order, 3, 3) for order in ("original", "swapped")]
    run = import_judgments(project, None, [write_csv(tmp_path / "s.csv", rows)], name="theirs")
    assert (run.method, run.form, run.state, run.k) == (Method.IMPORTED, "score", "done", 2)
    assert run.orders == ("original", "swapped")
    first, second = Verdict.objects.filter(run=run).order_by("example__number")
    assert (first.label, first.n_valid, first.n_asked, first.rank) == ("win", 3, 4, 1)
    assert (second.label, second.bpde) == ("tie", 0.0)
    project.refresh_from_db()
    assert project.primary_run == run


def test_outcomes_alone_are_enough(project, tmp_path):
    rows = [{"external_id": "e0", "order": "original", "outcome": "lose"}]
    run = import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", rows)])
    assert (run.form, run.orders) == ("relation", ("original",))
    assert Verdict.objects.get(run=run, example__external_id="e0").label == "lose"
    assert Verdict.objects.get(run=run, example__external_id="e1").state == "unjudged"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"external_id": "e9"}, "has no example e9"),
        ({"order": ""}, "should be original or swapped"),
        ({"order": "sideways"}, "order should be one of original, swapped, found"),
        ({"score_2": ""}, "together or not at all"),
        ({"score_1": "high"}, "score_1 should be a number"),
        ({"score_1": "NaN"}, "score_1 should be a number"),
        ({"outcome": "lose"}, "the scores say win"),
        ({"status": "fine"}, "status should be one of"),
        ({"status": "unparsed"}, "a verdict is there"),
        ({"slot": "-1"}, "whole number"),
        ({"raw_text": "\ud800"}, "raw_text holds the lone surrogate"),
        ({"raw_text": "\0"}, "raw_text holds a NUL"),
        ({"part": "swapped"}, "order is original, and part is swapped"),
        ({"usd": "-1"}, "usd should be a number from 0 to"),
    ],
)
def test_a_row_that_says_nothing_sound_refuses_the_file(project, tmp_path, change, sentence):
    rows = [row("e1", "original", 9, 8), row("e0", "original", 9, 8) | change]
    path = write_lines(tmp_path / "s.jsonl", rows)
    with pytest.raises(UserError, match=sentence) as refused:
        import_judgments(project, None, [path])
    assert "s.jsonl, line 2" in str(refused.value)
    assert not Run.objects.exists()


@pytest.mark.parametrize("again", [{"slot": 62}, {"slot": 63}, {"slot": 0, "attempt": 1}])
def test_a_high_slot_and_a_later_attempt_are_there_once_too(project, tmp_path, again):
    rows = [row("e0", "original", 9, 8) | {"slot": 0}, row("e0", "original", 9, 8) | again]
    run = import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", rows)])
    assert run.k == again["slot"] + 1
    sentence = f"line 3: Slot {again['slot']} of e0, original, is there already"
    with pytest.raises(UserError, match=sentence):
        import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", [*rows, rows[1]])])


def test_a_sample_without_a_slot_follows_the_highest_one(project, tmp_path):
    rows = [row("e0", "original", 9, 8) | {"slot": slot} for slot in (70, 3)]
    rows += [row("e0", "original", 9, 8), row("e0", "swapped", 9, 8)]
    run = import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", rows)])
    slots = Sample.objects.filter(call__run=run).order_by("pk").values_list("slot", flat=True)
    assert list(slots) == [70, 3, 71, 0]


def test_a_slot_is_there_once(project, tmp_path):
    rows = [row("e0", "original", 9, 8) | {"slot": 0}] * 2
    with pytest.raises(UserError, match="Slot 0 of e0, original, is there already"):
        import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", rows)])


def test_what_was_cut_off_is_replaced_under_the_same_name(project, tmp_path, monkeypatch):
    path = write_lines(tmp_path / "s.jsonl", [row("e0", "original", 9, 8)])
    with monkeypatch.context() as broken:
        broken.setattr("judging.runs.recorded.writing.finish", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            import_judgments(project, None, [path], name="theirs")
    assert Run.objects.get().state == "failed"
    import_judgments(project, None, [path], name="theirs")
    assert Run.objects.get().state == "done"
    assert Call.objects.count() == 1
    with pytest.raises(UserError, match="named theirs already"):
        import_judgments(project, None, [path], name="theirs")


def test_a_recorded_run_is_never_asked_again(project, tmp_path):
    path = write_lines(tmp_path / "s.jsonl", [row("e0", "original", 9, 8)])
    run = import_judgments(project, None, [path])
    with pytest.raises(UserError, match="recorded elsewhere"):
        lifecycle.resume(run)


def test_what_a_run_exports_is_read_back(project, tmp_path, monkeypatch):
    from annotation.results.tables.exports import sample_rows

    # The four rows are one block of the temporary file, and one that waits.
    monkeypatch.setattr(KeptRows, "BLOCK", 3)
    rows = [row("e0", order, 9, "6.5") | {"slot": slot} for order in ("original", "swapped")
            for slot in range(2)]  # fmt: skip
    rows[0] |= {"raw_text": "The score", "evidence": "Good.", "usd": "0.25", "model": "m"}
    rows[0] |= {"criteria": '{"tone": ["9", "7.0"], "Fakten": ["9", "6"]}'}
    rows[1] |= {"status": "unparsed", "score_1": "", "score_2": "", "why": "“tone” is missing"}
    run = import_judgments(project, None, [write_lines(tmp_path / "a.jsonl", rows)], name="one")
    exported = [{k: v for k, v in r.items() if v is not None} for r in sample_rows(run)]
    path = tmp_path / "b.jsonl"
    path.write_text("".join(json.dumps(r, default=str) + "\n" for r in exported))
    again = import_judgments(project, None, [path], name="two")
    read = [dict(r, run="one", form=run.form) for r in sample_rows(again)]
    assert len(read) == 4
    assert read == [dict(r, run="one") for r in sample_rows(run)]


def test_the_files_of_a_folder_are_read_together(project, tmp_path):
    folder = tmp_path / "data set"
    folder.mkdir()
    for name in ("e0", "e1"):
        write_lines(folder / f"{name}.jsonl", [row(name, "original", 9, 6)])
    (folder / "README.md").write_text("No row.")
    run = import_judgments(project, None, [folder])
    assert list(Verdict.objects.filter(run=run).values_list("label", flat=True)) == ["win"] * 2


@pytest.mark.parametrize("criteria", ["tone", '{"tone": ["9"]}', '{"tone": [9, null]}', "[1, 2]"])
def test_scores_on_criteria_are_refused_by_line_unless_there_are_two(project, tmp_path, criteria):
    path = write_csv(tmp_path / "s.csv", [row("e0", "original", 9, 6) | {"criteria": criteria}])
    with pytest.raises(UserError, match="line 2: criteria should be scores such as"):
        import_judgments(project, None, [path])


def test_a_column_twice_in_other_letters_is_refused_in_judgments(project, tmp_path):
    rows = [{"external_id": "e0", "order": "original", "outcome": "win", "Outcome": "lose"}]
    with pytest.raises(UserError, match="outcome, Outcome are the same column"):
        import_judgments(project, None, [write_csv(tmp_path / "s.csv", rows)])


def test_llmbar_and_pandalm_files_become_runs(test_data, project, capsys):
    llmbar = test_data / "llmbar" / "Natural" / "GPT-4" / "Swap" / "result.json"
    import_files(project, None, [llmbar], file_format="llmbar")
    call_command("import_judgments", project.slug, str(llmbar), name="gpt-4")
    run = Run.objects.get(name="gpt-4")
    source = json.loads(llmbar.read_text())
    winners = [r["results"][0][o]["winner"] for r in source for o in r["results"][0]]
    wins = Parse.objects.filter(sample__call__run=run, outcome="win")
    assert wins.count() == winners.count("1")
    assert run.calls.count() == 2 * len(source)
    pandalm = test_data / "pandalm"
    import_files(project, None, [pandalm / "testset-v1.json"], file_format="pandalm")
    verdicts = pandalm / "gpt-3.5-turbo-testset-v1.json"
    call_command("import_judgments", project.slug, str(verdicts), format="pandalm")
    run = Run.objects.order_by("-number").first()
    found = [r["gpt_result"] for r in json.loads(verdicts.read_text())]
    assert Parse.objects.filter(sample__call__run=run, outcome="lose").count() == found.count("2")
    unread = Parse.objects.filter(sample__call__run=run, status="unparsed").count()
    assert unread == found.count("garbage")
    assert "999 samples" in capsys.readouterr().out


@pytest.mark.parametrize("completion", ["half \ud800", ["half \ud800", "stop"], ["odd"], None])
def test_an_llmbar_completion_of_any_shape_is_a_sample(project, tmp_path, completion):
    judgment = {"completion": completion, "winner": 1}
    pair = {"input": "Q?", "output_1": "A", "output_2": "B", "label": 1}
    example = tmp_path / "pairs.json"
    example.write_text(json.dumps([pair]))
    import_files(project, None, [example], file_format="llmbar")
    path = tmp_path / "result.json"
    path.write_text(json.dumps([pair | {"results": [{"swap = False": judgment}]}]))
    run = import_judgments(project, None, [path], file_format="llmbar")
    assert Parse.objects.get(sample__call__run=run).outcome == "win"


@pytest.mark.databases
@pytest.mark.parametrize("text", ["half \ud800", "nul \0"])
def test_recorded_texts_that_no_database_takes_are_kept_as_far_as_they_are_text(
    project, tmp_path, text
):
    pair = {"input": "q0", "output_1": "a0", "output_2": "b0"}
    import_files(project, None, [write_lines(tmp_path / "pair.jsonl", [pair])])
    judgment = {"completion": ["It is A.", text], "winner": 1}
    llmbar, pandalm = tmp_path / "result.json", tmp_path / "verdicts.json"
    llmbar.write_text(json.dumps([pair | {"results": [{"swap = False": judgment}]}]))
    pandalm.write_text(json.dumps([{"idx": "e0", "gpt_result": text, "gpt_reason": text}]))
    run = import_judgments(project, None, [llmbar])
    assert Sample.objects.get(call__run=run).finish_reason == text[:-1] + "\ufffd"
    run = import_judgments(project, None, [pandalm])
    kept = Parse.objects.get(sample__call__run=run)
    assert kept.evidence == kept.sample.raw_text == text[:-1] + "\ufffd"


def test_an_llmbar_judgment_without_its_texts_is_refused_by_line(project, tmp_path):
    path = tmp_path / "result.json"
    path.write_text('[\n{"output_1": "A", "results": [{}]}]')
    with pytest.raises(UserError, match=r"line 2: No column for question, response_2\. Found:"):
        import_judgments(project, None, [path])


@pytest.mark.databases
def test_scores_are_read_to_ten_decimals(project, tmp_path):
    one = row("e0", "original", "5.00000000004", 5) | {"usd": "1e-999999"}
    run = import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", [one])])
    assert Parse.objects.get(sample__call__run=run).outcome == "tie"
    assert Call.objects.get(run=run).usd == 0


@pytest.mark.parametrize(
    ("asked", "orders"),
    [
        (("X0", "X1"), ["original"]),
        (("X1",), ["swapped"]),
        (("X0", "X1", "X2"), ["original", "swapped"]),
    ],
)
def test_permutations_speak_by_a_balanced_set_or_by_one(project, tmp_path, asked, orders):
    rows = [
        {"external_id": name, "part": part, "p_first": 0.75}
        | {"outcome": "lose" if part in ("X1", "X2") else "win"}
        for name in ("e0", "e1")
        for part in asked
    ]
    run = import_judgments(project, None, [write_lines(tmp_path / "s.jsonl", rows)])
    assert run.parameters["orders"] == orders
    assert set(Verdict.objects.filter(run=run).values_list("state", flat=True)) == {"judged"}


@pytest.mark.parametrize("column", ["p_first", "mass"])
@pytest.mark.parametrize("value", ["1.5", "-0.1"])
def test_what_is_no_probability_is_refused(project, tmp_path, column, value):
    good = {"external_id": "e0", "part": "X0", "p_first": "0.5", "mass": "1", "outcome": "tie"}
    with pytest.raises(
        UserError, match=f"{column} should be a number from 0 to 1, found '{value}'"
    ):
        import_judgments(
            project, None, [write_lines(tmp_path / "s.jsonl", [good | {column: value}])]
        )


def test_a_table_program_may_have_made_floats_of_ids_flags_and_codes(project, tmp_path):
    for example in project.examples.all():
        example.external_id = example.external_id.removeprefix("e")
        example.save()
    rows = [
        {"external_id": "0.0", "order": "original", "outcome": "1.0", "estimated": "1.0", "usd": 1},
        {"external_id": "1", "order": "original", "outcome": "0.0", "estimated": "FALSE", "usd": 1},
    ]
    path = write_csv(tmp_path / "s.csv", rows)
    with pytest.raises(UserError, match="line 2: outcome should be one of"):
        import_judgments(project, None, [path])
    call_command("import_judgments", project.slug, str(path), "--labels=1=lose,0=win")
    labels = Verdict.objects.order_by("example__number").values_list("label", flat=True)
    assert list(labels) == ["lose", "win"]
    assert list(Call.objects.order_by("example").values_list("estimated", flat=True)) == [
        True,
        False,
    ]
    rows[0]["estimated"] = "perhaps"
    with pytest.raises(UserError, match="line 2: estimated should be true or false"):
        import_judgments(project, None, [write_csv(path, rows)], labels={"1": "win", "0": "lose"})
