"""Whether a delivered ZIP is complete, and whether its figures follow from its data.

The ZIP can be anybody's file. Each thing that is wrong with it becomes a sentence, and nothing that
reading it raises goes further.
"""

import csv
import json
import math
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from annotation.results.data.figures import Json, to_json
from annotation.results.delivery.comparing import (
    compare_labels,
    compare_samples,
    compare_verdicts,
    compare_votes,
    rows,
)
from annotation.results.delivery.package import (
    FILES,
    MANIFEST,
    Unpacked,
    as_html,
    code,
    hash_of,
    methods_text,
    signed,
)
from annotation.results.report.report import report
from annotation.results.sections.people import NAME as PACE
from annotation.results.sections.people import read as read_pace
from judging.core.bounds import MEBIBYTE, Archive, ArchiveBounds, shallow_json
from judging.core.errors import UserError
from judging.core.formatting import duration

# The report of 100,000 examples takes less than a minute.
SECONDS = 1800
BOUNDS = ArchiveBounds(members=100, inflated=4096 * MEBIBYTE, free=256 * MEBIBYTE)
# The figures of a project are a few hundred kilobytes.
LARGEST_JSON = 32 * MEBIBYTE
LONGEST_SHOWN = 200
# Other releases of NumPy may add numbers in another order.
TOLERANCE = 1e-9
MOST_LISTED = 20
OTHER_CODE = (
    "this report was made by another version of FairJudge, which may compute or store figures "
    "differently: verify it with the release that methods.md names"
)
# What can be raised by reading a file that somebody has changed.
BROKEN = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RecursionError,
    TypeError, ValueError, csv.Error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_DRAWING = re.compile(r"<(style|figure)>")
# This line of methods.md names the releases that computed it. Others may verify it.
_VERSIONS = "Computed with "

Files = dict[str, bytes]


def verify(path: Path) -> list[str]:
    """Return what is wrong with the file, a sentence each; an empty list if nothing is.

    Raises:
        UserError: The file is missing, or is not a report of FairJudge.
    """
    try:
        with Archive(path, BOUNDS) as archive:
            names = archive.names
            files = {
                name: archive.read(name, LARGEST_JSON if name.endswith(".json") else None)
                for name in names
            }
        manifest = shallow_json(files[MANIFEST])
        hashes = dict(manifest["sha256"])
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (*BROKEN, RuntimeError, NotImplementedError) as error:
        raise UserError(f"{path} is not a report of FairJudge: {error}.") from error
    missing = [name for name in dict.fromkeys((*FILES, *hashes)) if name not in files]
    if missing:
        return [f"{name} is missing" for name in missing]
    problems = [f"{name} is there {n} times" for name, n in Counter(names).items() if n > 1]
    problems += _hashes(files, hashes)
    problems += _part("the certificate", lambda: _certificate(files))
    differing = _computed(files)
    if differing and manifest.get("code") != code():
        differing.append(OTHER_CODE)
    return problems + differing


def verify_within(path: Path, seconds: float) -> list[str]:
    """Return what `verify` returns, computed by another process that is ended after this time.

    A ZIP that was made to be slow may keep NumPy busy where nothing in this process could stop it.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _CHILD, str(path)]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{path} can't be verified within {duration(seconds)}. Nothing can be said about it. "
            "Very large reports may need longer: --time-limit SECONDS."
        ) from None
    if done.returncode:
        raise UserError(
            f"{path} can't be verified: the process that computed it ended early, perhaps because "
            "it needed more memory than there is."
        )
    problems: list[str] | str = json.loads(done.stdout)
    if isinstance(problems, str):
        raise UserError(problems)
    return problems


# Django has to be ready before the module is imported.
_CHILD = f"""
import sys, django
django.setup()
from {__name__} import print_verified
print_verified(sys.argv[1])
"""


def print_verified(path: str) -> None:
    """Print what is wrong with the file as a JSON list, or why it is no report as a string."""
    try:
        problems: list[str] | str = verify(Path(path))
    except UserError as error:
        problems = str(error)
    sys.stdout.write(json.dumps(problems))


def _hashes(files: Files, hashes: dict[str, str]) -> Iterator[str]:
    for name, content in files.items():
        if name == MANIFEST:
            continue
        if name not in hashes:
            yield f"{name} is not in the manifest"
        elif hash_of(content) != hashes[name]:
            yield f"{name} is not the file that was delivered"


def _part(name: str, check: Callable[[], Iterator[str]]) -> list[str]:
    """Return what a check finds, or a sentence that what it checks cannot be read."""
    try:
        return list(islice(check(), MOST_LISTED))
    except BROKEN as error:
        return [f"{name} cannot be read: {type(error).__name__} {error}"]


def _certificate(files: Files) -> Iterator[str]:
    delivered = shallow_json(files["certificate.json"])
    if delivered != signed(delivered["certificate"], hash_of(files["labels.csv"])):
        yield "the certificate is not about these labels, or was changed"
    if delivered["certificate"] != shallow_json(files["report.json"])["certificate"]:
        yield "the certificate differs from the one in the report"


def _computed(files: Files) -> list[str]:
    """Return how the report differs from what this version of the code reads and computes."""
    unpacked = _unpacked(files)
    if isinstance(unpacked, str):
        return [unpacked]
    return [*_tables(files, unpacked), *_part("the report", lambda: _figures(files, unpacked))]


def _tables(files: Files, unpacked: Unpacked) -> Iterator[str]:
    """Compare the tables that people read with the arrays that figures are computed from."""
    sheet, samples, run = unpacked.sheet, unpacked.samples, unpacked.run
    yield from _part("labels.csv", lambda: compare_labels(files["labels.csv"], sheet))
    ids: list[str] = []
    yield from _part("labels.csv", lambda: _ids(files["labels.csv"], len(sheet), ids))
    if len(ids) != len(sheet):
        return
    votes = sheet.ballots, unpacked.other_votes, unpacked.own(PACE, read_pace)
    yield from _part("votes.csv", lambda: compare_votes(files["votes.csv"], ids, *votes))
    yield from _part(
        "samples.csv", lambda: compare_samples(files["samples.csv"], ids, samples, run)
    )
    yield from _part("the judge's labels", lambda: compare_verdicts(sheet, samples, run))


def _ids(content: bytes, n: int, ids: list[str]) -> Iterator[str]:
    """Put the external ids into `ids`, in the order of the examples."""
    in_file = [name for (name,) in rows(content, ("external_id",))]
    if len(set(in_file)) < len(in_file):
        yield "labels.csv has an example twice"
    elif len(in_file) == n:
        ids += in_file


def _unpacked(files: Files) -> Unpacked | str:
    try:
        return Unpacked(files["data.npz"], shallow_json(files["context.json"]))
    except BROKEN as error:
        return f"the data of the report cannot be read: {type(error).__name__} {error}"


def _figures(files: Files, unpacked: Unpacked) -> Iterator[str]:
    """Compute every number again from the data in the ZIP alone, and compare the texts."""
    figures = report(unpacked)
    computed = json.loads(json.dumps(to_json(figures)))
    yield from differences(shallow_json(files["report.json"]), computed, "")
    if _text(files["methods.md"].decode()) != _text(methods_text(figures)):
        yield "methods.md differs from what the report says"
    page = as_html(unpacked.run, figures, with_drawings=False)
    if _undrawn(files["report.html"].decode()) != _undrawn(page):
        yield "report.html does not show the figures of report.json, or another release made it"


def _undrawn(page: str) -> str:
    """Return the page without styles and drawings, in one pass over it."""
    kept, at = [], 0
    while opening := _DRAWING.search(page, at):
        end = f"</{opening[1]}>"
        closing = page.find(end, opening.end())
        if closing < 0:
            break
        kept.append(page[at : opening.start()])
        at = closing + len(end)
    return "".join([*kept, page[at:]])


def _text(methods: str) -> list[str]:
    return [line for line in methods.splitlines() if not line.startswith(_VERSIONS)]


def differences(delivered: Json | Any, computed: Json | Any, path: str) -> Iterator[str]:
    if isinstance(delivered, dict) and isinstance(computed, dict):
        for name in {**delivered, **computed}:
            yield from differences(delivered.get(name), computed.get(name), f"{path}.{name}")
    elif isinstance(delivered, list) and isinstance(computed, list):
        if len(delivered) != len(computed):
            yield f"{path.lstrip('.')} has another length"
            return
        for place, (before, other) in enumerate(zip(delivered, computed, strict=True)):
            yield from differences(before, other, f"{path}[{place}]")
    elif not _same(delivered, computed):
        yield f"{path.lstrip('.')} is {_shown(delivered)}, and computes to {_shown(computed)}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _same(delivered: Any, other: Any) -> bool:
    truths = isinstance(delivered, bool), isinstance(other, bool)
    if any(truths):
        return all(truths) and delivered == other
    if isinstance(delivered, int | float) and isinstance(other, int | float):
        return math.isclose(delivered, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(delivered == other)
