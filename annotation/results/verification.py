"""Whether a delivered ZIP is whole, and whether its figures follow from its data."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from annotation.results.delivery import MANIFEST, sha256, signed
from annotation.results.packed import Unpacked
from annotation.results.report import report
from annotation.results.sheet import signs
from judging.errors import UserError

# Other releases of NumPy may add in another order.
TOLERANCE = 1e-9
MOST_LISTED = 20


def verify(path: Path) -> list[str]:
    """What is wrong with the file. Raises UserError where it is no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        hashes = json.loads(files[MANIFEST])["sha256"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is not a report of FairJudge: {error}.") from error
    problems = [
        f"{name} is {'missing' if name not in files else 'not the file that was delivered'}"
        for name, digest in hashes.items()
        if name not in files or sha256(files[name]) != digest
    ]
    if any(problem.endswith("missing") for problem in problems):
        return problems
    problems += [f"{name} was added" for name in files if name not in hashes and name != MANIFEST]
    problems += _certificate(files)
    problems += _labels(files)
    problems += list(_figures(files))[:MOST_LISTED]
    return problems


def _certificate(files: dict[str, bytes]) -> Iterator[str]:
    found = json.loads(files["certificate.json"])
    if found != signed(found["certificate"], sha256(files["labels.csv"])):
        yield "the certificate is not about these labels, or was changed"
    if found["certificate"] != json.loads(files["report.json"])["certificate"]:
        yield "the certificate is not the one of the report"


def _labels(files: dict[str, bytes]) -> Iterator[str]:
    """The delivered labels are those that the figures were computed on."""
    rows = list(csv.DictReader(io.StringIO(files["labels.csv"].decode())))
    unpacked = _unpacked(files)
    sheet = unpacked.sheet
    if len(rows) != len(sheet):
        yield f"labels.csv has {len(rows)} examples, and the figures rest on {len(sheet)}"
        return
    columns = {
        "judge_label": (sheet.judge, sheet.judged),
        "final_label": (sheet.final, sheet.has_final),
    }
    for name, (values, there) in columns.items():
        given, given_there = signs([row[name] or None for row in rows])
        wrong = (there != given_there) | (there & (values != given))
        if wrong.any():
            yield f"{name} of {int(wrong.sum())} examples is not what the figures rest on"


def _figures(files: dict[str, bytes]) -> Iterator[str]:
    """Every number of the report, computed again from the data in the ZIP alone."""
    found = report(_unpacked(files))
    delivered = json.loads(files["report.json"])
    yield from differences(delivered, json.loads(json.dumps(found)), "")


def _unpacked(files: dict[str, bytes]) -> Unpacked:
    try:
        return Unpacked(files["data.npz"], json.loads(files["context.json"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"The data of the report cannot be read: {error}.") from error


def differences(delivered: Any, computed: Any, path: str) -> Iterator[str]:
    if isinstance(delivered, dict) and isinstance(computed, dict):
        for name in {**delivered, **computed}:
            yield from differences(delivered.get(name), computed.get(name), f"{path}.{name}")
    elif isinstance(delivered, list) and isinstance(computed, list):
        if len(delivered) != len(computed):
            yield f"{path.lstrip('.')} has another length"
            return
        for place, (one, other) in enumerate(zip(delivered, computed, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif not _same(delivered, computed):
        yield f"{path.lstrip('.')} is {delivered}, and computes to {computed}"


def _same(one: Any, other: Any) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)
