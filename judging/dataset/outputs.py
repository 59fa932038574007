"""Tables and logs of other tools with one response in each row, put together as pairs.

promptfoo, inspect_ai, MLflow, LangSmith and Langfuse record what one model said to one input, run
by run. Two runs' responses to an input are a pair. More than two are a row with several responses,
for which somebody chooses a design. Every layout was looked up in its tool's own source.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from judging.core.bounds import is_deep
from judging.core.conversations import dumped
from judging.dataset import layouts
from judging.dataset.layouts import (
    UNREADABLE,
    Layout,
    Rows,
    Unreadable,
    Values,
    as_pair,
    as_text,
    judgment_of,
    layout_for,
    name_in,
    number_in,
    refused,
    text_form,
    unlisted,
)
from judging.dataset.records import Record, Refused, content_id, listed, recognise, unpacked_name

Together = Callable[[Sequence[Record]], Iterator[Record | Refused]]
# What Python wrote into a cell is parsed by Python, which takes some hundred bytes a character.
LONGEST_LITERAL = 100_000


class Document(NamedTuple):
    """A JSON object with the rows of a tool: the keys that lead to them, and one that it has."""

    path: tuple[str, ...]
    key: str


# promptfoo's, inspect_ai's, the one of LangSmith's command line, and pandas' orient="split".
SPLIT = Document(("data",), "columns")
DOCUMENTS = (
    Document(("results", "results"), "results"),
    Document(("samples",), "eval"),
    Document(("examples",), "dataset"),
    SPLIT,
)


def _document_of(value: Any) -> tuple[Document, list[Any]] | None:
    """Return which document a value is, and its rows."""
    for document in DOCUMENTS:
        if not isinstance(value, dict) or document.key not in value:
            continue
        rows: Any = value
        for key in document.path:
            rows = rows.get(key) if isinstance(rows, dict) else None
        if not isinstance(rows, list):
            continue
        columns = value[document.key]
        if document is not SPLIT and all(isinstance(row, dict) for row in rows):
            return document, rows
        if document is SPLIT and isinstance(columns, list):
            fits = (isinstance(row, list) and len(row) == len(columns) for row in rows)
            if all(isinstance(name, str) for name in columns) and all(fits):
                return document, [dict(zip(columns, row, strict=True)) for row in rows]
    return None


def path_of(value: Any) -> tuple[str, ...] | None:
    """Return the keys that lead to the rows of a document; None if it is no known one."""
    document = _document_of(value)
    return document[0].path if document else None


def rows_of(record: Record, lines: Sequence[int] = ()) -> list[Record]:
    """Return the rows of a document, or the record itself if it is none.

    Args:
        lines: the line of each row; by default, the record's. A table's rows are numbered instead.
    """
    document_and_rows = _document_of(record.values)
    if document_and_rows is None:
        return [record]
    document, rows = document_and_rows
    places = [record.place._replace(line=line) for line in lines] or [record.place] * len(rows)
    if document is SPLIT:
        places = [record.place._replace(line=n, unit="row") for n in range(1, len(rows) + 1)]
    about = {}
    if document.key in ("eval", "dataset"):
        about = {document.key: record.values[document.key]}
    elif document is SPLIT and any(map(_RESPONSE.fullmatch, record.values["columns"])):
        # A table that MLflow logged says by this column whose it is, if anything does.
        about = {"run_id": ""}
    return [
        Record(place, about | row if document is SPLIT else row | about, dumped(row))
        for place, row in zip(places, rows, strict=True)
    ]


@dataclass(frozen=True)
class Output:
    """What one run said to one input.

    key: the same for all runs' outputs to the input.
    model: as the file names it, "" if it doesn't.
    run: tells the runs of one file apart.
    number: the ID of the input, "" if it has none.
    order: of the outputs to an input, before the order of the files.
    """

    record: Record
    key: tuple[str, ...]
    question: Any
    response: Any
    model: str = ""
    run: str = ""
    number: str = ""
    reference: Any = None
    order: int = 0

    @property
    def source(self) -> tuple[str, str]:
        return self.record.place.file, self.run


def _together(tool: str, read: Callable[[Values], Mapping[str, Any]], alone: str) -> Together:
    """Return how the rows of a tool are put together.

    Args:
        read: gives the fields of an `Output` for a row.
        alone: what to say if only one run has an output to an input.
    """

    def joined(records: Sequence[Record]) -> Iterator[Record | Refused]:
        groups: dict[tuple[str, ...], list[Output]] = defaultdict(list)
        for record in records:
            try:
                output = Output(record, **read(record.values | {"file": record.place.file}))
            except UNREADABLE as error:
                yield refused(tool, record, error)
                continue
            groups[output.key].append(output)
        outputs = [output for group in groups.values() for output in group]
        names = _names_of(groups.values())
        # All inputs have the runs in the same order, that of the files.
        rank = {source: n for n, source in enumerate(dict.fromkeys(o.source for o in outputs))}
        for group in groups.values():
            group.sort(key=lambda output: (output.order, rank[output.source]))
            named = [replace(output, model=names[output.source]) for output in group]
            if len({output.number for output in group}) > 1:
                # The numbers are the runs' own, and none of them names the input.
                named = [replace(output, number="") for output in named]
            yield _refused(named, alone) or _as_record(named)

    return joined


def _as_record(outputs: Sequence[Output]) -> Record:
    first = outputs[0].record
    return Record(first.place, {"outputs": outputs}, first.text)


def _refused(outputs: Sequence[Output], alone: str) -> Refused | None:
    """Say why outputs to the same input are no pair."""
    first = outputs[0]
    if len(outputs) == 1:
        return first.record.refuse("", alone)
    seen: dict[tuple[str, str], Output] = {}
    for output in outputs:
        earlier = seen.setdefault(output.source, output)
        if earlier is not output:
            return output.record.refuse(
                "",
                f"{output.model} answered the same input on {earlier.record.place.here} already. "
                "Delete one of the rows, or save the runs as files of their own.",
            )
        if not isinstance(output.response, str | list):
            return output.record.refuse(
                "", f"{output.model} has no output here. Delete the row, or run it again."
            )
    if len({text_form(output.question, "question") for output in outputs}) > 1:
        sentence = f"{listed([o.model for o in outputs])} have different inputs under this ID."
        return first.record.refuse("", sentence)
    return None


def _names_of(groups: Iterable[Sequence[Output]]) -> dict[tuple[str, str], str]:
    """Return what each run is called: by its model, or else by its file.

    If two files name the same model for an input, all runs are called by their files.
    """
    models: dict[tuple[str, str], str] = {}
    clash = False
    for group in groups:
        files: dict[str, str] = {}
        for output in group:
            models[output.source] = output.model
            clash |= files.setdefault(output.model, output.record.place.file) != output.source[0]
    by_file = _names_of_files(list(dict.fromkeys(file for file, _ in models)))
    return {
        source: by_file[source[0]] if clash or not model else model
        for source, model in models.items()
    }


def _names_of_files(files: Sequence[str]) -> dict[str, str]:
    """Return the names of files without their endings, or of the folders by which they differ."""
    parts = [Path(file).parts for file in files]
    names = [Path(unpacked_name(part[-1])).stem for part in parts]
    for up in range(2, min(map(len, parts), default=0) + 1):
        if len(set(names)) == len(files):
            break
        names = [part[-up] for part in parts]
    return dict(zip(files, names, strict=True))


def _ids_of(outputs: Sequence[Output]) -> str:
    """Return the ID of a pair: of the input and its models, or of the texts and the models."""
    models = [name_in(output.model) for output in outputs]
    if number := outputs[0].number:
        return ":".join((number, *models))
    # Other values are refused as texts when the pair is read.
    texts = (outputs[0].question, *(output.response for output in outputs))
    return content_id(map(str, (*texts, *models)))


def _pairs(values: Values, known: Container[str]) -> Rows:
    outputs: Sequence[Output] = values["outputs"]
    first = outputs[0]
    if len(outputs) == 2:
        sides = [(output.response, output.model) for output in outputs]
        yield as_pair(_ids_of(outputs), first.question, sides, reference=first.reference)
        return
    # A row with several responses, of which a design makes pairs.
    responses = [{"model": output.model, "response": output.response} for output in outputs]
    number = first.number or content_id([text_form(first.question, "question")])
    row = {"external_id": number, "question": first.question, "responses": responses}
    yield row | {"reference": first.reference}


def _two(values: Values) -> tuple[Output, Output]:
    outputs: Sequence[Output] = values["outputs"]
    if len(outputs) != 2:
        sentence = f"{len(outputs)} runs answered this input. Import the judgments of two runs."
        raise Unreadable("", sentence)
    first, second = outputs
    return first, second


# What a tool recorded as the input or the output of a run.


def _opened(value: Any) -> Any:
    """Return the list or object that a cell holds as JSON, or as pandas writes it to CSV."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    for read in (json.loads, _literal):
        try:
            decoded = read(value)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
        # What can't be walked recursively stays a text.
        return value if is_deep(decoded) else decoded
    return value


def _literal(text: str) -> Any:
    """Read what Python's `repr` wrote. Raises ValueError and others for anything else."""
    if len(text) > LONGEST_LITERAL:
        raise ValueError(text[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Tuples become lists, and what JSON lacks raises TypeError.
        return json.loads(json.dumps(ast.literal_eval(text)))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and "role" in value and "content" in value


def _chat_of(value: Any) -> Any:
    """Return the messages or the message of a chat, None for anything else."""
    value = _opened(value)
    if isinstance(value, dict):
        choices, messages = value.get("choices"), value.get("messages")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            value = choices[0].get("message")
        elif messages is not None:
            value = _opened(messages)
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return value
    return value if _is_message(value) else None


def _content(value: Any, field: str) -> Any:
    """Return an input or output as a text or a list of messages; None if there is none.

    Of an object with one value it is the value. Any other object is shown as JSON.
    """
    if (chat := _chat_of(value)) is not None:
        return unlisted(chat if isinstance(chat, list) else [chat], field)
    if isinstance(value, dict) and len(value) == 1:
        return _content(next(iter(value.values())), field)
    if value is None or isinstance(value, str):
        return value
    if is_deep(value):
        raise Unreadable(field, "The values of this row are nested too deeply.")
    return dumped(value)


def _input(value: Any) -> Any:
    """Return an input. What a cell holds as JSON is one."""
    return _content(_opened(value), "question")


def _output(value: Any) -> Any:
    """Return an output. A text stays as it is, even if a model wrote JSON."""
    return _content(value, "response_1")


def _of_prefix(values: Values, *prefixes: str) -> Any:
    """Return the object whose fields are columns such as `inputs.question`; None without any."""
    fields = {
        name.removeprefix(prefix): value
        for prefix in prefixes
        for name, value in values.items()
        if name.startswith(prefix)
    }
    return (fields if len(fields) > 1 else next(iter(fields.values()))) if fields else None


# The tools.


def _promptfoo(values: Values) -> dict[str, Any]:
    """Read an output of promptfoo. Providers answer the same prompt of the same test."""
    prompt, response = values["prompt"], values.get("response")
    raw = prompt.get("raw") if isinstance(prompt, dict) else None
    text = response.get("output") if isinstance(response, dict) else None
    provider = values["provider"] if isinstance(values["provider"], dict) else {}
    model = name_in(provider.get("label") or provider.get("id"))
    return {
        # Version 2 numbered neither tests nor prompts.
        "key": (values["file"], str(values.get("testIdx", "")), str(raw)),
        "question": raw,
        # An output that was parsed as JSON is shown as its text.
        "response": as_text(text) if isinstance(text, list | dict) else text,
        "model": model,
        "run": str(values.get("promptIdx", model)),
        "order": int(values.get("promptIdx", 0)),
    }


def _promptfoo_judgments(values: Values, known: Container[str]) -> Rows:
    """Read what `select-best` chose. It shows the outputs in the order of the prompts."""
    outputs = _two(values)
    chosen = []
    for output in outputs:
        grading = output.record.values.get("gradingResult")
        parts = grading.get("componentResults") if isinstance(grading, dict) else None
        # An output that nothing else graded has the result by itself.
        chosen += [
            (part.get("pass"), part.get("reason"))
            for part in parts or (grading,)
            if isinstance(part, dict)
            and isinstance(part.get("assertion"), dict)
            and part["assertion"].get("type") == "select-best"
        ]
    if len(chosen) != 2:
        raise Unreadable("gradingResult", "The outputs have no result of select-best.")
    (first, why), (second, why_not) = chosen
    # If both were chosen, or neither, there is no verdict.
    outcome = None if first == second else "win" if first else "lose"
    reply = why if first else why_not
    yield judgment_of(_ids_of(outputs), first_is_1=True, outcome=outcome, model="", reply=reply)


def _inspect(values: Values) -> dict[str, Any]:
    """Read a sample of an inspect_ai log."""
    about = values["eval"] if isinstance(values["eval"], dict) else {}
    epoch, question, target = str(values["epoch"]), values["input"], values.get("target")
    choices = (values["output"] or {}).get("choices")
    message = choices[0].get("message") if choices and isinstance(choices[0], dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        # Parts of other types, such as reasoning, are no part of the answer.
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    number = str(values["id"])
    return {
        "key": (str(about.get("task")), number, epoch),
        # Each epoch asks the same sample once more, and its answers are a pair of their own.
        "number": number if epoch == "1" else f"{number}:{epoch}",
        "question": unlisted(question, "question") if isinstance(question, list) else question,
        "response": content,
        "model": name_in(about.get("model")),
        "reference": target if isinstance(target, str) else None,
    }


_RESPONSE = re.compile(r"outputs?|predictions?")
_JUSTIFICATION = "/justification"


def _lists_models(values: Values) -> bool:
    """Return True for a row with several models' responses, whatever run it names."""
    lists = (value for value in values.values() if isinstance(value, list) and value)
    return any(isinstance(entries[0], dict) and "model" in entries[0] for entries in lists)


def _mlflow_table(values: Values) -> dict[str, Any]:
    """Read a row of `eval_results_table.json`: of mlflow.evaluate, or of the page for prompts."""
    columns = recognise(values)
    asked = [values[name] for name in columns.sources.get("question", ())]
    if not asked:
        names = listed([name for name in values if name != "file"])
        sentence = f"No column for the question. Found: {names}. Rename the input's to question."
        raise Unreadable("", sentence)
    question = _content(asked[0], "question")
    if len(asked) > 1:
        # An instruction and its input.
        question = "\n\n".join(str(text) for text in asked if text)
    run = name_in(values.get("run_id"))
    return {
        "key": (text_form(question, "question"),),
        "question": question,
        "response": _output(values[next(filter(_RESPONSE.fullmatch, values))]),
        "model": run,
        "run": run,
        "reference": as_text(values.get(columns.cells.get("reference", ""))),
    }


def _mlflow_judgments(values: Values, known: Container[str]) -> Rows:
    """Read the scores of an LLM judge, which saw each response by itself. The higher one wins."""
    outputs = _two(values)
    names = dict.fromkeys(name for output in outputs for name in output.record.values)
    metrics = [n.removesuffix(_JUSTIFICATION) for n in names if n.endswith(_JUSTIFICATION)]
    if len(metrics) != 1:
        state = f"justifies scores of {listed(metrics)}" if metrics else "holds no such scores"
        raise Unreadable(
            "",
            "A run takes the scores of one LLM judge, in columns such as relevance/v1/score and "
            f"relevance/v1/justification. This table {state}. Delete the columns of the others.",
        )
    score, justification = f"{metrics[0]}/score", f"{metrics[0]}{_JUSTIFICATION}"
    scores, why = ([o.record.values.get(name) for o in outputs] for name in (score, justification))
    yield _scored(outputs, known, scores, why, score)


def _scored(
    outputs: Sequence[Output],
    known: Container[str],
    both_scores: Sequence[Any],
    why: Sequence[Any],
    column: str,
    model: str = "",
) -> dict[str, Any]:
    """Return the verdict of a judge that scored each of two outputs by itself.

    Args:
        both_scores: in the order of the outputs. None and "" mean that there is none.
        why: what the judge wrote about each.
    """
    external_id, first_is_1 = _ids_of(outputs), True
    if external_id not in known and (swapped := _ids_of(outputs[::-1])) in known:
        external_id, first_is_1 = swapped, False
    scores = [number_in(column, s, "a number") for s in both_scores if s not in (None, "")]
    scores = scores if first_is_1 else scores[::-1]
    texts = [f"{o.model}: {as_text(text) or ''}" for o, text in zip(outputs, why, strict=True)]
    both = {"score_1": str(scores[0]), "score_2": str(scores[1])} if len(scores) == 2 else {}
    # Nobody was shown an order, so it counts as the original one.
    return judgment_of(
        external_id, first_is_1=True, outcome=None, model=model, reply="\n\n".join(texts), **both
    )


def _mlflow_trace(values: Values) -> dict[str, Any]:
    """Read a row of the results of mlflow.genai.evaluate."""
    about = _opened(values["trace_metadata"])
    run = name_in(about.get("mlflow.sourceRun")) if isinstance(about, dict) else ""
    question = _input(values["request"])
    return {
        "key": (text_form(question, "question"),),
        "question": question,
        "response": _output(values["response"]),
        "model": run,
        "run": run,
        "reference": as_text(values.get("expected_response/value")),
    }


# What MLflow's own judges answer. Other words have no order that is known.
_ANSWERS = {"yes": 1, "no": 0, "true": 1, "false": 0, "pass": 1, "fail": 0}


def _mlflow_trace_judgments(values: Values, known: Container[str]) -> Rows:
    """Read the feedback of an LLM judge on each response: a number, or yes, which is above no."""
    outputs = _two(values)
    judged = [_feedback_on(output) for output in outputs]
    names = list(dict.fromkeys(itertools.chain(*judged)))
    if len(names) != 1:
        raise Unreadable(
            "assessments",
            "A run takes the feedback of one LLM judge. These rows have feedback by "
            f"{listed(names) if names else 'none'}. Delete the others from assessments.",
        )
    both = [feedback.get(names[0], {}) for feedback in judged]
    models = [name_in((feedback.get("source") or {}).get("source_id")) for feedback in both]
    yield _scored(
        outputs,
        known,
        [_score_in(feedback.get("feedback")) for feedback in both],
        [feedback.get("rationale") for feedback in both],
        "assessments",
        models[0] if models[0] == models[1] else "",
    )


def _feedback_on(output: Output) -> dict[str, Values]:
    """Return the last that each LLM judge said in this run. A trace keeps other runs' feedback."""
    return {
        name_in(feedback.get("assessment_name")): feedback
        for feedback in _opened(output.record.values["assessments"]) or ()
        if (feedback.get("source") or {}).get("source_type") == "LLM_JUDGE"
        and (feedback.get("metadata") or {}).get("mlflow.assessment.sourceRunId")
        in (None, "", output.run)
    }


def _score_in(feedback: Any) -> Any:
    score = feedback.get("value") if isinstance(feedback, dict) else None
    return _ANSWERS.get(str(score).lower(), score)


def _langsmith(values: Values) -> dict[str, Any]:
    """Read a row of `ExperimentResults.to_pandas` or of `Client.get_test_results`."""
    if error := values["error"]:
        raise Unreadable("error", f"The run failed: {as_text(error)}. Delete the row or rerun it.")
    number = name_in(values["example_id"])
    return {
        "key": (number,),
        "number": number,
        "question": _input(_of_prefix(values, "inputs.", "input.")),
        "response": _output(_of_prefix(values, "outputs.")),
        "reference": as_text(_output(_of_prefix(values, "reference."))),
    }


def _langsmith_page(values: Values) -> dict[str, Any]:
    """Read a row of the CSV file that the page of an experiment downloads.

    Its cells hold objects as JSON. The rows of two experiments go together by their inputs. Some
    files name the experiment of each row, so that one file can hold several.
    """
    if error := values.get("error"):
        raise Unreadable("error", f"The run failed: {as_text(error)}. Delete the row or rerun it.")
    question = _input(values["inputs"])
    experiment = name_in(values.get("session_name"))
    return {
        "key": (text_form(question, "question"),),
        "number": name_in(values["id"]),
        "model": experiment,
        "run": experiment,
        "question": question,
        "response": _output(_object_in(values["outputs"])),
        "reference": as_text(_output(_object_in(values.get("reference_outputs")))),
    }


def _object_in(value: Any) -> Any:
    """Return the object that a cell holds, or the cell if it holds something else."""
    decoded = _opened(value)
    return decoded if isinstance(decoded, dict) else value


def _is_no_experiment(values: Values) -> bool:
    """Return True for a row whose inputs are no object, or its outputs, unless they are missing."""
    inputs, outputs = _object_in(values["inputs"]), _object_in(values["outputs"])
    return not isinstance(inputs, dict) or not isinstance(outputs or {}, dict)


def _langfuse(values: Values) -> dict[str, Any]:
    """Read a trace or an observation. Observations name their model.

    Earlier versions wrote every text of a CSV file as JSON, in quotes, the ID too.
    """
    if str(values["id"])[:1] == '"':
        values = {name: _unquoted(value) for name, value in values.items()}
    question = _input(values["input"])
    model = name_in(values.get("model") or values.get("providedModelName"))
    return {
        "key": (text_form(question, "question"),),
        "question": question,
        "response": _output(values["output"]),
        "model": model,
        "run": model,
    }


def _unquoted(value: Any) -> Any:
    try:
        decoded = json.loads(value) if isinstance(value, str) and value[:1] == '"' else value
    except ValueError:
        return value
    return decoded


def _of_runs(
    tool: str,
    keys: str,
    read: Callable[[Values], Mapping[str, Any]],
    alone: str,
    unless: Callable[[Values], bool] | None = None,
    **more: Any,
) -> Layout:
    """Return a layout whose rows are put together, as `_together` takes `read` and `alone`."""
    layout = layout_for(tool, keys, pairs=_pairs, **more)
    return replace(layout, joined=_together(tool, read, alone), unless=unless)


def _without_responses(tool: str, keys: str, instead: str, **more: Any) -> Layout:
    return replace(layout_for(tool, keys, **more), instead=instead)


_ONE_RUN = "Only one run has an output to this input. "
_TRACES = "Export the traces of each run, and import the files together."
LAYOUTS = (
    *layouts.OF_PAIRS,
    _of_runs(
        "promptfoo",
        "prompt provider vars success latencyMs",
        _promptfoo,
        "The prompt of this test has 1 output. A pair needs two providers.",
        nested="prompt provider vars",
        judgments=_promptfoo_judgments,
    ),
    _of_runs(
        "inspect_ai",
        "eval id epoch input output",
        _inspect,
        "The sample is in 1 log. Import two logs of one task together.",
        nested="eval output",
    ),
    _of_runs(
        "MLflow",
        "trace_id request response trace_metadata assessments",
        _mlflow_trace,
        f"{_ONE_RUN}Import the results of two runs together.",
        judgments=_mlflow_trace_judgments,
    ),
    _of_runs(
        "MLflow",
        "",
        _mlflow_table,
        f"{_ONE_RUN}Import the tables of two runs together.",
        _lists_models,
        some=(_RESPONSE.pattern, r"run_id|.+/v\d+/(score|justification)"),
        without="external_id response_1 response_2 label winner annotator example_id",
        judgments=_mlflow_judgments,
    ),
    _of_runs(
        "LangSmith",
        "example_id execution_time error",
        _langsmith,
        "Only one experiment has this example. Import the results of two experiments together.",
        some=(r"inputs?\..+", r"outputs\..+"),
    ),
    _of_runs(
        "LangSmith",
        "id inputs outputs",
        _langsmith_page,
        "Only one experiment has this input. Import the results of two experiments together.",
        _is_no_experiment,
        some=("reference_outputs|status|latency|session_name",),
        without="example_id external_id label winner annotator dataset",
    ),
    _without_responses(
        "LangSmith",
        "dataset inputs",
        "is an example of a data set, and holds no model's response. Save the results of two "
        "experiments, evaluate(…).to_pandas(), as CSV or JSON, and import them together.",
        nested="dataset inputs",
    ),
    _of_runs(
        "Langfuse",
        "id traceId type startTime parentObservationId input output",
        _langfuse,
        f"{_ONE_RUN}Export the table for each run, and import the files together.",
    ),
    _of_runs(
        "Langfuse",
        "id timestamp sessionId release tags input output",
        _langfuse,
        f"{_ONE_RUN}{_TRACES}",
    ),
    _without_responses(
        "Langfuse",
        "id traceId observationId dataType stringValue",
        f"is a score of a trace, without the trace's texts. {_TRACES}",
    ),
    _without_responses(
        "Langfuse",
        "id datasetId input expectedOutput",
        f"is an item of a data set, and holds no model's response. {_TRACES}",
    ),
    _without_responses(
        "Langfuse", "id datasetItemId traceId datasetName", f"holds no texts. {_TRACES}"
    ),
)
