"""How long imports take and how much memory they need.

    python -m benchmarks.imports [ROWS…]

Fails where 10,000 pairs take more than 1.5 s, or 100,000 more than 15 s, or where memory grows
with the length of the file. Parquet, Arrow, gzip and Excel have the same limits as CSV.
"""

import csv
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.compute
from pyarrow import feather, parquet

from judging.core.workbooks import write_workbook

ROOT = Path(__file__).resolve().parent.parent
SECONDS_PER_ROW = 1.5 / 10_000
MOST_GROWTH_MIB = 60
WORDS = (ROOT / "judging" / "dataset" / "writing.py").read_text().split()


NAMES = ("external_id", "question", "response_1", "response_2", "model_1", "model_2")
SUFFIXES = (".jsonl", ".csv", ".csv.gz", ".parquet", ".arrow", ".xlsx")


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


def measure(path: Path) -> None:
    """Runs in a process of its own, with a database of its own."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "fairjudge_site.settings"
    import django

    django.setup()
    from judging.core.commands import prepare_database
    from judging.dataset.writing import import_files
    from judging.projects.models import Project

    prepare_database()
    project = Project.objects.create(slug="benchmark", name="benchmark")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, worked = time.perf_counter(), time.process_time()
    imported = import_files(project, None, [path])
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = {"rows": imported.n_written, "seconds": seconds, "cpu": cpu, "grown_mib": grown}
    sys.stdout.write(json.dumps(found) + "\n")


def run(n: int, suffix: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"pairs{suffix}"
        write_pairs(path, n)
        environment = os.environ | {"FAIRJUDGE_DATA": folder, "FAIRJUDGE_LOG_LEVEL": "WARNING"}
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.imports", "--measure", str(path)],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
        )
        size = path.stat().st_size / 2**20
    found = json.loads(ended.stdout)
    fits = found["seconds"] <= n * SECONDS_PER_ROW and found["grown_mib"] <= MOST_GROWTH_MIB
    sys.stdout.write(
        f"{n:>8} pairs  {suffix[1:]:<8} {size:6.1f} MiB  {found['seconds']:6.2f} s "
        f"(limit {n * SECONDS_PER_ROW:.1f}, processor {found['cpu']:.2f} s)  "
        f"memory +{found['grown_mib']:.0f} MiB (limit {MOST_GROWTH_MIB})  "
        f"{'ok' if fits else 'TOO MUCH'}\n"
    )
    return fits and found["rows"] == n


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]))
        return
    sizes = [int(text) for text in sys.argv[1:]] or [10_000, 100_000]
    results = [run(n, suffix) for n in sizes for suffix in SUFFIXES]
    sys.exit(0 if all(results) else "Imports are slower, or need more memory, than they may.")


if __name__ == "__main__":
    main()
