"""Results of several runs, in the layouts of tools that record one response in each row."""

import json

import pandas
import pytest

from judging.core.errors import UserError
from judging.dataset import outputs
from judging.dataset.layouts import Holds
from judging.dataset.models import Example
from judging.dataset.reading import check, translated
from judging.dataset.records import Place, Record, Refused
from judging.dataset.wide import PairDesign
from judging.dataset.writing import import_files
from judging.runs.models import Parse, Sample
from judging.runs.recorded.writing import import_judgments
from tests import other_tools as tools
from tests.factories import make_project
from tests.judging.dataset.test_layouts import pairs, problems, sides

RUNS = ("3f2ac4b0a1", "9c0de77e52")


@pytest.mark.parametrize("indent", [2, None])
def test_promptfoos_outputs_of_one_test_are_a_pair(tmp_path, indent):
    path = tmp_path / "results.json"
    results = tools.promptfoo_results([("Short.", "Long.", 0), ("Red.", "Blue.", 1)])
    path.write_text(json.dumps(results, indent=indent), encoding="utf-8")
    first, second = pairs(path)
    assert (first.question, second.question) == ("Write about topic 0", "Write about topic 1")
    assert sides(first) == (("Short.", "openai:a"), ("Long.", "openai:b"))


def test_a_test_with_one_output_is_refused_by_the_line_of_its_output(tmp_path):
    results = tools.promptfoo_results([("Short.", "Long.", 0), ("Red.", "Blue.", 1)])
    del results["results"]["results"][3]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results, indent=2), encoding="utf-8")
    (problem,) = problems(path)
    lines = path.read_text().splitlines()
    opened = [number for number, line in enumerate(lines, start=1) if line == "      {"]
    # The prompts hold an object of the same depth first.
    assert problem.place.line == opened[3]
    assert "A pair needs two providers" in problem.sentence


def test_two_inspect_logs_of_a_task_are_pairs(tmp_path):
    logs = [
        tools.inspect_log("openai/gpt-4o", {1: "Hello!", 2: "Hi!"}),
        tools.inspect_log("google/gemini", {2: "Hey!", 1: "Good day!"}),
    ]
    files = [tools.array(tmp_path / f"{n}.json", log) for n, log in enumerate(logs)]
    first, second = pairs(*files)
    assert first.external_id == "1:openai/gpt-4o:google/gemini"
    assert (first.question, first.response_1, first.response_2) == (
        "Say hello 1",
        "Hello!",
        "Good day!",
    )
    assert (second.response_1, second.model_2) == ("Hi!", "google/gemini")
    assert first.reference == "Hello"
    alone = problems(files[0])
    assert len(alone) == 2
    assert "Import two logs of one task together" in alone[0].sentence


def tables(folder, *changes):
    """Write the tables that two runs logged, each in the folder of its run."""
    changes = changes or ({}, {})
    return [
        tools.split(
            folder / run / "artifacts" / "eval_results_table.json",
            [tools.mlflow_row(q, f"{run} on {q}", n + 2.0, **change) for q in ("Why?", "How?")],
        )
        for n, (run, change) in enumerate(zip(RUNS, changes, strict=True))
    ]


def test_two_tables_of_mlflow_are_pairs_called_by_their_folders(tmp_path):
    first, second = pairs(*tables(tmp_path))
    assert (first.question, first.reference) == ("Why?", "Truth of Why?")
    assert sides(first) == (("3f2ac4b0a1 on Why?", RUNS[0]), ("9c0de77e52 on Why?", RUNS[1]))
    assert second.question == "How?"


def test_files_with_names_of_their_own_name_the_runs(tmp_path):
    rows = [tools.mlflow_row("Why?", "Because.")]
    paths = [tools.split(tmp_path / f"gpt-4.1-{n}.json", rows) for n in ("mini", "nano")]
    (pair,) = pairs(*paths)
    assert (pair.model_1, pair.model_2) == ("gpt-4.1-mini", "gpt-4.1-nano")


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_table_of_several_runs_is_read_in_each_format(tmp_path, ending):
    found = [tools.mlflow_row("Why?", f"{run} says.", run_id=run) for run in RUNS]
    path, frame = tmp_path / f"loaded.{ending}", pandas.DataFrame(found)
    if ending == "json":
        frame.to_json(path, orient="records")
    else:
        getattr(frame, f"to_{ending}")(path)
    (pair,) = pairs(path)
    assert sides(pair) == tuple((f"{run} says.", run) for run in RUNS)


def test_the_page_for_prompts_writes_a_table_of_its_own(tmp_path):
    paths = []
    for model in ("claude", "gpt"):
        row = {"topic": "rain", "prompt": "Write about rain.", "output": f"{model} writes."}
        paths.append(tools.split(tmp_path / f"{model}.json", [row | {"MLFLOW_latency": "812"}]))
    (pair,) = pairs(*paths)
    assert pair.question == "Write about rain."
    assert sides(pair) == (("claude writes.", "claude"), ("gpt writes.", "gpt"))


@pytest.mark.parametrize("indent", [None, 1])
def test_a_row_of_one_run_is_refused_by_its_number_in_the_table(tmp_path, indent):
    rows = [tools.mlflow_row("Why?", "Because."), tools.mlflow_row("How?", "So.")]
    path = tools.split(tmp_path / "table.json", rows, indent)
    _, second = problems(path)
    assert str(second.place) == "table.json, row 2"
    assert second.sentence == (
        "Only one run has an output to this input. Import the tables of two runs together."
    )


def test_a_table_without_a_question_says_what_to_rename(tmp_path):
    path = tools.split(tmp_path / "table.json", [{"article": "Long.", "outputs": "Short."}])
    (problem,) = problems(path)
    assert "No column for the question. Found: run_id, article, outputs." in problem.sentence


def test_a_run_that_answers_an_input_twice_is_refused(tmp_path):
    one = tools.split(tmp_path / "a.json", [tools.mlflow_row("Why?", x) for x in ("A", "B")])
    other = tools.split(tmp_path / "b.json", [tools.mlflow_row("Why?", "C")])
    (problem,) = check([one, other]).problems
    assert str(problem.place) == "a.json, row 2"
    assert "a answered the same input on row 1 already." in problem.sentence


def test_an_output_that_is_missing_is_refused(tmp_path):
    one = tools.split(tmp_path / "a.json", [tools.mlflow_row("Why?", None)])
    other = tools.split(tmp_path / "b.json", [tools.mlflow_row("Why?", "C")])
    (problem,) = check([one, other]).problems
    assert "a has no output here." in problem.sentence


def test_three_runs_are_pairs_by_a_design(tmp_path):
    paths = [
        tools.split(tmp_path / f"{model}.json", [tools.mlflow_row("Why?", f"{model} says.")])
        for model in ("a", "b", "c")
    ]
    assert check(paths).wide["models"] == ["a", "b", "c"]
    found = check(paths, options=PairDesign.read("all").as_options())
    assert found.acceptable
    assert {frozenset((row.model_1, row.model_2)) for row in found.rows} == {
        frozenset("ab"), frozenset("ac"), frozenset("bc"),
    }  # fmt: skip


def test_a_wide_row_that_names_a_run_stays_a_wide_row(tmp_path):
    said = [{"model": model, "output": f"{model} says."} for model in ("a", "b")]
    row = {"question": "Why?", "run_id": "7", "outputs": said}
    assert check([tools.lines(tmp_path / "wide.jsonl", [row])]).wide["models"] == ["a", "b"]


def test_a_table_of_pairs_in_the_split_layout_is_read_by_its_columns(tmp_path):
    row = {"question": "Why?", "response_1": "A", "response_2": "B"}
    (pair,) = pairs(tools.split(tmp_path / "pairs.json", [row]))
    assert (pair.response_1, pair.response_2) == ("A", "B")


@pytest.mark.django_db
@pytest.mark.parametrize("swapped", [False, True])
def test_an_llm_judges_scores_of_both_tables_become_a_run(tmp_path, swapped):
    project = make_project("tables")
    paths = tables(tmp_path)
    import_files(project, None, paths)
    run = import_judgments(project, None, paths[::-1] if swapped else paths)
    example = Example.objects.get(project=project, question="Why?")
    (sample,) = Sample.objects.filter(call__run=run, call__example=example)
    parse = sample.parses.get()
    assert (parse.score_1, parse.score_2, parse.outcome) == (2, 3, "lose")
    assert f"{RUNS[0]}: It deserves 2.0." in parse.evidence
    assert run.parameters["orders"] == ["original"]


@pytest.mark.django_db
def test_scores_that_are_no_run_of_one_judge_are_refused(tmp_path, capsys):
    project = make_project("tables")
    more = {"faithfulness/v1/score": 3, "faithfulness/v1/justification": "Faithful."}
    paths = tables(tmp_path, more, more)
    import_files(project, None, paths)
    with pytest.raises(UserError) as refused:
        import_judgments(project, None, paths)
    assert "This table justifies scores of relevance/v1, faithfulness/v1." in str(refused.value)
    assert "eval_results_table.json, row 1" in str(refused.value)


def genai_results():
    asked = ({"question": "Why?"}, {"messages": [{"role": "user", "content": "How?"}]})
    return [
        tools.mlflow_result(number, run, inputs, f"{run} says.")
        for run in RUNS
        for number, inputs in enumerate(asked)
    ]


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_the_results_of_mlflow_3_are_pairs(tmp_path, ending):
    path, frame = tmp_path / f"results.{ending}", pandas.DataFrame(genai_results())
    if ending == "csv":
        frame.to_csv(path)
    else:
        frame.to_json(path, orient="records")
    first, second = pairs(path)
    assert (first.question, second.question) == ("Why?", "How?")
    assert (first.model_1, first.model_2, first.reference) == (*RUNS, "Truth 0")
    assert second.response_2 == f"{RUNS[1]} says."


@pytest.mark.django_db
@pytest.mark.parametrize("ending", ["csv", "json"])
@pytest.mark.parametrize(
    ("first", "second", "outcome"), [("yes", "no", "win"), (True, True, "tie"), (2.5, 4, "lose")]
)
def test_the_feedback_of_mlflow_3s_judge_becomes_a_run(tmp_path, ending, first, second, outcome):
    rows = genai_results()
    for row, value in zip(rows, (first, first, second, second), strict=True):
        run = row["trace_metadata"]["mlflow.sourceRun"]
        code = {"source": {"source_type": "CODE", "source_id": "length"}}
        row["assessments"] = [
            tools.mlflow_feedback(1, "length", run, **code),
            tools.mlflow_feedback("no", run="an earlier run"),
            tools.mlflow_feedback(value, run=run),
        ]
    path, frame = tmp_path / f"results.{ending}", pandas.DataFrame(rows)
    if ending == "csv":
        frame.to_csv(path)
    else:
        frame.to_json(path, orient="records")
    project = make_project("traces")
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    parses = Parse.objects.filter(sample__call__run=run)
    assert [parse.outcome for parse in parses] == [outcome, outcome]
    assert run.model == "openai:/gpt-4.1-mini"
    assert f"{RUNS[1]}: It deserves {second}." in parses[0].evidence


@pytest.mark.django_db
def test_feedback_of_mlflow_3_that_is_no_run_of_one_judge_is_refused(tmp_path):
    rows = genai_results()
    project = make_project("traces")
    path = tools.array(tmp_path / "results.json", rows)
    import_files(project, None, [path])
    with pytest.raises(UserError, match="These rows have feedback by none"):
        import_judgments(project, None, [path])
    for row in rows:
        row["assessments"] = [tools.mlflow_feedback("yes"), tools.mlflow_feedback(1, "safety")]
    with pytest.raises(UserError, match="feedback by relevance_to_query, safety"):
        import_judgments(project, None, [tools.array(path, rows)])
    for row in rows:
        row["assessments"] = [tools.mlflow_feedback("partly")]
    with pytest.raises(UserError, match="assessments should be a number"):
        import_judgments(project, None, [tools.array(path, rows)])


def test_an_output_with_one_field_is_its_value(tmp_path):
    rows = [tools.mlflow_result(1, run, "Why?", {"answer": f"{run} says."}) for run in RUNS]
    (pair,) = pairs(tools.array(tmp_path / "results.json", rows))
    assert pair.response_1 == f"{RUNS[0]} says."


def experiments(folder, *columns):
    """Save the results of two experiments as pandas does."""
    paths = []
    for model in ("gpt-4o", "llama"):
        rows = [tools.langsmith_result(n, f"{model} on {n}", **dict(columns)) for n in (1, 2)]
        paths.append(folder / f"{model}.csv")
        pandas.DataFrame(rows).to_csv(paths[-1])
    return paths


def test_two_experiments_of_langsmith_are_pairs_by_their_examples(tmp_path):
    first, _ = pairs(*experiments(tmp_path))
    assert first.external_id == "0d3f7a52-0000-4000-8000-000000000001:gpt-4o:llama"
    assert (first.question, first.reference) == ("Question 1?", "Truth 1")
    assert sides(first) == (("gpt-4o on 1", "gpt-4o"), ("llama on 1", "llama"))


def test_messages_that_pandas_wrote_into_a_cell_are_read(tmp_path):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "It's 1?"}]
    paths = []
    for model in ("a", "b"):
        row = tools.langsmith_result(1, model) | {"inputs.messages": chat}
        del row["inputs.question"]
        paths.append(tmp_path / f"{model}.csv")
        pandas.DataFrame([row]).to_csv(paths[-1], index=False)
    (pair,) = pairs(*paths)
    assert json.loads(pair.conversation)["question"] == chat


def test_inputs_of_several_fields_are_shown_whole(tmp_path):
    (pair, _) = pairs(*experiments(tmp_path, ("inputs.context", "Sunny.")))
    assert json.loads(pair.question) == {"question": "Question 1?", "context": "Sunny."}


def test_a_failed_run_of_langsmith_is_refused_by_its_line(tmp_path):
    found = check(experiments(tmp_path, ("error", "TimeoutError()")))
    assert found.n_refused == 4
    assert str(found.problems[0].place) == "gpt-4o.csv, line 2"
    assert found.problems[0].sentence.startswith("The run failed: TimeoutError().")


def page_files(folder, **change):
    """Save the CSV files that the pages of two experiments download."""
    paths = []
    for model in ("gpt-4o", "llama"):
        rows = [tools.langsmith_page_row(n, f"{model} on {n}", **change) for n in (1, 2)]
        paths.append(folder / f"{model}.csv")
        pandas.DataFrame(rows).to_csv(paths[-1], index=False)
    return paths


@pytest.mark.parametrize("more", [{}, {"session_name": "qa-1", "repetition": 1}])
def test_two_files_of_langsmiths_page_are_pairs_by_their_inputs(tmp_path, more):
    first, _ = pairs(*page_files(tmp_path, **more))
    assert first.external_id == "0d3f7a52-0000-4000-8000-000000000001:gpt-4o:llama"
    assert (first.question, first.reference) == ("Question 1?", "Truth 1")
    assert sides(first) == (("gpt-4o on 1", "gpt-4o"), ("llama on 1", "llama"))


def test_one_file_of_langsmiths_page_may_name_several_experiments(tmp_path):
    rows = [
        tools.langsmith_page_row(n, f"{name} on {n}", session_name=name)
        for name in ("qa-1", "qa-2")
        for n in (1, 2)
    ]
    for row in rows:
        del row["reference_outputs"], row["status"], row["latency"]
    path = tmp_path / "compared.csv"
    pandas.DataFrame(rows).to_csv(path, index=False)
    first, _ = pairs(path)
    assert first.external_id == "0d3f7a52-0000-4000-8000-000000000001:qa-1:qa-2"
    assert sides(first) == (("qa-1 on 1", "qa-1"), ("qa-2 on 1", "qa-2"))


def test_a_file_of_langsmiths_page_may_number_runs_and_lack_references(tmp_path):
    paths = []
    for n, model in enumerate(("gpt-4o", "llama")):
        row = tools.langsmith_page_row(1, '{"a": 1}', id=f"run-{n}")
        del row["reference_outputs"]
        paths.append(tmp_path / f"{model}.csv")
        pandas.DataFrame([row]).to_csv(paths[-1], index=False)
    (pair,) = pairs(*paths)
    # A text that a model wrote is shown as it is.
    assert (pair.response_1, pair.reference) == ('{"a": 1}', "")
    assert len(pair.external_id) == 16


def test_what_langsmiths_page_says_of_a_failed_or_repeated_run_is_told_by_its_line(tmp_path):
    found = check(page_files(tmp_path, error="TimeoutError()", outputs=""))
    assert found.n_refused == 4
    assert found.problems[0].sentence.startswith("The run failed: TimeoutError().")
    twice = page_files(tmp_path, inputs=json.dumps({"question": "The same?"}))
    assert "answered the same input on line 2 already" in check(twice).problems[0].sentence


def test_rows_with_other_inputs_and_outputs_are_not_langsmiths(tmp_path):
    row = {"id": 1, "inputs": "Why?", "outputs": "So.", "status": "done"}
    path = tmp_path / "table.csv"
    pandas.DataFrame([row]).to_csv(path, index=False)
    assert "LangSmith" not in check([path]).problems[0].sentence


def test_a_data_set_of_langsmith_says_what_to_import_in_its_place(tmp_path):
    example = {"id": "1", "inputs": {"question": "Why?"}, "outputs": {"answer": "So."}}
    document = {"version": 1, "dataset": {"name": "qa"}, "examples": [example]}
    (problem,) = problems(tools.array(tmp_path / "qa.json", document))
    assert problem.sentence.startswith("This row of LangSmith is an example of a data set")
    assert problem.place.line == 7


@pytest.mark.parametrize("early", [False, True])
def test_traces_of_two_runs_of_langfuse_are_pairs(tmp_path, early):
    paths = [
        tools.langfuse_csv(
            tmp_path / f"{run}.csv",
            [
                tools.langfuse_trace(f"{run}1", {"question": "Why?"}, f'"{run}" says.'),
                tools.langfuse_trace(f"{run}2", "How?", {"role": "assistant", "content": run}),
            ],
            early=early,
        )
        for run in ("old", "new")
    ]
    first, second = pairs(*paths)
    assert (first.question, second.question) == ("Why?", "How?")
    assert sides(first) == (('"old" says.', "old"), ('"new" says.', "new"))
    assert (second.response_1, second.response_2) == ("old", "new")


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_observations_of_langfuse_are_pairs_of_their_models(tmp_path, ending):
    chat = [{"role": "user", "content": "Why?"}]
    # The database holds JSON as text.
    rows = [tools.langfuse_observation(1, m, json.dumps(chat), m) for m in ("gpt-4o", "llama")]
    write = tools.lines if ending == "jsonl" else tools.array
    (pair,) = pairs(write(tmp_path / f"export.{ending}", rows))
    assert (pair.question, pair.conversation) == ("Why?", None)
    assert sides(pair) == (("gpt-4o", "gpt-4o"), ("llama", "llama"))


def test_two_files_that_name_the_same_model_are_called_by_their_names(tmp_path):
    paths = [
        tools.lines(tmp_path / f"{p}.jsonl", [tools.langfuse_observation(1, "gpt-4o", "Why?", p)])
        for p in ("prompt-1", "prompt-2")
    ]
    (pair,) = pairs(*paths)
    assert (pair.model_1, pair.model_2) == ("prompt-1", "prompt-2")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"id": "s", "traceId": "t", "observationId": None, "dataType": "NUMERIC", "value": 1,
             "stringValue": None, "source": "ANNOTATION", "name": "tone"},
            "is a score of a trace, without the trace's texts.",
        ),
        (
            {"id": "i", "datasetId": "d", "input": "Why?", "expectedOutput": "So."},
            "is an item of a data set, and holds no model's response.",
        ),
        (
            {"id": "r", "datasetItemId": "i", "traceId": "t", "datasetName": "qa"},
            "holds no texts.",
        ),
    ],
)  # fmt: skip
def test_tables_of_langfuse_without_responses_say_what_to_export(tmp_path, row, sentence):
    (problem,) = problems(tools.lines(tmp_path / "export.jsonl", [row]))
    assert problem.sentence.startswith(f"This row of Langfuse {sentence}")
    assert "Export the traces of each run" in problem.sentence


@pytest.mark.parametrize(
    "cell",
    [
        "{not json",
        "{" * 300,
        "[" + "[" * 80 + "]" * 81,
        "{1, 2}",
        "{b'a': 1}",
        "{'\\d': 1}" + " " * outputs.LONGEST_LITERAL,
    ],
)
def test_a_cell_that_holds_no_json_is_a_text(tmp_path, cell):
    paths = [
        tools.langfuse_csv(tmp_path / f"{r}.csv", [tools.langfuse_trace(1, cell, r)]) for r in "ab"
    ]
    (pair,) = pairs(*paths)
    assert pair.question == cell


def test_a_model_that_wrote_json_is_shown_as_it_wrote(tmp_path):
    said = '{"answer": "Yes."}'
    paths = [
        tools.langfuse_csv(tmp_path / f"{r}.csv", [tools.langfuse_trace(1, "Why?", said)])
        for r in "ab"
    ]
    (pair,) = pairs(*paths)
    assert pair.response_1 == said


DAMAGE = (None, True, 3, "x", [], ["x"], [None], {}, {"a": 1}, [{"a": 1}])


def damaged(value, keep=()):
    """Yield the value with each of its parts, at any depth, put in the place of something else."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        changes = list(DAMAGE)
        if isinstance(part, dict | list):
            changes += damaged(part)
        for change in changes:
            again = dict(value) if isinstance(value, dict) else list(value)
            again[key] = change
            yield again


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("fastchat", tools.fastchat_pair(1, "a", "b", "model_1", "tie")),
        ("arena", tools.arena_battle("a", "tie")),
        ("alpaca", tools.alpaca_annotation(1, 1)),
        ("arena-hard", tools.arena_hard("u", "A>B", "B>A")),
        ("judgebench", tools.judgebench(1, "A>B", "A>B", "B>A")),
        ("reward", tools.reward_bench(1)),
        ("ultrafeedback", tools.ultrafeedback(1)),
        ("helpsteer", tools.helpsteer(1, 1)),
        ("task", tools.label_studio_task(1, (5, "left"))),
        ("record", tools.argilla_record("r1", ("u", "response_a"))),
        ("promptfoo", tools.promptfoo_results([("Short.", "Long.", 0)])),
        ("inspect", tools.inspect_log("m", {"1": "A"})),
        ("mlflow", tools.mlflow_row("q", "o")),
        ("mlflow-3", tools.mlflow_result(1, "r", {"q": "a"}, "b")),
        ("langsmith", tools.langsmith_result(1, "o")),
        ("page", tools.langsmith_page_row(1, "o")),
        ("flat", tools.argilla_flat("r1", ("response_1", "kim", "submitted"))),
        ("trace", tools.langfuse_trace(1, "q", "o")),
        ("observation", tools.langfuse_observation(1, "m", "q", "o")),
    ],
)
def test_a_row_that_is_not_as_its_tool_writes_it_is_refused_or_read_never_an_error(name, row):
    asked = 0
    for place, values in enumerate(damaged(row), start=1):
        record = Record(Place(f"{name}.json", place), values, json.dumps(values))
        for holds in Holds:
            for found in translated([record], holds):
                asked += 1
                if isinstance(found, Refused):
                    assert all(problem.sentence for problem in found.problems)
    assert asked > 100


def test_damaged_rows_of_a_file_are_told_by_their_lines(tmp_path):
    rows = [
        *damaged(tools.arena_battle("a", "tie")),
        *damaged(tools.label_studio_task(1, (5, "left"))),
        *damaged(tools.langfuse_trace(1, "q", "o")),
    ]
    found = check([tools.lines(tmp_path / "rows.jsonl", rows)])
    assert found.n_problems > 50
    assert all(1 <= problem.place.line <= len(rows) for problem in found.problems)


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.xlsx"])
def test_the_index_that_pandas_writes_is_no_field(tmp_path, name):
    row = {"question": "Why?", "response_1": "So.", "response_2": "No.", "model_1": "m"}
    path, table = tmp_path / name, pandas.DataFrame([row, row | {"question": "When?"}])
    (table.to_csv if name.endswith("csv") else table.to_excel)(path)
    assert "codes" not in str(check([path]))
    first, second = pairs(path)
    assert (first.question, first.model_1, second.question) == ("Why?", "m", "When?")
    assert (first.gold_label, first.is_check) == (None, False)
