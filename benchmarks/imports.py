"""How long imports take and how much memory they need.

    python -m benchmarks.imports [ROWS…] [--postgres URL] [--only NAME…] [--times N]

Pairs of about 1.5 kB come as JSON Lines, CSV, gzip, Parquet, Arrow and Excel. Recorded judgments
come as JSON Lines: three samples of each order, with replies of 350 to 900 characters. Each import
has a process and a database of its own. Seconds of the processor are FairJudge's own, and those of
the server's process for it. Of N imports of a file, the one that took the least of them counts.

Fails where 10,000 pairs take more than 1.5 s, or 100,000 more than 15 s, or where memory grows
with the length of the file. All formats of pairs have the same limits.
"""

import argparse
import csv
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pyarrow
import pyarrow.compute
from pyarrow import feather, parquet

from benchmarks.annotating.site import environment_of
from benchmarks.workspace import child, database_cpu, database_of_its_own
from judging.core.workbooks import write_workbook

ROOT = Path(__file__).resolve().parent.parent
SECONDS_PER_ROW = 1.5 / 10_000
LEAST_SAMPLES = 10_000
MOST_GROWTH_MIB = 60
WORDS = (ROOT / "judging" / "dataset" / "writing.py").read_text().split()


NAMES = ("external_id", "question", "response_1", "response_2", "model_1", "model_2")
SUFFIXES = (".jsonl", ".csv", ".csv.gz", ".parquet", ".arrow", ".xlsx")
JUDGMENTS = "judgments.jsonl"
ORDERS, SAMPLES = ("original", "swapped"), 3
ME = "benchmarks.imports"


def pairs(n: int) -> Iterator[tuple[str, ...]]:
    """Pairs of about 1.5 kB, each unlike the others."""
    chance = random.Random(7)
    for number in range(n):
        texts = (" ".join(chance.choices(WORDS, k=words)) for words in (10, 50, 50))
        yield (str(number), *texts, "maple-7b", "birch-3b")


def write_pairs(path: Path, n: int) -> None:
    if path.suffix in (".parquet", ".arrow"):
        table = pyarrow.table(dict(zip(NAMES, map(list, zip(*pairs(n), strict=True)), strict=True)))
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
        else:
            feather.write_feather(table, path)
    elif path.suffix == ".xlsx":
        with path.open("wb") as target:
            write_workbook(target, "pairs", NAMES, pairs(n))
    else:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "wt", newline="") as stream:
            rows = csv.writer(stream)
            if ".csv" in path.suffixes:
                rows.writerow(NAMES)
                rows.writerows(pairs(n))
            else:
                for row in pairs(n):
                    stream.write(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n")


def write_judgments(path: Path, n: int) -> int:
    """Write about n samples of the pairs with the first numbers, and return how many pairs."""
    chance = random.Random(11)
    n_pairs = n // (SAMPLES * len(ORDERS))
    with path.open("w") as stream:
        for number in range(n_pairs):
            worth, bias = chance.randint(2, 9), chance.choice((0, 0, 0, 0, 1, 2))
            for order in ORDERS:
                for slot in range(SAMPLES):
                    scores = (
                        max(1, min(10, worth + (bias if order == "original" else -bias))),
                        max(1, min(10, worth + chance.randint(-2, 2))),
                    )
                    evidence = " ".join(chance.choices(WORDS, k=chance.randint(30, 80)))
                    sample = {
                        "external_id": str(number),
                        "order": order,
                        "slot": slot,
                        "status": "valid",
                        "score_1": scores[0],
                        "score_2": scores[1],
                        "evidence": evidence,
                        "raw_text": f"{evidence}\nScores of responses 1 and 2: {scores}",
                        "finish_reason": "stop",
                        "model": "a-judge",
                        "prompt_tokens": chance.randint(300, 900),
                        "completion_tokens": chance.randint(80, 200),
                        "usd": round(chance.uniform(0.0001, 0.002), 8),
                    }
                    stream.write(json.dumps(sample) + "\n")
    return n_pairs


def measure(name: str, n: int) -> dict[str, Any]:
    """Import one file in a process of its own, with a database of its own."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from judging.core.commands import prepare_database
    from judging.dataset.writing import import_files
    from judging.projects.models import Project
    from judging.runs.recorded.writing import import_judgments

    if connection.vendor == "postgresql":
        call_command("migrate", verbosity=0, interactive=False)
    prepare_database()
    project = Project.objects.create(slug="benchmark", name="benchmark")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        if name == JUDGMENTS:
            known = Path(folder, "pairs.csv")
            write_pairs(known, write_judgments(path, n))
            import_files(project, None, [known])
        else:
            write_pairs(path, n)
        before = getrusage(RUSAGE_SELF).ru_maxrss
        began, worked, stored = time.perf_counter(), time.process_time(), database_cpu()
        if name == JUDGMENTS:
            rows = import_judgments(project, None, [path]).calls.count()
        else:
            rows = import_files(project, None, [path]).n_written
        return {
            "rows": rows,
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - worked,
            "database": database_cpu() - stored,
            "grown": (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024,
            "size": path.stat().st_size / 2**20,
        }


def run(name: str, n: int, url: str, times: int) -> bool:
    takes = []
    for _ in range(times):
        with (
            tempfile.TemporaryDirectory() as folder,
            database_of_its_own(url, "fairjudge_imports") as own,
        ):
            environment = environment_of(folder, own) | {"FAIRJUDGE_LOG_LEVEL": "WARNING"}
            takes.append(child(environment, ME, "--measure", name, n))
    found = min(takes, key=lambda one: one["cpu"] + one["database"])
    most = found["rows"] / LEAST_SAMPLES if name == JUDGMENTS else n * SECONDS_PER_ROW
    fits = found["seconds"] <= most and found["grown"] <= MOST_GROWTH_MIB
    both = found["cpu"] + found["database"]
    sys.stdout.write(
        f"{found['rows']:>8} rows  {name:<15} {found['size']:6.1f} MiB  {found['seconds']:6.2f} s "
        f"(limit {most:.1f})  processor {found['cpu']:.2f} + {found['database']:.2f} s: "
        f"{found['rows'] / both:,.0f} a second  memory +{found['grown']:.0f} MiB "
        f"(limit {MOST_GROWTH_MIB})  {'ok' if fits else 'TOO MUCH'}\n"
    )
    sys.stdout.flush()
    return fits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="*", default=[10_000, 100_000])
    names = [f"pairs{suffix}" for suffix in SUFFIXES] + [JUDGMENTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--postgres", metavar="URL", default="", help="measure there")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, n = options.measure
        sys.stdout.write(json.dumps(measure(name, int(n))) + "\n")
        return
    given = (options.postgres, options.times)
    results = [run(name, n, *given) for n in options.rows for name in options.only]
    sys.exit(0 if all(results) else "Imports are slower, or need more memory, than they may.")


if __name__ == "__main__":
    main()
