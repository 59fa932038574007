"""Write the demo's finished study from LLMBar's published judgments.

    python -m benchmarks.published.study FOLDER [--to judging/demo/llmbar]

FOLDER is the `llmbar` folder of the published results. The study holds the 100 pairs of the subset
Natural, LLMBar's gold labels as imported votes, and the published judgments of GPT-4 and ChatGPT by
two prompts (`Swap`, then `Swap_CoT`) in both orders, as two samples of each order. Nothing is left
out or changed, except that a second round of asking, which LLMBar's prompts have only if the orders
disagree, is no sample of an order.
"""

import argparse
import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUBSET = "Natural"
JUDGES = {"ChatGPT": "chatgpt.jsonl", "GPT-4": "gpt-4.jsonl"}
PROMPTS = ("Swap", "Swap_CoT")
ORDERS = {"swap = False": "original", "swap = True": "swapped"}
LABELS = {1: "win", 2: "lose"}
ANNOTATOR = "LLMBar gold labels"
TO = Path(__file__).parents[2] / "judging" / "demo" / "llmbar"


def published(folder: Path, judge: str, prompt: str) -> list[dict[str, Any]]:
    path = folder / SUBSET / judge / prompt / "result.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def name_of(number: int) -> str:
    return f"natural-{number:03}"


def pairs(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the pairs. LLMBar says which output is better, and not which model wrote it."""
    for number, row in enumerate(published(folder, "GPT-4", PROMPTS[0]), start=1):
        yield {
            "external_id": name_of(number),
            "question": row["input"],
            "model_1": "output 1",
            "response_1": row["output_1"],
            "model_2": "output 2",
            "response_2": row["output_2"],
        }


def votes(folder: Path) -> Iterator[dict[str, str]]:
    for number, row in enumerate(published(folder, "GPT-4", PROMPTS[0]), start=1):
        gold = LABELS[row["label"]]
        yield {"external_id": name_of(number), "annotator": ANNOTATOR, "label": gold}


def samples(folder: Path, judge: str) -> Iterator[dict[str, Any]]:
    for slot, prompt in enumerate(PROMPTS):
        for number, row in enumerate(published(folder, judge, prompt), start=1):
            for name, order in ORDERS.items():
                judgment = row["results"][0][name]
                text, finish_reason = judgment["completion"]
                winner = judgment["winner"]
                outcome = LABELS[int(winner)] if winner in ("1", "2") else None
                yield {
                    "external_id": name_of(number),
                    "form": "relation",
                    "order": order,
                    "slot": slot,
                    "status": "valid" if outcome else "unparsed",
                    "outcome": outcome,
                    "evidence": text,
                    "raw_text": text,
                    "finish_reason": finish_reason,
                    "model": judge,
                }


def write(folder: Path, to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    _lines(to / "pairs.jsonl", pairs(folder))
    for judge, file in JUDGES.items():
        _lines(to / file, samples(folder, judge))
    with (to / "votes.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.DictWriter(stream, ["external_id", "annotator", "label"], lineterminator="\n")
        rows.writeheader()
        rows.writerows(votes(folder))
    shutil.copyfile(folder / "LICENSE", to / "LICENSE")


def _lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, default=TO)
    options = parser.parse_args()
    write(options.folder, options.to)
