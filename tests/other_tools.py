"""Small files of our own making in the layouts of other tools.

Each is as its tool's source or data card says: lm-sys/FastChat (llm_judge), the data cards of
lmsys/chatbot_arena_conversations and mt_bench_human_judgments, tatsu-lab/alpaca_eval (annotators),
lmarena/arena-hard-auto (gen_judgment), ScalerLab/JudgeBench, allenai/reward-bench,
HuggingFaceH4/ultrafeedback_binarized, nvidia/HelpSteer2,
HumanSignal/label-studio (task_format) and label-studio-sdk (csv2, prettify_result),
argilla-io/argilla (records, GenericIO), promptfoo (EvaluateSummaryV2 and V3,
mergeSelectBestGradingResult), inspect_ai (EvalLog),
mlflow/mlflow (log_eval_table, create_eval_results_file, construct_eval_result_df, Assessment),
langchain-ai/langsmith-sdk (_flatten_experiment_results, get_test_results),
langchain-ai/langsmith-cli (datasetExport) and langfuse/langfuse (database-read-stream,
transformStreamToCsv). No source of LangSmith's says which columns its page's CSV file has: they are
those that four programs of others read from such files.
"""

import json


def lines(path, rows):
    """Write JSON lines, as most tools do."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def array(path, rows):
    path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return path


FASTCHAT_QUESTIONS = [
    {"question_id": 81, "category": "writing", "turns": ["Write a blog post.", "Rewrite it."]},
    {"question_id": 82, "category": "writing", "turns": ["Draft an email.", "Shorten it."]},
    {"question_id": 83, "category": "writing", "turns": ["Outline a talk.", "Add a joke."]},
]


def fastchat_answers(model):
    return [
        {
            "question_id": question["question_id"],
            "answer_id": f"{model}-{question['question_id']}",
            "model_id": model,
            "choices": [{"index": 0, "turns": [f"{model} answers.", f"{model} goes on."]}],
            "tstamp": 1686286924.5,
        }
        for question in FASTCHAT_QUESTIONS
    ]


def fastchat_pair(question_id, model_1, model_2, g1_winner, g2_winner, **change):
    return {
        "question_id": question_id,
        "model_1": model_1,
        "model_2": model_2,
        "g1_winner": g1_winner,
        "g2_winner": g2_winner,
        "judge": ["gpt-4", "pair-v2"],
        "g1_user_prompt": "prompt",
        "g1_judgment": f"Game 1: {g1_winner}.",
        "g2_user_prompt": "prompt",
        "g2_judgment": f"Game 2: {g2_winner}.",
        "turn": 1,
        "tstamp": 1687222810.6,
    } | change


def chat(question, *answers):
    """Return a conversation: the question, the answer, another question, …"""
    messages = [{"role": "user", "content": question}]
    for number, answer in enumerate(answers):
        if number:
            messages.append({"role": "user", "content": "And then?"})
        messages.append({"role": "assistant", "content": answer})
    return messages


def arena_battle(question_id, winner, **change):
    return {
        "question_id": question_id,
        "model_a": "vicuna-13b",
        "model_b": "koala-13b",
        "winner": winner,
        "judge": "arena_user_973",
        "conversation_a": chat("What is 1+1?", "Two."),
        "conversation_b": chat("What is 1+1?", "Eleven."),
        "turn": 1,
        "anony": True,
        "language": "English",
        "tstamp": 1682351591.1322,
    } | change


def mt_bench_vote(question_id, model_a, model_b, winner, judge="expert_0", **change):
    return {
        "question_id": question_id,
        "model_a": model_a,
        "model_b": model_b,
        "winner": winner,
        "judge": judge,
        # The data set holds both turns, also in its rows about the first one.
        "conversation_a": chat("Write.", f"{model_a} writes.", "More."),
        "conversation_b": chat("Write.", f"{model_b} writes.", "More."),
        "turn": 1,
    } | change


def alpaca_annotation(number, preference, **change):
    return {
        "instruction": f"Question {number}?",
        "output_1": f"Baseline {number}.",
        "generator_1": "text_davinci_003",
        "dataset": "helpful_base",
        "output_2": f"Model {number}.",
        "generator_2": "llama-2-7b",
        "annotator": "alpaca_eval_gpt4",
        "preference": preference,
        "price_per_example": 0.0125,
        "time_per_example": 0.4,
        "raw_completion": "- 'model_1': 1",
    } | change


def arena_hard(uid, first, second, **change):
    games = [
        {"score": score, "judgment": {"answer": f"[[{score}]]"}, "prompt": []}
        for score in (first, second)
    ]
    return {
        "uid": uid,
        "category": "hard_prompt",
        "judge": "gpt-4.1",
        "model": "qwen",
        "baseline": "o3-mini",
        "games": games,
    } | change


def judgebench(pair_id, label, *decisions):
    judged = [
        {"judgment": {"judge_model": "o1-mini", "prompt": "p", "response": d}, "decision": d}
        for d in decisions
    ]
    return {
        "pair_id": pair_id,
        "original_id": "10646",
        "source": "mmlu-pro-law",
        "question": f"Question of {pair_id}?",
        "response_model": "gpt-4o-2024-05-13",
        "response_A": "AAAAA",
        "response_B": "BBBBB",
        "label": label,
    } | ({"judge_name": "arena_hard", "judgments": judged} if judged else {})


def reward_bench(number):
    return {
        "prompt": f"Question {number}?",
        "chosen": f"Good {number}.",
        "chosen_model": "good-model",
        "rejected": f"Bad {number}.",
        "rejected_model": "bad-model",
        "subset": "alpacaeval-easy",
        "id": number,
    }


def ultrafeedback(number, score_chosen=8.0, score_rejected=5.0):
    question = f"Question {number}?"
    return {
        "prompt": question,
        "prompt_id": f"hash-{number}",
        "chosen": chat(question, f"Good {number}."),
        "rejected": chat(question, f"Bad {number}."),
        "messages": chat(question, f"Good {number}."),
        "score_chosen": score_chosen,
        "score_rejected": score_rejected,
    }


def helpsteer(number, strength, **change):
    return {
        "split": "train",
        "prompt": f"Question {number}?",
        "response_1": f"First {number}.",
        "response_2": f"Second {number}.",
        "preference_strength": strength,
        "preference_statement": "@Response 2 is better.",
        "preference_elaboration": "Because.",
        "three_most_similar_preferences": [],
        "all_preferences_unprocessed": [{"strength": strength, "justification": "Because."}],
    } | change


def label_studio_task(number, *answers, **data):
    """Return a task; each answer is a person and what they chose."""
    annotations = [
        {
            "id": 100 * number + person,
            "completed_by": person,
            "result": [
                {
                    "id": "Dx_aB91ISN",
                    "from_name": "pw",
                    "to_name": "pw",
                    "type": "pairwise",
                    "value": {"selected": chosen},
                }
            ]
            if chosen in ("left", "right")
            else [
                {
                    "id": "Dx_aB91ISN",
                    "from_name": "tie",
                    "to_name": "text1",
                    "type": "choices",
                    "value": {"choices": [chosen]},
                }
            ],
            "was_cancelled": chosen == "cancelled",
            "ground_truth": False,
            "created_at": "2024-03-09T22:16:08.728353Z",
            "updated_at": "2024-03-09T22:16:08.728378Z",
            "lead_time": 4.288,
            "task": number,
        }
        for person, chosen in answers
    ]
    texts = {
        "prompt": f"Question {number}?",
        "answer1": f"One {number}.",
        "answer2": f"Two {number}.",
    }
    return {
        "id": number,
        "data": texts | data,
        "annotations": annotations,
        "predictions": [],
        "created_at": "2024-03-09T21:52:49.513742Z",
        "project": 83,
    }


def label_studio_row(number, person, chosen, **change):
    """Return an annotation as exports in JSON-MIN have it: a Pairwise tag, or a choice."""
    pairwise = chosen in ("left", "right")
    answer = {"pw": [{"selected": chosen}]} if pairwise else {"tie": chosen}
    return {
        "id": number,
        "prompt": f"Question {number}?",
        "answer1": f"One {number}.",
        "answer2": f"Two {number}.",
        **answer,
        "annotator": person,
        "annotation_id": 100 * number + person,
        "created_at": "2024-03-09T22:16:08.728353Z",
        "updated_at": "2024-03-09T22:16:08.728378Z",
        "lead_time": 4.288,
    } | change


def argilla_record(record_id, *answers, metadata=None, **responses):
    given = [{"value": value, "user_id": user} for user, value in answers]
    return {
        "id": record_id,
        "status": "completed",
        "fields": {
            "instruction": f"Question {record_id}?",
            "response_1": f"One {record_id}.",
            "response_2": f"Two {record_id}.",
        },
        "metadata": metadata or {},
        "suggestions": {},
        "responses": {"preference": given, **responses},
        "vectors": {},
        "_server_id": None,
    }


def argilla_flat(record_id, *answers, **more):
    """Return a record of `to_datasets`: of each answer the value, the person and the status."""
    values, people, states = zip(*answers, strict=True) if answers else ((), (), ())
    return {
        "id": record_id,
        "status": "completed",
        "_server_id": "6c1b2f0e",
        "instruction": f"Question {record_id}?",
        "response_1": f"One {record_id}.",
        "response_2": f"Two {record_id}.",
        "preference.responses": list(values) or None,
        "preference.responses.users": list(people) or None,
        "preference.responses.status": list(states) or None,
        "preference.suggestion": "response_1",
    } | more


def promptfoo_results(tests):
    """Return a file of results; each test gives the two outputs and the index of the best."""
    results = []
    for number, (first, second, best) in enumerate(tests):
        for index, (model, output) in enumerate((("openai:a", first), ("openai:b", second))):
            part = {
                "pass": index == best,
                "score": float(index == best),
                "reason": "Output selected as the best" if index == best else "Not selected",
                "assertion": {"type": "select-best", "value": "choose the most concise"},
            }
            results.append(
                {
                    "promptIdx": index,
                    "testIdx": number,
                    "testCase": {"vars": {"topic": f"topic {number}"}},
                    "promptId": "d5a1",
                    "provider": {"id": model, "label": ""},
                    "prompt": {"raw": f"Write about topic {number}", "label": "Write about"},
                    "vars": {"topic": f"topic {number}"},
                    "response": {"output": output, "tokenUsage": {"total": 20}},
                    "success": index == best,
                    "score": float(index == best),
                    "latencyMs": 12,
                    "gradingResult": part | {"componentResults": [part]},
                    "namedScores": {},
                }
            )
    return {
        "evalId": "eval-abc-2024-01-15T10:30:00",
        "results": {
            "version": 3,
            "timestamp": "2024-01-15T10:30:00Z",
            "prompts": [{"raw": "Write about {{topic}}", "provider": "openai:a"}],
            "results": results,
            "stats": {"successes": 1, "failures": 1},
        },
        "config": {},
    }


def promptfoo_version_2(results):
    """Return the same results as releases before version 3 wrote them: nothing is numbered."""
    lost = ("promptIdx", "testIdx", "testCase", "promptId")
    held = results["results"]
    rows = [{k: v for k, v in row.items() if k not in lost} for row in held["results"]]
    old = {key: held[key] for key in ("timestamp", "stats")} | {"version": 2, "results": rows}
    return {"evalId": None, "results": old, "config": {}, "shareableUrl": None}


def inspect_log(model, answers):
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "hello", "model": model, "created": "2024-05-01T10:00:00Z"},
        "plan": {"steps": []},
        "results": {"scores": []},
        "samples": [
            {
                "id": number,
                "epoch": 1,
                "input": f"Say hello {number}",
                "target": "Hello",
                "messages": [],
                "output": {
                    "model": model,
                    "choices": [
                        {
                            "message": {"role": "assistant", "content": answer},
                            "stop_reason": "stop",
                        }
                    ],
                },
                "scores": {"match": {"value": "C", "answer": answer}},
            }
            for number, answer in answers.items()
        ],
    }


def mlflow_row(question, output, score=4.0, **change):
    """Return a row of the table that mlflow.evaluate logs, with an LLM judge's metric."""
    return {
        "inputs": question,
        "ground_truth": f"Truth of {question}",
        "outputs": output,
        "token_count": 5,
        "toxicity/v1/score": 0.0001,
        "relevance/v1/score": score,
        "relevance/v1/justification": f"It deserves {score}.",
    } | change


def split(path, rows, indent=None):
    """Write a table as mlflow.log_table does: pandas' orient="split" without its index."""
    table = {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table, indent=indent), encoding="utf-8")
    return path


def mlflow_result(number, run, inputs, outputs, **change):
    """Return a row of the data frame with the results of mlflow.genai.evaluate."""
    return {
        "trace_id": f"tr-{run}-{number}",
        "correctness/value": "yes",
        "expected_response/value": f"Truth {number}",
        "trace": "{}",
        "client_request_id": None,
        "state": "TraceState.OK",
        "request_time": 1760000000000,
        "execution_duration": 812,
        "request": inputs,
        "response": outputs,
        "trace_metadata": {"mlflow.sourceRun": run, "mlflow.trace_schema.version": "3"},
        "tags": {"mlflow.traceName": "predict"},
        "spans": [],
        "assessments": [{"assessment_name": "correctness", "feedback": {"value": "yes"}}],
    } | change


def mlflow_feedback(value, name="relevance_to_query", run="", **change):
    """Return the feedback of an LLM judge as the column of assessments has it."""
    return {
        "assessment_id": "a-1",
        "assessment_name": name,
        "source": {"source_type": "LLM_JUDGE", "source_id": "openai:/gpt-4.1-mini"},
        "feedback": {"value": value},
        "rationale": f"It deserves {value}.",
        "metadata": {"mlflow.assessment.sourceRunId": run},
        "valid": True,
    } | change


def langsmith_result(number, output, **change):
    """Return a row of ExperimentResults.to_pandas()."""
    return {
        "inputs.question": f"Question {number}?",
        "outputs.answer": output,
        "error": None,
        "reference.answer": f"Truth {number}",
        "feedback.correctness": 1.0,
        "execution_time": 0.52,
        "example_id": f"0d3f7a52-0000-4000-8000-{number:012d}",
        "id": f"5b1c22aa-0000-4000-8000-{number:012d}",
    } | change


def arena_session(number, winner):
    """Return a vote of lmarena-ai/arena-human-preference-140k."""

    def chat(answer):
        texts = (("user", f"Question {number}?"), ("assistant", answer))
        return [
            {
                "role": role,
                "content": [{"type": "text", "text": text, "image": None, "mimeType": None}],
            }
            for role, text in texts
        ]

    return {
        "id": f"6f6e6d-{number}",
        "model_a": "maple-7b",
        "model_b": "birch-3b",
        "winner": winner,
        "evaluation_session_id": f"session-{number}",
        "evaluation_order": 1,
        "conversation_a": chat("A says."),
        "conversation_b": chat("B says."),
        "full_conversation": [],
        "conv_metadata": {"turns": 1},
        "language": "en",
        "is_code": False,
    }


def arena_battle_row(number, winner):
    """Return a row of the CSV file of lmsys-arena-human-preference-55k."""
    return {
        "id": number,
        "model_a": "maple-7b",
        "model_b": "birch-3b",
        "prompt": json.dumps(["First?", "Then?"]),
        "response_a": json.dumps(["A1", "A2"]),
        "response_b": json.dumps(["B1", None]),
        "winner_model_a": int(winner == "a"),
        "winner_model_b": int(winner == "b"),
        "winner_tie": int(winner == "tie"),
    }


def reward_bench_2(number):
    return {
        "id": f"{number}",
        "prompt": "Name a colour.",
        "chosen": ["Red."],
        "rejected": ["Two.", "A cat.", "No."],
        "num_correct": 1,
        "num_incorrect": 3,
        "total_completions": 4,
        "models": ["m1", "m2", "m3", "m4"],
        "subset": "Factuality",
        "additional_metadata": {"category": None},
    }


def langsmith_page_row(number, output, **change):
    """Return a row of the CSV file that LangSmith's page of an experiment downloads."""
    return {
        "id": f"0d3f7a52-0000-4000-8000-{number:012d}",
        "inputs": json.dumps({"question": f"Question {number}?"}),
        "reference_outputs": json.dumps({"answer": f"Truth {number}"}),
        "outputs": json.dumps({"answer": output}),
        "status": "success",
        "error": "",
        "latency": 0.52,
        "tokens": 17,
        "correctness": 1.0,
    } | change


def langfuse_trace(number, question, output, **change):
    return {
        "id": f"trace-{number}",
        "timestamp": "2025-05-01T10:00:00.000Z",
        "name": "chat",
        "userId": None,
        "sessionId": None,
        "release": None,
        "version": None,
        "environment": "default",
        "tags": [],
        "bookmarked": False,
        "public": False,
        "input": question,
        "output": output,
        "metadata": {},
        "latency": 1.2,
        "usage": {"promptTokens": 3, "completionTokens": 4, "totalTokens": 7},
        "level": "DEFAULT",
        "observationCount": 1,
        "correctness": [1],
    } | change


def langfuse_observation(number, model, question, output, **change):
    return {
        "id": f"observation-{model}-{number}",
        "traceId": f"trace-{model}-{number}",
        "projectId": "clkpwwm0m000gmm094odg11gi",
        "type": "GENERATION",
        "environment": "default",
        "parentObservationId": None,
        "startTime": "2025-05-01T10:00:00.000Z",
        "endTime": "2025-05-01T10:00:01.000Z",
        "name": "answer",
        "metadata": {},
        "input": question,
        "output": output,
        "modelParameters": {"temperature": 0},
        "model": model,
    } | change


def langfuse_csv(path, rows, *, early=False):
    """Write a table as Langfuse does: each cell in quotes, and JSON for all that is no text.

    Early versions wrote texts as JSON, too.
    """

    def cell(value):
        value = "" if value is None else value
        text = value if isinstance(value, str) and not early else json.dumps(value)
        return '"' + text.replace('"', '""') + '"'

    written = [list(rows[0]), *(row.values() for row in rows)]
    head, *lines = ([f'"{name}"' for name in written[0]], *(map(cell, row) for row in written[1:]))
    path.write_text("".join(",".join(line) + "\n" for line in (head, *lines)), encoding="utf-8")
    return path
